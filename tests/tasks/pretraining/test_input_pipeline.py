"""Batches of pretraining records: drawn masks, distribution to workers, checks of files."""

import contextlib
import math
import pathlib
import shutil
from unittest import mock

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.data.records import RecordFile, reading_records
from albert.distributed import collectives
from albert.distributed.collectives import Worker
from albert.tasks.pretraining.input_pipeline import check_files
from albert.tasks.pretraining.task import RecordSplit
from albert.tasks.pretraining.text import matching_files
from tests.helpers.files import write_records


def data_of(path, options, max_batches=None):
    return RecordSplit("training", [path], options, max_batches, 8).prepared()


def batches_of(data, shuffle_seed=7, start_batch=0, rank=0, num_workers=1, most=None):
    """Returns a worker's batches of 8: all of them, or the first `most`."""
    batches = []
    with (
        mock.patch.object(collectives, "_worker", Worker(rank, num_workers)),
        tf.Graph().as_default(),
        tf.Session() as session,
    ):
        dataset = data.input_fn(8, shuffle_seed, start_batch)()
        batch = tf.data.make_one_shot_iterator(dataset).get_next()
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while most is None or len(batches) < most:
                batches.append(session.run(batch))
    return batches


KEYS = {
    **dict.fromkeys(("input_ids", "input_mask", "segment_ids"), ((8, 32), np.int32)),
    **dict.fromkeys(("masked_lm_positions", "masked_lm_ids"), ((8, 4), np.int32)),
    "masked_lm_weights": ((8, 4), np.float32),
    "next_sentence_labels": ((8, 1), np.int32),
}


@pytest.mark.parametrize("name", ["masked", "plain"])
def test_masked_tokens_are_hidden_and_labeled(files, options, encoder, name):
    batches = batches_of(data_of(files[name], options[name]), most=20)
    for key, (shape, dtype) in KEYS.items():
        assert batches[0][key].shape == shape and batches[0][key].dtype == dtype, key
    assert set(batches[0]) - set(KEYS) <= {"token_boundary"}
    weights = np.concatenate([batch["masked_lm_weights"] for batch in batches])
    assert 2 < weights.sum(axis=1).mean() <= 4
    ids = [np.take_along_axis(b["input_ids"], b["masked_lm_positions"], 1) for b in batches]
    ids = np.concatenate(ids)[weights > 0]
    labels = np.concatenate([b["masked_lm_ids"] for b in batches])[weights > 0]
    # test_masking.py tests the fractions.
    assert (ids == encoder.mask_id).mean() > 0.7 and (ids == labels).any()
    assert not (labels == encoder.mask_id).any()


def test_masks_depend_on_the_seed_and_not_on_workers_or_resuming(files, options):
    data = data_of(files["plain"], options["plain"])
    single = batches_of(data, most=10)
    for rank in (0, 1):
        mine = batches_of(data, start_batch=4, rank=rank, num_workers=2, most=3)
        np.testing.assert_equal(mine, single[4 + rank :: 2])
    first, again, other = (
        batches_of(data_of(files["plain"], options["plain"]._replace(mask_seed=seed)), None, most=1)
        for seed in (1, 1, 2)
    )
    np.testing.assert_equal(first, again)
    np.testing.assert_array_equal(first[0]["segment_ids"], other[0]["segment_ids"])
    assert (first[0]["masked_lm_positions"] != other[0]["masked_lm_positions"]).any()


