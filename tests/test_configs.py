"""The published model sizes and the flag files."""

from __future__ import annotations

import json
import sys

import pytest

from glue.tasks import PROCESSORS
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


# What the flag files say, by hand from the Habana README, Google's README and its run_glue.sh.
SQUAD = {
    "num_train_epochs": "2",
    "max_seq_length": "384",
    "doc_stride": "128",
    "max_query_length": "64",
    "warmup_proportion": "0.1",
    "save_checkpoints_steps": "5000",
}
FLAG_FILES = {
    "squad_v1.1": {"train_batch_size": "32", "learning_rate": "3e-05", **SQUAD},
    "squad_v1.1_google": {"train_batch_size": "48", "learning_rate": "5e-05", **SQUAD},
    **{
        f"glue_{task.lower()}": {
            "task_name": task,
            "max_seq_length": "512",
            "optimizer": "adamw",
            "train_batch_size": batch,
            "learning_rate": rate,
            "train_step": steps,
            "warmup_step": warmup,
            "save_checkpoints_steps": every,
        }
        for task, warmup, rate, steps, every, batch in (
            ("CoLA", "320", "1e-5", "5336", "100", "16"),
            ("MNLI", "1000", "3e-5", "10000", "100", "128"),
            ("MRPC", "200", "2e-5", "800", "100", "32"),
            ("QNLI", "1986", "1e-5", "33112", "200", "32"),
            ("QQP", "1000", "5e-5", "14000", "100", "128"),
            ("RTE", "200", "3e-5", "800", "100", "32"),
            ("SST-2", "1256", "1e-5", "20935", "100", "32"),
            ("STS-B", "214", "2e-5", "3598", "100", "16"),
        )
    },
}
GLUE = sorted(name for name in FLAG_FILES if name.startswith("glue_"))


def flags_of(name: str) -> dict[str, str]:
    text = (ROOT / "configs" / f"{name}.flags").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines()]
    return dict(
        line.removeprefix("--").split("=") for line in lines if line and not line.startswith("#")
    )


def test_flag_files_say_what_the_references_say():
    found = {path.stem: flags_of(path.stem) for path in (ROOT / "configs").glob("*.flags")}
    assert found == FLAG_FILES


@pytest.mark.parametrize("name", sorted(FLAG_FILES.keys() - {*GLUE}))
def test_flag_files_of_squad_are_read(name, squad_dir, tmp_path):
    """Each is accepted by its program, which then records what it says."""
    flagfile = f"--flagfile={ROOT / 'configs' / name}.flags"
    fits = ["--max_seq_length=64", "--max_query_length=20", "--doc_stride=16", "--train_steps=1"]
    command = squad_command(squad_dir, tmp_path, flagfile, *fits, "--do_predict=false")
    result = run(command)
    assert result.returncode == 0, result.stderr
    settings = json.loads((tmp_path / "run.json").read_text())["settings"]
    for flag in ("train_batch_size", "learning_rate", "num_train_epochs"):
        assert settings[flag] == float(FLAG_FILES[name][flag])


def test_flag_files_of_glue_are_read(squad_dir, tmp_path):
    """The program takes all of them, the last of which counts, and knows their tasks."""
    assert {FLAG_FILES[name]["task_name"].lower() for name in GLUE} <= PROCESSORS.keys()
    result = run(
        [
            sys.executable,
            str(ROOT / "run_classifier.py"),
            *(f"--flagfile={ROOT / 'configs' / name}.flags" for name in GLUE),
            f"--albert_config_file={ROOT / 'configs' / 'albert_base_v2.json'}",
            f"--spm_model_file={squad_dir / 'spm.model'}",
            f"--output_dir={tmp_path}",
            f"--data_dir={tmp_path / 'none'}",
            "--do_train",
        ]
    )
    assert result.returncode == 1
    assert result.stderr.endswith(f"error: --data_dir {tmp_path / 'none'} is no folder\n")
