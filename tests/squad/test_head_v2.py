"""The SQuAD 2.0 head: the reference's figures, and what padding may not change."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import squad_utils
from runtime import estimators
from squad.head_v2 import V2Options, make_v2_head, outside_answers
from tests.helpers.squad_head import (
    NUMBERS,
    SEQUENCES,
    Graph,
    build_heads,
    golden_run,
    make_batch,
    train_golden,
)

PREDICT = estimators.ModeKeys.PREDICT
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


def test_where_no_answer_can_be(shared):
    """By segments: [CLS] q [SEP] t t [SEP], and padding; the second fills the feature. In the
    features of the reference, on real questions; or as the records have it."""
    with np.load(shared / "golden" / "albert_tiny" / "squad_v2_adamw.npz") as figures:
        segments, expected = figures["segment_ids"], figures["p_mask"]
    by_hand = [[0, 0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]]
    with tf.Graph().as_default(), tf.Session() as session:
        made = [outside_answers({"segment_ids": tf.constant(s)}) for s in (by_hand, segments)]
        found, golden = session.run(made)
    assert found.tolist() == [[0, 1, 1, 0, 0, 1, 1, 1], [0, 1, 1, 1, 0, 0, 0, 1]]
    np.testing.assert_array_equal(golden, expected)
    assert outside_answers({"p_mask": "given", "segment_ids": None}) == "given"


def test_kernels_start_with_the_spread_of_the_configuration(heads):
    kernels = [v for v in heads.variables if "kernel" in v.name and not v.name.startswith("bert/")]
    assert len(kernels) == 5
    for kernel, values in zip(kernels, heads.session.run(kernels), strict=True):
        # Of a normal distribution that is cut off at two standard deviations.
        error = 0.2 * 0.88 * 3 / np.sqrt(values.size)
        assert np.std(values) == pytest.approx(0.2 * 0.88, abs=error), kernel.name


def test_prediction(heads):
    """Padding changes nothing, nothing drops out, and a batch may be cut to few positions."""
    near, far = (heads.predicted(make_batch(padded)) for padded in (32, 64))
    for key in near:
        np.testing.assert_allclose(near[key], far[key], rtol=1e-5, atol=1e-5)
    got = heads.predicted({k: v[:, :2] if k in SEQUENCES else v for k, v in make_batch(32).items()})
    shapes = {"unique_ids": (4,), "cls_logits": (4,)}
    shapes |= {f"start_top_{of}": (4, 2) for of in ("index", "log_probs")}
    shapes |= {f"end_top_{of}": (4, 2 * 2) for of in ("index", "log_probs")}
    assert {key: value.shape for key, value in got.items()} == shapes


def test_no_place_outside_the_text_is_likely(heads):
    """[CLS] stands for none; the last token of a text is [SEP]."""
    batch = make_batch(48)
    got, segments = heads.predicted(batch), batch["segment_ids"]
    in_text = segments * np.pad(segments[:, 1:], [[0, 0], [0, 1]]) | (np.arange(48) == 0)
    for name in ("start", "end"):
        likely = got[f"{name}_top_log_probs"] > -20
        inside = np.take_along_axis(in_text, got[f"{name}_top_index"], axis=1)
        assert likely.any() and inside[likely].all()


def test_the_loss_does_not_see_padding_and_the_head_drops_units(heads):
    losses = [heads.loss(make_batch(n)) for n in (32, 48, 64)]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-6)
    assert heads.loss(make_batch(32), "dropping") != losses[0]


def test_golden(shared):
    """`squad_v2_adamw.npz`, described in the data's README, through the reference's function."""
    figures, run = golden_run(shared / "golden" / "albert_tiny", "squad_v2_adamw.npz")
    config = run[0]
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    model_fn = squad_utils.v2_model_fn_builder(
        *run,
        use_tpu=False,
        use_one_hot_embeddings=False,
        max_seq_length=128,
        start_n_top=5,
        end_n_top=5,
        dropout_prob=0.0,
        hub_module=None,
    )

    def predictions(features):
        with tf.variable_scope("", reuse=True):
            return model_fn(features, None, PREDICT, {}).predictions

    weights = {key[5:]: value for key, value in figures.items() if key.startswith("head:")}
    keys = (*SEQUENCES, *NUMBERS[1:])
    got = train_golden(figures, model_fn, keys, weights, predictions)
    for key, value in got.items():
        if key.endswith("index"):
            np.testing.assert_array_equal(value, figures[f"predict:{key}"])
        else:
            np.testing.assert_allclose(value, figures[f"predict:{key}"], atol=1e-5)
