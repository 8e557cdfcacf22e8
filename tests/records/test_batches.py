"""Batches of record files: order, distribution to workers, shapes, and trimmed padding."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.records.batches import Data, batch_spec
from albert.records.cached_file import Snapshot
from albert.records.order import shuffled_numbers
from albert.records.tf_example import serialize
from tests.helpers.files import write_records
from tests.helpers.sessions import batches_of

LENGTH = 64
SEQUENCES = ("input_ids", "input_mask", "segment_ids")
NUMBERS = ("unique_ids", "start_positions", "end_positions")


def make_record(number, used=10, mask=None, length=LENGTH):
    """Returns a feature of `used` tokens with its number as unique id."""
    mask = mask or [1] * used + [0] * (length - used)
    return serialize(
        {
            "unique_ids": [number],
            "input_ids": [(number + 1) * 100 + i if m else 0 for i, m in enumerate(mask)],
            "input_mask": mask,
            "segment_ids": [int(bool(m) and i > 4) for i, m in enumerate(mask)],
            "start_positions": [number % 50],
            "end_positions": [number % 50 + 3],
        }
    )


@pytest.fixture
def write(tmp_path):
    return lambda records, name="records": write_records(tmp_path / name, records)


def data_of(paths, length=LENGTH, **options):
    spec = {key: tf.io.FixedLenFeature([length], tf.int64) for key in SEQUENCES}
    spec |= {key: tf.io.FixedLenFeature([], tf.int64) for key in NUMBERS}
    # Batches do not depend on the counts.
    return Data([paths] if isinstance(paths, str) else paths, spec, 0, 0, **options)


def read(data, count, bsz, seed=None, start=0, graph_seed=None, **orders):
    batches = batches_of(data.input_fn(bsz, seed, start, **orders), count, graph_seed)
    assert all(value.dtype == np.int32 for batch in batches for value in batch.values())
    return batches


def trained_on(paths, count, bsz, seed=1, start=0, graph_seed=None, **options):
    return read(data_of(paths, **options), count, bsz, seed, start, graph_seed)


def predicted(paths, bsz, **options):
    return read(data_of(paths, **options), 1000, bsz)


def ids(got):
    return [batch["unique_ids"].tolist() for batch in got]


def flat(got):
    return [number for batch in ids(got) for number in batch]


class TestTrainingOrder:
    @pytest.mark.parametrize(("count", "bsz"), [(12, 4), (10, 4), (3, 8), (1, 2)])
    def test_every_epoch_has_every_record_once(self, write, count, bsz):
        path = write(map(make_record, range(count)))
        got = trained_on(path, -(-4 * count // bsz), bsz, seed=7)
        assert ids(got)[1] == shuffled_numbers(count, bsz, 7, 1).tolist()
        for batch in got:
            numbers = batch["unique_ids"]
            assert len(numbers) == bsz and batch.keys() == {*NUMBERS, *SEQUENCES}
            assert (batch["input_ids"][:, 0] == (numbers + 1) * 100).all()
            assert (batch["end_positions"] - 3 == batch["start_positions"]).all()
            assert (batch["start_positions"] == numbers % 50).all()
        epochs = np.array(flat(got)[: 4 * count]).reshape(4, count)
        assert (np.sort(epochs) == np.arange(count)).all()

    def test_the_order_is_a_function_of_the_seed(self, write):
        """The graph's seed does not matter; epochs differ, and each shuffles the whole file."""
        path = write(map(make_record, range(100)))
        first, again = (trained_on(path, 30, 10, seed=7, graph_seed=seed) for seed in (1, 2))
        np.testing.assert_equal(first, again)
        assert ids(first)[:6] != ids(trained_on(path, 6, 10, seed=8))
        epochs = np.array(flat(first)).reshape(3, 100)
        assert len({tuple(epoch) for epoch in epochs.tolist()}) == 3
        # A shuffle over the whole file moves a record by a third of its length on average.
        assert (np.abs(epochs - np.arange(100)).mean(axis=1) > 20).all()

    @pytest.mark.parametrize("workers", [1, 3])
    def test_workers_and_resumed_runs_get_the_same_batches(self, write, as_worker, workers):
        path = write(map(make_record, range(11)))
        whole, to_predict = trained_on(path, 30, 4, trims=True), predicted(path, 2)
        spread = [to_predict[number * 6 // 4] for number in range(4)]
        for rank in range(workers):
            as_worker(rank, workers)
            rest = trained_on(path, 18 // workers, 4, start=12, trims=True)
            np.testing.assert_equal(rest, whole[12 + rank :: workers])
            np.testing.assert_equal(predicted(path, 2), to_predict[rank::workers])
            np.testing.assert_equal(predicted(path, 2, max_batches=4), spread[rank::workers])


def test_prediction_reads_each_record_once_in_file_order(write):
    paths = [write(map(make_record, part), str(part[0])) for part in (range(3), range(3, 11))]
    assert ids(predicted(paths, 4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    # The bound on the number of batches is for one pass only.
    assert ids(predicted(paths, 2, max_batches=3)) == [[0, 1], [4, 5], [8, 9]]
    assert len(trained_on(paths, 7, 2, max_batches=3)) == 7


@pytest.mark.parametrize("seed", [1, None])
def test_on_the_hpu_every_shape_is_static(write, on_device, seed):
    on_device("hpu")
    data = data_of(write(map(make_record, range(5))), trims=True)
    got = read(data, 2, 4, seed)
    assert seed is not None or ids(got) == [[0, 1, 2, 3], [4, 4, 4, 4]]
    assert {batch[key].shape for batch in got for key in SEQUENCES} == {(4, LENGTH)}
    with tf.Graph().as_default():
        specs = data.input_fn(4, seed)().element_spec
    assert all(spec.shape.is_fully_defined() for spec in specs.values())
    assert specs == batch_spec(data.spec, 4, trims=True)


class TestTrimming:
    def test_a_batch_is_trimmed_behind_the_last_token_of_its_longest_rounded_up(self, write):
        lengths = {1: 16, 16: 16, 17: 32, 48: 48, 49: 64, 64: 64}
        used = [number for longest in lengths for number in (1, longest, 1)]
        path = write(make_record(i, used=u) for i, u in enumerate(used))
        pairs = zip(predicted(path, 3), predicted(path, 3, trims=True), strict=True)
        for (longest, length), (whole, cut) in zip(lengths.items(), pairs, strict=True):
            assert whole["input_ids"].shape == (3, LENGTH)
            np.testing.assert_equal(cut, whole | {key: whole[key][:, :length] for key in SEQUENCES})
            assert cut["input_mask"].sum() == whole["input_mask"].sum() == longest + 2
        mask = [1, 0, 0, 1] + [0] * 30 + [1] + [0] * 29
        (batch,) = predicted(write([make_record(0, mask=mask)]), 1, trims=True)
        assert batch["input_mask"].tolist() == [mask[:48]]
        path = write([make_record(0, used=19, length=20)])
        (batch,) = predicted(path, 1, length=20, trims=True)
        assert batch["input_ids"].shape == (1, 20)

    def test_several_sequences_are_trimmed_to_the_longest_and_labels_never(self, write):
        """Trimming affects the last axis only; labels stay, even as many as the tokens."""
        mask = np.arange(LENGTH) < np.array([[3, 20, 5, 1], [2, 2, 17, 2]])[..., None]

        def record(mask):
            mask = mask.ravel().astype(int).tolist()
            return serialize({**dict.fromkeys(SEQUENCES, mask), "label_ids": mask, "n": [1, 0]})

        path = write(map(record, mask))
        spec = {key: tf.io.FixedLenFeature([4, LENGTH], tf.int64) for key in SEQUENCES}
        spec |= {"label_ids": spec["input_ids"], "n": tf.io.FixedLenFeature([2], tf.int64)}
        (cut,) = read(Data([path], spec, 2, 2, trims=True), 9, 2)
        expected = dict.fromkeys(SEQUENCES, mask[..., :32]) | {"label_ids": mask, "n": [[1, 0]] * 2}
        np.testing.assert_equal(cut, expected)
        specs = {key: tf.TensorSpec([2, 4, None], tf.int32) for key in SEQUENCES}
        specs["label_ids"] = tf.TensorSpec([2, 4, LENGTH], tf.int32)
        specs |= {"n": tf.TensorSpec([2, 2], tf.int32), "rate": tf.TensorSpec([2], tf.float32)}
        spec["rate"] = tf.io.FixedLenFeature([], tf.float32)
        assert batch_spec(spec, 2, trims=True) == specs


class TestBuckets:
    """Puts 32 records of 1 to 64 tokens into buckets of 16, 40 and 64, 12 of them a step."""

    BUCKETS = (16, 40, 64)
    STEPS = 8

    @pytest.fixture
    def data(self, write):
        path = write(make_record(i, used=2 * i + 1 + i % 2) for i in range(32))
        return data_of(path, trims=True, buckets=self.BUCKETS)

    def trained(self, data, bsz=12, start=0):
        order = data.training_order(12, 7)
        return read(data, (self.STEPS - start) * 12 // bsz, bsz, 7, start, training_order=order)

    def widths(self, got):
        return [batch["input_ids"].shape[1] for batch in got]

    def test_a_step_has_one_length_and_prediction_uses_the_same(self, data):
        got = self.trained(data)
        assert {*self.widths(got)} == {*self.BUCKETS}
        for batch, width in zip(got, self.widths(got), strict=True):
            # The smallest bucket that fits each record.
            fitting = np.array(self.BUCKETS).searchsorted(batch["input_mask"].sum(axis=1))
            assert {self.BUCKETS[number] for number in fitting} == {width}
        np.testing.assert_equal(self.trained(data, start=5), got[5:], "as of a resumed run")
        cut = self.trained(data, bsz=4)
        assert flat(cut) == flat(got), "as of one that accumulates"
        assert self.widths(cut) == [width for width in self.widths(got) for _ in range(3)]
        got = read(data, 99, 5, order=data.order())
        assert self.widths(got) == [64, 64, 64, 40, 40, 16, 16]
        assert flat(got) == list(range(31, -1, -1))

    @pytest.mark.parametrize("buckets", [BUCKETS, (64,)])
    def test_the_hpu_gets_only_listed_lengths(self, data, on_device, buckets):
        """With one length, the graph knows it."""
        on_device("hpu")
        data = data._replace(buckets=buckets)
        order = data.order()
        assert (order is None) == (len(buckets) == 1)
        for got in (self.trained(data), read(data, 99, 5, order=order)):
            assert {*self.widths(got)} == {*buckets}
        with tf.Graph().as_default():
            specs = data.input_fn(12, 7, 0, data.training_order(12, 7))().element_spec
        assert specs == batch_spec(data.spec, 12, True, buckets)
        assert specs["input_ids"].shape.as_list() == [12, 64 if len(buckets) == 1 else None]


def test_long_records_come_first(write):
    used = enumerate([3, 20, 3, 64, 20, 1])
    data = data_of(write(make_record(number, used=u) for number, u in used), trims=True)
    assert data.order().tolist() == [3, 1, 4, 0, 2, 5]
    assert data._replace(trims=False).order() is None
    assert data._replace(max_batches=1).order() is None


def test_a_file_replaced_before_it_is_opened_is_an_error(write):
    path = write(map(make_record, range(3)))
    data = data_of(path, snapshot=Snapshot.of([path]))
    assert flat(read(data, 9, 3)) == [0, 1, 2]
    write(map(make_record, range(4)))
    with pytest.raises(UserError):
        read(data, 9, 3)
