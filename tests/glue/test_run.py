"""What a run of classification makes of what the model gives, and of its flags."""

import math
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from glue import run
from glue.feature_files import FeatureFile
from glue.run import GlueRun, Prepared
from glue.tasks import MrpcProcessor, StsbProcessor
from modeling import AlbertConfig
from runtime import estimators
from runtime.data.cached_file import CachedFile
from runtime.errors import UserError


def outputs(*rows):
    """Of examples given as label, predicted label, and whether they are more than filling."""
    return [
        {
            "label_ids": np.int32(label),
            "predictions": np.int32(predicted),
            "logits": np.eye(2, dtype=np.float32)[predicted],
            "probabilities": np.eye(2, dtype=np.float32)[predicted],
            "is_real_example": np.int32(is_real),
        }
        for label, predicted, is_real in rows
    ]


@pytest.fixture
def mrpc():
    """A run of MRPC as far as what is below needs one."""
    mrpc = object.__new__(GlueRun)
    mrpc._processor = MrpcProcessor(True, True)
    mrpc._labels = mrpc._processor.get_labels()
    return mrpc


# The reference's feature files may have examples that only fill a batch up.
FILLED_UP = outputs((1, 1, True), (0, 1, True), (0, 0, True), (1, 1, True), (0, 0, False))


class TestFilling:
    def test_does_not_count_in_scores(self, mrpc):
        assert mrpc._score(FILLED_UP).scores["eval_accuracy"] == 0.75

    def test_is_not_labelled(self, mrpc, tmp_path):
        test_set = tmp_path / "test.tsv"
        header = "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        test_set.write_text(header + "".join(f"{n}\t1\t2\ta\tb\n" for n in range(4)))
        files = [tmp_path / "results.tsv", tmp_path / "submission.tsv"]
        part = Prepared(str(test_set), FeatureFile("test.tf_record", 5, None))
        results = CachedFile(str(files[0]), {}, [str(files[1])])
        mrpc._write(results, part, FILLED_UP)
        assert files[1].read_text() == "index\tprediction\n0\t1\n1\t1\n2\t0\n3\t1\n"
        with pytest.raises(UserError, match=r"test\.tf_record has 3 features, .* 4 examples"):
            mrpc._write(results, part, FILLED_UP[1:])


def test_numbers_in_a_submission_are_within_the_tasks_limits(tmp_path):
    """STS-B has 0 to 5; the model may give less and more, which the other file shows."""
    row = "\t".join("abcdefghi")
    test_set = tmp_path / "test.tsv"
    test_set.write_text(f"header{row}\n" + "".join(f"{n}{row}\n" for n in range(3)))
    stsb = object.__new__(GlueRun)
    stsb._processor = StsbProcessor(True, True)
    stsb._labels = stsb._processor.get_labels()
    numbers = [
        {"predictions": value, "probabilities": value[None], "is_real_example": np.int32(1)}
        for value in np.array([5.75, -0.5, 2.5], np.float32)
    ]
    files = [tmp_path / "results.tsv", tmp_path / "submission.tsv"]
    part = Prepared(str(test_set), FeatureFile("test.tf_record", 3, None))
    stsb._write(CachedFile(str(files[0]), {}, [str(files[1])]), part, numbers)
    assert files[0].read_text().split() == ["5.75", "-0.5", "2.5"]
    rows = [line.split("\t") for line in files[1].read_text().splitlines()[1:]]
    assert [float(number) for _, number in rows] == [5.0, 0.0, 2.5]


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_deterministic_run_has_no_dropout_in_the_head(monkeypatch, deterministic):
    config = AlbertConfig(
        vocab_size=20,
        embedding_size=8,
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
    )
    flags = types.SimpleNamespace(
        task_name="MRPC",
        optimizer="adamw",
        deterministic_run=deterministic,
        threshold_to_export=math.nan,
    )
    options = {
        "init_checkpoint": None,
        "learning_rate": 0.0,
        "num_train_steps": 10,
        "num_warmup_steps": 0,
        "use_tpu": False,
        "use_one_hot_embeddings": False,
    }
    monkeypatch.setattr(run, "FLAGS", flags)
    monkeypatch.setattr(run, "model_fn_options", lambda *steps: options)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        ids = tf.constant([[5, 6, 7], [8, 9, 10]])
        features = {"input_ids": ids, "input_mask": tf.ones_like(ids), "segment_ids": ids * 0}
        features["label_ids"] = tf.constant([0, 1])
        spec = run.make_model_fn(config, 2, 10, 0)(features, None, estimators.ModeKeys.TRAIN, {})
        session.run(tf.global_variables_initializer())
        first, _ = session.run([spec.loss, spec.train_op])
        # Nothing has been learnt at a rate of 0, so that only dropout can make a difference.
        second = session.run(spec.loss)
    assert (first == second) == deterministic
