"""check_setup.py as a command: what it finds, and when a job of a program would fail."""

from __future__ import annotations

import json
import os
import re
import sys

import pytest
import tensorflow as tf

from runtime.devices import habana
from tests.helpers.forking import ROOT
from tests.helpers.running import run, run_as_workers, under_mpirun
from tests.helpers.squad import squad_command


def check(*command):
    """The command that checks a job; `command` is the job's own, as a user would type it."""
    return [sys.executable, str(ROOT / "check_setup.py"), *map(str, command)]


def command(squad_dir, output_dir, *flags):
    return check(*squad_command(squad_dir, output_dir, *flags)[1:])


def rows_of(result):
    """The rows of every rank, by item."""
    ranks = json.loads(result.stdout)["ranks"]
    return [{row["item"]: row["value"] for row in rows} for rows in ranks]


def test_a_job_that_can_run(trained, squad_dir, tmp_path):
    features = [
        f"--{flag}={trained / name}"
        for flag, name in (
            ("train_feature_file", "train.tf_record"),
            ("predict_feature_file", "eval.tf_record"),
            ("predict_feature_left_file", "eval_left.npz"),
        )
    ]
    checkpoint = f"--init_checkpoint={trained / 'model.ckpt-best'}"
    flags = ["--json", "--bf16", checkpoint, *features, "--estimate"]
    before = {path: path.stat().st_mtime_ns for path in trained.iterdir()}
    result = run(command(squad_dir, tmp_path, *flags))
    assert result.returncode == 0, result.stdout
    report = json.loads(result.stdout)
    assert not any(row["warns"] for row in report["ranks"][0])
    assert {"rule": "allowlist", "op": "MatMul", "nodes": 40} in report["bf16_plan"]["operations"]
    assert report["bf16_plan"]["casts"]["bfloat16"] > 0
    (rows,) = rows_of(result)
    assert rows["TensorFlow"] == tf.__version__
    assert rows["device"] == "cpu (no Gaudi card, no GPU found)"
    assert rows["HPU"] == habana.why_not()
    assert rows["vocabulary"].startswith("200 pieces")
    # All but the optimizer's of the checkpoint fit: 25 of the encoder, 2 of the head.
    assert rows["variables taken"] == "27"
    assert rows["variables that are new"] == "none"
    assert rows["variables not used"] == "global_step"
    assert rows["training examples"] == "48"
    assert rows["training features"] == rows["prediction features"] == "reused"
    assert rows["steps"] == "12, 1 of them warmup, 8 examples each"
    assert re.match(r"3 of 0\.\d MB; ", rows["checkpoints"])
    assert rows["activations"].endswith(" MB")
    assert re.match(r"0\.\d\d GB needed, [\d.]+ GB ", rows["host memory"])
    assert rows["TF_BF16_CONVERSION"].startswith("not set: the run is in float32")
    assert "features" not in rows, "they are there"
    assert ": 12 steps of 8 examples, " in rows["training"]
    assert {path: path.stat().st_mtime_ns for path in trained.iterdir()} == before


def seconds(value: str) -> float:
    """The duration that a row begins with."""
    minutes, rest = re.match(r"(?:(\d+) min )?([\d.]+) s", value).groups()
    return 60 * int(minutes or 0) + float(rest)


