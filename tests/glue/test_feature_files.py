"""Feature files: made once, reused, rebuilt with a reason, and files of others."""

import logging
import re
import sys

import pytest
import tensorflow.compat.v1 as tf

import tokenization
from classifier_utils import ColaProcessor, file_based_convert_examples_to_features
from glue.feature_files import GlueFeatures
from runtime.data import cached_file
from runtime.errors import UserError
from tests.helpers.files import change_header
from tests.helpers.forking import ROOT
from tests.helpers.running import run


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

    def make(rows=None, length=16, lower=True, part="train", workers=1, processor=ColaProcessor):
        source = tmp_path / "train.tsv"
        if rows:
            lines = (f"x\t{number % 2}\t\ta bo {number}\n" for number in range(rows))
            source.write_text("".join(lines))
        paths = str(source), str(tmp_path / "features")
        return GlueFeatures(processor(True, lower), tokenizer, length, part, *paths, workers).made()

    return make


def records(tmp_path):
    return list(tf.python_io.tf_record_iterator(str(tmp_path / "features")))


def test_made_and_reused(make, tmp_path, log):
    made = make(rows=7)
    assert made[:2] == (str(tmp_path / "features"), 7)
    assert "made in" in log()
    content = (tmp_path / "features").read_bytes()
    assert make() == made
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


def reversed_labels(self):
    return ["1", "0"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"length": 24}, "max_seq_length 16, now it is 24"),
        ({"lower": False}, "do_lower_case True, now it is False"),
        ({"rows": 8}, "input_sha256"),
        ({"part": "dev"}, "part train, now it is dev"),
        (
            {"processor": type("OtherProcessor", (ColaProcessor,), {})},
            "task ColaProcessor, now it is OtherProcessor",
        ),
        (
            {"processor": type("ColaProcessor", (ColaProcessor,), {"get_labels": reversed_labels})},
            "labels ['0', '1'], now it is ['1', '0']",
        ),
    ],
)
def test_made_anew_with_a_reason(make, log, change, reason):
    make(rows=7)
    log()
    make(**change)
    assert reason in log()


@pytest.mark.parametrize("with_hash", [True, False])
def test_a_header_without_a_number(make, tmp_path, log, with_hash):
    make(rows=7)
    change_header(tmp_path / "features.json", "num_examples", "num_example5", with_hash)
    log()
    assert make().num_examples == 7
    assert f"its header {tmp_path}/features.json is damaged" in log()


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


@pytest.fixture
def foreign(make, tmp_path):
    """Features without our header."""
    make(rows=7)
    (tmp_path / "features.json").unlink()
    return tmp_path / "features"


def test_ids_of_another_vocabulary(make, foreign):
    records = list(tf.io.tf_record_iterator(str(foreign)))
    for key, value, limit in (("input_ids", 200, 200), ("label_ids", 2, 2)):
        example = tf.train.Example.FromString(records[3])
        example.features.feature[key].int64_list.value[0] = value
        with tf.io.TFRecordWriter(str(foreign)) as writer:
            for record in (*records[:3], example.SerializeToString()):
                writer.write(record)
        message = rf"\(record 3 has {value} in {key}, which must be below {limit}\)"
        with pytest.raises(UserError, match=message):
            make()


def test_a_file_of_the_reference_needs_no_lock(make, foreign, monkeypatch):
    monkeypatch.setattr(cached_file, "one_at_a_time", None)
    assert make().num_examples == 7


def test_state(tokenizer, make, foreign, tmp_path):
    paths = str(tmp_path / "train.tsv"), str(foreign)

    def state():
        return GlueFeatures(ColaProcessor(True, True), tokenizer, 16, "train", *paths).state()

    assert state() == "there, without a header of ours"
    foreign.write_text("notes")
    with pytest.raises(UserError, match="no file of features of length 16"):
        state()
    foreign.unlink()
    assert state() == "to be made"
    make()
    assert state() == "reused"


# run_classifier.py, with features that are replaced as soon as they are prepared.
RUN = """
import os, runpy, shutil, sys
sys.path.insert(0, {root!r})
from glue.feature_files import GlueFeatures
prepare = GlueFeatures.prepared
def replaced(self):
    data = prepare(self)
    (path,) = data.files
    shutil.copy(path, path + ".new")
    os.replace(path + ".new", path)
    return data
GlueFeatures.prepared = replaced
runpy.run_path({root!r} + "/run_classifier.py", run_name="__main__")
"""


def test_a_run_whose_features_are_replaced(squad_dir, tmp_path):
    """By those of another job, after they were found right and before they are read."""
    (tmp_path / "train.tsv").write_text("label\ttext_a\n" + "x\tbo ra\ny\tti\n" * 4)
    program = tmp_path / "program.py"
    program.write_text(RUN.format(root=str(ROOT)))
    flags = [
        "--task_name=tsv",
        f"--data_dir={tmp_path}",
        f"--albert_config_file={squad_dir / 'albert.json'}",
        f"--spm_model_file={squad_dir / 'spm.model'}",
        f"--output_dir={tmp_path / 'out'}",
        "--max_seq_length=32",
        "--do_train",
        "--train_step=2",
        "--train_batch_size=2",
    ]
    result = run([sys.executable, str(program), *flags])
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert re.search(r"error: \S+ was replaced while this job ran; give each job", result.stderr)


def test_a_wordpiece_vocabulary(tmp_path):
    """It takes no more than another tokenizer."""
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nhel\n##lo\nyou\n,\n")
    (tmp_path / "train.tsv").write_text("x\t1\t\tHello, you\nx\t0\t\tyou there hello\n")
    tokenizer = tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))
    paths = str(tmp_path / "train.tsv"), str(tmp_path / "features")
    made = GlueFeatures(ColaProcessor(False, True), tokenizer, 8, "train", *paths).made()
    assert made.num_examples == 2
    ids = [
        tf.train.Example.FromString(record).features.feature["input_ids"].int64_list.value[:]
        for record in records(tmp_path)
    ]
    assert ids == [[2, 4, 5, 7, 6, 3, 0, 0], [2, 6, 1, 4, 5, 3, 0, 0]]
