"""create_pretraining_data.py as a command: files, flags, and what goes wrong."""

from __future__ import annotations

import sys

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.forking import ROOT
from tests.helpers.running import run

TEXT = "\n\n".join(
    f"The house number {k} is old.\nIt has {k} doors, and 12, 13 windows.\nNobody lives there."
    for k in range(400)
)


@pytest.fixture(scope="module")
def folder(squad_dir, tmp_path_factory):
    """A folder with two text files; the SentencePiece model is not made for them."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "a.txt").write_text(TEXT)
    (folder / "b.txt").write_text(TEXT.replace("house", "tower"))
    return folder


def command(folder, squad_dir, *flags):
    return [
        sys.executable,
        str(ROOT / "create_pretraining_data.py"),
        f"--input_file={folder}/*.txt",
        f"--spm_model_file={squad_dir / 'spm.model'}",
        "--dupe_factor=2",
        "--max_seq_length=48",
        "--max_predictions_per_seq=6",
        *flags,
    ]


def make(text, squad_dir, *flags):
    """Runs a command on a text file that must end well; returns its log."""
    result = run(command(text.parent, squad_dir, f"--input_file={text}", *flags))
    assert result.returncode == 0, result.stderr
    return result.stderr


def assert_fails(result, code, *parts):
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    (line,) = [line for line in result.stderr.splitlines() if ": error: " in line]
    for part in parts:
        assert part in line


def test_shards_and_their_reuse(folder, squad_dir, tmp_path):
    flags = (f"--output_file={tmp_path}/out/data", "--num_shards=1", "--preprocess_workers=2")
    result = run(command(folder, squad_dir, *flags))
    assert result.returncode == 0, result.stderr
    path = tmp_path / "out" / "data"
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    assert f"{len(records)} records in 1 files" in result.stderr
    assert len(records) > 2 * 800
    before = path.stat().st_mtime_ns
    again = run(command(folder, squad_dir, *flags))
    assert again.returncode == 0 and f"Reusing {path}" in again.stderr
    assert path.stat().st_mtime_ns == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["data", "data.json"]


def test_without_output_file_each_text_gets_one(folder, squad_dir):
    result = run(command(folder, squad_dir))
    assert result.returncode == 0, result.stderr
    for name in ("a.txt.tfrecord", "b.txt.tfrecord"):
        assert (folder / name).stat().st_size > 10000
        for file in (folder / name, folder / f"{name}.json"):
            file.unlink()


def test_a_second_run_on_a_glob_leaves_out_what_the_first_made(squad_dir, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / ".a.txt.tfrecord.x1y2").write_text("left by a process that was killed")
    (tmp_path / "a.txt.tfrecord.lock").write_text("")
    all_of_it = f"--input_file={tmp_path}/*"
    assert run(command(tmp_path, squad_dir, all_of_it)).returncode == 0
    before = (tmp_path / "a.txt.tfrecord").stat().st_mtime_ns
    again = run(command(tmp_path, squad_dir, all_of_it))
    assert again.returncode == 0, again.stderr
    assert f"Reusing {tmp_path}/a.txt.tfrecord\n" in again.stderr
    assert (tmp_path / "a.txt.tfrecord").stat().st_mtime_ns == before
    assert not list(tmp_path.glob("*.tfrecord.tfrecord*"))


def test_small_texts_make_several_files(folder, squad_dir, tmp_path):
    """As many as there are documents, each with records."""
    (tmp_path / "a.txt").write_text("\n\n".join(TEXT.split("\n\n")[:7]))
    names = [tmp_path / f"part-{k}" for k in range(7)]
    make(tmp_path / "a.txt", squad_dir, f"--output_file={','.join(map(str, names))}")
    for name in names:
        assert list(tf.data.TFRecordDataset(str(name)).as_numpy_iterator())


@pytest.mark.parametrize("text", ["\n \n\n", "Only one sentence."])
def test_text_without_a_pair_leaves_nothing(squad_dir, tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    result = run(command(tmp_path, squad_dir))
    assert_fails(result, 1, "a.txt.tfrecord", "no pair of sentences")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_documents_are_counted(squad_dir, tmp_path):
    """Without two sentences in a document nothing is left to learn of their order."""
    (tmp_path / "a.txt").write_text(TEXT)
    log = make(tmp_path / "a.txt", squad_dir)
    assert "400 documents, 0 of them of one sentence" in log and "WARNING" not in log
    (tmp_path / "b.txt").write_text(TEXT.replace("\n", "\n\n"))
    log = make(tmp_path / "b.txt", squad_dir)
    assert "1200 documents, 1200 of them of one sentence" in log
    (warning,) = [line for line in log.splitlines() if "WARNING" in line]
    assert "no record has its sentences in order" in warning


def test_text_that_is_not_utf8(squad_dir, tmp_path):
    (tmp_path / "latin.txt").write_bytes("one\ntwo\nzw\xf6lf\n".encode("latin-1"))
    result = run(command(tmp_path, squad_dir, f"--output_file={tmp_path}/data"))
    assert_fails(result, 1, "latin.txt, line 3", "not UTF-8")
    assert not list(tmp_path.glob("*data*"))


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
        (["--output_file={0}/a", "--masked_lm_prob=nan"], ["--masked_lm_prob", "finite"]),
        (["--output_file={0}/a", "--short_seq_prob=nan"], ["--short_seq_prob", "finite"]),
    ],
)
def test_flags_that_do_not_go_together(squad_dir, tmp_path, flags, parts):
    (tmp_path / "one.txt").write_text(TEXT)
    flags, parts = ([text.format(tmp_path) for text in texts] for texts in (flags, parts))
    assert_fails(run(command(tmp_path, squad_dir, *flags)), 2, *parts)
    assert [path.name for path in tmp_path.iterdir()] == ["one.txt"]


def test_what_is_given_wins_over_the_defaults_of_bert(folder, squad_dir, tmp_path):
    """Then the records are those of an ALBERT, to the byte."""
    (tmp_path / "a.txt").write_text(TEXT)
    same = ["--norandom_next_sentence", "--do_whole_word_mask", "--ngram=3", "--model_type=bert"]
    make(tmp_path / "a.txt", squad_dir, f"--output_file={tmp_path}/albert")
    make(tmp_path / "a.txt", squad_dir, f"--output_file={tmp_path}/given", *same)
    make(tmp_path / "a.txt", squad_dir, f"--output_file={tmp_path}/bert", "--model_type=bert")
    albert, given, bert = ((tmp_path / n).read_bytes() for n in ("albert", "given", "bert"))
    assert given == albert != bert


def test_a_vocabulary_without_the_unknown_token(tmp_path):
    (tmp_path / "vocab").write_text("\n".join(["[PAD]", "[CLS]", "[SEP]", "[MASK]", "house"]))
    (tmp_path / "a.txt").write_text(TEXT)
    flags = ("--spm_model_file=", f"--vocab_file={tmp_path}/vocab")
    result = run(command(tmp_path, tmp_path, *flags))
    assert_fails(result, 1, "vocab has no piece [UNK]")
