"""input_fn_builder(): the order of the data, batches, and padding that is cut off."""

import collections

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from runtime.data.records import shuffled_numbers
from runtime.data.tf_example import serialize
from squad_utils import input_fn_builder

LENGTH = 64
SEQUENCES = ("input_ids", "input_mask", "segment_ids", "p_mask")


def make_record(number, used=10, mask=None, length=LENGTH):
    """A feature of `used` tokens, whose unique id is its number."""
    mask = mask or [1] * used + [0] * (length - used)
    return serialize(
        {
            "unique_ids": [number],
            "input_ids": [(number + 1) * 100 + i if m else 0 for i, m in enumerate(mask)],
            "input_mask": mask,
            "segment_ids": [int(bool(m) and i > 4) for i, m in enumerate(mask)],
            "p_mask": [1 - m for m in mask],
            "start_positions": [number % 50],
            "end_positions": [number % 50 + 3],
            "is_impossible": [number % 2],
        }
    )


@pytest.fixture
def write(tmp_path):
    def write(records, name="records"):
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            for record in records:
                writer.write(record)
        return str(tmp_path / name)

    return write


def batches(
    path, count, training, bsz, drop=True, v2=False, length=LENGTH, graph_seed=None, **options
):
    """The first `count` batches."""
    input_fn = input_fn_builder(path, length, training, drop, False, bsz, v2, **options)
    result = []
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(graph_seed)
        batch = tf.data.make_one_shot_iterator(input_fn({})).get_next()
        assert all(tensor.dtype == tf.int32 for tensor in batch.values())
        try:
            while len(result) < count:
                result.append(session.run(batch))
        except tf.errors.OutOfRangeError:
            pass
    return result


def ids(got):
    return [batch["unique_ids"].tolist() for batch in got]


def flat(got):
    return [number for batch in ids(got) for number in batch]


def same(a, b):
    return len(a) == len(b) and all(
        x.keys() == y.keys() and all(np.array_equal(x[k], y[k]) for k in x)
        for x, y in zip(a, b, strict=True)
    )


