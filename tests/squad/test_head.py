"""The SQuAD 1.1 head: the reference's figures, and a loss that does not depend on padding."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import squad_utils
from encoder_task import ModelOptions, make_model_fn
from modeling import AlbertConfig
from runtime import estimators
from runtime.training import graph_keys
from squad.head import make_v1_head
from tests.helpers.sessions import quick_session
from tests.helpers.squad_head import (
    CONFIG,
    SEQUENCES,
    Graph,
    build_heads,
    make_batch,
    placeholders,
)

TRAIN, PREDICT = estimators.ModeKeys.TRAIN, estimators.ModeKeys.PREDICT
WITH_DROPOUT = AlbertConfig(**{**CONFIG.to_dict(), "hidden_dropout_prob": 0.5})


class Heads(Graph):
    """The head with padding in the loss and without it, and the gradients of the latter."""

    def __init__(self):
        super().__init__(self._build)

    @staticmethod
    def _build(features):
        heads = {name: (make_v1_head(name == "masked"), True) for name in ("masked", "unmasked")}
        built = build_heads(features, **heads)
        # Nothing of the pooled output is used.
        used = [v for v in tf.trainable_variables() if "pooler" not in v.op.name]
        gradients = map(tf.convert_to_tensor, tf.gradients(built["masked"].loss, used))
        return {**built, "gradients": dict(zip((v.op.name for v in used), gradients, strict=True))}

    def of(self, name, batch):
        """Loss, scores and, without padding, gradients."""
        output = self.built[name]
        fetches = {"loss": output.loss}
        fetches |= {key: output.predictions[f"{key}_log_prob"] for key in ("start", "end")}
        if name == "masked":
            fetches["gradients"] = self.built["gradients"]
        return self.run(batch, fetches)


@pytest.fixture(scope="module")
def heads():
    return Heads()


def cross_entropy(logits, mask, positions):
    """In float64, with the softmax over the positions of the mask."""
    logits = np.where(mask, logits.astype("f8"), -np.inf)
    highest = logits.max(axis=1, keepdims=True)
    sums = np.exp(logits - highest).sum(axis=1)
    return np.mean(highest[:, 0] + np.log(sums) - logits[np.arange(len(logits)), positions])


def expected_loss(got, batch, mask):
    start = cross_entropy(got["start"], mask, batch["start_positions"])
    return (start + cross_entropy(got["end"], mask, batch["end_positions"])) / 2


def assert_equal(got, expected):
    """Loss and all gradients."""
    assert got["loss"] == pytest.approx(expected["loss"], abs=1e-6)
    assert len(got["gradients"]) > 20
    for name, value in expected["gradients"].items():
        np.testing.assert_allclose(got["gradients"][name], value, atol=1e-6, rtol=1e-5)
    moved = [name for name, value in got["gradients"].items() if np.abs(value).max() > 1e-3]
    assert len(moved) > 10, "there is hardly any gradient to compare"


class TestMaskedPadding:
    def test_loss_and_gradients_do_not_depend_on_padding(self, heads):
        """Nor on what stands there; two examples at 48 and two at 64 make up the four at 32."""
        whole = heads.of("masked", make_batch(32))
        for padded in (48, 64):
            assert_equal(heads.of("masked", make_batch(padded)), whole)
        batch = make_batch(48)
        batch["input_ids"][:, 32:] = 9
        batch["segment_ids"][:, 32:] = 1
        assert_equal(heads.of("masked", batch), whole)
        one, two = (
            heads.of("masked", {key: value[rows] for key, value in make_batch(padded).items()})
            for padded, rows in ((48, slice(0, 2)), (64, slice(2, 4)))
        )
        gradients = {k: (v + two["gradients"][k]) / 2 for k, v in one["gradients"].items()}
        assert_equal({"loss": (one["loss"] + two["loss"]) / 2, "gradients": gradients}, whole)

    def test_loss_by_hand(self, heads):
        """There is no answer in the padding."""
        batch = make_batch(48)
        got = heads.of("masked", batch)
        assert got["loss"] == pytest.approx(expected_loss(got, batch, batch["input_mask"]), 1e-6)
        padding = batch["input_mask"] == 0
        for logits in (got["start"], got["end"]):
            assert logits[padding].max() < logits[~padding].min() - 1000
            assert np.isfinite(logits).all()


class TestAsTheReference:
    def test_the_loss_depends_on_padding(self, heads):
        """By hand; real tokens have the scores that they have where padding is masked."""
        losses = []
        for padded in (32, 48, 64):
            batch = make_batch(padded)
            got, real = heads.of("unmasked", batch), batch["input_mask"] == 1
            everything = np.ones_like(real)
            assert got["loss"] == pytest.approx(expected_loss(got, batch, everything), 1e-6)
            other = heads.of("masked", batch)
            np.testing.assert_allclose(got["start"][real], other["start"][real], atol=1e-6)
            losses.append(got["loss"] - other["loss"])
        # The first has padding itself.
        assert losses[0] > 0.01 and (np.diff(losses) > 0.01).all()

    def test_golden_training(self, shared):
        """Twenty steps of AdamW from a checkpoint, through the reference's function."""
        folder = shared / "golden" / "albert_tiny"
        with np.load(folder / "squad_v1_adamw.npz") as figures:
            figures = dict(figures)
        losses, norms, logits = train_golden(folder, figures)
        np.testing.assert_allclose(logits[0], figures["start_logits_step0"], atol=1e-5)
        np.testing.assert_allclose(logits[1], figures["end_logits_step0"], atol=1e-5)
        np.testing.assert_allclose(losses, figures["losses"], atol=1e-4)
        for name, norm in zip(figures["final_norm_names"], figures["final_norms"], strict=True):
            assert norms[name] == pytest.approx(norm, rel=1e-4, abs=2e-5), name
        assert norms.keys() == set(figures["final_norm_names"])


