"""The reference's functions and processors of classification, as its scripts call them."""

import contextlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import classifier_utils
from doors import common, glue_models
from encoder_task import ModelOptions
from glue.features import Feature, serialize
from optimization import OptimizerOptions
from runtime.data.order import shuffled_numbers
from runtime.data.sequences import TokenSequence
from runtime.devices import mask_seeds
from tests.helpers.classification import CONFIG
from tests.helpers.files import write_records
from tests.helpers.sessions import quick_session

LENGTH = 64


def feature(number, label, length=LENGTH):
    """Of 5 tokens and the number; the tenth only fills a batch up."""
    used = 5 + number
    padding = [0] * (length - used)
    sequences = ([20 + number] * used, [1] * used, [0] * 3 + [1] * (used - 3))
    sequences = (values + padding for values in sequences)
    return classifier_utils.InputFeatures(*sequences, label, is_real_example=number != 9)


@pytest.fixture
def write(tmp_path):
    def write(labels):
        records = []
        for number, label in enumerate(labels):
            sequence = TokenSequence([20 + number] * (5 + number), 3)
            records.append(serialize(Feature(sequence, label, number != 9), LENGTH))
        return write_records(tmp_path / "records", records)

    return write


def read(input_fn, count=100, **params):
    """The first batches."""
    result = []
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        batch = tf.data.make_one_shot_iterator(input_fn(params)).get_next()
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while len(result) < count:
                result.append(session.run(batch))
    return result


def labels(got):
    return [batch["label_ids"].tolist() for batch in got]


class TestFiles:
    """How batches are made is the matter of tests/runtime/data/test_batches.py."""

    @staticmethod
    def batches(path, training=False, drop=False, task="mrpc", bsz=4, count=100, **more):
        length = LENGTH // more.get("multiple", 1)
        arguments = (path, length, training, drop, task, False, bsz)
        return read(classifier_utils.file_based_input_fn_builder(*arguments, **more), count)

    def test_one_pass_in_file_order(self, write):
        path = write(range(10))
        got = self.batches(path)
        assert labels(got) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        first = got[0]
        assert {key: value.dtype for key, value in first.items()} == dict.fromkeys(first, np.int32)
        for number in range(4):
            expected = vars(feature(number, number))
            for key in ("input_ids", "input_mask", "segment_ids"):
                assert first[key][number].tolist() == expected[key]
        assert got[2]["is_real_example"].tolist() == [1, 0]
        assert labels(self.batches(path, drop=True)) == labels(got)[:2]
        (batch, *_) = self.batches(path, multiple=4)
        assert batch["input_ids"].shape == (4, LENGTH), "several sequences in a feature"

    def test_labels_of_regression_are_floats(self, write):
        path = write([0.5, 1.25, 3.0])
        for options in ({"task": "sts-b"}, {"task": "tsv", "is_regression": True}):
            (batch,) = self.batches(path, **options)
            assert batch["label_ids"].dtype == np.float32
            assert batch["label_ids"].tolist() == [0.5, 1.25, 3.0]
            assert batch["input_ids"].dtype == np.int32

    def test_training_is_in_the_order_of_a_seed(self, write):
        got = self.batches(write(range(20)), training=True, bsz=5, count=1, seed=1)
        assert labels(got) == [shuffled_numbers(20, 5, 1, 0).tolist()]


class TestInMemory:
    @staticmethod
    def batches(values, training=False, drop=False, count=100, length=LENGTH):
        features = [feature(number, value) for number, value in enumerate(values)]
        input_fn = classifier_utils.input_fn_builder(features, length, training, drop)
        return read(input_fn, count, batch_size=4)

    def test_gives_what_a_file_gives(self, write):
        from_file = TestFiles.batches(write(range(10)))
        for ours, expected in zip(self.batches(range(10)), from_file, strict=True):
            assert ours.keys() == expected.keys() - {"is_real_example"}
            for key, value in ours.items():
                assert value.dtype == np.int32
                np.testing.assert_array_equal(value, expected[key])
        assert labels(self.batches(range(10), drop=True)) == labels(from_file)[:2]
        (got,) = self.batches([0.5, 2.0, 5.0])
        assert got["label_ids"].dtype == np.float32
        assert got["label_ids"].tolist() == [0.5, 2.0, 5.0]

    def test_training_gives_every_feature_once_an_epoch(self):
        epochs = np.reshape(labels(self.batches(range(8), training=True, count=6)), [3, 8])
        assert [sorted(epoch) for epoch in epochs.tolist()] == [list(range(8))] * 3
        assert len({tuple(epoch) for epoch in epochs.tolist()}) == 3


def create(is_training, labels, num_labels=2, **options):
    """The model on three features."""
    keys = ("input_ids", "input_mask", "segment_ids")
    given = [feature(number, 0, length=16) for number in range(3)]
    inputs = [tf.constant([getattr(f, key) for f in given]) for key in keys]
    labels = None if labels is None else tf.constant(labels)
    arguments = (labels, num_labels, False, "mrpc", None)
    return classifier_utils.create_model(CONFIG, is_training, *inputs, *arguments, **options)


class TestCreateModel:
    def test_what_it_returns_is_in_the_references_order(self):
        labels = [0, 2, 1]
        with tf.Graph().as_default(), quick_session() as session:
            tf.set_random_seed(5)
            found = list(create(False, labels, 3))
            session.run(tf.global_variables_initializer())
            loss, losses, probabilities, logits, predictions = session.run(found)
        np.testing.assert_allclose(losses, -np.log(probabilities[range(3), labels]), rtol=1e-5)
        assert (logits < 0).any() and predictions.tolist() == logits.argmax(axis=1).tolist()
        assert loss == pytest.approx(losses.mean(), rel=1e-6)

    def test_without_labels_there_is_no_loss(self):
        """And dropout is in training alone."""
        for is_training, options, places in (
            (False, {}, []),
            (True, {"dropout": 0.0}, []),
            (True, {}, ["classifier"]),
        ):
            with tf.Graph().as_default():
                tf.set_random_seed(5)
                loss, losses, *others = create(is_training, None, **options)
                assert tf.get_collection(mask_seeds.PLACES) == places
            assert loss is None and losses is None
            assert [value.shape.as_list() for value in others] == [[3, 2], [3, 2], [3]]


def test_arguments_of_model_fn_builder_reach_the_model(monkeypatch):
    built = []
    monkeypatch.setattr(common, "make_model_fn", lambda *parts: built.append(parts))
    monkeypatch.setattr(glue_models, "make_head", lambda *parts: parts)
    arguments = (CONFIG, 3, "model", 0.25, 10, 2, False, True, "mrpc")
    classifier_utils.model_fn_builder(*arguments)
    more = {"dropout": 0.5, "threshold": 0.75, "use_einsum": True}
    more |= {"optimizer": "lamb", "optimizer_options": {"epsilon": 1e-3}}
    classifier_utils.model_fn_builder(*arguments, **more)
    optimizer = OptimizerOptions(0.25, 10, 2, "adamw")
    options = ModelOptions(optimizer, "model", use_one_hot_embeddings=True)
    assert built[0] == (CONFIG, (3, 0.1, None), options)
    optimizer = optimizer._replace(optimizer="lamb", epsilon=1e-3)
    options = options._replace(optimizer=optimizer, use_einsum=True)
    assert built[1] == (CONFIG, (3, 0.5, 0.75), options)
