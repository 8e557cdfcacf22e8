"""Batches of pretraining records: drawn masks, workers, checks of files, and packed rows."""

import contextlib
import math
import pathlib
import shutil
import types
from unittest import mock

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert import modeling
from albert.core.errors import UserError
from albert.distributed import collectives
from albert.distributed.launcher import Worker
from albert.records.records import RecordFile, reading_records
from albert.tasks.pretraining.head import make_head
from albert.tasks.pretraining.input_pipeline import (
    PackedExamples,
    check_files,
    pack_examples,
    packed_spec,
    read_sizes,
)
from albert.tasks.pretraining.task import RecordSplit
from albert.tasks.pretraining.text import matching_files
from tests.helpers.encoders import load_random_values
from tests.helpers.files import write_records
from tests.helpers.sessions import batches_of


def data_of(path, options):
    return RecordSplit("training", [path], len(RecordFile([path])), options).prepared()


def worker_batches(data, seed=7, start_batch=0, rank=0, num_workers=1, most=None, order=None):
    """Returns a worker's batches of 8: all of them, or the first `most`."""
    with mock.patch.object(collectives, "_worker", Worker(rank, num_workers)):
        return batches_of(data.input_fn(8, seed, start_batch, order), most)


@pytest.mark.parametrize("name", ["masked", "plain"])
def test_masked_tokens_are_hidden_and_labeled(files, options, tokenizer, name):
    batches = worker_batches(data_of(files[name], options[name]), most=20)
    ids, positions, labels, weights = (
        np.concatenate([batch[key] for batch in batches])
        for key in ("input_ids", "masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
    )
    assert positions.shape == labels.shape == weights.shape == (160, 4)
    assert weights.dtype == np.float32 and 2 < weights.sum(axis=1).mean() <= 4
    ids, labels = np.take_along_axis(ids, positions, 1)[weights > 0], labels[weights > 0]
    assert (ids == tokenizer.mask_id).mean() > 0.7 and (ids == labels).any()
    assert not (labels == tokenizer.mask_id).any()


def test_masks_depend_on_the_seed_and_not_on_workers_or_resuming(files, options):
    data = data_of(files["plain"], options["plain"])
    single = worker_batches(data, most=10)
    for rank in (0, 1):
        mine = worker_batches(data, start_batch=4, rank=rank, num_workers=2, most=3)
        np.testing.assert_equal(mine, single[4 + rank :: 2])
    plain = options["plain"]
    first, again, other = (
        worker_batches(data_of(files["plain"], plain._replace(mask_seed=seed)), None, most=1)
        for seed in (1, 1, 2)
    )
    np.testing.assert_equal(first, again)
    np.testing.assert_array_equal(first[0]["segment_ids"], other[0]["segment_ids"])
    assert (first[0]["masked_lm_positions"] != other[0]["masked_lm_positions"]).any()


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
        assert matching_files(f"{tmp_path}/*", "input_file") == [str(path)]
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
            *(("masked_lm_positions", 32), ("masked_lm_ids", 10**6), ("input_ids", -1)),
            *((key, 2) for key in ("segment_ids", "input_mask", "next_sentence_labels")),
            *(("masked_lm_weights", math.inf), ("token_boundary", 2)),
        ],
    )
    def test_other_values_lengths_and_types_are_refused(self, files, options, tmp_path, key, value):
        name = "plain" if key == "token_boundary" else "masked"
        kind, other = ("int64_list", "float_list")[:: -1 if key == "masked_lm_weights" else 1]

        def another_value(feature):
            getattr(feature, kind).value[0] = value

        def one_more(feature):
            getattr(feature, kind).value.append(0)

        def another_kind(feature):
            length = len(getattr(feature, kind).value)
            feature.Clear()
            getattr(feature, other).value.extend([0] * length)

        wrong, count = f"{value} in {key}, ", rf"\d+ values of {key} \("
        cases = (another_value, 0, wrong), (another_value, 200, wrong)
        for change, number, message in (*cases, (one_more, 0, count), (another_kind, 0, count)):
            path = with_a_change(files[name], tmp_path / "other", number, key, change)
            with pytest.raises(UserError, match=f"/other: record {number} has {message}"):
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
            worker_batches(data._replace(files=[path]), most=1)


