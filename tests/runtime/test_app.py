"""What all programs have in common as commands."""

from __future__ import annotations

import re
import sys

import pytest

from tests.conftest import ROOT, run

OF_ALL_RUNS = {"output_dir", "init_checkpoint", "device", "use_horovod", "seed", "max_seq_length"}


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (["run_squad_v1.py"], {*OF_ALL_RUNS, "train_file", "doc_stride", "use_tpu"}),
        (["run_classifier.py"], {*OF_ALL_RUNS, "task_name", "warmup_step"}),
        (["run_pretraining.py"], {*OF_ALL_RUNS, "input_file", "masked_lm_budget"}),
        (["check_setup.py", "run_classifier.py"], {*OF_ALL_RUNS, "task_name", "bf16", "json"}),
        (["create_pretraining_data.py"], {"input_file", "dupe_factor"}),
        (["train_sentencepiece.py"], {"input_file", "model_prefix"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_help_explains_every_flag(command, flags):
    """And none of those that TensorFlow and absl bring along."""
    program, *arguments = command
    result = run([sys.executable, str(ROOT / program), *arguments, "--help"])
    assert result.returncode == 0
    shown = re.findall(r"^  --(?:\[no\])?(\w+):", result.stdout, re.MULTILINE)
    assert flags <= set(shown), result.stderr
    assert not set(shown) & {"verbosity", "logtostderr", "runs_per_test"}
    assert f"python {program}" in result.stdout
    # An example's lines go on with a backslash.
    assert not re.search(r"\S {3,}--", result.stdout)


def test_what_is_no_flag_is_an_error():
    result = run([sys.executable, str(ROOT / "check_setup.py"), "run_else.py", "--bf16"])
    assert result.returncode == 2
    assert "'run_else.py' is not a flag" in result.stderr


def test_a_flagfile_that_is_no_text(tmp_path):
    (tmp_path / "flags").write_bytes(b"--seed=\xff\xfe")
    result = run([sys.executable, str(ROOT / "check_setup.py"), f"--flagfile={tmp_path / 'flags'}"])
    assert result.returncode == 2
    assert "check_setup.py: error: --flagfile: no file of flags" in result.stderr
    assert "Traceback" not in result.stderr
