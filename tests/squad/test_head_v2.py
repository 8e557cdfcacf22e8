"""The SQuAD 2.0 head: the reference's figures, and what padding may not change."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import squad_utils
from modeling import AlbertConfig
from runtime import estimators
from squad.head_v2 import V2Options, make_v2_head, outside_answers
from tests.helpers.sessions import quick_session
from tests.helpers.squad_head import (
    NUMBERS,
    SEQUENCES,
    Graph,
    build_heads,
    make_batch,
    placeholders,
)

TRAIN, PREDICT = estimators.ModeKeys.TRAIN, estimators.ModeKeys.PREDICT


OPTIONS = V2Options(start_n_top=3, end_n_top=4, dropout=0.5, initializer_range=0.2)


class Heads(Graph):
    """The head in training, with dropout and without, and in prediction."""

    def __init__(self):
        dropping, training = map(make_v2_head, (OPTIONS, OPTIONS._replace(dropout=0.0)))
        of_modes = {"training": (training, True), "dropping": (dropping, True)}
        super().__init__(lambda f: build_heads(f, **of_modes, prediction=(dropping, False)))

    def predicted(self, batch):
        return self.run(batch, self.built["prediction"].predictions)

    def loss(self, batch, name="training"):
        return self.run(batch, self.built[name].loss)


@pytest.fixture(scope="module")
def heads():
    return Heads()


class TestOutsideAnswers:
    @staticmethod
    def of_segments(segments):
        with tf.Graph().as_default(), tf.Session() as session:
            return session.run(outside_answers({"segment_ids": tf.constant(segments)}))

    def test_from_segments(self):
        """[CLS] q [SEP] t t [SEP], and padding; the second fills the feature."""
        found = self.of_segments([[0, 0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]])
        assert found.tolist() == [[0, 1, 1, 0, 0, 1, 1, 1], [0, 1, 1, 1, 0, 0, 0, 1]]

    def test_is_the_records_own_where_they_have_it(self):
        assert outside_answers({"p_mask": "given", "segment_ids": None}) == "given"

    def test_agrees_with_the_features(self, shared):
        """Of the reference, on real questions."""
        with np.load(shared / "golden" / "albert_tiny" / "squad_v2_adamw.npz") as figures:
            segments, expected = figures["segment_ids"], figures["p_mask"]
        np.testing.assert_array_equal(self.of_segments(segments), expected)


def test_kernels_start_with_the_spread_of_the_configuration(heads):
    kernels = [v for v in heads.variables if "kernel" in v.name and not v.name.startswith("bert/")]
    assert len(kernels) == 5
    for kernel, values in zip(kernels, heads.session.run(kernels), strict=True):
        # Of a normal distribution that is cut off at two standard deviations.
        error = 0.2 * 0.88 * 3 / np.sqrt(values.size)
        assert np.std(values) == pytest.approx(0.2 * 0.88, abs=error), kernel.name


class TestPrediction:
    def test_the_likeliest_come_first(self, heads):
        got = heads.predicted(make_batch(32))
        assert {key: value.shape for key, value in got.items()} == {
            "unique_ids": (4,),
            "start_top_index": (4, 3),
            "start_top_log_probs": (4, 3),
            "end_top_index": (4, 12),
            "end_top_log_probs": (4, 12),
            "cls_logits": (4,),
        }
        for scores in (got["start_top_log_probs"], got["end_top_log_probs"].reshape(4, 3, 4)):
            assert (np.diff(scores, axis=-1) <= 0).all()
            assert (np.exp(scores).sum(-1) < 1 + 1e-5).all()

    def test_padding_changes_nothing_and_nothing_drops_out(self, heads):
        near, far = (heads.predicted(make_batch(padded)) for padded in (32, 64))
        for key in near:
            np.testing.assert_allclose(near[key], far[key], rtol=1e-5, atol=1e-5)

    def test_more_starts_than_positions(self, heads):
        """As in a batch that is cut to its longest feature."""
        cut = {k: v[:, :2] if k in SEQUENCES else v for k, v in make_batch(32).items()}
        got = heads.predicted(cut)
        assert got["start_top_index"].shape == (4, 2)
        assert got["end_top_index"].shape == (4, 2 * 2)

    def test_no_place_outside_the_text_is_likely(self, heads):
        """[CLS] stands for none; the last token of a text is [SEP]."""
        batch = make_batch(48)
        got = heads.predicted(batch)
        segments = batch["segment_ids"]
        in_text = segments * np.pad(segments[:, 1:], [[0, 0], [0, 1]]) | (np.arange(48) == 0)
        for name in ("start", "end"):
            likely = got[f"{name}_top_log_probs"] > -20
            inside = np.take_along_axis(in_text, got[f"{name}_top_index"], axis=1)
            assert likely.any() and inside[likely].all()


class TestTraining:
    def test_ends_are_conditioned_on_the_true_start(self, heads):
        """The loss changes with the start, though nothing else does."""
        batch = make_batch(32)
        loss = heads.loss(batch)
        other = {**batch, "start_positions": np.array([8, 18, 6, 0])}
        assert abs(heads.loss(other) - loss) > 1e-3

    def test_padding_changes_nothing(self, heads):
        losses = [heads.loss(make_batch(n)) for n in (32, 48, 64)]
        assert losses == pytest.approx([losses[0]] * 3, rel=1e-6)

    def test_answerability_is_learned(self, heads):
        """The other way round the loss differs by the logits of all four, half their mean."""
        batch = make_batch(32)
        turned = {**batch, "is_impossible": 1 - batch["is_impossible"]}
        logits = heads.predicted(batch)["cls_logits"]
        signs = 2 * batch["is_impossible"] - 1
        loss, other = (heads.loss(b) for b in (batch, turned))
        assert other - loss == pytest.approx(0.5 * np.mean(signs * logits), abs=1e-5)

    def test_the_head_drops_units(self, heads):
        batch = make_batch(32)
        assert heads.loss(batch, "dropping") != heads.loss(batch)


def test_golden(shared):
    """`squad_v2_adamw.npz`, described in the data's README, through the reference's function."""
    folder = shared / "golden" / "albert_tiny"
    with np.load(folder / "squad_v2_adamw.npz") as figures:
        figures = dict(figures)
    config = AlbertConfig.from_json_file(str(folder / "albert_config.json"))
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    keys = (*SEQUENCES, *NUMBERS[1:])
    model_fn = squad_utils.v2_model_fn_builder(
        config,
        str(folder / "model.ckpt-best"),
        float(figures["learning_rate"]),
        steps := int(figures["num_train_steps"]),
        int(figures["num_warmup_steps"]),
        use_tpu=False,
        use_one_hot_embeddings=False,
        max_seq_length=128,
        start_n_top=5,
        end_n_top=5,
        dropout_prob=0.0,
        hub_module=None,
    )
    with tf.Graph().as_default(), quick_session() as session:
        features = placeholders(keys, length=128)
        spec = model_fn(features, None, TRAIN, {})
        with tf.variable_scope("", reuse=True):
            predictions = model_fn(features, None, PREDICT, {}).predictions
        session.run(tf.global_variables_initializer())
        variables = {v.op.name: v for v in tf.trainable_variables()}
        for key in figures:
            if key.startswith("head:"):
                variables[key[5:]].load(figures[key], session)

        def feed(step):
            return {features[k]: figures[k][8 * step : 8 * step + 8] for k in keys}

        got = session.run(predictions, feed(0))
        losses = [session.run([spec.loss, spec.train_op], feed(step))[0] for step in range(steps)]
        weights = session.run(variables)
    for key, value in got.items():
        if key.endswith("index"):
            np.testing.assert_array_equal(value, figures[f"predict:{key}"])
        else:
            np.testing.assert_allclose(value, figures[f"predict:{key}"], atol=1e-5)
    np.testing.assert_allclose(losses, figures["losses"], atol=1e-4)
    expected = dict(zip(figures["final_norm_names"], figures["final_norms"], strict=True))
    assert weights.keys() == expected.keys()
    for name, norm in expected.items():
        # A bias on the scores of all ends has no gradient but rounding.
        tolerance = 2e-5 if "end_logits/dense_1/bias" not in name else 1e-3
        assert np.linalg.norm(weights[name]) == pytest.approx(norm, rel=1e-4, abs=tolerance)