SEQ, BATCH = 32, 8
SIZES = {
    **{"hidden_size": 24, "intermediate_size": 40, "type_vocab_size": 2},
    **{"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 64},
    **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
}


def unpacked(batch):
    """Returns the examples of a packed batch in rows of their own, read from the packed rows."""
    rows = []
    for row, firsts in enumerate(batch["next_sentence_positions"]):
        for number in range(int(batch["next_sentence_weights"][row].sum())):
            columns = np.flatnonzero(batch["sequence_ids"][row] == number + 1)
            steps = np.arange(len(columns))
            np.testing.assert_array_equal(columns, steps + firsts[number])
            np.testing.assert_array_equal(batch["position_ids"][row, columns], steps)
            example = {
                key: np.pad(batch[key][row, columns], [0, SEQ - len(columns)])
                for key in ("input_ids", "input_mask", "segment_ids")
            }
            masked = batch["masked_lm_positions"][row]
            mine = np.isin(masked, columns) & (batch["masked_lm_weights"][row] > 0)
            padding = [0, 4 - mine.sum()]
            for key in ("masked_lm_ids", "masked_lm_weights"):
                example[key] = np.pad(batch[key][row, mine], padding)
            example["masked_lm_positions"] = np.pad(masked[mine] - firsts[number], padding)
            example["next_sentence_labels"] = batch["next_sentence_labels"][row, [number]]
            rows.append(example)
    return {key: np.stack([row[key] for row in rows]) for key in rows[0]}


@pytest.fixture(scope="module")
def packed(files, options):
    def make(name):
        paths, sizes = [files[name]], read_sizes([files[name]], options[name], 1)
        order = PackedExamples(sizes, SEQ, 7)
        count = len(RecordFile(paths))
        data = RecordSplit("training", paths, count, options[name], order).prepared()
        assert data.training_order(BATCH, 7) is order
        return types.SimpleNamespace(data=data, order=order, sizes=sizes)

    return make


@pytest.mark.parametrize("name", ["short", "plain"])
def test_rows_have_the_examples_of_their_records(packed, files, options, name):
    made = packed(name)
    order, data = made.order, made.data
    assert data.num_examples == order.num_rows < data.num_records == made.sizes.shape[1]
    with tf.Graph().as_default():
        shapes = tf.data.get_output_shapes(data.input_fn(BATCH, 7, 0, order)())
    assert all(shape.is_fully_defined() for shape in shapes.values())
    whole = worker_batches(data, most=order.num_rows // BATCH, order=order)
    assert len(whole) == order.num_rows // BATCH
    again = worker_batches(data, start_batch=2, most=1, order=order)[0]
    np.testing.assert_equal(again, whole[2])
    assert whole[0]["next_sentence_labels"].shape == (BATCH, order.num_sequences)
    # Without masks, if training draws them.
    batches = worker_batches(data_of(files[name], options[name])._replace(transform=None), None)
    records = {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}
    for number, batch in enumerate(whole):
        own, numbers = unpacked(batch), order.numbers(BATCH, number)
        if name == "plain":
            # Tokens that are masked here have the record's token as label.
            row, slot = np.nonzero(own["masked_lm_weights"])
            labels = own["masked_lm_ids"][row, slot]
            own["input_ids"][row, own["masked_lm_positions"][row, slot]] = labels
            assert (own["masked_lm_weights"].sum(axis=1) >= 1).all()
        for key in own.keys() & records.keys():
            np.testing.assert_array_equal(own[key], records[key][numbers], key)


@pytest.mark.parametrize(
    "kind", [modeling.AlbertConfig, pytest.param(modeling.BertConfig, marks=pytest.mark.slow)]
)
def test_losses_and_gradients_are_those_of_unpacked_examples(packed, tokenizer, kind):
    """To 1e-5 of the largest; with the padding of the examples that are not packed."""
    more = {"embedding_size": 16} if kind is modeling.AlbertConfig else {}
    config = kind(vocab_size=tokenizer.size, **SIZES, **more)
    made = packed("short")
    # Longer than the examples, so that most rows have several.
    batch = worker_batches(made.data, most=1, order=PackedExamples(made.sizes, 2 * SEQ, 7))[0]
    assert batch["next_sentence_weights"].sum() > 1.5 * BATCH
    own = unpacked(batch)
    assert own["input_mask"].mean() < 0.7 < batch["input_mask"].mean()
    (loss, gradients), (expected, own_gradients) = (
        loss_and_gradients(config, features) for features in (batch, own)
    )
    assert loss == pytest.approx(expected, rel=1e-5)
    for name, gradient in own_gradients.items():
        scale = np.abs(gradient).max()
        if name.endswith("key/bias"):
            # 0 except for rounding.
            scale = np.abs(own_gradients[name.replace("bias", "kernel")]).max()
        assert np.abs(gradients[name] - gradient).max() <= 1e-5 * scale, name
    # The examples affect each other if attention is not kept apart.
    mixed = {**batch, "sequence_ids": np.minimum(batch["sequence_ids"], 1)}
    assert abs(loss_and_gradients(config, mixed)[0] - expected) > 1e-3 * expected


def loss_and_gradients(config, features):
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = {key: tf.constant(value) for key, value in features.items()}

        def encode(sequences, positions, packing):
            inputs = [sequences[key] for key in ("input_ids", "input_mask", "segment_ids")]
            return modeling.Encoder(config, True, *inputs, positions=positions, packing=packing)

        loss = make_head(config)(encode, tensors, True).loss
        variables = tf.trainable_variables()
        gradients = [tf.convert_to_tensor(g) for g in tf.gradients(loss, variables)]
        load_random_values(session, spread=0.3)
        by_name = {v.op.name: g for v, g in zip(variables, gradients, strict=True)}
        return session.run([loss, by_name])


def test_sizes_come_from_all_files(files, options):
    both = read_sizes([files["masked"]] * 2, options["masked"], 2)
    one = read_sizes([files["masked"]], options["masked"], 1)
    np.testing.assert_array_equal(both[0], np.tile(one[0], 2))
    order = PackedExamples(both, SEQ, 1)
    assert order.num_rows <= 2 * PackedExamples(one, SEQ, 1).num_rows


def test_a_token_that_is_masked_out_belongs_to_no_sequence():
    features = {
        "input_ids": np.array([[5, 6, 7, 0], [8, 9, 0, 0]], np.int32),
        "input_mask": np.array([[1, 0, 1, 0], [1, 1, 0, 0]], np.int32),
        "segment_ids": np.array([[0, 0, 1, 0], [0, 1, 0, 0]], np.int32),
        "masked_lm_positions": np.array([[0, 2], [1, 0]], np.int32),
        "masked_lm_ids": np.array([[0, 17], [19, 0]], np.int32),
        "masked_lm_weights": np.array([[0, 1], [0.5, 0]], np.float32),
        "next_sentence_labels": np.array([[1], [0]], np.int32),
    }
    spec = packed_spec(6, 3, 2)
    packed = pack_examples(features, np.array([0, 0]), spec)
    expected = {
        "input_ids": [5, 6, 7, 8, 9, 0],
        "input_mask": [1, 0, 1, 1, 1, 0],
        "segment_ids": [0, 0, 1, 0, 1, 0],
        "sequence_ids": [1, 0, 1, 2, 2, 0],
        "position_ids": [0, 1, 2, 0, 1, 0],
        "masked_lm_positions": [2, 4, 0],
        "masked_lm_ids": [17, 19, 0],
        "masked_lm_weights": [1, 0.5, 0],
        "next_sentence_labels": [1, 0],
        "next_sentence_positions": [0, 3],
        "next_sentence_weights": [1, 1],
    }
    for key, value in expected.items():
        assert packed[key].tolist() == [value], key
    assert list(packed) == list(spec) and packed.keys() == expected.keys()


def test_a_record_without_tokens_or_of_another_length_is_an_error(files, options, tmp_path):
    def empty(feature):
        feature.int64_list.value[:] = [0] * SEQ

    path = with_a_change(files["masked"], tmp_path / "empty", 1, "input_mask", empty)
    with pytest.raises(UserError, match="empty: record 1 has no token"):
        read_sizes([path], options["masked"], 1)
    with pytest.raises(UserError, match="empty: record 0 has no token, or another length than 8"):
        read_sizes([path], options["masked"]._replace(seq_length=8), 1)
