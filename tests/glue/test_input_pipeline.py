"""file_based_input_fn_builder(): types, order, workers, and padding that is cut off."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from classifier_utils import InputFeatures, file_based_input_fn_builder, input_fn_builder
from glue.features import serialize

LENGTH = 64


def feature(number, label):
    used = 5 + number
    ids = [100 + number] * used + [0] * (LENGTH - used)
    mask = [1] * used + [0] * (LENGTH - used)
    segments = [0] * 3 + [1] * (used - 3) + [0] * (LENGTH - used)
    return InputFeatures(ids, mask, segments, label, is_real_example=number != 9)


@pytest.fixture
def write(tmp_path):
    def write(labels):
        path = str(tmp_path / "records")
        with tf.io.TFRecordWriter(path) as writer:
            for number, label in enumerate(labels):
                writer.write(serialize(feature(number, label)))
        return path

    return write


def batches(path, training=False, drop=False, task="mrpc", bsz=4, count=100, length=LENGTH, **more):
    input_fn = file_based_input_fn_builder(path, length, training, drop, task, False, bsz, **more)
    result = []
    with tf.Graph().as_default(), tf.Session() as session:
        batch = tf.data.make_one_shot_iterator(input_fn({})).get_next()
        try:
            while len(result) < count:
                result.append(session.run(batch))
        except tf.errors.OutOfRangeError:
            pass
    return result


def labels(got):
    return [batch["label_ids"].tolist() for batch in got]


def test_one_pass_in_file_order(write):
    got = batches(write(range(10)))
    assert labels(got) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    first = got[0]
    assert {key: value.dtype for key, value in first.items()} == dict.fromkeys(first, np.int32)
    for number in range(4):
        expected = vars(feature(number, number))
        for key in ("input_ids", "input_mask", "segment_ids"):
            assert first[key][number].tolist() == expected[key]
    assert got[2]["is_real_example"].tolist() == [1, 0]
    assert labels(batches(write(range(10)), drop=True)) == labels(got)[:2]
    assert labels(batches(write(range(10)), pad_remainder=True))[2] == [8, 9, 9, 9]


def test_labels_of_regression_are_floats(write):
    path = write([0.5, 1.25, 3.0])
    for options in ({"task": "sts-b"}, {"task": "tsv", "is_regression": True}):
        (batch,) = batches(path, **options)
        assert batch["label_ids"].dtype == np.float32
        assert batch["label_ids"].tolist() == [0.5, 1.25, 3.0]
        assert batch["input_ids"].dtype == np.int32


def test_training_is_shuffled_and_without_end(write):
    path = write(range(20))
    got = labels(batches(path, training=True, bsz=5, count=8, seed=1))
    epochs = np.array(got).reshape(2, 20)
    assert [sorted(epoch) for epoch in epochs.tolist()] == [list(range(20))] * 2
    assert epochs[0].tolist() != epochs[1].tolist() != list(range(20))
    rest = batches(path, training=True, bsz=5, count=3, seed=1, start_batch=5)
    assert labels(rest) == got[5:]
    assert labels(batches(path, training=True, bsz=5, count=8, seed=2)) != got


def test_workers_share_the_batches(write):
    path = write(range(20))
    whole = labels(batches(path, training=True, count=6, seed=1))
    for rank in range(2):
        share = batches(path, training=True, count=3, seed=1, rank=rank, num_workers=2)
        assert labels(share) == whole[rank::2]


def test_padding_is_cut_off(write):
    path = write(range(20))
    whole, cut = batches(path, bsz=5), batches(path, bsz=5, trim_padding=True)
    assert [batch["input_ids"].shape[1] for batch in cut] == [16, 16, 32, 32]
    for a, b in zip(whole, cut, strict=True):
        length = b["input_ids"].shape[1]
        for key in a:
            np.testing.assert_array_equal(
                a[key][:, :length] if a[key].ndim == 2 else a[key], b[key]
            )
        assert not a["input_ids"][:, length:].any()


def test_several_sequences_in_a_feature(write):
    (batch,) = batches(write(range(3)), length=LENGTH // 4, multiple=4)
    assert batch["input_ids"].shape == (3, LENGTH)


def test_no_tpu(write):
    with pytest.raises(ValueError, match="TPU"):
        file_based_input_fn_builder("x", 8, True, True, "mrpc", True, 2)


class TestInMemory:
    @staticmethod
    def batches(values, training=False, drop=False, count=100, length=LENGTH):
        features = [feature(number, value) for number, value in enumerate(values)]
        input_fn = input_fn_builder(features, length, training, drop)
        result = []
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(1)
            batch = tf.data.make_one_shot_iterator(input_fn({"batch_size": 4})).get_next()
            try:
                while len(result) < count:
                    result.append(session.run(batch))
            except tf.errors.OutOfRangeError:
                pass
        return result

    def test_gives_what_a_file_gives(self, write):
        from_file = batches(write(range(10)))
        for ours, expected in zip(self.batches(range(10)), from_file, strict=True):
            assert ours.keys() == expected.keys() - {"is_real_example"}
            for key, value in ours.items():
                assert value.dtype == np.int32
                np.testing.assert_array_equal(value, expected[key])
        assert labels(self.batches(range(10), drop=True)) == labels(from_file)[:2]

    def test_training_gives_every_feature_once_an_epoch(self):
        got = np.ravel(labels(self.batches(range(8), training=True, count=6)))
        epochs = got.reshape(3, 8)
        assert [sorted(epoch) for epoch in epochs.tolist()] == [list(range(8))] * 3
        assert len({tuple(epoch) for epoch in epochs.tolist()}) == 3

    def test_numbers(self):
        (got,) = self.batches([0.5, 2.0, 5.0])
        assert got["label_ids"].dtype == np.float32
        assert got["label_ids"].tolist() == [0.5, 2.0, 5.0]

    def test_another_length(self):
        with pytest.raises(ValueError, match="reshape"):
            self.batches(range(3), length=LENGTH // 2)
