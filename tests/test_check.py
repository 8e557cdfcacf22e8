"""`albert check`: its report, and the faults that would make a job fail."""

import json
import os
import re

import pytest
import tensorflow as tf
from absl.flags import IllegalFlagValueError

from albert.cli.check import CheckSettings, find_task
from albert.core.errors import FlagError
from albert.devices import habana
from albert.preflight import checks
from albert.preflight.report import Row, print_reports, table_line
from tests.helpers.checkpoints import weights
from tests.helpers.files import settings_of
from tests.helpers.forking import ROOT
from tests.helpers.glue import write_all
from tests.helpers.running import albert, run, run_as_workers, succeed
from tests.helpers.squad import squad_command
from tests.helpers.tiny_runs import MODEL


def check(*command):
    return [*albert("check"), *map(str, command)]


def command(squad_dir, output_dir, *flags):
    return check(*squad_command(squad_dir, output_dir, *flags)[1:])


def rows_of(result):
    assert "Traceback" not in result.stderr
    ranks = json.loads(result.stdout)["ranks"]
    return [{row["item"]: row["value"] for row in rows} for rows in ranks]


def faults_of(result):
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert result.stdout.endswith("the job would fail\n")
    return [line for line in result.stdout.splitlines() if line.startswith("FAILS")]


def test_a_job_that_can_run_is_described(trained, squad_dir, tmp_path):
    names = {"train": "train.tf_record", "predict": "eval.tf_record"}
    features = [f"--{flag}_feature_file={trained / name}" for flag, name in names.items()]
    features.append(f"--predict_feature_left_file={trained / 'eval_left.npz'}")
    checkpoint = f"--init_checkpoint={trained / 'model.ckpt-best'}"
    before = {path: path.stat().st_mtime_ns for path in trained.iterdir()}
    result = run(command(squad_dir, tmp_path, "--json", "--bf16", checkpoint, *features))
    assert result.returncode == 0, result.stdout
    report = json.loads(result.stdout)
    assert not any(row["warns"] for row in report["ranks"][0])
    assert {"rule": "allowlist", "op": "MatMul", "nodes": 40} in report["bf16_plan"]["operations"]
    assert report["bf16_plan"]["casts"]["bfloat16"] > 0
    (rows,) = rows_of(result)
    expected = {
        "TensorFlow": tf.__version__,
        "device": "cpu (no Gaudi card, no GPU found)",
        "HPU": habana.why_unavailable(),
        # All variables fit except the optimizer's: 25 of the encoder, 2 of the head.
        "variables taken": "27",
        "variables that are new": "none",
        "variables not used": "global_step",
        "training examples": "48",
        "training features": "reused",
        "prediction features": "reused",
        "steps": "12, 1 of them warmup, 8 examples each",
        "epochs": "2.00",
    }
    assert rows.items() >= expected.items()
    assert rows["vocabulary"].startswith("200 pieces")
    assert re.match(r"3 of 0\.\d MB; ", rows["checkpoints"])
    assert rows["activations"].endswith(" MB")
    assert re.match(r"0\.\d\d GB needed, [\d.]+ GB ", rows["host memory"])
    assert rows["type"].startswith("float32")
    assert {path: path.stat().st_mtime_ns for path in trained.iterdir()} == before


@pytest.mark.slow
def test_every_run_of_a_job_is_checked(squad_dir, tmp_path):
    write_all(tmp_path, ["n", "r"])
    job = check("classify", "--task_name=mrpc,sts-b", f"--data_dir={tmp_path}", "--do_train")
    job += [f"--output_dir={tmp_path}/out", "--train_batch_size=4", "--max_seq_length=32"]
    job += [flag.format(squad=squad_dir) for flag in MODEL]
    result = run(job)
    assert result.returncode == 0 and result.stdout.count("the job can run\n") == 2
    (tmp_path / "STS-B/train.tsv").unlink()
    result = run([*job, "--json"])
    assert result.returncode == 1 and "Traceback" not in result.stderr
    first, second = map(json.loads, result.stdout.splitlines())
    assert (first["ok"], second["ok"]) == (True, False)
    rows = {row["item"]: row["value"] for row in first["ranks"][0]}
    assert rows["name"] == "MRPC"
    assert rows["steps"] == "800, 200 of them warmup, 4 examples each"
    assert second["ranks"][0][0]["value"] == "STS-B"
    (fault,) = (row["value"] for row in second["ranks"][0] if not row["ok"])
    assert fault.startswith(f"{tmp_path}/STS-B/train.tsv does not exist")


