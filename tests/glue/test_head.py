"""The classification head: figures from NumPy and the variables, and its contract."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from encoder_task import ModelOptions, make_model_fn
from glue.head import classify, make_head
from modeling import AlbertConfig, AlbertModel
from optimization import OptimizerOptions
from runtime import estimators
from runtime.devices import mask_seeds
from runtime.training import graph_keys
from tests.helpers.classification import CONFIG

TRAIN, EVAL, PREDICT = (getattr(estimators.ModeKeys, k) for k in ("TRAIN", "EVAL", "PREDICT"))
SEQUENCES = ("input_ids", "input_mask", "segment_ids")


def make_batch(length=12, size=6):
    rng = np.random.RandomState(1)
    batch = {key: np.zeros([size, length], np.int32) for key in ("ids", "mask", "segments")}
    for row, used in enumerate(rng.randint(4, 13, size)):
        batch["ids"][row, :used] = rng.randint(5, 60, used)
        batch["mask"][row, :used] = 1
        batch["segments"][row, used // 2 : used] = 1
    return batch


def features(batch, **more):
    names = {"input_ids": "ids", "input_mask": "mask", "segment_ids": "segments"}
    return {**{key: tf.constant(batch[name]) for key, name in names.items()}, **more}


def outputs_of(num_labels, labels, dropout=0.0, runs=1):
    """What `classify` gives, the pooled output, and the head's variables."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(5)
        inputs = features(make_batch())
        model = AlbertModel(CONFIG, False, *(inputs[key] for key in SEQUENCES), scope="bert")
        pooled = model.get_pooled_output()
        labels = None if labels is None else tf.constant(labels)
        found = classify(pooled, labels, dropout, num_labels)
        step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
        session.run(tf.global_variables_initializer())
        head = {v.op.name: session.run(v) for v in tf.trainable_variables() if "bert" not in v.name}
        results = {"loss": found.loss, **found._asdict(), "pooled": pooled}
        fetches = {name: result for name, result in results.items() if result is not None}
        values = []
        for _ in range(runs):
            values.append(session.run(fetches))
            session.run(step)
        return (values[0] if runs == 1 else values), head


