"""The SQuAD 1.1 head: the reference's figures, and a loss that does not depend on padding."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from encoder_task import ModelOptions, make_model_fn
from modeling import AlbertConfig
from optimization import OptimizerOptions
from runtime import estimators
from runtime.training import graph_keys
from squad.head import make_v1_head

TRAIN, PREDICT = estimators.ModeKeys.TRAIN, estimators.ModeKeys.PREDICT
CONFIG = AlbertConfig(
    vocab_size=60,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=64,
    initializer_range=0.2,
)
SEQUENCES = ("input_ids", "input_mask", "segment_ids")
NUMBERS = ("unique_ids", "start_positions", "end_positions", "is_impossible")
LENGTHS = (32, 20, 9, 27)  # real tokens of the examples


def model_fn_of(config=CONFIG, mask_padding_in_loss=False):
    options = ModelOptions(OptimizerOptions(0.01, num_train_steps=10, num_warmup_steps=2))
    return make_model_fn(config, make_v1_head(mask_padding_in_loss), options)


def placeholders(keys=SEQUENCES + NUMBERS, length=None):
    return {
        key: tf.placeholder(tf.int32, [None, length] if key in SEQUENCES else [None], key)
        for key in keys
    }


def make_batch(padded, lengths=LENGTHS):
    """Examples that are the same however far they are padded."""
    rng = np.random.RandomState(5)
    batch = {key: np.zeros([len(lengths), padded], int) for key in SEQUENCES}
    for row, length in enumerate(lengths):
        batch["input_ids"][row, :length] = rng.randint(1, 60, length)
        batch["input_mask"][row, :length] = 1
        batch["segment_ids"][row, 5:length] = 1
    batch["start_positions"] = np.array([7, 19, 5, 0])
    batch["end_positions"] = np.array([31, 19, 8, 0])
    batch["unique_ids"] = np.arange(100, 104)
    batch["is_impossible"] = np.array([0, 0, 0, 1])
    return batch


def rows(batch, which):
    return {key: value[which] for key, value in batch.items()}


class Training:
    """The training graph with fixed weights."""

    def __init__(self, **options):
        self._graph = tf.Graph()
        with self._graph.as_default():
            tf.set_random_seed(3)
            self._features = placeholders()
            self.spec = model_fn_of(**options)(self._features, None, TRAIN, {})
            variables = [v for v in tf.trainable_variables() if "pooler" not in v.op.name]
            gradients = tf.gradients(self.spec.loss, variables)
            self._fetches = {
                "loss": self.spec.loss,
                "start": self._graph.get_tensor_by_name("start_logits:0"),
                "end": self._graph.get_tensor_by_name("end_logits:0"),
                "gradients": {
                    v.op.name: tf.convert_to_tensor(g)
                    for v, g in zip(variables, gradients, strict=True)
                },
            }
            self._session = tf.Session()
            self._session.run(tf.global_variables_initializer())

    def run(self, batch, fetches=None):
        feed = {self._features[key]: batch[key] for key in self._features}
        return self._session.run(self._fetches if fetches is None else fetches, feed)

    def collected(self, name):
        (tensor,) = self._graph.get_collection(name)
        return tensor


@pytest.fixture(scope="module")
def masked():
    return Training(mask_padding_in_loss=True)


@pytest.fixture(scope="module")
def unmasked():
    return Training()


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
    @pytest.mark.parametrize("padded", [48, 64])
    def test_loss_and_gradients_do_not_depend_on_padding(self, masked, padded):
        assert_equal(masked.run(make_batch(padded)), masked.run(make_batch(32)))

    def test_examples_padded_differently(self, masked):
        """Two at 48 and two at 64 make up the four at 32."""
        whole = masked.run(make_batch(32))
        one = masked.run(rows(make_batch(48), slice(0, 2)))
        two = masked.run(rows(make_batch(64), slice(2, 4)))
        mean = {
            "loss": (one["loss"] + two["loss"]) / 2,
            "gradients": {k: (v + two["gradients"][k]) / 2 for k, v in one["gradients"].items()},
        }
        assert_equal(mean, whole)

    def test_what_stands_in_the_padding_does_not_matter(self, masked):
        batch = make_batch(48)
        changed = {key: value.copy() for key, value in batch.items()}
        changed["input_ids"][:, 32:] = 9
        changed["segment_ids"][:, 32:] = 1
        assert_equal(masked.run(changed), masked.run(batch))

    def test_loss_by_hand(self, masked):
        batch = make_batch(48)
        got = masked.run(batch)
        assert got["loss"] == pytest.approx(expected_loss(got, batch, batch["input_mask"]), 1e-6)

    def test_no_answer_in_the_padding(self, masked):
        batch = make_batch(48)
        padding = batch["input_mask"] == 0
        got = masked.run(batch)
        for logits in (got["start"], got["end"]):
            assert logits[padding].max() < logits[~padding].min() - 1000
            assert np.isfinite(logits).all()


class TestAsTheReference:
    def test_by_default_the_loss_depends_on_padding(self, unmasked):
        losses = [unmasked.run(make_batch(padded))["loss"] for padded in (32, 48, 64)]
        assert min(abs(a - b) for a, b in [losses[:2], losses[1:], losses[::2]]) > 0.01

    def test_loss_by_hand(self, unmasked):
        batch = make_batch(48)
        got = unmasked.run(batch)
        everything = np.ones_like(batch["input_mask"])
        assert got["loss"] == pytest.approx(expected_loss(got, batch, everything), 1e-6)
        assert got["loss"] > expected_loss(got, batch, batch["input_mask"]) + 0.01

    def test_real_tokens_have_the_same_scores_with_and_without(self, masked, unmasked):
        batch = make_batch(48)
        real = batch["input_mask"] == 1
        one, other = masked.run(batch), unmasked.run(batch)
        np.testing.assert_allclose(one["start"][real], other["start"][real], atol=1e-6)

    def test_golden_training(self, shared):
        """Twenty steps of AdamW from a checkpoint."""
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
    options = ModelOptions(
        OptimizerOptions(float(figures["learning_rate"]), steps, int(figures["num_warmup_steps"])),
        str(folder / "model.ckpt-best"),
    )
    model_fn = make_model_fn(config, make_v1_head(mask_padding_in_loss=False), options)
    keys = (*SEQUENCES, "start_positions", "end_positions")
    with tf.Graph().as_default() as graph, tf.Session() as session:
        features = placeholders(keys, length=128)
        spec = model_fn(features, None, TRAIN, {})
        logits = [graph.get_tensor_by_name(f"{name}_logits:0") for name in ("start", "end")]
        session.run(tf.global_variables_initializer())
        (weights,) = (v for v in tf.trainable_variables() if "output_weights" in v.op.name)
        weights.load(figures["output_weights"], session)
        results = [
            session.run(
                [spec.loss, logits, spec.train_op],
                {features[key]: figures[key][8 * step : 8 * step + 8] for key in keys},
            )
            for step in range(steps)
        ]
        norms = {v.op.name: np.linalg.norm(session.run(v)) for v in tf.trainable_variables()}
    return [r[0] for r in results], norms, results[0][1]


class TestModes:
    @pytest.mark.parametrize("count", [1, 5, 50])
    def test_the_best_positions_alone(self, count):
        """As they are found in all, of equals the first; an exported model gives all."""
        head = make_v1_head(mask_padding_in_loss=True, num_best=count)
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(3)
            features = placeholders((*SEQUENCES, "unique_ids"))
            spec = make_model_fn(CONFIG, head, ModelOptions())(features, None, PREDICT, {})
            (exported,) = (output.outputs for output in spec.export_outputs.values())
            session.run(tf.global_variables_initializer())
            batch = make_batch(32)
            # Padding has equal scores.
            fed = {features[key]: batch[key] for key in features}
            best, whole = session.run([spec.predictions, exported], fed)
        assert best["unique_ids"].tolist() == whole["unique_ids"].tolist() == [100, 101, 102, 103]
        for name in ("start", "end"):
            scores = whole[f"{name}_log_prob"]
            order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
            np.testing.assert_array_equal(best[f"{name}_top_index"], order)
            expected = np.take_along_axis(scores, order, axis=1)
            np.testing.assert_array_equal(best[f"{name}_top_log_probs"], expected)

    @pytest.mark.parametrize("mask", [True, False])
    def test_prediction(self, mask):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(3)
            features = placeholders((*SEQUENCES, "unique_ids"))
            spec = model_fn_of(mask_padding_in_loss=mask)(features, None, PREDICT, {})
            assert spec.loss is None and spec.train_op is None
            session.run(tf.global_variables_initializer())
            near, far = (
                session.run(spec.predictions, {features[k]: make_batch(n)[k] for k in features})
                for n in (32, 64)
            )
        assert near.keys() == {"unique_ids", "start_log_prob", "end_log_prob"}
        assert near["unique_ids"].tolist() == [100, 101, 102, 103]
        real = make_batch(32)["input_mask"] == 1
        for key in ("start_log_prob", "end_log_prob"):
            assert far[key].shape == (4, 64) and far[key].dtype == np.float32
            np.testing.assert_allclose(near[key][real], far[key][:, :32][real], atol=1e-5)
        assert np.abs(near["start_log_prob"] - near["end_log_prob"])[real].max() > 0.1

    def test_prediction_without_unique_ids(self):
        """As for serving."""
        with tf.Graph().as_default():
            spec = model_fn_of()(placeholders(SEQUENCES), None, PREDICT, {})
        assert spec.predictions.keys() == {"start_log_prob", "end_log_prob"}

    def test_evaluation_is_refused(self):
        with tf.Graph().as_default(), pytest.raises(ValueError, match="TRAIN and PREDICT.*eval"):
            model_fn_of()(placeholders(), None, estimators.ModeKeys.EVAL, {})

    def test_dropout_in_training_only(self):
        config = AlbertConfig(**{**CONFIG.to_dict(), "hidden_dropout_prob": 0.5})
        for mode in (TRAIN, PREDICT):
            with tf.Graph().as_default() as graph, tf.Session() as session:
                features = placeholders()
                model_fn_of(config)(features, None, mode, {})
                logits = graph.get_tensor_by_name("start_logits:0")
                session.run(tf.global_variables_initializer())
                feed = {features[key]: make_batch(32)[key] for key in features}
                one, two = (session.run(logits, feed) for _ in range(2))
                assert np.array_equal(one, two) == (mode == PREDICT)

    def test_what_hooks_report(self, masked):
        batch = make_batch(48)
        keys = (graph_keys.LOSS, graph_keys.TOKENS, graph_keys.LEARNING_RATE)
        loss, tokens, rate = masked.run(batch, [masked.collected(key) for key in keys])
        assert loss == masked.run(batch)["loss"]
        assert tokens == sum(LENGTHS)
        assert rate == 0  # the first step of a warmup