def test_bad_flags_and_programs_are_errors():
    with pytest.raises(IllegalFlagValueError, match="--device_memory=32: '32' is not a size"):
        settings_of(CheckSettings, "--device_memory=32")
    settings = settings_of(CheckSettings, "--estimate", "--device_memory=32GB")
    with pytest.raises(FlagError, match="--estimate measures this machine, and --device_memory"):
        checks.check(None, None, settings, "")
    name = "create_pretraining_data.py"
    with pytest.raises(FlagError, match=f"^{name} cannot be checked; .*pretrain, run_squad_v1.py"):
        find_task(name)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--output_dir=README.md", "README.md is not a folder"),
        ("--patience=2 --predict_file=", "--patience need data to score on"),
        # One checkpoint per step for a billion steps.
        ("--train_steps=1000000000 --save_checkpoints_steps=1", r"1000000000 of 0\.\d MB; "),
        ("--device_memory=1MB", r"device memory +[\d.]+ MB needed, 1\.0 MB given by --device_m"),
    ],
)
def test_each_fault_is_named(squad_dir, tmp_path, flags, message):
    result = run(command(squad_dir, tmp_path, *flags.split()), cwd=ROOT)
    assert any(re.search(message, line) for line in faults_of(result)), result.stdout
    if "--device_memory" in flags:
        assert "host memory" not in result.stdout
        assert "none: training starts from random weights" in result.stdout


def test_all_missing_files_are_named_together(squad_dir, tmp_path):
    flags = ["albert_config_file", "init_checkpoint", "train_file", "predict_file"]
    flags = [f"--{name}={name}.none" for name in flags]
    flags += ["--spm_model_file=", "--do_predict=false", "--use_tpu"]
    lines = faults_of(run(command(squad_dir, tmp_path, *flags)))
    parts = ["use_tpu", "--vocab_file is required", "config_file.none", "train_file.none", "init_"]
    assert all(part in line for part, line in zip(parts, lines, strict=True)), lines


def test_without_a_job_the_machine_is_checked():
    for flags, code in (([], 0), (["--device=hpu"], 1)):
        result = run(check("--json", *flags))
        assert result.returncode == code, result.stdout
        (rows,) = rows_of(result)
        assert {"TensorFlow", "cores", "Horovod"} <= rows.keys() and "vocabulary" not in rows
    assert run(check()).stdout.splitlines()[-1].startswith("the machine is ready; add a job's")
    missing = "--data_dir, --albert_config_file or --bert_config_file, --spm_model_file or"
    assert missing in "".join(faults_of(run(check("run_race.py"))))


def test_flags_other_than_the_runs_are_named(trained, squad_dir):
    flags = "--doc_stride=17", "--learning_rate=2", "--json"
    (rows,) = rows_of(run(command(squad_dir, trained, *flags)))
    expected = "will be made again: it was made with other values of doc_stride (was 16, is 17)"
    assert rows["training features"] == expected
    assert "--learning_rate (was 0.001, is 2.0)" in rows["error"]


def test_without_training_no_training_step_must_fit(trained, squad_dir):
    flags = ["--train_file=", "--train_batch_size=1000000"]
    result = run(command(squad_dir, trained, *flags))
    assert result.returncode == 0, result.stdout
    assert "host memory" not in result.stdout


