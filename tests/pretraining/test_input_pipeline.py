"""Batches of pretraining records: drawn masks, shares of workers, checks of files."""

from __future__ import annotations

import contextlib
import math
import pathlib
import shutil
from unittest import mock

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from pretraining.input_pipeline import RecordOptions, check_files, record_files
from pretraining.masking import Masker, MaskingOptions
from pretraining.task import RecordPart
from runtime import distributed
from runtime.data.records import RecordFile, reading_records
from runtime.distributed import Worker
from runtime.errors import UserError


def record_options(encoder, with_masks, seed=1):
    masker = Masker(MaskingOptions(4, 0.15), encoder.mask_id, encoder.tokenizer.size)
    return RecordOptions(32, 4, encoder.tokenizer.size, None if with_masks else masker, seed)


def data_of(path, options, max_batches=None):
    return RecordPart("training", [path], options, max_batches, 8).prepared()


def batches_of(data, shuffle_seed=7, start_batch=0, rank=0, num_workers=1, most=None):
    """A worker's batches of 8, up to the end or so many of them."""
    found = []
    with (
        mock.patch.object(distributed, "_worker", Worker(rank, num_workers)),
        tf.Graph().as_default(),
        tf.Session() as session,
    ):
        dataset = data.input_fn(8, shuffle_seed, start_batch)()
        batch = tf.data.make_one_shot_iterator(dataset).get_next()
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while most is None or len(found) < most:
                found.append(session.run(batch))
    return found


def batches(path, options, count, shuffle_seed=7, max_batches=None, **which):
    found = batches_of(data_of(path, options, max_batches), shuffle_seed, most=count, **which)
    assert len(found) == count
    return found


def assert_same(one, other):
    assert one.keys() == other.keys()
    for key in one:
        np.testing.assert_array_equal(one[key], other[key])


KEYS = {
    "input_ids": ((8, 32), np.int32),
    "input_mask": ((8, 32), np.int32),
    "segment_ids": ((8, 32), np.int32),
    "masked_lm_positions": ((8, 4), np.int32),
    "masked_lm_ids": ((8, 4), np.int32),
    "masked_lm_weights": ((8, 4), np.float32),
    "next_sentence_labels": ((8, 1), np.int32),
}


@pytest.mark.parametrize("name", ["masked", "plain"])
class TestBatches:
    def test_keys_shapes_and_types(self, files, encoder, name):
        (batch,) = batches(files[name], record_options(encoder, name == "masked"), 1)
        for key, (shape, dtype) in KEYS.items():
            assert batch[key].shape == shape and batch[key].dtype == dtype, key
        assert set(batch) - set(KEYS) <= {"token_boundary"}

    def test_masks_hide_what_the_labels_say(self, files, encoder, name):
        options = record_options(encoder, name == "masked")
        found = batches(files[name], options, 20)
        weights = np.concatenate([batch["masked_lm_weights"] for batch in found])
        assert 2 < weights.sum(axis=1).mean() <= 4
        ids = np.concatenate(
            [np.take_along_axis(b["input_ids"], b["masked_lm_positions"], 1) for b in found]
        )[weights > 0]
        labels = np.concatenate([b["masked_lm_ids"] for b in found])[weights > 0]
        share = (ids == encoder.mask_id).mean()
        assert abs(share - 0.8) < 4 * np.sqrt(0.16 / len(ids))
        assert abs((ids == labels).mean() - 0.1) < 0.06
        assert not (labels == encoder.mask_id).any()

    def test_workers_share_the_batches_of_one(self, files, encoder, name):
        options = record_options(encoder, name == "masked")
        single = batches(files[name], options, 6, start_batch=4)
        for rank in (0, 1):
            mine = batches(files[name], options, 3, start_batch=4, rank=rank, num_workers=2)
            for number, batch in enumerate(mine):
                assert_same(batch, single[2 * number + rank])

    def test_a_resumed_run_goes_on(self, files, encoder, name):
        options = record_options(encoder, name == "masked")
        all_of_them = batches(files[name], options, 5)
        resumed = batches(files[name], options, 2, start_batch=3)
        for one, other in zip(all_of_them[3:], resumed, strict=True):
            assert_same(one, other)


