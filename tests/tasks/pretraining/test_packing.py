"""Rows of several examples: the losses and gradients of the same examples in rows of their own."""

import itertools
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert import modeling
from albert.core.errors import UserError
from albert.tasks.pretraining.head import make_head
from albert.tasks.pretraining.input_pipeline import (
    PackedExamples,
    RowShape,
    pack_examples,
    packed_spec,
    read_sizes,
)
from albert.tasks.pretraining.task import RecordSplit
from tests.helpers.encoders import load_random_values
from tests.helpers.files import write_records

SEQ, BATCH = 32, 6
SIZES = {
    **{"hidden_size": 24, "intermediate_size": 40, "type_vocab_size": 2},
    **{"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 64},
    **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
}


def read(data, order, first=0, count=3):
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = data.input_fn(BATCH, 7, first, order)()
        batch = tf.data.make_one_shot_iterator(dataset).get_next()
        assert all(tensor.shape.is_fully_defined() for tensor in batch.values())
        return [session.run(batch) for _ in range(count)]


def unpacked(batch):
    """Returns the examples of a packed batch in rows of their own, read from the packed rows."""
    rows = []
    for row, (firsts, weights) in enumerate(
        zip(batch["next_sentence_positions"], batch["next_sentence_weights"], strict=True)
    ):
        for number in range(int(weights.sum())):
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
        data = RecordSplit("training", paths, options[name], packed=lambda: order).prepared()
        assert data.training_order(BATCH, 7) is order
        return types.SimpleNamespace(data=data, order=order, sizes=sizes)

    return make


@pytest.mark.parametrize("name", ["short", "plain"])
def test_rows_have_the_examples_of_their_records(packed, files, name):
    made = packed(name)
    order, data = made.order, made.data
    assert data.num_examples == order.num_rows < data.num_records == len(made.sizes.lengths)
    whole = read(data, order, count=order.num_rows // BATCH)
    again = read(data, order, first=2, count=1)[0]
    np.testing.assert_equal(again, whole[2])
    assert whole[0]["next_sentence_labels"].shape == (BATCH, order.num_sequences)
    records = [
        tf.train.Example.FromString(record).features.feature
        for record in tf.io.tf_record_iterator(files[name])
    ]
    for number, batch in enumerate(whole):
        own = unpacked(batch)
        sources = [records[k] for k in order.numbers(BATCH, number)]
        for key in ("input_mask", "segment_ids", "next_sentence_labels"):
            expected = [source[key].int64_list.value[:] for source in sources]
            np.testing.assert_array_equal(own[key], expected)
        ids = own["input_ids"].copy()
        hits = own["masked_lm_weights"] > 0
        if name == "plain":
            # Tokens that are masked here have the record's token as label.
            row, slot = np.nonzero(hits)
            ids[row, own["masked_lm_positions"][row, slot]] = own["masked_lm_ids"][row, slot]
            assert (hits.sum(axis=1) >= 1).all()
        else:
            for key in ("masked_lm_positions", "masked_lm_ids"):
                expected = [source[key].int64_list.value[:] for source in sources]
                np.testing.assert_array_equal(own[key], expected)
        np.testing.assert_array_equal(ids, [s["input_ids"].int64_list.value[:] for s in sources])


@pytest.mark.parametrize(
    "kind", [modeling.AlbertConfig, pytest.param(modeling.BertConfig, marks=pytest.mark.slow)]
)
def test_losses_and_gradients_are_those_of_unpacked_examples(packed, encoder, kind):
    """To 1e-5 of the largest; with the padding of the examples that are not packed."""
    more = {"embedding_size": 16} if kind is modeling.AlbertConfig else {}
    config = kind(vocab_size=encoder.tokenizer.size, **SIZES, **more)
    made = packed("short")
    # Longer than the examples, so that most rows have several.
    batch = read(made.data, PackedExamples(made.sizes, 2 * SEQ, 7), count=1)[0]
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
        return session.run(
            [loss, {v.op.name: g for v, g in zip(variables, gradients, strict=True)}]
        )


def test_places_suffice_for_any_row_and_sizes_come_from_all_files(packed, files, options):
    for name in ("short", "plain"):
        made = packed(name)
        batches = read(made.data, made.order, count=2 * made.order.num_rows // BATCH)
        used = max(batch["masked_lm_weights"].sum(axis=1).max() for batch in batches)
        assert used <= made.order.shape.max_predictions <= made.order.num_sequences * 4
        assert (made.sizes.predictions <= 4).all()
    both = read_sizes([files["masked"]] * 2, options["masked"], 2)
    one = read_sizes([files["masked"]], options["masked"], 1)
    np.testing.assert_array_equal(both.lengths, np.tile(one.lengths, 2))
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
    shape = RowShape(6, 3, 2)
    packed = pack_examples(features, np.array([0, 0]), shape)
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
    assert {key: value.tolist() for key, value in packed.items()} == {
        key: [value] for key, value in expected.items()
    }
    assert list(packed) == list(packed_spec(shape))


def test_a_record_without_tokens_or_of_another_kind_is_an_error(files, options, tmp_path):
    records = list(itertools.islice(tf.io.tf_record_iterator(files["masked"]), 3))
    example = tf.train.Example.FromString(records[1])
    example.features.feature["input_mask"].int64_list.value[:] = [0] * SEQ
    records[1] = example.SerializeToString()
    write_records(tmp_path / "empty", records)
    with pytest.raises(UserError, match="empty: record 1 has no token"):
        read_sizes([str(tmp_path / "empty")], options["masked"], 1)
    with pytest.raises(UserError, match=f"empty: record 0 has {SEQ} values of input_mask, not th"):
        read_sizes([str(tmp_path / "empty")], options["masked"]._replace(seq_length=8), 1)
    write_records(tmp_path / "other", [b"no example"])
    with pytest.raises(UserError, match="other: record 0 is not a tf.train.Example"):
        read_sizes([str(tmp_path / "other")], options["masked"], 1)