def test_scored_batches_are_spread_over_the_records(files, options):
    path = files["masked"]
    count = -(-len(RecordFile([path])) // 8)
    every = batches_of(data_of(path, options["masked"]), None, most=count)
    data = data_of(path, options["masked"], max_batches=4)
    for rank in range(3):
        mine = batches_of(data, None, rank=rank, num_workers=3)
        np.testing.assert_equal(mine, [every[k * count // 4] for k in range(rank, 4, 3)])


def with_a_change(source, path, number, key, change):
    records = list(tf.io.tf_record_iterator(source))
    example = tf.train.Example.FromString(records[number])
    change(example.features.feature[key])
    records[number] = example.SerializeToString()
    return write_records(path, records)


class TestWrongFiles:
    @pytest.mark.parametrize(
        ("name", "changes", "words"),
        [
            ("masked", {"seq_length": 64}, ": .*32 values of input_ids .* --max_seq_length is 64"),
            ("masked", {"max_predictions": 5}, ": .*4 .* masked_lm_pos.* --max_predic.* is 5"),
            ("masked", {"vocab_size": 10}, ": .*vocab_size 10.* another tokenizer"),
            ("plain", {"masker": None}, " has no masks.* --masked_lm_budget"),
        ],
    )
    def test_records_for_other_options_are_refused(self, files, options, name, changes, words):
        check_files([files[name]], options[name])
        with pytest.raises(UserError, match=f"^{files[name]}{words}"):
            check_files([files[name]], options[name]._replace(**changes))
        with pytest.raises(UserError, match="--masked_lm_prob=0"):
            check_files([files["masked"]], options["plain"])

    @pytest.mark.parametrize("position", [100, -100])
    def test_a_flipped_bit_is_detected(self, files, options, tmp_path, position):
        """With a header or without; it may be far behind the first records."""
        path, header = tmp_path / "masked", tmp_path / "masked.json"
        for name in (path, header):
            shutil.copy(pathlib.Path(files["masked"]).with_name(name.name), name)
        check_files([str(path)], options["masked"])
        content = bytearray(path.read_bytes())
        content[position] ^= 1
        path.write_bytes(content)
        message = r"/masked (is|does not match its header) .*damaged"
        for _ in range(2):
            with pytest.raises(UserError, match=message):
                check_files([str(path)], options["masked"])
            header.unlink(missing_ok=True)
        # A header that was truncated by a failed copy does not help either.
        content[position] ^= 1
        path.write_bytes(content)
        header.write_text(pathlib.Path(files["masked"] + ".json").read_text()[:200])
        assert matching_files(f"{tmp_path}/*", "input_file", with_derived=True) == [str(path)]
        with pytest.raises(UserError, match=r"/masked does not match its header .*masked\.json"):
            check_files([str(path)], options["masked"])

    def test_one_worker_per_host_checks_all_records(self, files, options, write):
        """Another host's files may differ from those of rank 0."""
        content = bytearray(pathlib.Path(files["masked"]).read_bytes())
        content[-100] ^= 1
        path = write(bytes(content))
        for rank, local_rank in ((0, 0), (8, 0), (9, 1)):
            reads_on = pytest.raises(UserError) if local_rank == 0 else contextlib.nullcontext()
            with mock.patch.object(collectives, "_worker", Worker(rank, 16, local_rank)), reads_on:
                check_files([path], options["masked"])

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("masked_lm_positions", 32),
            ("masked_lm_ids", 10**6),
            ("segment_ids", 2),
            ("input_mask", 2),
            ("input_ids", -1),
            ("next_sentence_labels", 2),
            ("masked_lm_weights", math.inf),
        ],
    )
    def test_values_out_of_range_are_refused(self, files, options, tmp_path, key, value):
        def change(feature):
            (feature.float_list if "weights" in key else feature.int64_list).value[0] = value

        for number in (0, 200):
            path = with_a_change(files["masked"], tmp_path / "other", number, key, change)
            with pytest.raises(UserError, match=f"/other: record {number} has {value} in {key}, "):
                check_files([path], options["masked"])

    @pytest.mark.parametrize("key", [*KEYS, "token_boundary"])
    def test_features_of_the_wrong_length_or_type_are_refused(self, files, options, tmp_path, key):
        kind, other = ("int64_list", "float_list")[:: -1 if key == "masked_lm_weights" else 1]

        def one_more(feature):
            getattr(feature, kind).value.append(0)

        def another_kind(feature):
            length = len(getattr(feature, kind).value)
            feature.Clear()
            getattr(feature, other).value.extend([0] * length)

        name = "plain" if key == "token_boundary" else "masked"
        for change in (one_more, another_kind):
            path = with_a_change(files[name], tmp_path / "other", 0, key, change)
            with pytest.raises(UserError, match=rf"/other: record 0 has \d+ values of {key} \("):
                check_files([path], options[name])

    def test_other_files_are_refused(self, files, tmp_path, options):
        path = tmp_path / "file"
        write_records(path, [b"\xff\xff"])
        for content, message in (
            (path.read_bytes(), r"is not a tf\.train\.Example"),
            (b"", "no record"),
            (b"this is no file of records at all", "is not a file of records"),
            (pathlib.Path(files["masked"]).read_bytes()[:-1000], "/file is .*damaged"),
        ):
            path.write_bytes(content)
            with pytest.raises(UserError, match=message):
                check_files([str(path)], options["masked"])
        path = write_records(tmp_path / "mixed", 8 * [b"\x0a\x00"])
        data = data_of(files["masked"], options["masked"])
        with pytest.raises(UserError, match="mixed"), reading_records([path]):
            batches_of(data._replace(files=[path]), most=1)
