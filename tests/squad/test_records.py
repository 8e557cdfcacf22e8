"""Records of features: the reference's keys."""

import pytest
import tensorflow.compat.v1 as tf

from runtime.data.tf_example import serialize
from squad.records import feature_spec
from squad_utils import FeatureWriter, InputFeatures

LENGTH = 8
COMMON_KEYS = {"unique_ids", "input_ids", "input_mask", "segment_ids", "p_mask"}
ANSWER_KEYS = {"start_positions", "end_positions", "is_impossible"}


def make_feature(number, **changes):
    values = {
        "unique_id": 1000000000 + number,
        "example_index": number,
        "doc_span_index": 0,
        "tok_start_to_orig_index": [0, 1],
        "tok_end_to_orig_index": [0, 1],
        "token_is_max_context": {3: True, 4: True},
        "tokens": ["[CLS]", "a", "[SEP]", "b", "c", "[SEP]"],
        "input_ids": [2, 10 + number, 3, 12, 13, 3, 0, 0],
        "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
        "segment_ids": [0, 0, 0, 1, 1, 1, 0, 0],
        "paragraph_len": 6,
        "p_mask": [0, 1, 1, 0, 0, 1, 1, 1],
        "start_position": 3,
        "end_position": 4,
        "is_impossible": False,
    }
    return InputFeatures(**{**values, **changes})


def write_features(path, features, training):
    writer = FeatureWriter(filename=str(path), is_training=training)
    for feature in features:
        writer.process_feature(feature)
    writer.close()
    return writer


def parsed(path):
    """Every record as a dictionary of lists, read by TensorFlow's own classes."""
    rows = []
    for record in tf.io.tf_record_iterator(str(path)):
        features = tf.train.Example.FromString(record).features.feature
        rows.append({key: list(value.int64_list.value) for key, value in features.items()})
    return rows


class TestWriter:
    def test_training_features(self, tmp_path):
        features = [
            make_feature(0),
            make_feature(1, start_position=0, end_position=0, is_impossible=True),
        ]
        writer = write_features(tmp_path / "f", features, training=True)
        rows = parsed(tmp_path / "f")
        assert [row.keys() for row in rows] == [COMMON_KEYS | ANSWER_KEYS] * 2
        assert rows[0] == {
            "unique_ids": [1000000000],
            "input_ids": [2, 10, 3, 12, 13, 3, 0, 0],
            "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
            "segment_ids": [0, 0, 0, 1, 1, 1, 0, 0],
            "p_mask": [0, 1, 1, 0, 0, 1, 1, 1],
            "start_positions": [3],
            "end_positions": [4],
            "is_impossible": [0],
        }
        assert [rows[1][key] for key in sorted(ANSWER_KEYS)] == [[0], [1], [0]]
        assert (writer.num_features, writer.is_training) == (2, True)
        assert writer.filename == str(tmp_path / "f")

    def test_prediction_features_have_no_answer(self, tmp_path):
        writer = write_features(tmp_path / "f", [make_feature(5)], training=False)
        (row,) = parsed(tmp_path / "f")
        assert row.keys() == COMMON_KEYS and row["unique_ids"] == [1000000005]
        assert writer.num_features == 1

    @pytest.mark.parametrize("training", [True, False])
    @pytest.mark.parametrize("with_p_mask", [True, False])
    def test_the_spec_reads_what_the_writer_writes(self, tmp_path, training, with_p_mask):
        write_features(tmp_path / "f", [make_feature(0), make_feature(1)], training)
        spec = feature_spec(LENGTH, training, with_p_mask)
        expected = COMMON_KEYS | (ANSWER_KEYS if training else set())
        assert spec.keys() == (expected if with_p_mask else expected - {"p_mask"})
        rows = parsed(tmp_path / "f")
        with tf.Graph().as_default(), tf.Session() as session:
            records = list(tf.io.tf_record_iterator(str(tmp_path / "f")))
            got = session.run(tf.io.parse_example(records, spec))
        for key in spec:
            scalar = key == "unique_ids" or key in ANSWER_KEYS
            assert got[key].shape == ((2,) if scalar else (2, LENGTH))
            assert got[key].reshape(2, -1).tolist() == [row[key] for row in rows]

    def test_serialize(self):
        example = tf.train.Example.FromString(serialize({"a": [1, 300, 2**40], "b": []}))
        assert example.features.feature["a"].int64_list.value == [1, 300, 2**40]
        assert list(example.features.feature["b"].int64_list.value) == []