def test_the_estimate_is_what_the_run_takes(squad_dir, tmp_path):
    """Of a job that is mostly the making of graphs, on a machine that may have other work: the run
    comes at once, and the factor is generous."""
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    flags = ["--estimate", "--workers=4", "--examples_per_second=2", "--json"]
    result = run(command(squad_dir, tmp_path / "out", *flags), env=environment)
    assert result.returncode == 0, result.stderr
    (rows,) = rows_of(result)
    assert [path.name for path in tmp_path.rglob("*")] == ["temporary"]
    assert run(squad_command(squad_dir, tmp_path / "out")).returncode == 0
    # Features are made first, and scores are written last.
    names = "train.tf_record", "eval_results.json"
    began, ended = ((tmp_path / "out" / name).stat().st_mtime for name in names)
    estimated = seconds(rows["whole job"])
    assert (ended - began) / 5 < estimated < (ended - began) * 5
    assert estimated == pytest.approx(
        sum(seconds(rows[item]) for item in ("features", "training", "scoring")), abs=0.2
    )
    assert re.search(r": 12 steps of 8 .* by 2 batches after the first$", rows["training"])
    # 48 examples, twice, 32 a step; a step of 8 examples takes 4 s.
    assert rows["4 workers: training"].startswith("12.0 s: 3 steps of 32 examples, 8.00 a second")
    of_all = rows["4 workers: whole job"]
    assert ", modelled with 2.00 examples/s of a single worker, as given" in of_all


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--estimate", "--workers=0"], "--workers=0: 0 is not an integer in the range [1, "),
        (["--estimate", "--workers=two"], "--workers=two: "),
        (["--estimate", "--examples_per_second=-1"], "--examples_per_second=-1: -1.0 is not "),
        (["--estimate", "--examples_per_second=0"], "--examples_per_second=0: 0.0 is not "),
        (["--estimate", "--examples_per_second=nan"], "--examples_per_second "),
        (["--estimate", "--gbit=0"], "--gbit=0: 0.0 is not number >= 0.001"),
        (["--workers=64"], "--workers is for --estimate; add it"),
        (["--examples_per_second=3"], "--examples_per_second is for --estimate; add it"),
        (["--estimate", "--device_memory=32GB"], "needs what is measured there"),
    ],
)
def test_bad_flags_of_an_estimate(squad_dir, tmp_path, flags, message):
    result = run(command(squad_dir, tmp_path, *flags))
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.startswith("check_setup.py: error: ")
    assert len(result.stderr.splitlines()) == 1


def test_an_estimate_for_another_machine(squad_dir, tmp_path):
    """Nothing is trained here, where a batch would not even fit."""
    flags = ["--train_batch_size=1000000", "--train_steps=6", "--device_memory=1000GB"]
    flags += ["--estimate", "--examples_per_second=1e6", "--workers=1", "--json"]
    (rows,) = rows_of(run(command(squad_dir, tmp_path, *flags)))
    assert rows["1 worker: training"] == ("6.0 s: 6 steps of 1000000 examples, 1000000.00 a second")
    assert not {"training", "whole job"} & rows.keys()


def test_nothing_is_written(squad_dir, tmp_path):
    result = run(command(squad_dir, tmp_path / "out"))
    assert result.returncode == 0, result.stderr
    assert "to be made" in result.stdout
    assert result.stdout.endswith("the job can run\n")
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("WARNS"))
    assert "training starts from random weights; give --init_checkpoint" in line
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
        ("--device=hpu", f"--device=hpu: {habana.why_not()}"),
        ("--device=gpu", "TensorFlow sees no GPU"),
        ("--train_file=missing.json", "missing.json cannot be read"),
        ("--init_checkpoint=missing", "missing: no checkpoint there"),
        ("--max_seq_length=500", "positions"),
        ("--do_predict", "--do_predict needs --predict_file"),
        ("--use_tpu", "does not run on TPU"),
        ("--allreduce_dtype=bfloat16", "works on the HPU only"),
        ("--train_batch_size=500", "less than one step of 500"),
        (f"--output_dir={ROOT / 'README.md'}", "README.md is no folder"),
        ("--albert_config_file=", "--albert_config_file or --bert_config_file is required"),
    ],
)
def test_what_fails_is_named(squad_dir, tmp_path, flag, part):
    without = ["--predict_file="] if flag == "--do_predict" else []
    result = run(command(squad_dir, tmp_path, flag, *without))
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert any(part in line for line in result.stdout.splitlines() if line.startswith("FAILS"))


def test_all_that_is_missing_is_named_at_once(squad_dir, tmp_path):
    """And what is not to be read need not be there."""
    flags = ["config", "init_checkpoint", "train_file", "predict_file"]
    flags = [f"--{name.replace('config', 'albert_config_file')}={name}.none" for name in flags]
    flags += ["--spm_model_file=", "--do_predict=false", "--use_tpu"]
    result = run(command(squad_dir, tmp_path, *flags))
    found = [line for line in result.stdout.splitlines() if line.startswith("FAILS")]
    assert result.returncode == 1 and len(found) == 5, result.stdout
    parts = ["use_tpu", "--vocab_file is required", "config.none", "train_file.none", "init_check"]
    assert all(part in line for part, line in zip(parts, found, strict=True))


