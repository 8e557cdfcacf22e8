"""What all classifications have in common: how long they train, and what is not counted."""

import types

import numpy as np
import pytest

from classification.base import ClassificationTask
from glue.examples import DataProcessor, InputExample
from looking.page import read_page
from runtime.data.batches import Data
from runtime.errors import UserError


def task(given=(), **flags):
    """A task as far as it does not need a model."""
    defaults = {"train_steps": 100, "num_train_epochs": 0.0, "warmup_step": 0}
    defaults |= {"warmup_proportion": 0.0, "train_batch_size": 4, "data_dir": "data"}
    defaults["gradient_accumulation_steps"] = 1
    kind = type("Made", (ClassificationTask,), {})
    kind.__abstractmethods__ = frozenset()
    made = object.__new__(kind)
    settings = types.SimpleNamespace(**{**defaults, **flags}, is_given=lambda name: name in given)
    made.settings, made.labels, made.processor = settings, ["no", "yes"], DataProcessor
    return made


@pytest.mark.parametrize(
    ("flags", "given", "steps"),
    [
        ({}, (), (100, 0)),
        ({"warmup_step": 30}, (), (100, 30)),
        ({"warmup_proportion": 0.2}, (), (100, 20)),
        # A default gives way, what is given does not.
        ({"warmup_step": 30, "warmup_proportion": 0.2}, (), (100, 20)),
        ({"warmup_step": 30, "warmup_proportion": 0.2}, ("warmup_step",), (100, 30)),
        ({"num_train_epochs": 2.0, "warmup_proportion": 0.5}, (), (20, 10)),
        ({"num_train_epochs": 2.0}, ("train_steps",), (100, 0)),
    ],
)
def test_steps(flags, given, steps):
    assert task(given, **flags).steps(num_examples=40) == steps


# The reference's feature files may have examples that only fill a batch up.
OUTPUTS = [
    {
        **{"label_ids": np.int32(label), "predictions": np.int32(predicted)},
        **dict.fromkeys(("logits", "probabilities"), np.eye(2, dtype=np.float32)[predicted]),
        "is_real_example": np.int32(is_real),
    }
    for label, predicted, is_real in [(1, 1, 1), (0, 1, 1), (0, 0, 1), (1, 1, 1), (0, 1, 0)]
]
DATA = Data(
    ["x.tf_record"], {}, 4, 5, source=[InputExample(name, f"text {name}") for name in "abcd"]
)


def test_what_fills_a_batch_up_does_not_count_in_scores(tmp_path):
    made = task(output_dir=str(tmp_path), task_name="RTE")
    scored = made.score(DATA, OUTPUTS)
    assert scored.scores["eval_accuracy"] == 0.75
    scored.write_outputs()
    view = read_page(made.page())
    found = [(s["texts"], s["truth"], s["answer"], s["right"]) for s in view["samples"]]
    assert found == [
        (["text a"], 1, 1, True),
        (["text b"], 0, 1, False),
        (["text c"], 0, 0, True),
        (["text d"], 1, 1, True),
    ]
    assert view["scores"] == scored.scores and view["title"] == "RTE"


def test_what_fills_a_batch_up_is_not_labelled(tmp_path):
    """Probabilities and labels are written as the reference and GLUE have them."""
    names = [str(tmp_path / name) for name in ("results", "submission")]
    assert task().write_labels(DATA, OUTPUTS, names) == {"num_examples": 4}
    assert (tmp_path / "results").read_text() == "0.0\t1.0\n" * 2 + "1.0\t0.0\n" + "0.0\t1.0\n"
    submission = (tmp_path / "submission").read_text()
    assert submission == "index\tprediction\na\tyes\nb\tyes\nc\tno\nd\tyes\n"


def test_features_of_other_examples_are_neither_scored_nor_labelled():
    for call in (task().score, lambda *given: task().write_labels(*given, ["results", "labels"])):
        with pytest.raises(UserError, match=r"x\.tf_record has 3 features, .* 4 examples; remove"):
            call(DATA, OUTPUTS[1:])
