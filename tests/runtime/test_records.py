"""Random access to records. Batches of them: `tests/squad/test_input_pipeline.py`."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from runtime.errors import UserError
from runtime.records import RecordFile


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
                with pytest.raises(UserError, match=r"f ends inside record [012];") as caught:
                    RecordFile([path])
                last = max(n for end, n in whole.items() if end <= length)
                assert f"inside record {last};" in str(caught.value)

    @pytest.mark.parametrize("content", [b"\xff" * 40, b"plain text, and not a short one" * 9])
    def test_file_of_something_else(self, tmp_path, content):
        (tmp_path / "f").write_bytes(content)
        with pytest.raises(ValueError, match="ends inside record 0"):
            RecordFile([str(tmp_path / "f")])

    def test_missing_file(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            RecordFile([str(tmp_path / "none")])