def test_faults_of_flags_and_files_are_listed_together(squad_dir, tmp_path):
    """The job itself names them in one line."""
    sizes = {**json.loads((squad_dir / "albert.json").read_text()), "num_attention_heads": 3}
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    question = {"id": "a", "question": "?", "answers": [], "is_impossible": True}
    paragraph = {"context": "x", "qas": [question]}
    (tmp_path / "train.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    flags = [f"--albert_config_file={tmp_path}/config.json", f"--train_file={tmp_path}/train.json"]
    flags += ["--length_buckets=32", "--doc_stride=60", f"--spm_model_file={tmp_path}/train.json"]
    parts = ["run_squad_v2", "num_attention_heads 3", "--length_buckets must end"]
    parts += ["train.json is no", "--doc_stride 60"]
    checked = run(command(squad_dir, tmp_path / "out", *flags))
    found = [line for line in checked.stdout.splitlines() if line.startswith("FAILS")]
    assert checked.returncode == 1 and len(found) == 5, checked.stdout
    assert all(part in line for part, line in zip(parts, found, strict=True)), found
    trained = run(squad_command(squad_dir, tmp_path / "out", *flags))
    (line,) = (line for line in trained.stderr.splitlines() if ": error: " in line)
    assert trained.returncode == 1 and all(part in line for part in parts), line


def test_the_machine_alone():
    for flags, code in (([], 0), (["--device=hpu"], 1)):
        result = run(check("--json", *flags))
        assert result.returncode == code, result.stdout
        (rows,) = rows_of(result)
        assert {"TensorFlow", "cores", "Horovod"} <= rows.keys() and "vocabulary" not in rows
    assert run(check()).stdout.splitlines()[-1].startswith("the machine is ready; with a job's")
    result = run(check("run_race.py"))
    missing = "--data_dir, --albert_config_file or --bert_config_file, --spm_model_file or"
    assert result.returncode == 1 and missing in result.stdout


def test_scoring_while_training_needs_what_is_scored(squad_dir, tmp_path):
    """As the job itself says."""
    result = run(command(squad_dir, tmp_path, "--patience=2", "--predict_file="))
    assert result.returncode == 1
    assert "--patience need data to score on" in result.stdout


def test_a_program_that_is_none():
    result = run(check("create_pretraining_data.py", "--input_file=x"))
    assert result.returncode == 2
    assert result.stderr == (
        "check_setup.py: error: create_pretraining_data.py is not one of "
        f"{', '.join(sorted(path.name for path in ROOT.glob('run_*.py')))}\n"
    )


def test_a_folder_with_another_run(trained, squad_dir):
    result = run(command(squad_dir, trained, "--learning_rate=2"))
    assert result.returncode == 1
    assert "--learning_rate (was 0.001, is 2.0)" in result.stdout


def test_a_full_disk(squad_dir, tmp_path):
    """A checkpoint a step for a billion steps."""
    flags = ["--train_steps=1000000000", "--save_checkpoints_steps=1"]
    result = run(command(squad_dir, tmp_path, *flags))
    assert result.returncode == 1
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("FAILS"))
    assert re.search(r"1000000000 of 0\.\d MB; ", line)


def test_memory_that_is_not_there(squad_dir, tmp_path):
    """A batch of which no host has the memory: activations are 5 MB for every 8 examples."""
    flags = ["--train_steps=5", "--train_batch_size=1000000"]
    result = run(command(squad_dir, tmp_path, *flags))
    assert result.returncode == 1
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("FAILS"))
    assert re.search(r"host memory +\d{3}\.\d\d GB needed, [\d.]+ [GM]B ", line)
    assert "lower --train_batch_size and raise --gradient_accumulation_steps" in line


def test_the_memory_of_another_machine(squad_dir, tmp_path):
    result = run(command(squad_dir, tmp_path, "--device_memory=1MB"))
    assert result.returncode == 1
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("FAILS"))
    assert re.search(r"device memory +[\d.]+ MB needed, 1\.0 MB given by --device_memory; ", line)
    assert "host memory" not in result.stdout
    result = run(command(squad_dir, tmp_path, "--device_memory=32"))
    assert result.returncode == 2
    assert "--device_memory=32: '32' is no size; write it like 32GB" in result.stderr
    assert len(result.stderr.splitlines()) == 1 and not result.stdout