class TestTrainingOrder:
    @pytest.mark.parametrize(("count", "bsz"), [(12, 4), (10, 4), (3, 8), (7, 1), (1, 2)])
    def test_every_epoch_has_every_record_once(self, write, count, bsz):
        path = write(map(make_record, range(count)))
        epochs = 4
        got = flat(batches(path, -(-epochs * count // bsz), True, bsz))
        for epoch in range(epochs):
            assert sorted(got[epoch * count : (epoch + 1) * count]) == list(range(count))

    def test_epochs_differ_and_mix(self, write):
        path = write(map(make_record, range(100)))
        got = np.array(flat(batches(path, 30, True, 10))).reshape(3, 100)
        assert len({tuple(epoch) for epoch in got.tolist()}) == 3
        # A shuffle over the whole file moves a record by a third of its length on average.
        moved = np.abs(got - np.arange(100)).mean(axis=1)
        assert (moved > 20).all()

    def test_a_function_of_the_seed(self, write):
        path = write(map(make_record, range(30)))
        first, again, other = (batches(path, 6, True, 5, seed=seed) for seed in (7, 7, 8))
        assert same(first, again)
        assert ids(first) != ids(other)

    def test_not_of_the_graphs_seed(self, write):
        path = write(map(make_record, range(30)))
        one, other = (batches(path, 6, True, 5, graph_seed=seed) for seed in (1, 2))
        assert same(one, other)

    @pytest.mark.parametrize("start", [1, 3, 7, 24])
    def test_start_batch_goes_on_where_a_run_stopped(self, write, start):
        path = write(map(make_record, range(11)))
        whole = batches(path, 30, True, 4, trim_padding=True)
        rest = batches(path, 30 - start, True, 4, trim_padding=True, start_batch=start)
        assert same(rest, whole[start:])

    @pytest.mark.parametrize("num_workers", [2, 3, 8])
    def test_workers_share_the_batches_of_one(self, write, num_workers):
        path = write(map(make_record, range(11)))
        whole = batches(path, 6 * num_workers, True, 4, start_batch=num_workers)
        for rank in range(num_workers):
            options = {"start_batch": num_workers, "rank": rank, "num_workers": num_workers}
            assert same(batches(path, 6, True, 4, **options), whole[rank::num_workers])

    def test_batches_straddle_epochs_and_are_full(self, write):
        path = write(map(make_record, range(5)))
        got = batches(path, 10, True, 4)
        assert [len(b) for b in ids(got)] == [4] * 10
        counts = collections.Counter(flat(got))
        assert set(counts.values()) == {8}

    def test_several_files_are_shuffled_together(self, write):
        paths = [
            write(map(make_record, range(10)), "a"),
            write(map(make_record, range(10, 30)), "b"),
        ]
        got = flat(batches(paths, 6, True, 5))
        assert sorted(got) == list(range(30))
        assert {n < 10 for n in got[:10]} == {True, False}
        joined = write(map(make_record, range(30)), "joined")
        assert got == flat(batches(joined, 6, True, 5))

    def test_numbers_of_a_far_step(self):
        numbers = shuffled_numbers(1000, 32, 1, 10**9)
        assert len(set(numbers.tolist())) == 32 and 0 <= numbers.min() <= numbers.max() < 1000

    def test_content_belongs_together(self, write):
        """All fields of an example are from the same record."""
        path = write(map(make_record, range(20)))
        for batch in batches(path, 8, True, 5, v2=True):
            assert batch.keys() == {
                *("unique_ids", "start_positions", "end_positions", "is_impossible"),
                *SEQUENCES,
            }
            numbers = batch["unique_ids"]
            assert (batch["input_ids"][:, 0] == (numbers + 1) * 100).all()
            assert (batch["start_positions"] == numbers % 50).all()
            assert (batch["end_positions"] == numbers % 50 + 3).all()
            assert (batch["is_impossible"] == numbers % 2).all()


class TestPrediction:
    @pytest.mark.parametrize(
        ("drop", "expected"), [(False, [4, 4, 3]), (True, [4, 4])], ids=["kept", "dropped"]
    )
    def test_file_order_once(self, write, drop, expected):
        path = write(map(make_record, range(11)))
        got = batches(path, 100, False, 4, drop=drop)
        assert [len(b) for b in ids(got)] == expected
        assert flat(got) == list(range(sum(expected)))
        assert got[0].keys() == {"unique_ids", "input_ids", "input_mask", "segment_ids"}

    def test_several_files_one_after_the_other(self, write):
        paths = [write(map(make_record, r), str(r[0])) for r in (range(3), range(3, 10))]
        assert flat(batches(paths, 100, False, 4, drop=False)) == list(range(10))

    def test_one_file_in_a_list(self, write):
        path = write(map(make_record, range(5)))
        assert flat(batches([path], 100, False, 2, drop=False)) == list(range(5))

    def test_p_mask_for_version_2(self, write):
        (batch,) = batches(write([make_record(0, used=20)]), 9, False, 1, v2=True)
        assert batch["p_mask"].tolist() == [[0] * 20 + [1] * 44]


class TestPadding:
    def test_the_last_batch_is_filled_up(self, write):
        path = write(map(make_record, range(5)))
        got = ids(batches(path, 9, False, 4, drop=False, pad_remainder=True))
        assert got == [[0, 1, 2, 3], [4, 4, 4, 4]]

    @pytest.mark.parametrize("is_training", [True, False])
    def test_every_shape_is_static(self, write, is_training):
        path = write(map(make_record, range(5)))
        input_fn = input_fn_builder(
            path, LENGTH, is_training, False, False, 4, False, pad_remainder=True
        )
        with tf.Graph().as_default():
            shapes = tf.data.get_output_shapes(input_fn({}))
        assert shapes["input_ids"] == [4, LENGTH]
        assert all(shape.is_fully_defined() for shape in shapes.values())


class TestTrimming:
    @pytest.mark.parametrize(
        ("used", "length"),
        [(1, 16), (15, 16), (16, 16), (17, 32), (32, 32), (48, 48), (49, 64), (64, 64)],
    )
    def test_cut_to_the_longest_rounded_up(self, write, used, length):
        path = write([make_record(0, used=1), make_record(1, used=used), make_record(2, used=1)])
        (whole,) = batches(path, 9, False, 3, v2=True)
        (cut,) = batches(path, 9, False, 3, v2=True, trim_padding=True)
        assert whole["input_ids"].shape == (3, LENGTH)
        for key in SEQUENCES:
            assert np.array_equal(cut[key], whole[key][:, :length])
        assert cut["input_mask"].sum() == whole["input_mask"].sum() == used + 2

    def test_every_batch_for_itself(self, write):
        path = write(make_record(i, used=u) for i, u in enumerate([60, 3, 20, 3, 3]))
        got = batches(path, 9, False, 2, drop=False, trim_padding=True)
        assert [batch["input_ids"].shape for batch in got] == [(2, 64), (2, 32), (1, 16)]

    def test_fields_of_one_number_stay(self, write):
        path = write(make_record(i, used=5 + i) for i in range(40))
        plain, cut = (batches(path, 8, True, 20, trim_padding=trim) for trim in (False, True))
        for a, b in zip(plain, cut, strict=True):
            for key in ("unique_ids", "start_positions", "end_positions", "is_impossible"):
                assert b[key].shape == (20,) and np.array_equal(a[key], b[key])

    def test_a_mask_with_holes_is_not_cut_inside(self, write):
        mask = [1, 0, 0, 1] + [0] * 30 + [1] + [0] * 29
        (batch,) = batches(write([make_record(0, mask=mask)]), 9, False, 1, trim_padding=True)
        assert batch["input_mask"].tolist() == [mask[:48]]

    def test_never_longer_than_the_features(self, write):
        path = write([make_record(0, used=19, length=20)])
        (batch,) = batches(path, 9, False, 1, length=20, trim_padding=True)
        assert batch["input_ids"].shape == (1, 20)


def test_tpu_is_refused():
    with pytest.raises(ValueError, match="TPU"):
        input_fn_builder("f", LENGTH, True, True, True, 8, False)


def test_a_damaged_training_file_is_an_error(write, tmp_path):
    path = write(map(make_record, range(3)))
    content = (tmp_path / "records").read_bytes()
    (tmp_path / "records").write_bytes(content[:-3])
    with pytest.raises(ValueError, match="ends inside record 2"):
        batches(path, 1, True, 2)
