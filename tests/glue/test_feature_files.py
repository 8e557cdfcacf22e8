"""Feature files of GLUE: their content, when they are made anew, and which of others are used.

How any cached file is found whole, damaged or foreign: `tests/runtime/data/test_cached_file.py`.
"""

import logging

import pytest
import tensorflow.compat.v1 as tf

import tokenization
from classifier_utils import ColaProcessor, file_based_convert_examples_to_features
from glue.feature_files import GlueFeatures
from runtime.errors import UserError
from tests.helpers.files import change_header


@pytest.fixture(scope="module")
def tokenizer(squad_dir):
    return tokenization.FullTokenizer(None, True, str(squad_dir / "spm.model"))


@pytest.fixture
def log(caplog, monkeypatch):
    """The log since it was last asked for."""
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    caplog.set_level(logging.INFO, tf.get_logger().name)

    def text():
        messages = "\n".join(record.getMessage() for record in caplog.records)
        caplog.clear()
        return messages

    return text


@pytest.fixture
def make(tokenizer, tmp_path):
    """Makes the features of a training set of CoLA, written anew if `rows` are given."""

    def make(rows=None, length=16, lower=True, part="train", processor=ColaProcessor):
        source = tmp_path / "train.tsv"
        if rows:
            lines = (f"x\t{number % 2}\t\ta bo {number}\n" for number in range(rows))
            source.write_text("".join(lines))
        paths = str(source), str(tmp_path / "features")
        return GlueFeatures(processor(True, lower), tokenizer, length, part, *paths).made()

    return make


def records(path):
    return list(tf.io.tf_record_iterator(str(path)))


def test_made_as_by_the_public_function_and_reused(make, tokenizer, tmp_path, log):
    made = make(rows=7)
    assert made[:2] == (str(tmp_path / "features"), 7)
    content = (tmp_path / "features").read_bytes()
    log()
    assert make() == made
    assert "Reusing" in log()
    assert (tmp_path / "features").read_bytes() == content
    assert {p.name for p in tmp_path.iterdir()} == {"train.tsv", "features", "features.json"}
    processor = ColaProcessor(True, True)
    examples = processor.read_examples(str(tmp_path / "train.tsv"), "train")
    file_based_convert_examples_to_features(
        examples, processor.get_labels(), 16, tokenizer, str(tmp_path / "public"), "cola"
    )
    assert records(tmp_path / "features") == records(tmp_path / "public")


class OtherProcessor(ColaProcessor):
    pass


OTHER_LABELS = type("ColaProcessor", (ColaProcessor,), {"get_labels": lambda self: ["1", "0"]})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"length": 24}, "max_seq_length 16, now it is 24"),
        ({"lower": False}, "do_lower_case True, now it is False"),
        ({"rows": 8}, "input_sha256"),
        ({"part": "dev"}, "part train, now it is dev"),
        ({"processor": OtherProcessor}, "task ColaProcessor, now it is OtherProcessor"),
        ({"processor": OTHER_LABELS}, "labels ['0', '1'], now it is ['1', '0']"),
    ],
)
def test_made_anew_with_a_reason(make, log, change, reason):
    make(rows=7)
    log()
    make(**change)
    assert reason in log()


def test_another_tokenizer(squad_dir, tmp_path, make, log):
    make(rows=7)
    log()
    other = tokenization.FullTokenizer(str(squad_dir / "vocab.txt"), True)
    paths = str(tmp_path / "train.tsv"), str(tmp_path / "features")
    GlueFeatures(ColaProcessor(True, True), other, 16, "train", *paths).made()
    assert "tokenizer_sha256" in log()


def test_a_header_without_a_number(make, tmp_path, log):
    make(rows=7)
    change_header(tmp_path / "features.json", "num_examples", "num_example5", with_hash=False)
    log()
    assert make().num_examples == 7
    assert f"its header {tmp_path}/features.json is damaged" in log()


class TestForeign:
    """Files without our header."""

    @pytest.fixture
    def foreign(self, make, tmp_path):
        make(rows=7)
        (tmp_path / "features.json").unlink()
        return tmp_path / "features"

    def test_is_used_with_a_warning(self, make, foreign, log):
        content = foreign.read_bytes()
        assert make().num_examples == 7
        assert "has no header of ours: its 7 records are used as they are" in log()
        assert foreign.read_bytes() == content
        assert not foreign.with_suffix(".json").exists()

    def test_another_length(self, make, foreign):
        content = foreign.read_bytes()
        with pytest.raises(UserError, match="no file of features of length 24; .*--cached_dir"):
            make(length=24)
        assert foreign.read_bytes() == content

    @pytest.mark.parametrize(("key", "limit"), [("input_ids", 200), ("label_ids", 2)])
    def test_ids_of_another_vocabulary(self, make, foreign, key, limit):
        *others, record = records(foreign)
        example = tf.train.Example.FromString(record)
        example.features.feature[key].int64_list.value[0] = limit
        with tf.io.TFRecordWriter(str(foreign)) as writer:
            for record in (*others, example.SerializeToString()):
                writer.write(record)
        message = rf"\(record 6 has {limit} in {key}, which must be below {limit}\)"
        with pytest.raises(UserError, match=message):
            make()


def test_a_wordpiece_vocabulary(tmp_path):
    """It takes no more than another tokenizer."""
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nhel\n##lo\nyou\n,\n")
    (tmp_path / "train.tsv").write_text("x\t1\t\tHello, you\nx\t0\t\tyou there hello\n")
    tokenizer = tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))
    paths = str(tmp_path / "train.tsv"), str(tmp_path / "features")
    GlueFeatures(ColaProcessor(False, True), tokenizer, 8, "train", *paths).made()
    ids = [
        tf.train.Example.FromString(record).features.feature["input_ids"].int64_list.value[:]
        for record in records(tmp_path / "features")
    ]
    assert ids == [[2, 4, 5, 7, 6, 3, 0, 0], [2, 6, 1, 4, 5, 3, 0, 0]]
