"""train_sentencepiece.py as a command."""

from __future__ import annotations

import sys

import sentencepiece as spm

from tests.helpers.forking import ROOT
from tests.helpers.running import assert_fails, run, succeed


def test_model_vocabulary_and_their_reuse(squad_dir, tmp_path):
    files = [f"--input_file={squad_dir}/*.txt", f"--model_prefix={tmp_path}/new/spm"]
    command = [sys.executable, str(ROOT / "train_sentencepiece.py"), *files, "--vocab_size=150"]
    succeed(command)
    path = tmp_path / "new" / "spm.model"
    model = spm.SentencePieceProcessor(model_file=str(path))
    lines = (tmp_path / "new" / "spm.vocab").read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[0] for line in lines] == [model.id_to_piece(i) for i in range(150)]
    before = path.stat().st_mtime_ns

    assert f"Reusing {path}" in succeed(command)
    assert path.stat().st_mtime_ns == before

    for size, fault in ((10**5, "100000 is more than"), (2**31, "must be below")):
        assert_fails(run([*command, f"--vocab_size={size}"]), 2, f"error: --vocab_size {fault}")
    assert path.stat().st_mtime_ns == before
