"""Records of features: the reference's keys, and random access to them."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from runtime.tf_example import serialize
from squad.records import RecordFile, feature_spec
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

    def test_serialized_records_are_written_as_they_are(self, tmp_path):
        writer = FeatureWriter(str(tmp_path / "f"), True)
        writer.write(b"any bytes")
        writer.close()
        assert list(tf.io.tf_record_iterator(str(tmp_path / "f"))) == [b"any bytes"]

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


def write_records(path, records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return str(path)


@pytest.fixture
def records():
    """Contents of records of many lengths, 0 among them."""
    rng = np.random.default_rng(1)
    return [rng.bytes(int(length)) for length in [5, 0, 1, 300, 70000, 12, 16, *range(2, 30)]]


class TestRecordFile:
    def test_random_access_gives_what_reading_in_order_gives(self, tmp_path, records):
        path = write_records(tmp_path / "f", records)
        assert list(tf.io.tf_record_iterator(path)) == records
        file = RecordFile([path])
        assert len(file) == len(records)
        order = np.random.default_rng(2).integers(0, len(records), 200)
        assert file.read(order) == [records[i] for i in order]

    def test_several_files_are_one(self, tmp_path, records):
        paths = [
            write_records(tmp_path / "a", records[:3]),
            write_records(tmp_path / "empty", []),
            write_records(tmp_path / "b", records[3:]),
        ]
        file = RecordFile(paths)
        assert len(file) == len(records)
        assert file.read(np.arange(len(records))) == records

    def test_no_records(self, tmp_path):
        assert len(RecordFile([write_records(tmp_path / "empty", [])])) == 0
        assert len(RecordFile([])) == 0

    def test_number_out_of_range(self, tmp_path, records):
        with pytest.raises(IndexError):
            RecordFile([write_records(tmp_path / "f", records)]).read([len(records)])

    def test_truncated_anywhere(self, tmp_path):
        path = write_records(tmp_path / "f", [b"four", b"", b"a longer one"])
        content = (tmp_path / "f").read_bytes()
        whole = {0: 0, 20: 1, 36: 2, len(content): 3}  # lengths at which a record ends
        for length in range(len(content) + 1):
            (tmp_path / "f").write_bytes(content[:length])
            if length in whole:
                assert len(RecordFile([path])) == whole[length]
            else:
                with pytest.raises(ValueError, match=r"f ends inside record [012]$") as caught:
                    RecordFile([path])
                last = max(n for end, n in whole.items() if end <= length)
                assert str(caught.value).endswith(f"record {last}")

    @pytest.mark.parametrize("content", [b"\xff" * 40, b"plain text, and not a short one" * 9])
    def test_file_of_something_else(self, tmp_path, content):
        (tmp_path / "f").write_bytes(content)
        with pytest.raises(ValueError, match="ends inside record 0"):
            RecordFile([str(tmp_path / "f")])

    def test_missing_file(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            RecordFile([str(tmp_path / "none")])