@pytest.fixture
def glue_job(squad_dir, tmp_path):
    """A classification of three rows, as a user would type it after `python`."""
    rows = "".join(
        f"{label}\t{text}\n" for label, text in (("x", "bo ra"), ("y", "ti"), ("x", "mo"))
    )
    for part in ("train", "dev", "test"):
        (tmp_path / f"{part}.tsv").write_text("label\ttext_a\n" + rows)
    return [
        ROOT / "run_classifier.py",
        "--task_name=tsv",
        f"--data_dir={tmp_path}",
        f"--albert_config_file={squad_dir / 'albert.json'}",
        f"--spm_model_file={squad_dir / 'spm.model'}",
        f"--output_dir={tmp_path / 'out'}",
        "--max_seq_length=32",
        "--do_train",
        "--do_eval",
        "--do_predict",
        "--train_step=7",
        "--warmup_step=2",
        "--train_batch_size=2",
    ]


def test_a_classification(glue_job, tmp_path):
    result = run(check(*glue_job, "--estimate", "--json"))
    assert result.returncode == 0, result.stdout
    (rows,) = rows_of(result)
    assert rows["labels"] == "x, y"
    assert rows["train examples"] == rows["dev examples"] == rows["test examples"] == "3"
    assert rows["train features"] == "to be made"
    assert rows["steps"] == "7, 2 of them warmup, 2 examples each"
    assert ": 7 steps of 2 examples, " in rows["training"]
    assert ": 1 x 3 features, " in rows["scoring"]
    assert ": 1 x 3 features, " in rows["labelling"]
    assert not (tmp_path / "out").exists()
    with (tmp_path / "dev.tsv").open("a") as file:
        file.write("z\tbo\n")
    result = run(check(*glue_job))
    assert result.returncode == 1
    assert "dev.tsv, line 5: the label is 'z', not one of x, y" in result.stdout


def test_a_pretraining(squad_dir, tmp_path):
    words = (squad_dir / "text.txt").read_text().split()
    (tmp_path / "text").write_text("\n".join(" ".join(words[i : i + 6]) for i in range(0, 300, 6)))
    made = run(
        [
            sys.executable,
            str(ROOT / "create_pretraining_data.py"),
            f"--input_file={tmp_path / 'text'}",
            f"--output_file={tmp_path / 'records'}",
            f"--spm_model_file={squad_dir / 'spm.model'}",
            "--max_seq_length=32",
            "--dupe_factor=2",
        ]
    )
    assert made.returncode == 0, made.stderr
    job = [
        ROOT / "run_pretraining.py",
        f"--input_file={tmp_path / 'records'}",
        f"--albert_config_file={squad_dir / 'albert.json'}",
        f"--output_dir={tmp_path / 'out'}",
        "--max_seq_length=32",
        "--train_batch_size=4",
        "--num_train_steps=10",
        "--num_warmup_steps=3",
    ]
    result = run(check(*job, "--estimate", "--json"))
    assert result.returncode == 0, result.stdout
    (rows,) = rows_of(result)
    assert ": 10 steps of 4 examples, " in rows["training"]
    assert not (tmp_path / "out").exists()
    assert rows["checkpoint"] == "none: training starts from random weights"
    count = int(rows["training records"].split()[0])
    assert count == len(
        list(tf.data.TFRecordDataset(str(tmp_path / "records")).as_numpy_iterator())
    )
    assert rows["epochs"] == f"{40 / count:.2f}"
    assert rows["steps"] == "10, 3 of them warmup, 4 examples each"
    result = run(check(*job, "--max_predictions_per_seq=7"))
    assert result.returncode == 1
    assert "--max_predictions_per_seq is 7" in result.stdout


def test_the_bfloat16_plan(squad_dir, tmp_path):
    result = run(command(squad_dir, tmp_path, "--bf16"))
    assert result.returncode == 0, result.stderr
    # Two layers of six dense layers and one before them, once forward and twice backward; the
    # pooler's forward only.
    (line,) = (x for x in result.stdout.splitlines() if x.split()[:2] == ["allowlist", "MatMul"])
    assert int(line.split()[2]) == (2 * 6 + 1) * 3 + 1 == 40
    assert "cast to bfloat16" in result.stdout
    assert "not set: the run is in float32" in result.stdout


