"""A classification's use of the model's outputs and of its flags, with tasks of GLUE."""

import pathlib

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

from albert.core.errors import FlagError, UserError
from albert.records import DEV, TEST, TRAIN
from albert.records.batches import Data
from albert.report.predictions import read_samples
from albert.tasks.glue.examples import InputExample
from albert.tasks.glue.settings import GlueSettings
from albert.tasks.glue.task import GlueTask
from albert.training.plan import Steps


@pytest.fixture
def make(make_task, tmp_path):
    def make(name, *flags):
        own = f"--task_name={name}", f"--data_dir={tmp_path}", "--max_seq_length=32", "--do_train"
        return make_task(GlueTask, GlueSettings, *own, *flags)

    return make


def test_submitted_numbers_are_within_the_tasks_limits(make, tmp_path):
    """STS-B has 0 to 5; the model may exceed them, which the other file shows."""
    task = make("STS-B")
    numbers = [
        {"predictions": value, "probabilities": value[None], "is_real_example": True}
        for value in np.array([5.75, -0.5, 2.5], np.float32)
    ]
    examples = [InputExample(f"id{n}", "text") for n in range(3)]
    files = [tmp_path / "results.tsv", tmp_path / "submission.tsv"]
    task.write_labels(Data(["test.tf_record"], {}, 3, 3, source=examples), numbers, files)
    assert files[0].read_text() == "5.75\n-0.5\n2.5\n"
    assert files[1].read_text() == "index\tprediction\nid0\t5.0\nid1\t0.0\nid2\t2.5\n"


@pytest.mark.parametrize(
    ("flags", "steps"),
    [
        ("--train_step=50 --warmup_step=2", (50, 2)),
        ("--train_step=50 --warmup_proportion=0.2", (50, 10)),
        ("--train_step=50 --warmup_step=2 --warmup_proportion=0.2", (50, 2)),
        ("--num_train_epochs=3 --warmup_proportion=0.5", (37, 18)),
        ("--num_train_epochs=3 --train_step=50", (50, 0)),
    ],
)
def test_steps_follow_from_examples_and_flags(make, flags, steps):
    """100 examples are 12.5 steps of 8. tests/tasks/race/test_task.py has dependent defaults."""
    task = make("MRPC", "--train_batch_size=8", *flags.split())
    assert task.steps(num_examples=100) == Steps(*steps)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--do_train=false"], "nothing to do: pass --do_train, --do_eval, --do_predict or"),
        (["--task_name=mrcp"], "--task_name=mrcp is not a task; use one of "),
        (["--task_name=all"], "a list of tasks and --seeds are for the command `albert classify`"),
        (["--text_column=x"], "--text_column is for --task_name=tsv only"),
        (["--task_name=tsv", "--tsv_regression", "--multi_label"], "exclude each other"),
        (["--task_name=tsv", "--label_threshold=0.3"], "--label_threshold needs --multi_label"),
        (["--task_name=STS-B", "--class_weights=balanced"], "needs one label per text"),
        (["--class_weights=balanced", "--input_file=x"], "cannot count the labels in --input_file"),
    ],
)
def test_conflicting_flags_are_an_error(make, flags, words):
    with pytest.raises(FlagError, match=words):
        make("MRPC", *flags)


def test_balanced_weights_are_those_of_scikit_learn(make, log, tmp_path):
    labels = ["1"] * 7 + ["0"] * 2
    (tmp_path / "MRPC").mkdir()
    rows = ["label\t\t\ttext\ttext", *(f"{label}\t1\t2\ta b\tc d" for label in labels)]
    (tmp_path / "MRPC/train.tsv").write_text("\n".join(rows))
    task = make("MRPC", "--class_weights=balanced")
    expected = compute_class_weight("balanced", classes=np.array(["0", "1"]), y=np.array(labels))
    assert task._class_weights == pytest.approx(expected)
    task.head()
    task.with_settings(task.settings).head()
    assert log().count("Weights of the labels: 0 2.25, 1 0.6429") == 1
    assert make("MRPC")._class_weights is None


def test_features_are_where_the_reference_has_them(make, tmp_path):
    paths = [*map(make("MRPC", "--cached_dir=cached").feature_path, (TRAIN, DEV, TEST))]
    cached = ["cached/mrpc_train.tf_record", "cached/mrpc_eval.tf_record"]
    assert paths == [*cached, f"{tmp_path}/out/predict.tf_record"]


def test_a_model_predicts_for_all_tasks_that_share_it(make, tmp_path):
    """MNLI's model serves three sets of pairs; a user's own texts may go to any model."""
    assert make("MRPC").identity == {"task_name": "mrpc"}
    (tmp_path / "train.csv").write_text("text,label\na b,1\nc d,2\n")
    for name in ("MNLI", "MisMNLI", "AX", "tsv"):
        assert make(name, f"--tsv_regression={name == 'tsv'}").identity == {}


# The reference's feature files may have examples that only fill up a batch.
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


def test_padding_examples_are_neither_scored_nor_labeled(make, tmp_path):
    task = make("RTE")
    (tmp_path / "out").mkdir()
    scored = task.score(DATA, OUTPUTS)
    assert scored.scores["eval_accuracy"] == 0.75
    scored.write_outputs()
    samples = read_samples(task.settings.output_dir)
    assert [(s["texts"], s["truth"], s["answer"], s["right"]) for s in samples] == [
        (["text a"], "not_entailment", "not_entailment", True),
        (["text b"], "entailment", "not_entailment", False),
        (["text c"], "entailment", "entailment", True),
        (["text d"], "not_entailment", "not_entailment", True),
    ]
    names = [str(tmp_path / name) for name in ("results", "submission")]
    page = pathlib.Path(task.settings.output_dir, "predictions.html").read_text()
    assert '"title":"RTE","scores":{"eval_accuracy":0.75' in page
    assert task.write_labels(DATA, OUTPUTS, names) == {"num_examples": 4}
    assert (tmp_path / "results").read_text() == "0.0\t1.0\n" * 2 + "1.0\t0.0\n" + "0.0\t1.0\n"
    submission = (tmp_path / "submission").read_text()
    rows = [f"{name}\t{'not_' * (name != 'c')}entailment\n" for name in "abcd"]
    assert submission == "index\tprediction\n" + "".join(rows)


def test_features_of_other_examples_are_refused(make):
    task = make("RTE")
    for call in (task.score, lambda *data: task.write_labels(*data, ["results", "labels"])):
        with pytest.raises(UserError, match=r"x\.tf_record has 3 features, .* 4 examples; remove"):
            call(DATA, OUTPUTS[1:])
