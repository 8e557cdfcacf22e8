"""A tiny encoder, a batch and a graph of heads, for tests of the SQuAD heads."""

import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.modeling import AlbertConfig, Encoder, read_config
from albert.optimization import TrainStep
from albert.prediction.model import Head, HeadOutput
from tests.helpers.sessions import quick_session

SIZES = {"vocab_size": 60, "embedding_size": 8, "hidden_size": 16, "intermediate_size": 32}
SIZES |= {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 64}
CONFIG = AlbertConfig(**SIZES, initializer_range=0.2)
SEQUENCES = ("input_ids", "input_mask", "segment_ids")
NUMBERS = ("unique_ids", "start_positions", "end_positions", "is_impossible")
ALL = SEQUENCES + NUMBERS
LENGTHS = (32, 20, 9, 27)  # real tokens of the examples


def make_batch(padded: int) -> dict[str, np.ndarray]:
    """Returns examples that are equal at any padding; the last token of each is [SEP]."""
    rng = np.random.RandomState(5)
    batch = {key: np.zeros([len(LENGTHS), padded], int) for key in SEQUENCES}
    for row, length in enumerate(LENGTHS):
        batch["input_ids"][row, :length] = rng.randint(1, 60, length)
        batch["input_mask"][row, :length] = 1
        batch["segment_ids"][row, 5:length] = 1
    batch["start_positions"] = np.array([7, 17, 5, 0])
    batch["end_positions"] = np.array([30, 18, 7, 0])
    batch["unique_ids"] = np.arange(100, 104)
    batch["is_impossible"] = np.array([0, 0, 0, 1])
    return batch


def placeholders(keys: Sequence[str] = ALL, length: int | None = None) -> dict[str, tf.Tensor]:
    return {
        key: tf.placeholder(tf.int32, [None, length] if key in SEQUENCES else [None], key)
        for key in keys
    }


class Graph:
    """A graph of placeholders and a model on them, with the initial weights of a seed."""

    def __init__(self, build: Callable[[dict[str, tf.Tensor]], Any], keys: Sequence[str] = ALL):
        with tf.Graph().as_default():
            tf.set_random_seed(3)
            self._features = placeholders(keys)
            self.built = build(self._features)
            self.variables = tf.trainable_variables()
            self.session = quick_session()
            self.session.run(tf.global_variables_initializer())

    def run(self, batch: Mapping[str, np.ndarray], fetches: Any) -> Any:
        feed = {tensor: batch[key] for key, tensor in self._features.items()}
        return self.session.run(fetches, feed)


def build_heads(
    features: dict[str, tf.Tensor], **heads: tuple[Head, bool]
) -> dict[str, HeadOutput]:
    """Builds heads, each for training or not, on the states and the variables of one encoder."""
    encoder = Encoder(CONFIG, False, *(features[key] for key in SEQUENCES))
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        return {
            name: head(lambda *_: encoder, features, is_training)
            for name, (head, is_training) in heads.items()
        }


def golden_run(folder: pathlib.Path, name: str) -> tuple[dict[str, np.ndarray], tuple]:
    """Returns the reference's figures of a training run, and the arguments of a model builder: the
    configuration, the first checkpoint, the learning rate, the steps and the warm-up steps."""
    with np.load(folder / name) as file:
        figures = dict(file)
    (config,) = folder.glob("*_config.json")
    steps, warmup = int(figures["num_train_steps"]), int(figures["num_warmup_steps"])
    rate = float(figures["learning_rate"])
    return figures, (read_config(str(config)), str(folder), rate, steps, warmup)


def train_golden(figures: Mapping[str, np.ndarray], *arguments: Any) -> Any:
    """Trains as `golden_steps`, whose first result it returns; compares losses and final norms."""
    first, losses, trained = golden_steps(figures, *arguments)
    np.testing.assert_allclose(losses, figures["losses"], atol=1e-4)
    expected = dict(zip(figures["final_norm_names"], figures["final_norms"], strict=True))
    assert trained.keys() == expected.keys()
    for name, norm in expected.items():
        # A bias on the scores of all starts or ends has no gradient except rounding errors.
        tolerance = (
            1e-3
            if re.search("start_logits/dense/bias|end_logits/dense_1/bias|output_bias", name)
            else 2e-5
        )
        assert np.linalg.norm(trained[name]) == pytest.approx(norm, rel=1e-4, abs=tolerance), name
    return first


def golden_steps(
    figures: Mapping[str, np.ndarray],
    model_fn: Callable[..., Any],
    keys: Sequence[str],
    weights: Mapping[str, np.ndarray],
    fetches: Callable[[dict[str, tf.Tensor], TrainStep], Any],
) -> tuple[Any, list[float], dict[str, np.ndarray]]:
    """Trains as the reference did, from given head weights.

    Returns what `fetches` makes of the features and the step, before the first step, the losses,
    and the trained weights.
    """
    with tf.Graph().as_default(), quick_session() as session:
        features = placeholders(keys, length=128)
        spec = model_fn(features, None, estimators.ModeKeys.TRAIN, {})
        step = estimators.graph_parts(spec)
        fetched = fetches(features, step)
        session.run(tf.global_variables_initializer())
        variables = {v.op.name: v for v in tf.trainable_variables()}
        for name, value in weights.items():
            variables[name].load(value, session)
        feeds = [
            {features[key]: figures[key][8 * step : 8 * step + 8] for key in keys}
            for step in range(int(figures["num_train_steps"]))
        ]
        first, losses, rates = session.run(fetched, feeds[0]), [], []
        for feed in feeds:
            rates.append(session.run(step.learning_rate))
            loss, *reported, _ = session.run([spec.loss, step.loss, step.tokens, step.op], feed)
            assert reported == [loss, feed[features["input_mask"]].sum()]
            losses.append(loss)
        # Each step has the rate before the counter moves: the first one has 0.
        expected = figures.get("learning_rates", [0.0])
        np.testing.assert_allclose(rates[: len(expected)], expected[: len(rates)], rtol=1e-5)
        return first, losses, session.run(variables)