class TestHead:
    def test_variables(self):
        _, head = outputs_of(3, [0, 1, 2, 0, 1, 2])
        assert {name: value.shape for name, value in head.items()} == {
            "output_weights": (3, 16),
            "output_bias": (3,),
        }
        assert not head["output_bias"].any()
        assert 0.005 < head["output_weights"].std() < 0.03

    def test_classification(self):
        labels = np.array([0, 1, 2, 0, 1, 2], np.int32)
        values, head = outputs_of(3, labels)
        logits = values["pooled"].astype(np.float64) @ head["output_weights"].T
        probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        losses = -np.log(probabilities[np.arange(6), labels])
        np.testing.assert_allclose(values["logits"], logits, atol=1e-6)
        np.testing.assert_allclose(values["probabilities"], probabilities, atol=1e-6)
        np.testing.assert_allclose(values["losses"], losses, atol=1e-6)
        assert values["loss"] == pytest.approx(losses.mean(), abs=1e-6)
        assert values["predictions"].tolist() == logits.argmax(axis=1).tolist()

    def test_regression(self):
        labels = np.array([0, 1.5, 2, 5, 4, 3], np.float32)
        values, head = outputs_of(1, labels)
        numbers = (values["pooled"].astype(np.float64) @ head["output_weights"].T)[:, 0]
        np.testing.assert_allclose(values["logits"], numbers, atol=1e-6)
        np.testing.assert_allclose(values["predictions"], numbers, atol=1e-6)
        np.testing.assert_allclose(values["probabilities"][:, 0], numbers, atol=1e-6)
        np.testing.assert_allclose(values["losses"], np.square(numbers - labels), atol=1e-5)
        assert values["loss"] == pytest.approx(np.square(numbers - labels).mean(), abs=1e-5)

    def test_without_labels_there_is_no_loss(self):
        values, _ = outputs_of(2, None)
        assert values.keys() == {"probabilities", "logits", "predictions", "pooled"}

    def test_dropout_of_the_head(self):
        """Other units are left out at every step; which ones is a function of the step."""

        def logits(dropout):
            runs, _ = outputs_of(2, None, dropout, runs=3)
            return np.array([values["logits"] for values in runs])

        plain = logits(0.0)
        assert np.array_equal(plain[0], plain[1])
        dropped = logits(0.1)
        assert not np.array_equal(dropped[0], dropped[1])
        np.testing.assert_array_equal(dropped, logits(0.1))

    def test_dropout_has_a_place_of_its_own(self):
        config = AlbertConfig(
            **{**CONFIG.to_dict(), "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
        )
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            model = AlbertModel(config, True, *[tf.zeros([2, 5], tf.int32)] * 3)
            classify(model.get_pooled_output(), None, 0.1, num_labels=2)
            places = tf.get_collection(mask_seeds.PLACES)
        assert len(places) == len(set(places)) == 1 + 3 * config.num_hidden_layers + 1
        assert "classifier" in places


def model_fn_of(num_labels=2, init_checkpoint=None, optimizer="adamw", **options):
    training = OptimizerOptions(0.01, num_train_steps=10, optimizer=optimizer)
    head = make_head(num_labels, **{"dropout": 0.1, **options})
    return make_model_fn(CONFIG, head, ModelOptions(training, init_checkpoint))


class TestModelFn:
    LABELS = np.array([0, 1, 1, 0, 1, 0], np.int32)

    @pytest.mark.parametrize("optimizer", ["adamw", "lamb"])
    def test_training_lowers_the_loss(self, optimizer):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(5)
            model_fn = model_fn_of(optimizer=optimizer)
            given = features(make_batch(), label_ids=tf.constant(self.LABELS))
            spec = model_fn(given, None, TRAIN, {})
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            losses = [session.run([spec.loss, spec.train_op])[0] for _ in range(10)]
            (tokens,) = tf.get_collection(graph_keys.TOKENS)
            assert session.run(tokens) == make_batch()["mask"].sum()
            assert session.run(tf.train.get_global_step()) == 11
        assert losses[-1] < losses[0]

    def test_the_head_drops_in_training_only(self):
        """The encoder of this test drops nothing."""
        for mode, dropout, alike in ((TRAIN, 0.1, False), (TRAIN, 0.0, True), (PREDICT, 0.1, True)):
            with tf.Graph().as_default() as graph, tf.Session() as session:
                tf.set_random_seed(5)
                given = features(make_batch(), label_ids=tf.constant(self.LABELS))
                model_fn_of(dropout=dropout)(given, None, mode, {})
                logits = graph.get_tensor_by_name("loss/BiasAdd:0")
                step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
                session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
                first = session.run(logits)
                session.run(step)
                assert np.array_equal(first, session.run(logits)) == alike

    def test_an_unknown_optimizer(self):
        with tf.Graph().as_default(), pytest.raises(ValueError, match="sgd"):
            given = features(make_batch(), label_ids=tf.constant(self.LABELS))
            model_fn_of(optimizer="sgd")(given, None, TRAIN, {})

    def test_prediction_needs_no_labels_and_passes_them_on(self):
        with tf.Graph().as_default():
            spec = model_fn_of()(features(make_batch()), None, PREDICT, {})
            assert set(spec.predictions) == {"probabilities", "predictions", "logits"}
        with tf.Graph().as_default():
            more = {"label_ids": tf.constant(self.LABELS), "is_real_example": tf.ones([6])}
            spec = model_fn_of()(features(make_batch(), **more), None, PREDICT, {})
            assert spec.predictions["label_ids"] is more["label_ids"]
            assert spec.predictions["is_real_example"] is more["is_real_example"]
            (exported,) = spec.export_outputs.values()
            assert set(exported.outputs) == {"probabilities", "predictions", "logits"}

    def test_threshold_is_exported_only(self):
        with tf.Graph().as_default(), tf.Session() as session:
            spec = model_fn_of(threshold=0.25)(features(make_batch()), None, PREDICT, {})
            assert "threshold" not in spec.predictions
            (exported,) = spec.export_outputs.values()
            assert session.run(exported.outputs["threshold"]) == 0.25

    def test_starts_from_a_checkpoint(self, tmp_path):
        """The encoder is taken; the head, which the checkpoint has not, is new."""
        prefix = str(tmp_path / "model.ckpt")
        with tf.Graph().as_default(), tf.Session() as session:
            model_fn_of()(features(make_batch()), None, PREDICT, {})
            encoder = [v for v in tf.trainable_variables() if v.op.name.startswith("bert/")]
            session.run(tf.global_variables_initializer())
            tf.train.Saver(encoder).save(session, prefix)
            expected = {v.op.name: session.run(v) for v in encoder}
        with tf.Graph().as_default(), tf.Session() as session:
            given = features(make_batch(), label_ids=tf.constant(self.LABELS))
            model_fn_of(3, init_checkpoint=prefix)(given, None, TRAIN, {})
            session.run(tf.global_variables_initializer())
            for variable in tf.trainable_variables():
                if variable.op.name in expected:
                    np.testing.assert_array_equal(session.run(variable), expected[variable.op.name])
        assert len(expected) > 10

    def test_no_other_mode(self):
        with tf.Graph().as_default(), pytest.raises(ValueError, match="Only TRAIN and PREDICT"):
            model_fn_of()(features(make_batch()), None, EVAL, {})
