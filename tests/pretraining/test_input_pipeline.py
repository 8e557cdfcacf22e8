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


@pytest.fixture(scope="module")
def options(encoder):
    """Of records "masked", and of records "plain" whose masks are drawn."""
    masker = Masker(MaskingOptions(4, 0.15), encoder.mask_id, encoder.tokenizer.size)
    masked = RecordOptions(32, 4, encoder.tokenizer.size, None, 1)
    return {"masked": masked, "plain": masked._replace(masker=masker)}


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
    @pytest.fixture
    def data(self, files, options, name):
        return data_of(files[name], options[name])

    def test_masks_hide_what_the_labels_say(self, data, encoder):
        found = batches_of(data, most=20)
        for key, (shape, dtype) in KEYS.items():
            assert found[0][key].shape == shape and found[0][key].dtype == dtype, key
        assert set(found[0]) - set(KEYS) <= {"token_boundary"}
        weights = np.concatenate([batch["masked_lm_weights"] for batch in found])
        assert 2 < weights.sum(axis=1).mean() <= 4
        ids = [np.take_along_axis(b["input_ids"], b["masked_lm_positions"], 1) for b in found]
        ids = np.concatenate(ids)[weights > 0]
        labels = np.concatenate([b["masked_lm_ids"] for b in found])[weights > 0]
        share = (ids == encoder.mask_id).mean()
        assert abs(share - 0.8) < 4 * np.sqrt(0.16 / len(ids))
        assert abs((ids == labels).mean() - 0.1) < 0.06
        assert not (labels == encoder.mask_id).any()

    def test_workers_and_a_resumed_run_take_their_batches_of_one_run(self, data):
        single = batches_of(data, most=10)
        for rank in (0, 1):
            mine = batches_of(data, start_batch=4, rank=rank, num_workers=2, most=3)
            for one, other in zip(mine, single[4 + rank :: 2], strict=True):
                assert_same(one, other)
        for one, other in zip(batches_of(data, start_batch=3, most=2), single[3:5], strict=True):
            assert_same(one, other)


