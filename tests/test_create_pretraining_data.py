"""create_pretraining_data.py as a command: files, flags, and what goes wrong."""

from __future__ import annotations

import sys

import pytest
import tensorflow.compat.v1 as tf

from tests.conftest import ROOT, run

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


def test_text_that_is_not_utf8(squad_dir, tmp_path):
    (tmp_path / "latin.txt").write_bytes("one\ntwo\nzw\xf6lf\n".encode("latin-1"))
    result = run(command(tmp_path, squad_dir, f"--output_file={tmp_path}/data"))
    assert_fails(result, 1, "latin.txt, line 3", "not UTF-8")
    assert not list(tmp_path.glob("*data*"))


def test_flags_that_do_not_go_together(folder, squad_dir, tmp_path):
    flags = (f"--output_file={tmp_path}/a,{tmp_path}/b", "--num_shards=3")
    assert_fails(run(command(folder, squad_dir, *flags)), 2, "--num_shards", "--output_file")
