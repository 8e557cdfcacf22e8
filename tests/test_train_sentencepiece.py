"""train_sentencepiece.py as a command."""

from __future__ import annotations

import sys

import sentencepiece as spm

from tests.helpers.files import defaults_of
from tests.helpers.forking import ROOT
from tests.helpers.running import run


def test_model_vocabulary_and_their_reuse(squad_dir, tmp_path):
    command = [
        sys.executable,
        str(ROOT / "train_sentencepiece.py"),
        f"--input_file={squad_dir}/*.txt",
        f"--model_prefix={tmp_path}/new/spm",
        "--vocab_size=150",
    ]
    result = run(command)
    assert result.returncode == 0, result.stderr
    path = tmp_path / "new" / "spm.model"
    model = spm.SentencePieceProcessor(model_file=str(path))
    lines = (tmp_path / "new" / "spm.vocab").read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[0] for line in lines] == [model.id_to_piece(i) for i in range(150)]
    before = path.stat().st_mtime_ns

    again = run(command)
    assert again.returncode == 0 and f"Reusing {path}" in again.stderr
    assert path.stat().st_mtime_ns == before

    for size, fault in ((10**5, "100000 is more than"), (2**31, "must be below")):
        other = run([*command, f"--vocab_size={size}"])
        assert other.returncode == 2 and "Traceback" not in other.stderr
        assert f"error: --vocab_size {fault}" in other.stderr
    assert path.stat().st_mtime_ns == before


def test_defaults():
    """Those of the command that google-research/albert made its vocabularies with."""
    expected = {
        "vocab_size": 30000,
        "do_lower_case": True,
        "character_coverage": 0.99995,
        "input_sentence_size": 10_000_000,
    }
    assert expected.items() <= defaults_of("train_sentencepiece").items()
