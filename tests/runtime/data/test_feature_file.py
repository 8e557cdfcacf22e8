"""Feature files of any task: examples to numbered records and a companion, made once and found."""

import pytest
import tensorflow.compat.v1 as tf

from runtime import distributed
from runtime.data.cached_file import CachedFile
from runtime.data.feature_file import Chunk, FeatureSource, sha256_of_input
from runtime.data.records import count_foreign_records
from runtime.data.tf_example import serialize
from runtime.distributed import Worker
from runtime.errors import UserError
from tests.helpers.files import write_records

SPEC = {"x": tf.io.FixedLenFeature([], tf.int64)}


def record_of(number: int) -> bytes:
    return serialize({"x": [number]})


class Letters(FeatureSource):
    """Every letter of a text becomes one record, a capital one two of them."""

    name, spec, trims, chunk = "training", SPEC, True, 3

    def __init__(self, text, folder, workers=1):
        self.text, self.workers = text, workers
        numbers, more = ("num_examples", "num_features"), [str(folder / "more")]
        self.cached = CachedFile(str(folder / "records"), {"text": text}, more, numbers)

    def read(self):
        return self.text.replace("-", ""), {"it is a dash": self.text.count("-")}

    def convert(self, examples, start):
        records = [record_of(0) for letter in examples for _ in range(1 + letter.isupper())]
        return Chunk(len(examples), records, (start, examples))

    def numbered(self, record, number):
        return record_of(number)

    def write_companion(self, path, parts):
        with open(path, "w") as file:
            file.write(repr(parts))

    def count_foreign(self):
        return count_foreign_records(self.cached.paths[0], SPEC, 1, "move it", {})

    def source_of(self, file):
        return f"of {file.num_examples}"


class TestMade:
    @pytest.mark.parametrize("workers", [1, 2])
    def test_records_and_companion_are_in_order(self, tmp_path, log, workers):
        file = Letters("abC-dEfg", tmp_path, workers).made()
        assert file[:3] == (str(tmp_path / "records"), 7, 9) and not file.made_elsewhere
        records = list(tf.io.tf_record_iterator(str(tmp_path / "records")))
        assert records == list(map(record_of, range(9)))
        assert (tmp_path / "more").read_text() == repr([(0, "abC"), (3, "dEf"), (6, "g")])
        lines = log()
        assert any("made in" in line and "left out: 1 (it is a dash)" in line for line in lines)
        assert f"{tmp_path / 'records'}: 9 features of 7 examples" in lines

    def test_what_is_found_is_not_read_again(self, tmp_path, monkeypatch):
        made = Letters("abC", tmp_path).made()
        monkeypatch.setattr(Letters, "read", None)
        assert Letters("abC", tmp_path).made() == made

    def test_a_file_of_somebody_else(self, tmp_path):
        write_records(tmp_path / "records", map(record_of, range(5)))
        source = Letters("ab", tmp_path)
        assert source.state() == "there, without a header of ours"
        file = source.made()
        assert file.made_elsewhere and (file.num_examples, file.num_features) == (2, 5)

        # Something else is not touched.
        (tmp_path / "records").write_text("notes")
        for look in (source.made, source.state):
            with pytest.raises(UserError, match="neither read nor replaced: move it or remove it"):
                look()
        assert (tmp_path / "records").read_text() == "notes"


def test_prepared_data(tmp_path, monkeypatch):
    """What scores need is for rank 0 alone."""
    data = Letters("abC", tmp_path).prepared()
    assert data.files == [str(tmp_path / "records")]
    assert (data.spec, data.trims, data.source) == (SPEC, True, "of 3")
    assert (data.num_examples, data.num_records) == (3, 4)
    with monkeypatch.context() as patch:
        patch.setattr(distributed, "_worker", Worker(1, 2))
        again = Letters("abC", tmp_path).prepared()
    assert again.source is None and again.content == data.content
    other = Letters("abD", tmp_path).prepared()
    assert other.num_records == 4 and data.snapshot != other.snapshot


def test_described_without_being_made(tmp_path):
    source = Letters("ab-C", tmp_path)
    expected = [("training examples", 3), ("left out", "1: it is a dash")]
    assert list(source.describe()) == [*expected, ("training features", "to be made")]
    assert source.num_examples() == 3
    assert list(tmp_path.iterdir()) == []
    source.made()
    assert list(source.describe())[-1] == ("training features", "reused")
    with pytest.raises(UserError, match=f"^SQuAD file {tmp_path} cannot be read: Is a directory"):
        sha256_of_input(str(tmp_path), "SQuAD file ")
