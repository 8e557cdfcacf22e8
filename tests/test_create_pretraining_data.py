"""create_pretraining_data.py as a command: files, flags, and faults."""

from __future__ import annotations

import sys

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.forking import ROOT
from tests.helpers.running import assert_fails, run, succeed

TEXT = "\n\n".join(
    f"The house number {k} is old.\nIt has {k} doors, and 12, 13 windows.\nNobody lives there."
    for k in range(400)
)


@pytest.fixture
def command(squad_dir, tmp_path):
    """Makes the command for `a.txt`; the SentencePiece model was trained on another text."""
    (tmp_path / "a.txt").write_text(TEXT)
    flags = ["--dupe_factor=2", "--max_seq_length=48", "--max_predictions_per_seq=6"]
    files = [f"--input_file={tmp_path}/a.txt", f"--spm_model_file={squad_dir / 'spm.model'}"]
    program = [sys.executable, str(ROOT / "create_pretraining_data.py")]
    return lambda *more: [*program, *flags, *files, *more]


def test_records_are_written_once_and_reused(command, tmp_path):
    path = tmp_path / "out" / "data"
    flags = (f"--output_file={path}", "--num_shards=1", "--preprocess_workers=2")
    log = succeed(command(*flags))
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    assert f"{len(records)} records to 1 files" in log and len(records) > 2 * 400
    assert "400 documents (0 with only one sentence)" in log and "WARNING" not in log
    before = path.stat().st_mtime_ns
    assert f"Reusing {path}" in succeed(command(*flags))
    assert path.stat().st_mtime_ns == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["data", "data.json"]


@pytest.mark.slow
def test_without_output_file_each_text_gets_one(command, tmp_path):
    """A second run on the glob skips the files that the first one made."""
    (tmp_path / "b.txt").write_text(TEXT.replace("house", "tower"))
    (tmp_path / ".a.txt.tfrecord.x1y2").write_text("left by a process that was killed")
    (tmp_path / "a.txt.tfrecord.lock").write_text("")
    made = [tmp_path / name for name in ("a.txt.tfrecord", "b.txt.tfrecord")]
    succeed(command(f"--input_file={tmp_path}/*"))
    before = [path.stat().st_mtime_ns for path in made]
    log = succeed(command(f"--input_file={tmp_path}/*"))
    assert all(f"Reusing {path}\n" in log and path.stat().st_size > 10_000 for path in made)
    assert [path.stat().st_mtime_ns for path in made] == before
    assert not list(tmp_path.glob("*.tfrecord.tfrecord*"))


def test_documents_of_one_sentence_warn(command, tmp_path):
    """Nothing can be learned about the order of sentences."""
    (tmp_path / "a.txt").write_text(TEXT.replace("\n", "\n\n"))
    log = succeed(command())
    assert "1200 documents (1200 with only one sentence)" in log
    (warning,) = [line for line in log.splitlines() if "WARNING" in line]
    assert "No record has its sentences in order" in warning


def test_text_that_is_not_utf8_is_named_by_line(command, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\nzw\xf6lf\n")
    assert_fails(run(command()), 1, "a.txt, line 3", "not UTF-8")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (["--output_file={0}/a,{0}/b", "--num_shards=3"], ["--num_shards", "--output_file"]),
        (["--output_file={0}/a", "--num_shards=3", "--parallel"], ["--num_shards", "--parallel"]),
        (["--num_shards=3"], ["--num_shards", "--output_file"]),
        (["--output_file={0}/a,{0}/./a.json"], ["--output_file", "/./a.json", "header of {0}/a;"]),
        (["--output_file={0}/a", f"--num_shards={10**9}"], ["num_shards"]),
        (["--output_file={0}/a", f"--max_seq_length={10**9}"], ["max_seq_length"]),
        (["--output_file={0}/a", f"--ngram={10**9}"], ["ngram"]),
        (["--output_file={0}/a", "--random_seed=-1"], ["random_seed"]),
        (["--output_file={0}/a", "--masked_lm_prob=nan"], ["--masked_lm_prob", "finite"]),
        (["--output_file={0}/a", "--short_seq_prob=nan"], ["--short_seq_prob", "finite"]),
    ],
)
def test_conflicting_flags_are_an_error(command, tmp_path, flags, parts):
    flags, parts = ([text.format(tmp_path) for text in texts] for texts in (flags, parts))
    assert_fails(run(command(*flags)), 2, *parts)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_given_flags_override_the_defaults_of_bert(command, tmp_path):
    """Then the records equal those of an ALBERT byte for byte."""
    same = ["--norandom_next_sentence", "--do_whole_word_mask", "--ngram=3", "--model_type=bert"]
    made = {}
    for name, flags in {"albert": [], "given": same, "bert": ["--model_type=bert"]}.items():
        succeed(command(f"--output_file={tmp_path / name}", *flags))
        made[name] = (tmp_path / name).read_bytes()
    assert made["given"] == made["albert"] != made["bert"]
