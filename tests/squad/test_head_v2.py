"""The SQuAD 2.0 head: the reference's figures, and what padding may not change."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from encoder_task import ModelOptions, make_model_fn
from modeling import AlbertConfig
from optimization import OptimizerOptions
from runtime import estimators
from squad.head_v2 import V2Options, make_v2_head, outside_answers
from tests.squad import test_head
from tests.squad.test_head import CONFIG, NUMBERS, SEQUENCES, placeholders

TRAIN, PREDICT = estimators.ModeKeys.TRAIN, estimators.ModeKeys.PREDICT
OPTIONS = V2Options(start_n_top=3, end_n_top=4, dropout=0.0, initializer_range=0.2)


def make_batch(padded):
    """Examples with answers that lie in the text; the last token of each is [SEP]."""
    places = {"start_positions": [7, 17, 5, 0], "end_positions": [30, 18, 7, 0]}
    return {**test_head.make_batch(padded), **{k: np.array(v) for k, v in places.items()}}


def model_fn_of(options=OPTIONS, config=CONFIG, init_checkpoint=None, **optimizer):
    optimizer = {"learning_rate": 0.01, "num_train_steps": 10, "num_warmup_steps": 2, **optimizer}
    of_model = ModelOptions(OptimizerOptions(**optimizer), init_checkpoint)
    return make_model_fn(config, make_v2_head(options), of_model)


class Graph:
    """The graph of a mode with fixed weights, and the states that the head sees."""

    def __init__(self, mode, **options):
        self._graph = tf.Graph()
        with self._graph.as_default():
            tf.set_random_seed(3)
            self._features = placeholders(SEQUENCES + NUMBERS)
            self.spec = model_fn_of(**options)(self._features, None, mode, {})
            self.session = tf.Session()
            self.session.run(tf.global_variables_initializer())

    def run(self, batch, fetches=None):
        fetches = self.spec.predictions if fetches is None else fetches
        return self.session.run(fetches, {self._features[k]: batch[k] for k in self._features})


@pytest.fixture(scope="module")
def prediction():
    return Graph(PREDICT)


@pytest.fixture(scope="module")
def training():
    return Graph(TRAIN)


class TestOutsideAnswers:
    def test_from_segments(self):
        """[CLS] q [SEP] t t [SEP], and padding; the second fills the feature."""
        segments = [[0, 0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]]
        with tf.Graph().as_default(), tf.Session() as session:
            found = session.run(outside_answers({"segment_ids": tf.constant(segments)}))
        assert found.tolist() == [[0, 1, 1, 0, 0, 1, 1, 1], [0, 1, 1, 1, 0, 0, 0, 1]]

    def test_is_the_records_own_where_they_have_it(self):
        assert outside_answers({"p_mask": "given", "segment_ids": None}) == "given"

    def test_agrees_with_the_features(self, shared):
        """Of the reference, on real questions."""
        with np.load(shared / "golden" / "albert_tiny" / "squad_v2_adamw.npz") as figures:
            segments, expected = figures["segment_ids"], figures["p_mask"]
        with tf.Graph().as_default(), tf.Session() as session:
            found = session.run(outside_answers({"segment_ids": tf.constant(segments)}))
        np.testing.assert_array_equal(found, expected)


def test_kernels_start_with_the_spread_of_the_configuration(prediction):
    kernels = [
        v for v in prediction.spec.predictions["cls_logits"].graph.get_collection("variables")
    ]
    heads = [v for v in kernels if "kernel" in v.name and not v.name.startswith("bert/")]
    assert len(heads) == 5
    for kernel, values in zip(heads, prediction.session.run(heads), strict=True):
        # Of a normal distribution that is cut off at two standard deviations.
        error = 0.2 * 0.88 * 3 / np.sqrt(values.size)
        assert np.std(values) == pytest.approx(0.2 * 0.88, abs=error), kernel.name


class TestPrediction:
    def test_shapes(self, prediction):
        got = prediction.run(make_batch(32))
        assert {key: value.shape for key, value in got.items()} == {
            "unique_ids": (4,),
            "start_top_index": (4, 3),
            "start_top_log_probs": (4, 3),
            "end_top_index": (4, 12),
            "end_top_log_probs": (4, 12),
            "cls_logits": (4,),
        }

    def test_best_first(self, prediction):
        got = prediction.run(make_batch(32))
        for scores in (got["start_top_log_probs"], got["end_top_log_probs"].reshape(4, 3, 4)):
            assert (np.diff(scores, axis=-1) <= 0).all()
            assert (np.exp(scores).sum(-1) < 1 + 1e-5).all()

    def test_padding_changes_nothing(self, prediction):
        near, far = (prediction.run(make_batch(padded)) for padded in (32, 64))
        for key in near:
            np.testing.assert_allclose(near[key], far[key], rtol=1e-5, atol=1e-5)

    def test_more_starts_than_positions(self):
        """As in a batch that is cut to its longest feature."""
        options = OPTIONS._replace(start_n_top=50, end_n_top=40)
        got = Graph(PREDICT, options=options).run(make_batch(32))
        assert got["start_top_index"].shape == (4, 32)
        assert got["end_top_index"].shape == (4, 32 * 32)

    def test_no_place_outside_the_text_is_likely(self, prediction):
        batch = make_batch(48)
        got = prediction.run(batch)
        likely = got["start_top_log_probs"] > -20
        in_text = np.take_along_axis(
            batch["segment_ids"] | (np.arange(48) == 0), got["start_top_index"], axis=1
        )
        assert likely.any() and in_text[likely].all()


class TestTraining:
    def test_ends_are_conditioned_on_the_true_start(self, training):
        """The loss changes with the start, though nothing else does."""
        batch = make_batch(32)
        loss = training.run(batch, training.spec.loss)
        other = {**batch, "start_positions": np.array([8, 18, 6, 0])}
        assert abs(training.run(other, training.spec.loss) - loss) > 1e-3

    def test_padding_changes_nothing(self, training):
        losses = [training.run(make_batch(n), training.spec.loss) for n in (32, 48, 64)]
        assert losses == pytest.approx([losses[0]] * 3, rel=1e-6)

    def test_answerability_is_learned(self, training):
        """The other way round the loss differs by the logits of all four, half their mean."""
        batch = make_batch(32)
        turned = {**batch, "is_impossible": 1 - batch["is_impossible"]}
        logits = Graph(PREDICT).run(batch)["cls_logits"]
        signs = 2 * batch["is_impossible"] - 1
        loss, other = (training.run(b, training.spec.loss) for b in (batch, turned))
        assert other - loss == pytest.approx(0.5 * np.mean(signs * logits), abs=1e-5)

    def test_dropout_in_training_only(self):
        rates = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
        config = AlbertConfig(**{**CONFIG.to_dict(), **rates})
        batch, losses = make_batch(32), []
        for dropout in (0.0, 0.5):
            options = OPTIONS._replace(dropout=dropout)
            graphs = [Graph(mode, options=options, config=config) for mode in (TRAIN, PREDICT)]
            losses.append(graphs[0].run(batch, graphs[0].spec.loss))
            losses.append(graphs[1].run(batch)["cls_logits"].tolist())
        assert losses[0] != losses[2] and losses[1] == losses[3]


class TestGolden:
    """`squad_v2_adamw.npz`, described in the data's README."""

    @pytest.fixture(scope="class")
    def folder(self, shared):
        return shared / "golden" / "albert_tiny"

    @pytest.fixture(scope="class")
    def figures(self, folder):
        with np.load(folder / "squad_v2_adamw.npz") as figures:
            return dict(figures)

    def run(self, mode, folder, figures, of_session):
        """Returns what `of_session` makes of the session, the features and the spec."""
        config = AlbertConfig.from_json_file(str(folder / "albert_config.json"))
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
        keys = (*SEQUENCES, *NUMBERS[1:])
        schedule = {k: figures[k].item() for k in ("num_train_steps", "num_warmup_steps")}
        schedule["learning_rate"] = float(figures["learning_rate"])
        with tf.Graph().as_default(), tf.Session() as session:
            features = placeholders(keys, length=128)
            model_fn = model_fn_of(
                V2Options(dropout=0.0), config, str(folder / "model.ckpt-best"), **schedule
            )
            spec = model_fn(features, None, TRAIN if mode == TRAIN else PREDICT, {})
            if mode == PREDICT:
                checkpoint = str(folder / "model.ckpt-best")
                names = dict(tf.train.list_variables(checkpoint))
                ours = {v.op.name: v for v in tf.trainable_variables() if v.op.name in names}
                tf.train.init_from_checkpoint(checkpoint, ours)
            session.run(tf.global_variables_initializer())
            variables = {v.op.name: v for v in tf.trainable_variables()}
            for key in figures:
                if key.startswith("head:"):
                    variables[key[5:]].load(figures[key], session)

            def feed(step):
                return {features[k]: figures[k][8 * step : 8 * step + 8] for k in keys}

            return of_session(session, feed, spec)

    def test_prediction(self, folder, figures):
        got = self.run(
            PREDICT,
            folder,
            figures,
            lambda session, feed, spec: session.run(spec.predictions, feed(0)),
        )
        for key, value in got.items():
            expected = figures[f"predict:{key}"]
            if key.endswith("index"):
                np.testing.assert_array_equal(value, expected)
            else:
                np.testing.assert_allclose(value, expected, atol=1e-5)

    def test_training(self, folder, figures):
        def train(session, feed, spec):
            steps = range(int(figures["num_train_steps"]))
            losses = [session.run([spec.loss, spec.train_op], feed(step))[0] for step in steps]
            weights = {v.op.name: session.run(v) for v in tf.trainable_variables()}
            return losses, weights

        losses, weights = self.run(TRAIN, folder, figures, train)
        np.testing.assert_allclose(losses, figures["losses"], atol=1e-4)
        expected = dict(zip(figures["final_norm_names"], figures["final_norms"], strict=True))
        assert weights.keys() == expected.keys()
        for name, norm in expected.items():
            # A bias on the scores of all ends has no gradient but rounding.
            tolerance = 2e-5 if "end_logits/dense_1/bias" not in name else 1e-3
            assert np.linalg.norm(weights[name]) == pytest.approx(norm, rel=1e-4, abs=tolerance)
