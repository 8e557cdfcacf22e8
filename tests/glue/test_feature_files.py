"""Feature files: made once, reused, rebuilt with a reason, and files of others."""

import logging

import pytest
import tensorflow.compat.v1 as tf

import tokenization
from classifier_utils import ColaProcessor, file_based_convert_examples_to_features
from glue.feature_files import FeatureFile, FeatureFiles
from runtime.errors import UserError


@pytest.fixture(scope="module")
def tokenizer(squad_dir):
    return tokenization.FullTokenizer(None, True, str(squad_dir / "spm.model"))


@pytest.fixture
def log(caplog, monkeypatch):
    """The lines logged since the last call."""
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    caplog.set_level(logging.INFO, tf.get_logger().name)

    def lines():
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return "\n".join(found)

    return lines


@pytest.fixture
def make(tokenizer, tmp_path):
    """Makes the features of a training set of CoLA, written anew if `rows` are given."""

    def make(rows=None, length=16, lower=True, part="train", workers=1):
        source = tmp_path / "train.tsv"
        if rows:
            lines = (f"x\t{number % 2}\t\ta bo {number}\n" for number in range(rows))
            source.write_text("".join(lines))
        files = FeatureFiles(ColaProcessor(True, lower), tokenizer, length, workers)
        return files.made(part, str(source), str(tmp_path / "features"))

    return make


def records(tmp_path):
    return list(tf.python_io.tf_record_iterator(str(tmp_path / "features")))


def test_made_and_reused(make, tmp_path, log):
    assert make(rows=7) == FeatureFile(str(tmp_path / "features"), 7)
    assert "made in" in log()
    content = (tmp_path / "features").read_bytes()
    assert make() == FeatureFile(str(tmp_path / "features"), 7)
    assert "Reusing" in log()
    assert (tmp_path / "features").read_bytes() == content
    assert {p.name for p in tmp_path.iterdir()} == {"train.tsv", "features", "features.json"}


def test_records_are_those_of_the_public_function(make, tokenizer, tmp_path):
    make(rows=5)
    processor = ColaProcessor(True, True)
    examples = processor.read_examples(str(tmp_path / "train.tsv"), "train")
    file_based_convert_examples_to_features(
        examples, processor.get_labels(), 16, tokenizer, str(tmp_path / "public"), "cola"
    )
    assert records(tmp_path) == list(tf.python_io.tf_record_iterator(str(tmp_path / "public")))


def test_the_same_bytes_for_any_number_of_workers(make, tmp_path):
    make(rows=1100, workers=3)
    content = (tmp_path / "features").read_bytes()
    (tmp_path / "features").unlink()
    make(workers=1)
    assert (tmp_path / "features").read_bytes() == content
    assert len(records(tmp_path)) == 1100


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"length": 24}, "max_seq_length 16, now it is 24"),
        ({"lower": False}, "do_lower_case True, now it is False"),
        ({"rows": 8}, "input_sha256"),
        ({"part": "dev"}, "part train, now it is dev"),
    ],
)
def test_made_anew_with_a_reason(make, log, change, reason):
    make(rows=7)
    log()
    make(**change)
    assert reason in log()


def test_a_file_of_the_reference_is_used_with_a_warning(make, tmp_path, log):
    make(rows=7)
    (tmp_path / "features.json").unlink()
    content = (tmp_path / "features").read_bytes()
    assert make().num_examples == 7
    assert "has no header of ours: its 7 records are used as they are" in log()
    assert (tmp_path / "features").read_bytes() == content
    assert not (tmp_path / "features.json").exists()


@pytest.mark.parametrize("length", [None, 24])
def test_any_other_file_is_not_touched(make, tmp_path, length):
    make(rows=7, length=length or 16)
    (tmp_path / "features.json").unlink()
    if length is None:
        (tmp_path / "features").write_text("mine")
    content = (tmp_path / "features").read_bytes()
    with pytest.raises(UserError, match="no file of features of length 16; .*--cached_dir"):
        make()
    assert (tmp_path / "features").read_bytes() == content


def test_a_fault_leaves_nothing(make, tmp_path):
    make(rows=3)
    (tmp_path / "features").unlink()
    (tmp_path / "features.json").unlink()
    (tmp_path / "train.tsv").write_text("x\t5\t\ttext\n")
    with pytest.raises(UserError, match="line 1: the label is '5'"):
        make()
    assert [p.name for p in tmp_path.iterdir()] == ["train.tsv"]