def test_masks_are_others_with_another_seed(files, options):
    first, again, other = (
        batches_of(data_of(files["plain"], options["plain"]._replace(mask_seed=seed)), None, most=1)
        for seed in (1, 1, 2)
    )
    assert_same(first[0], again[0])
    np.testing.assert_array_equal(first[0]["segment_ids"], other[0]["segment_ids"])
    assert (first[0]["masked_lm_positions"] != other[0]["masked_lm_positions"]).any()


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_scored_batches_are_spread_over_the_records(files, options, num_workers):
    """The 4 batches are those that every fourth of the records begins with."""
    path = files["masked"]
    count = -(-len(RecordFile([path])) // 8)
    every = batches_of(data_of(path, options["masked"]), None, most=count)
    data = data_of(path, options["masked"], max_batches=4)
    for rank in range(num_workers):
        mine = batches_of(data, None, rank=rank, num_workers=num_workers)
        expected = [every[number * count // 4] for number in range(rank, 4, num_workers)]
        for one, other in zip(mine, expected, strict=True):
            assert_same(one, other)


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
    def test_headers_are_no_record_files(self, files, tmp_path):
        """What ends in .json is left out if it is a header of ours only."""
        folder = pathlib.Path(files["plain"]).parent
        assert record_files(f"{folder}/*", "eval_file") == [files["masked"], files["plain"]]
        with pytest.raises(UserError, match="--eval_file: .*none.* matches no file"):
            record_files(f"{folder}/none*", "eval_file")
        names = [f"{tmp_path}/part", f"{tmp_path}/part.json"]
        for name in names:
            shutil.copy(files["masked"], name)
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
    def test_other_records_are_refused(self, files, options, changes, words):
        with pytest.raises(UserError) as error:
            check_files([files["masked"]], options["masked"]._replace(**changes))
        for word in [files["masked"], *words]:
            assert word in str(error.value)

    def test_records_without_masks_need_some_and_those_with_masks_none(self, files, options):
        check_files([files["plain"]], options["plain"])
        with pytest.raises(UserError, match=r"plain .*no masks.* --masked_lm_budget"):
            check_files([files["plain"]], options["masked"])
        with pytest.raises(UserError, match="--masked_lm_prob=0"):
            check_files([files["masked"]], options["plain"])

    @pytest.mark.parametrize("position", [100, -100, 20000])
    def test_a_flipped_bit_is_noticed(self, files, options, tmp_path, position):
        """With a header or without; it may be far beyond the first records."""
        path, header = tmp_path / "masked", tmp_path / "masked.json"
        for name in (path, header):
            shutil.copy(pathlib.Path(files["masked"]).with_name(name.name), name)
        check_files([str(path)], options["masked"])
        content = bytearray(path.read_bytes())
        content[position] ^= 1
        path.write_bytes(content)
        for _ in range(2):
            with pytest.raises(UserError, match=r"/masked is .*damaged"):
                check_files([str(path)], options["masked"])
            header.unlink(missing_ok=True)

    @pytest.mark.parametrize(("rank", "local_rank"), [(0, 0), (8, 0), (1, 1), (9, 1)])
    def test_one_worker_of_each_host_reads_on(
        self, files, options, tmp_path, monkeypatch, rank, local_rank
    ):
        """Its files may be others than those of rank 0."""
        monkeypatch.setattr(distributed, "rank", lambda: rank)
        monkeypatch.setattr(distributed, "local_rank", lambda: local_rank)
        content = bytearray(pathlib.Path(files["masked"]).read_bytes())
        content[-100] ^= 1
        (tmp_path / "masked").write_bytes(content)
        reads_on = pytest.raises(UserError) if local_rank == 0 else contextlib.nullcontext()
        with reads_on:
            check_files([str(tmp_path / "masked")], options["masked"])

    def test_a_truncated_header(self, files, options, tmp_path):
        shutil.copy(files["masked"], tmp_path)
        header = pathlib.Path(files["masked"] + ".json").read_text()
        (tmp_path / "masked.json").write_text(header[:200])
        assert record_files(f"{tmp_path}/*", "input_file") == [f"{tmp_path}/masked"]
        with pytest.raises(UserError, match=r"/masked is not what its header .*masked\.json"):
            check_files([f"{tmp_path}/masked"], options["masked"])

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
    def test_values_out_of_range(self, files, options, tmp_path, key, value):
        """In one of the first records, and in a later one that is looked at."""

        def change(feature):
            (feature.float_list if "weights" in key else feature.int64_list).value[0] = value

        for number in (0, 200):
            path = with_a_change(files["masked"], tmp_path / "other", number, key, change)
            with pytest.raises(UserError, match=f"/other: record {number} has {value} in {key}, "):
                check_files([path], options["masked"])

    @pytest.mark.parametrize("how", ["missing", "one more", "another kind"])
    def test_features_that_cannot_be_read(self, files, options, tmp_path, how):
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

        for key in [*KEYS, "token_boundary"]:
            name = "plain" if key == "token_boundary" else "masked"
            path = with_a_change(files[name], tmp_path / "other", 0, key, change)
            with pytest.raises(UserError, match=rf"/other: record 0 has \d+ values of {key} \("):
                check_files([path], options[name])

    def test_other_files_are_refused(self, files, tmp_path, options):
        path = tmp_path / "file"
        with tf.io.TFRecordWriter(str(path)) as writer:
            writer.write(b"\xff\xff")
        of_something_else = path.read_bytes()
        cut = pathlib.Path(files["masked"]).read_bytes()[:-1000]
        for content, message in (
            (b"", "no record"),
            (b"this is no file of records at all", "no file of records"),
            (of_something_else, r"no tf\.train\.Example"),
            (cut, "/file is .*damaged"),
        ):
            path.write_bytes(content)
            with pytest.raises(UserError, match=message):
                check_files([str(path)], options["masked"])

    def test_a_later_record_of_another_kind(self, files, options, tmp_path):
        """It shows when it is read, and is no traceback then either."""
        path = str(tmp_path / "mixed")
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(8):
                writer.write(b"\x0a\x00")
        data = data_of(files["masked"], options["masked"])
        with pytest.raises(UserError, match="mixed"), reading_records([path]):
            batches_of(data._replace(files=[path]), most=1)
