"""The published model sizes and the flag files."""

from __future__ import annotations

import json

import pytest

from modeling import AlbertConfig
from tests.conftest import ROOT, run, squad_command

# Millions of parameters, table 1 of https://arxiv.org/abs/1909.11942.
PUBLISHED = {"base": 12, "large": 18, "xlarge": 60, "xxlarge": 235}


def parameters(config: AlbertConfig) -> int:
    """Parameters of the encoder and its pooler, layer by layer."""
    e, h, i = config.embedding_size, config.hidden_size, config.intermediate_size
    rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
    block = 4 * (h * h + h) + (h * i + i) + (i * h + h) + 2 * 2 * h
    return rows * e + 2 * e + (e * h + h) + block + (h * h + h)


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("size", PUBLISHED)
def test_sizes_are_the_published_ones(size, version):
    config = AlbertConfig.from_json_file(str(ROOT / "configs" / f"albert_{size}_{version}.json"))
    assert parameters(config) / 1e6 == pytest.approx(PUBLISHED[size], rel=0.06)
    has_dropout = version == "v1" and size != "xxlarge"
    assert (config.hidden_dropout_prob > 0) == has_dropout


@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "configs").glob("*.flags")))
def test_flag_files_are_read(name, squad_dir, tmp_path):
    """Each is accepted by its program, which then records what it says."""
    file = ROOT / "configs" / name
    flagfile = f"--flagfile={file}"
    fits = ["--max_seq_length=64", "--max_query_length=20", "--doc_stride=16", "--train_steps=1"]
    command = squad_command(squad_dir, tmp_path, flagfile, *fits, "--do_predict=false")
    result = run(command)
    assert result.returncode == 0, result.stderr
    settings = json.loads((tmp_path / "run.json").read_text())["settings"]
    lines = [line.strip().lstrip("-") for line in file.read_text().splitlines()]
    flags = dict(line.split("=") for line in lines if line and not line.startswith("#"))
    for flag in ("train_batch_size", "learning_rate", "num_train_epochs"):
        assert settings[flag] == float(flags[flag])