def train_golden(folder, figures):
    """The losses of all steps, the variables' norms at the end, and the logits of step 0."""
    config = AlbertConfig.from_json_file(str(folder / "albert_config.json"))
    steps = int(figures["num_train_steps"])
    model_fn = squad_utils.v1_model_fn_builder(
        config,
        str(folder / "model.ckpt-best"),
        float(figures["learning_rate"]),
        steps,
        int(figures["num_warmup_steps"]),
        use_tpu=False,
        use_one_hot_embeddings=False,
        use_einsum=False,
        hub_module=None,
    )
    keys = (*SEQUENCES, "start_positions", "end_positions")
    with tf.Graph().as_default() as graph, quick_session() as session:
        features = placeholders(keys, length=128)
        spec = model_fn(features, None, TRAIN, {})
        logits = [graph.get_tensor_by_name(f"{name}_logits:0") for name in ("start", "end")]
        # What hooks report.
        reported = (graph_keys.LOSS, graph_keys.TOKENS, graph_keys.LEARNING_RATE)
        reported = [graph.get_collection(key)[0] for key in reported]
        session.run(tf.global_variables_initializer())
        (weights,) = (v for v in tf.trainable_variables() if "output_weights" in v.op.name)
        weights.load(figures["output_weights"], session)
        results = []
        for step in range(steps):
            feed = {features[key]: figures[key][8 * step : 8 * step + 8] for key in keys}
            results.append(session.run([spec.loss, logits, reported, spec.train_op], feed))
            loss, _, (reported_loss, tokens, rate), _ = results[-1]
            assert (reported_loss, tokens) == (loss, feed[features["input_mask"]].sum())
            # The first step of a warmup.
            assert (rate == 0) == (step == 0)
        norms = {v.op.name: np.linalg.norm(session.run(v)) for v in tf.trainable_variables()}
    return [r[0] for r in results], norms, results[0][1]


def model_fn_of(**options):
    """Of an encoder with dropout."""
    config = AlbertConfig(**{**CONFIG.to_dict(), "hidden_dropout_prob": 0.5})
    return make_model_fn(config, make_v1_head(True, **options), ModelOptions())


class TestModes:
    @pytest.mark.parametrize("count", [5, 50])
    def test_prediction(self, count):
        """The best positions alone are as in all scores, which an exported model gives; of equals
        the first, as in padding. Nothing drops out."""
        keys = (*SEQUENCES, "unique_ids")
        model_fn = model_fn_of(num_best=count)
        model = Graph(lambda features: model_fn(features, None, PREDICT, {}), keys)
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

    def test_prediction_without_unique_ids(self):
        """As for serving."""
        with tf.Graph().as_default():
            spec = model_fn_of()(placeholders(SEQUENCES), None, PREDICT, {})
        assert spec.predictions.keys() == {"start_log_prob", "end_log_prob"}

    def test_evaluation_is_refused(self):
        with tf.Graph().as_default(), pytest.raises(ValueError, match="TRAIN and PREDICT.*eval"):
            model_fn_of()(placeholders(), None, estimators.ModeKeys.EVAL, {})
