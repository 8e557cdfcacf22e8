"""The warning about a model that has not learned its task."""

import json
import types

import pytest

from albert.records import DEV, TRAIN
from albert.training import metrics
from albert.training.trainer import warn_if_not_learned


@pytest.fixture
def run(tmp_path):
    """Writes losses by log line and samples; returns a run that has them."""

    def run(losses=(), answers=(), truths=(), every=50, **more):
        for number, loss in enumerate(losses):
            metrics.append(str(tmp_path), metrics.TRAINING, every * number + 1, {"loss": loss})
        samples = zip(answers, truths, strict=True)
        lines = [{"id": n, "answer": a, "truth": t, **more} for n, (a, t) in enumerate(samples)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / "predictions.jsonl").write_text(text)
        return types.SimpleNamespace(
            settings=types.SimpleNamespace(output_dir=str(tmp_path)),
            task=types.SimpleNamespace(outputs=["predictions.html"]),
            data={TRAIN: None, DEV: None},
        )

    return run


FALLING, FLAT = [0.7, 0.6, 0.5, 0.5, 0.3, 0.2], [0.6, 0.5, 0.7, 0.6, 0.6, 0.7]
TRUTHS = ["0", "1"] * 10


@pytest.mark.parametrize("answer", ["1", 0.5, ["a", "b"]])
def test_one_line_names_a_flat_loss_and_a_single_label(run, log, answer):
    warn_if_not_learned(run(FLAT, [answer] * 20, TRUTHS))
    (line,) = log()
    assert f"labels all 20 examples of the development set {answer} and its loss did not" in line
    assert "from 0.5500 to 0.6500 on average; train again with a lower --learning_rate" in line


@pytest.mark.parametrize(
    "values",
    [
        {"losses": FALLING, "answers": TRUTHS, "truths": TRUTHS},
        {"losses": FALLING[:4] + FLAT[:1], "answers": ["0"] * 19 + ["1"], "truths": TRUTHS},
        # Chance, or the truth.
        {"losses": FLAT[:5], "answers": ["1"] * 18, "truths": TRUTHS[:18]},
        {"losses": FLAT, "every": 2, "answers": ["1"] * 20, "truths": ["1"] * 20},
        # Spans.
        {"answers": [""] * 20, "truths": [None] * 20, "spans": []},
    ],
)
def test_other_runs_get_no_warning(run, log, values):
    warn_if_not_learned(run(**values))
    assert log() == []


def test_a_run_without_scores_is_judged_by_its_loss(run, log):
    one = run([None, *FLAT], ["1"] * 20, TRUTHS)
    del one.data[DEV]
    warn_if_not_learned(one)
    (line,) = log()
    assert line.startswith("The model has not learned its task: its loss did not fall")