def test_the_bfloat16_plan_is_the_jobs(squad_dir, tmp_path):
    """To the node and the cast, as both say it."""
    environment = {**os.environ, "TF_BF16_CONVERSION": "1"}
    flags = ["--train_steps=1", "--do_predict=false"]
    job = squad_command(squad_dir, tmp_path, *flags)
    planned = run(check(*job[1:]), env=environment).stdout
    done = run(job, env=environment).stderr
    summaries = [
        re.search(r"\d+ of \d+ float32 operations, .* back.*", said)[0] for said in (planned, done)
    ]
    assert summaries[0] == summaries[1]


def test_a_bad_bfloat16_configuration(squad_dir, tmp_path):
    environment = {**os.environ, "TF_BF16_CONVERSION": str(tmp_path / "none.json")}
    result = run(command(squad_dir, tmp_path / "out"), env=environment)
    assert result.returncode == 1
    assert "none.json cannot be read" in result.stdout


@pytest.mark.parametrize("flag", ["--predict_file=", "--export_dir=export"])
def test_without_training_a_model_must_be_there(squad_dir, tmp_path, flag):
    result = run(command(squad_dir, tmp_path, "--train_file=", flag))
    assert result.returncode == 1
    expected = "nothing to do" if flag == "--predict_file=" else "has no checkpoint; train first"
    assert expected in result.stdout


def test_without_training_no_training_step_must_fit(trained, squad_dir):
    flags = ["--train_file=", "--train_batch_size=1000000"]
    result = run(command(squad_dir, trained, *flags))
    assert result.returncode == 0, result.stdout
    assert "host memory" not in result.stdout


def test_what_is_done_needs_no_room(trained, squad_dir):
    result = run(command(squad_dir, trained, "--json"))
    (rows,) = rows_of(result)
    assert rows["checkpoints"].startswith("0 of ")
    assert rows["output folder"] == "this run, at step 12"


@pytest.mark.usefixtures("mpirun")
def test_every_rank_checks_its_host(squad_dir, tmp_path):
    good = command(squad_dir, tmp_path, "--use_horovod=true")
    result = run_as_workers(2, good, "--train_file=missing.json")
    assert result.returncode == 1
    assert "rank 1: FAILS files" in result.stdout and "missing.json" in result.stdout
    assert result.stdout.count("the job would fail") == 1
    result = run_as_workers(2, good, "--seed=7")
    assert result.returncode == 1
    assert re.search(r"rank 1 on \S+ differs from rank 0 on \S+ in seed", result.stdout)
    result = run_as_workers(2, [*good, "--estimate", "--json", "--shard_optimizer=state"])
    assert result.returncode == 0, result.stderr
    first, second = rows_of(result)
    # Two moments, half of each.
    assert first["optimizer state"] == first["parameters"]
    assert first["workers"] == second["workers"] == "2"
    assert ": 6 steps of 16 examples, " in first["training"]
    assert "training" not in second
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("mpirun")
def test_another_batch_and_other_workers_that_go_on(trained, squad_dir):
    """With a run of one worker, whose steps are of 8 examples."""
    going_on = command(squad_dir, trained, "--elastic_resume", "--json")
    (rows,) = rows_of(run([*going_on, "--train_batch_size=4"]))
    expected = "12, 1 of them warmup, 8 examples each", "this run, at step 12"
    assert (rows["steps"], rows["output folder"]) == expected
    result = run([*going_on, "--train_batch_size=3"])
    assert result.returncode == 1
    assert "steps of 8 examples, which 1 worker cannot share out" in result.stdout
    assert "no number of them can; or give another --train_batch_size" in result.stdout
    job = [*going_on, "--use_horovod=true", "--estimate", "--train_batch_size=2"]
    result = run_as_workers(2, job)
    assert result.returncode == 0, result.stderr
    first, second = rows_of(result)
    assert (first["steps"], first["output folder"]) == expected
    assert ": 12 steps of 8 examples, " in first["training"]
    assert first["accumulated gradients"] == second["accumulated gradients"] == first["parameters"]


@pytest.mark.usefixtures("mpirun")
def test_a_fault_of_all_is_one_report(squad_dir, tmp_path):
    result = run(under_mpirun(2, command(squad_dir, tmp_path, "--use_horovod=true", "--use_tpu")))
    assert result.returncode == 1
    assert result.stdout.count("the job would fail") == 1