@pytest.mark.each_python
@pytest.mark.slow
def test_a_run_in_bfloat16_equals_its_plan(trained, squad_dir, tmp_path):
    """They agree on nodes and casts; the run's checkpoints fit float32."""
    environment = {**os.environ, "TF_BF16_CONVERSION": "1"}
    flags = ["--train_steps=1", "--do_predict=false", "--remove_padding=false"]
    initial = f"--init_checkpoint={trained}/model.ckpt-best"
    job = squad_command(squad_dir, tmp_path, *flags, initial)
    planned = run(check(*job[1:], "--bf16"), env=environment).stdout
    done = succeed(job, env=environment)
    assert "bfloat16 by " in done and "27 variables taken; new: none" in done
    plain = {name: (v.shape, v.dtype) for name, v in weights(trained).items()}
    written = weights(tmp_path, "model.ckpt-1")
    assert {name: (v.shape, v.dtype) for name, v in written.items()} == plain
    summaries = {
        re.search(r"\d+ of \d+ float32 operations, .* back.*", x)[0] for x in (planned, done)
    }
    assert len(summaries) == 1
    # Two layers of six dense layers and one before them, once forward and twice backward; the
    # pooler's forward only.
    (line,) = (x for x in planned.splitlines() if x.split()[:2] == ["allowlist", "MatMul"])
    assert int(line.split()[2]) == (2 * 6 + 1) * 3 + 1
    assert "cast to bfloat16" in planned


@pytest.mark.slow
def test_a_classification_is_checked_and_timed(squad_dir, tmp_path):
    for part in ("train", "dev"):
        text = "label\ttext_a\nx\tbo ra\ny\tti\nx\tmo\n"
        (tmp_path / f"{part}.tsv").write_text(text)
    flags = f"--data_dir={tmp_path} --output_dir={tmp_path}/out {' '.join(MODEL)} "
    flags += "--task_name=tsv --max_seq_length=32 --do_train --do_eval --train_step=7"
    flags += " --warmup_step=2 --train_batch_size=2 --remove_padding=false"
    job = [ROOT / "run_classifier.py", *flags.format(squad=squad_dir).split()]
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    (rows,) = rows_of(run(check(*job, "--estimate", "--json"), env=environment))
    made = {path.name for path in (tmp_path / "out").iterdir()}
    features = {f"tsv_{part}.tf_record" for part in ("train", "eval")}
    assert made == {*features, *(f"{name}.json" for name in features)}, "which the job reuses"
    assert not list((tmp_path / "temporary").iterdir())
    assert rows["labels"] == "x, y"
    assert rows["train examples"] == rows["dev examples"] == "3"
    assert rows["train features"] == "will be made"
    assert rows["steps"] == "7, 2 of them warmup, 2 examples each"
    assert re.search(r": 7 steps of 2 examples, [\d.]+ per second$", rows["training"])
    assert ": 1 x 3 features, " in rows["scoring"]


def test_what_differs_on_another_rank_is_shown_with_it(capsys):
    common, other = Row("files", "own", "a"), Row("files", "own", "b")
    assert print_reports([[common], [common, other]], None, ("yes", "no"), False, None)
    expected = [table_line(common), f"rank 1: {table_line(other)}", "yes"]
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.usefixtures("mpirun")
class TestTwoWorkers:
    def test_another_number_of_workers_resumes_the_run(self, trained, squad_dir):
        flags = ["--use_horovod=true", "--elastic_resume", "--train_batch_size=2"]
        flags += ["--shard_optimizer=state", "--estimate", "--do_predict=false", "--json"]
        before = {path: path.stat().st_mtime_ns for path in trained.iterdir()}
        result = run_as_workers(2, command(squad_dir, trained, *flags))
        assert result.returncode == 0, result.stderr
        first, second = rows_of(result)
        assert first["workers"] == second["workers"] == "2"
        assert first["steps"] == "12, 1 of them warmup, 8 examples each"
        assert first["output folder"] == "this run, at step 12"
        assert first["checkpoints"].startswith("0 of "), "the run is done, so it needs no space"
        assert ": 12 steps of 8 examples, " in first["training"]
        assert "training" not in second
        for rows in (first, second):
            # Two moments, half of each; sums of two batches' gradients.
            assert rows["optimizer state"] == rows["accumulated gradients"] == rows["parameters"]
        assert {path: path.stat().st_mtime_ns for path in trained.iterdir()} == before

    def test_every_rank_checks_its_host(self, squad_dir, tmp_path):
        """tests/test_workers.py has what differs between ranks."""
        job = command(squad_dir, tmp_path, "--use_horovod=true")
        result = run_as_workers(2, job, "--train_file=missing.json")
        assert result.returncode == 1
        assert re.search("rank 1: FAILS files .*missing.json", result.stdout), result.stdout
        assert result.stdout.count("the job would fail") == 1
        assert not list(tmp_path.iterdir())
