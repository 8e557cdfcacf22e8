"""The heads of SQuAD 1.1 and 2.0: the reference's figures, and independence of padding."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.modeling import AlbertConfig
from albert.prediction.model import ModelOptions
from albert.tasks.squad.head import V2Options, make_v1_head, make_v2_head, outside_answers
from albert.training.model_fn import make_model_fn
from tests.helpers.golden import FOLDER, assert_training_v1, assert_training_v2
from tests.helpers.squad_head import CONFIG, SEQUENCES, Graph, build_heads, make_batch

WITH_DROPOUT = AlbertConfig(**{**CONFIG.to_dict(), "hidden_dropout_prob": 0.5})
OPTIONS = V2Options(start_n_top=3, end_n_top=4, dropout=0.5, initializer_range=0.2)


def test_the_loss_without_padding_is_as_by_hand():
    """Nor does it depend on the ids in the padding."""

    def build(features):
        head = build_heads(features, masked=(make_v1_head(True), True))["masked"]
        return {"loss": head.loss, **head.predictions}

    graph, batch, losses = Graph(build), make_batch(48), []
    got, padding = graph.run(batch, graph.built), batch["input_mask"] == 0
    for name in ("start", "end"):
        logits = got[f"{name}_log_prob"]
        assert logits[padding].max() < logits[~padding].min() - 1000
        assert np.isfinite(logits).all()
        logits = np.where(padding, -np.inf, logits.astype("f8"))
        true = logits[np.arange(4), batch[f"{name}_positions"]]
        losses.append(np.mean(np.log(np.exp(logits).sum(axis=1)) - true))
    assert got["loss"] == pytest.approx(np.mean(losses), 1e-6)
    batch["input_ids"][:, 32:] = 9
    batch["segment_ids"][:, 32:] = 1
    for other in (batch, make_batch(32)):
        assert graph.run(other, graph.built["loss"]) == pytest.approx(got["loss"], abs=1e-6)


@pytest.mark.parametrize("count", [5, 50])
def test_version_1_predicts_the_best_positions(count):
    """They are the best of all scores, which are exported; among equal scores the first wins."""
    model_fn = make_model_fn(WITH_DROPOUT, make_v1_head(True, num_best=count), ModelOptions())
    keys = (*SEQUENCES, "unique_ids")
    model = Graph(lambda features: model_fn(features, None, estimators.ModeKeys.PREDICT, {}), keys)
    spec = model.built
    (exported,) = (output.outputs for output in spec.export_outputs.values())
    assert spec.loss is None and spec.train_op is None
    near, far = (model.run(make_batch(n), [spec.predictions, exported]) for n in (32, 64))
    for best, whole in (near, far):
        assert whole.keys() == {"unique_ids", "start_log_prob", "end_log_prob"}
        for outputs in (best, whole):
            assert outputs["unique_ids"].tolist() == [100, 101, 102, 103]
        for name in ("start", "end"):
            scores = whole[f"{name}_log_prob"]
            order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
            np.testing.assert_array_equal(best[f"{name}_top_index"], order)
            expected = np.take_along_axis(scores, order, axis=1)
            np.testing.assert_array_equal(best[f"{name}_top_log_probs"], expected)
    real = make_batch(32)["input_mask"] == 1
    for key in ("start_log_prob", "end_log_prob"):
        assert far[1][key].shape == (4, 64) and far[1][key].dtype == np.float32
        np.testing.assert_allclose(near[1][key][real], far[1][key][:, :32][real], atol=1e-5)
    assert np.abs(near[1]["start_log_prob"] - near[1]["end_log_prob"])[real].max() > 0.1


@pytest.fixture(scope="module")
def heads():
    """Returns the heads of 2.0 in training, with dropout and without, and in prediction."""
    dropping, training = map(make_v2_head, (OPTIONS, OPTIONS._replace(dropout=0.0)))
    modes = {"training": (training, True), "dropping": (dropping, True)}
    return Graph(lambda features: build_heads(features, **modes, prediction=(dropping, False)))


def test_no_answer_is_in_question_separator_or_padding():
    """Segments give the mask: [CLS] q [SEP] t t [SEP]; a mask in the records takes precedence."""
    with np.load(FOLDER / "albert_tiny" / "squad_v2_adamw.npz") as figures:
        segments, expected = figures["segment_ids"], figures["p_mask"]
    by_hand = [[0, 0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]]
    with tf.Graph().as_default(), tf.Session() as session:
        made = [outside_answers({"segment_ids": tf.constant(s)}) for s in (by_hand, segments)]
        short, golden = session.run(made)
    assert short.tolist() == [[0, 1, 1, 0, 0, 1, 1, 1], [0, 1, 1, 1, 0, 0, 0, 1]]
    np.testing.assert_array_equal(golden, expected)
    assert outside_answers({"p_mask": "given", "segment_ids": None}) == "given"


def test_kernels_start_with_the_configured_spread(heads):
    kernels = [v for v in heads.variables if "kernel" in v.name and not v.name.startswith("bert/")]
    assert len(kernels) == 5 and V2Options() == (5, 5, 0.1, 0.02)
    for kernel, values in zip(kernels, heads.session.run(kernels), strict=True):
        # A normal distribution truncated at two standard deviations.
        error = 0.2 * 0.88 * 3 / np.sqrt(values.size)
        assert np.std(values) == pytest.approx(0.2 * 0.88, abs=error), kernel.name


def test_version_2_predicts_and_trains_independently_of_padding(heads):
    """There is no dropout, and a batch may be shortened to a few positions."""
    predictions = heads.built["prediction"].predictions
    near, far = (heads.run(make_batch(padded), predictions) for padded in (32, 64))
    for key in near:
        np.testing.assert_allclose(near[key], far[key], rtol=1e-5, atol=1e-5)
    cut = {k: v[:, :2] if k in SEQUENCES else v for k, v in make_batch(32).items()}
    got = heads.run(cut, predictions)
    shapes = {"unique_ids": (4,), "cls_logits": (4,)}
    shapes |= {f"start_top_{of}": (4, 2) for of in ("index", "log_probs")}
    shapes |= {f"end_top_{of}": (4, 2 * 2) for of in ("index", "log_probs")}
    assert {key: value.shape for key, value in got.items()} == shapes
    losses = [heads.run(make_batch(n), heads.built["training"].loss) for n in (32, 48, 64)]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-6)
    assert heads.run(make_batch(32), heads.built["dropping"].loss) != losses[0]


@pytest.mark.parametrize("check", [assert_training_v1, assert_training_v2])
def test_a_head_trains_as_the_references(check):
    check(FOLDER / "albert_tiny")