def test_masks_are_others_every_epoch_and_with_another_seed(files, encoder):
    """The same records in file order, as batch 0 and with other numbers or seeds."""
    options = record_options(encoder, with_masks=False)
    (first,) = batches(files["plain"], options, 1, shuffle_seed=None)
    (again,) = batches(files["plain"], options, 1, shuffle_seed=None)
    (other,) = batches(files["plain"], options._replace(mask_seed=2), 1, shuffle_seed=None)
    assert_same(first, again)
    np.testing.assert_array_equal(first["segment_ids"], other["segment_ids"])
    assert (first["masked_lm_positions"] != other["masked_lm_positions"]).any()


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_no_more_than_max_batches_are_scored(files, encoder, num_workers):
    options = record_options(encoder, with_masks=True)
    data = data_of(files["masked"], options, max_batches=4)
    counts = [
        len(batches_of(data, None, rank=rank, num_workers=num_workers))
        for rank in range(num_workers)
    ]
    assert sum(counts) == 4 and max(counts) - min(counts) <= 1


@pytest.mark.parametrize("num_workers", [1, 2])
def test_scored_batches_are_spread_over_the_records(files, encoder, num_workers):
    """The 4 batches are those that every fourth of the records begins with."""
    options = record_options(encoder, with_masks=True)
    count = -(-len(RecordFile([files["masked"]])) // 8)
    every = batches(files["masked"], options, count, shuffle_seed=None)
    expected = [every[number * count // 4] for number in range(4)]
    for number, batch in enumerate(expected):
        rank, step = number % num_workers, number // num_workers
        workers = {"rank": rank, "num_workers": num_workers, "max_batches": 4}
        mine = batches(files["masked"], options, step + 1, shuffle_seed=None, **workers)
        assert_same(mine[step], batch)


def with_a_change(source, path, number, key, change):
    """Writes the records of a file, in one of which `change` is called with a feature."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for k, record in enumerate(tf.io.tf_record_iterator(source)):
            example = tf.train.Example.FromString(record)
            if k == number:
                change(example.features.feature[key])
            writer.write(example.SerializeToString())
    return str(path)


class TestWrongFiles:
    def test_headers_are_no_record_files(self, files):
        folder = pathlib.Path(files["plain"]).parent
        found = record_files(f"{folder}/*", "eval_file")
        assert found == [files["masked"], files["plain"]]
        with pytest.raises(UserError, match="--eval_file: .*none.* matches no file"):
            record_files(f"{folder}/none*", "eval_file")

    def test_no_file_is_left_out_for_its_name(self, files, tmp_path):
        """What ends in .json is left out if it is a header of ours only."""
        for name in ("part", "part.json"):
            shutil.copy(files["masked"], tmp_path / name)
        names = [f"{tmp_path}/part", f"{tmp_path}/part.json"]
        assert record_files(f"{tmp_path}/*", "input_file") == names

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"seq_length": 64}, ["input_ids", "32 values", "--max_seq_length is 64"]),
            (
                {"max_predictions": 5},
                ["masked_lm_positions", "4", "--max_predictions_per_seq is 5"],
            ),
            ({"vocab_size": 10}, ["vocab_size 10", "another tokenizer"]),
        ],
    )
    def test_other_records_are_refused(self, files, encoder, changes, words):
        options = record_options(encoder, with_masks=True)._replace(**changes)
        with pytest.raises(UserError) as error:
            check_files([files["masked"]], options)
        for word in [files["masked"], *words]:
            assert word in str(error.value)

    def test_records_without_masks_are_not_trained_on(self, files, encoder):
        with pytest.raises(UserError, match=r"plain .*no masks.* --masked_lm_budget"):
            check_files([files["plain"]], record_options(encoder, with_masks=True))

    @pytest.mark.parametrize("position", [100, -100, 20000])
    def test_a_flipped_bit_is_noticed(self, files, encoder, tmp_path, position):
        """With a header or without; it may be far beyond the first records."""
        for name in ("masked", "masked.json"):
            shutil.copy(pathlib.Path(files["masked"]).with_name(name), tmp_path)
        path, options = tmp_path / "masked", record_options(encoder, with_masks=True)
        check_files([str(path)], options)
        content = bytearray(path.read_bytes())
        content[position] ^= 1
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"/masked is .*damaged"):
            check_files([str(path)], options)
        (tmp_path / "masked.json").unlink()
        with pytest.raises(UserError, match=r"/masked is .*damaged"):
            check_files([str(path)], options)

    @pytest.mark.parametrize(("rank", "local_rank"), [(0, 0), (8, 0), (1, 1), (9, 1)])
    def test_one_worker_of_each_host_reads_on(
        self, files, encoder, tmp_path, monkeypatch, rank, local_rank
    ):
        """Its files may be others than those of rank 0."""
        monkeypatch.setattr(distributed, "rank", lambda: rank)
        monkeypatch.setattr(distributed, "local_rank", lambda: local_rank)
        content = bytearray(pathlib.Path(files["masked"]).read_bytes())
        content[-100] ^= 1
        (tmp_path / "masked").write_bytes(content)
        reads_on = pytest.raises(UserError) if local_rank == 0 else contextlib.nullcontext()
        with reads_on:
            check_files([str(tmp_path / "masked")], record_options(encoder, with_masks=True))

    def test_a_truncated_header(self, files, encoder, tmp_path):
        shutil.copy(files["masked"], tmp_path)
        header = pathlib.Path(files["masked"] + ".json").read_text()
        (tmp_path / "masked.json").write_text(header[:200])
        assert record_files(f"{tmp_path}/*", "input_file") == [f"{tmp_path}/masked"]
        with pytest.raises(UserError, match=r"/masked is not what its header .*masked\.json"):
            check_files([f"{tmp_path}/masked"], record_options(encoder, with_masks=True))

    def test_a_truncated_file(self, files, encoder, tmp_path):
        content = pathlib.Path(files["masked"]).read_bytes()
        (tmp_path / "cut").write_bytes(content[:-1000])
        with pytest.raises(UserError, match="/cut is .*damaged"):
            check_files([str(tmp_path / "cut")], record_options(encoder, with_masks=True))

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("masked_lm_positions", 32),
            ("segment_ids", 2),
            ("input_mask", -1),
            ("input_ids", -1),
            ("next_sentence_labels", 7),
            ("next_sentence_labels", -1),
            ("masked_lm_weights", math.nan),
            ("masked_lm_weights", math.inf),
            ("masked_lm_weights", -1.0),
        ],
    )
    @pytest.mark.parametrize("number", [0, 200])
    def test_values_out_of_range(self, files, encoder, tmp_path, key, value, number):
        """In one of the first records, and in a later one that is looked at."""

        def change(feature):
            (feature.float_list if "weights" in key else feature.int64_list).value[0] = value

        path = with_a_change(files["masked"], tmp_path / "other", number, key, change)
        with pytest.raises(UserError, match=f"/other: record {number} has {value} in {key}, "):
            check_files([path], record_options(encoder, with_masks=True))

    @pytest.mark.parametrize("key", [*KEYS, "token_boundary"])
    @pytest.mark.parametrize("how", ["missing", "one more", "another kind"])
    def test_features_that_cannot_be_read(self, files, encoder, tmp_path, key, how):
        def change(feature):
            integers, floats = list(feature.int64_list.value), list(feature.float_list.value)
            if how == "one more":
                (feature.int64_list if integers else feature.float_list).value.append(0)
                return
            feature.Clear()
            if how == "another kind" and integers:
                feature.float_list.value.extend(integers)
            elif how == "another kind":
                feature.int64_list.value.extend(map(int, floats))

        with_masks = key != "token_boundary"
        source = files["masked" if with_masks else "plain"]
        path = with_a_change(source, tmp_path / "other", 0, key, change)
        with pytest.raises(UserError, match=rf"/other: record 0 has \d+ values of {key} \("):
            check_files([path], record_options(encoder, with_masks))

    def test_masks_are_not_drawn_over_masks(self, files, encoder):
        options = record_options(encoder, with_masks=False)
        check_files([files["plain"]], options)
        with pytest.raises(UserError, match="--masked_lm_prob=0"):
            check_files([files["masked"]], options)

    @pytest.mark.parametrize("content", [b"", b"this is no file of records at all"])
    def test_other_files_are_refused(self, tmp_path, encoder, content):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(UserError, match="no record|no file of records"):
            check_files([str(tmp_path / "file")], record_options(encoder, with_masks=True))

    def test_records_of_something_else_are_refused(self, tmp_path, encoder):
        with tf.io.TFRecordWriter(str(tmp_path / "file")) as writer:
            writer.write(b"\xff\xff")
        with pytest.raises(UserError, match=r"no tf\.train\.Example"):
            check_files([str(tmp_path / "file")], record_options(encoder, with_masks=True))

    def test_a_later_record_of_another_kind(self, files, encoder, tmp_path):
        """It shows when it is read, and is no traceback then either."""
        path = str(tmp_path / "mixed")
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(8):
                writer.write(b"\x0a\x00")
        data = data_of(files["masked"], record_options(encoder, with_masks=True))
        with pytest.raises(UserError, match="mixed"), reading_records([path]):
            batches_of(data._replace(files=[path]), most=1)
