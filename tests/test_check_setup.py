"""check_setup.py as a command: what it finds, and when a job would fail."""

from __future__ import annotations

import json
import os

import pytest

from tests.conftest import ROOT, run, squad_command, under_mpirun


def command(squad_dir, output_dir, *flags):
    program, script, *rest = squad_command(squad_dir, output_dir, *flags)
    return [program, script.replace("run_squad_v1.py", "check_setup.py"), *rest]


def rows_of(result):
    """The rows of every rank, by item."""
    ranks = json.loads(result.stdout)["ranks"]
    return [{row["item"]: row["value"] for row in rows} for rows in ranks]


def test_a_job_that_can_run(trained, squad_dir, tmp_path):
    flags = ["--json", f"--init_checkpoint={trained / 'model.ckpt-best'}"]
    result = run(command(squad_dir, trained, *flags))
    assert result.returncode == 0, result.stderr
    (rows,) = rows_of(result)
    assert rows["TensorFlow"].startswith("2.15.")
    assert rows["device"].startswith("cpu (no HPU: habana-tensorflow needs CPython 3.10")
    assert rows["vocabulary"].startswith("200 pieces")
    # All but the optimizer's of the checkpoint fit: 25 of the encoder, 2 of the head.
    assert rows["variables taken"] == "27"
    assert rows["variables that are new"] == "none"
    assert rows["variables not used"] == "global_step"
    assert rows["training examples"] == "48"
    assert rows["training features"] == rows["prediction features"] == "reused"
    assert rows["steps"] == "12, 1 of them warmup, 8 examples each"
    assert rows["activations"].endswith(" GB")
    assert rows["TF_BF16_CONVERSION"] == "not set: the run is in float32"


def test_nothing_is_written(squad_dir, tmp_path):
    result = run(command(squad_dir, tmp_path / "out"))
    assert result.returncode == 0, result.stderr
    assert "to be made" in result.stdout
    assert result.stdout.endswith("the job can run\n")
    assert not list(tmp_path.iterdir())


def test_features_of_other_flags(trained, squad_dir):
    result = run(command(squad_dir, trained, "--doc_stride=17", "--json"))
    (rows,) = rows_of(result)
    assert (
        rows["training features"] == "to be made anew: it was made with doc_stride 16, now it is 17"
    )


def test_a_job_that_would_fail(squad_dir, tmp_path):
    config = f"--albert_config_file={ROOT / 'configs/albert_base_v2.json'}"
    result = run(command(squad_dir, tmp_path, config))
    assert result.returncode == 1
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("FAILS"))
    assert "200 pieces" in line and "vocab_size of 30000" in line
    assert result.stdout.endswith("the job would fail\n")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("flag", "part"),
    [
        ("--device=hpu", "--device=hpu: habana-tensorflow needs CPython 3.10"),
        ("--device=gpu", "TensorFlow sees no GPU"),
        ("--train_file=missing.json", "missing.json cannot be read"),
        ("--init_checkpoint=missing", "missing: no checkpoint there"),
        ("--max_seq_length=500", "positions"),
    ],
)
def test_what_fails_is_named(squad_dir, tmp_path, flag, part):
    result = run(command(squad_dir, tmp_path, flag))
    assert result.returncode == 1
    assert any(part in line for line in result.stdout.splitlines() if line.startswith("FAILS"))


def test_the_bfloat16_plan(squad_dir, tmp_path):
    result = run(command(squad_dir, tmp_path, "--bf16"))
    assert result.returncode == 0, result.stderr
    # Two layers of six dense layers and one before them, once forward and twice backward; the
    # pooler's forward only.
    (line,) = (x for x in result.stdout.splitlines() if x.split()[:2] == ["allowlist", "MatMul"])
    assert int(line.split()[2]) == (2 * 6 + 1) * 3 + 1
    assert "cast to bfloat16" in result.stdout


def test_a_bad_bfloat16_configuration(squad_dir, tmp_path):
    environment = {**os.environ, "TF_BF16_CONVERSION": str(tmp_path / "none.json")}
    result = run(command(squad_dir, tmp_path / "out"), env=environment)
    assert result.returncode == 1
    assert "none.json cannot be read" in result.stdout


@pytest.mark.usefixtures("mpirun")
def test_every_rank_checks_its_host(squad_dir, tmp_path):
    good = command(squad_dir, tmp_path, "--use_horovod=true")
    script = '[ "$OMPI_COMM_WORLD_RANK" = 1 ] && set -- "$@" --train_file=missing.json; exec "$@"'
    result = run(under_mpirun(2, ["bash", "-c", script, "bash", *good]))
    assert result.returncode == 1
    assert "rank 1: FAILS data" in result.stdout and "missing.json" in result.stdout
    assert result.stdout.count("the job would fail") == 1
    result = run(under_mpirun(2, [*good, "--json"]))
    assert result.returncode == 0, result.stderr
    assert [rows["workers"] for rows in rows_of(result)] == ["2", "2"]
