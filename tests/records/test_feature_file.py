"""Feature files of any task; tests/tasks/squad/test_feature_files.py has their reuse."""

import contextlib

import pytest
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.records.cached_file import CachedFile
from albert.records.feature_file import Chunk, FeatureSource, sha256_of_inputs
from albert.records.tf_example import serialize

SPEC = {"x": tf.io.FixedLenFeature([], tf.int64)}


def record_of(number: int) -> bytes:
    return serialize({"x": [number]})


class Letters(FeatureSource):
    """Turns every letter of a text into one record, a capital into two."""

    name, spec, trims, chunk = "training", SPEC, True, 3

    def __init__(self, text, folder, workers=1):
        self.text, self.workers = text, workers
        more = [str(folder / "more")]
        self.cached = CachedFile(str(folder / "records"), {"text": text}, more)

    def read(self):
        return self.text.replace("-", ""), {"it is a dash": self.text.count("-")}

    def convert(self, examples, start):
        records = [record_of(0) for letter in examples for _ in range(1 + letter.isupper())]
        return Chunk(len(examples), records, (start, "".join(examples)))

    def numbered(self, record, number):
        return record_of(number)

    @contextlib.contextmanager
    def writing_companion(self, path):
        parts = []
        yield parts.append
        with open(path, "w") as file:
            file.write(repr(parts))

    check_records_of_other_writers = None

    def source_of(self, snapshot, is_foreign):
        return snapshot.states, is_foreign


@pytest.mark.parametrize("workers", [1, 2])
def test_records_and_companion_are_in_order(tmp_path, log, workers):
    source = Letters("abC-dEfg", tmp_path, workers)
    expected = [("training examples", 7), ("skipped", "1: it is a dash")]
    assert list(source.describe()) == [*expected, ("training features", "will be made")]
    assert source.num_examples() == 7 and list(tmp_path.iterdir()) == []
    data = source.prepared()
    assert list(source.describe()) == [*expected, ("training features", "reused")]
    assert (data.files, data.num_examples) == ([str(tmp_path / "records")], 7)
    assert data.num_records == 9
    records = list(tf.io.tf_record_iterator(str(tmp_path / "records")))
    assert records == list(map(record_of, range(9)))
    assert (tmp_path / "more").read_text() == repr([(0, "abC"), (3, "dEf"), (6, "g")])
    lines = log()
    assert any("Made " in line and "skipped: 1 (it is a dash)" in line for line in lines)
    assert f"{tmp_path / 'records'}: 9 features from 7 examples" in lines


def test_only_rank_0_gets_what_scores_need(tmp_path, as_worker):
    data = Letters("abC", tmp_path).prepared()
    assert data.files == [str(tmp_path / "records")]
    assert (data.spec, data.trims) == (SPEC, True)
    assert data.source == (data.snapshot.states, False)
    assert (data.num_examples, data.num_records) == (3, 4)
    as_worker(1, 2)
    again = Letters("abC", tmp_path).prepared()
    as_worker(0, 2)
    assert again.source is None and again.content == data.content
    other = Letters("abD", tmp_path).prepared()
    assert other.num_records == 4 and data.snapshot != other.snapshot
    with pytest.raises(UserError, match=f"^{tmp_path} cannot be read: Is a directory"):
        sha256_of_inputs(str(tmp_path))
