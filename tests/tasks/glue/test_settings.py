"""A job of several tasks and seeds: runs, flags, files, table; test_configs.py has the presets."""

import json

import numpy as np
import pytest

from albert.core.errors import FlagError
from albert.tasks.glue.benchmark import as_json, table_lines
from albert.tasks.glue.settings import GlueSettings
from tests.helpers.files import flags_in, settings_of

NAMES = ["CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE"]


def job(*flags: str) -> GlueSettings:
    return settings_of(GlueSettings, "--output_dir=out", "--do_train", "--do_eval", *flags)


def test_every_task_has_the_settings_of_its_file_which_flags_override():
    runs = job("--task_name=All").runs()
    assert [*runs] == NAMES and [*job("--task_name=all,wnli").runs()] == [*NAMES, "WNLI"]
    assert (runs["QNLI"].train_steps, runs["QNLI"].save_checkpoints_steps) == (33112, 200)
    for name, run in runs.items():
        assert (run.task_name, run.max_seq_length, run.optimizer) == (name, 512, "adamw")
        assert run.output_dir == run.cached_dir == f"out/{name.lower()}"
        assert (run.seed, run.do_train, run.do_eval) == (12345, True, True)
        assert list(run.runs().values()) == [run], "an ordinary run"
    given = "max_seq_length=128 train_batch_size=32 learning_rate=0.5 optimizer=lamb"
    runs = job("--task_name=rte, WNLI,cola", *(f"--{flag}" for flag in given.split())).runs()
    assert list(runs) == ["RTE", "WNLI", "CoLA"]
    for run in runs.values():
        assert {name: str(getattr(run, name)) for name in flags_in(given)} == flags_in(given)
    assert [run.train_steps for run in runs.values()] == [800, 800, 5336]
    # Epochs replace the steps of the file.
    (run,) = job("--task_name=mrpc", "--seeds=1", "--num_train_epochs=3").runs().values()
    assert run.num_train_epochs == 3 and "num_train_epochs" in run.given
    assert not {"train_steps", "warmup_step"} & run.given


def test_every_seed_has_its_folder_and_shares_the_features():
    runs = job("--task_name=mrpc,STS-B", "--seeds=2, 11", "--export_dir=exports").runs()
    assert [(name, run.seed, run.output_dir) for name, run in runs.items()] == [
        *(("MRPC, seed 2", 2, "out/mrpc/seed-2"), ("MRPC, seed 11", 11, "out/mrpc/seed-11")),
        *(("STS-B, seed 2", 2, "out/sts-b/seed-2"), ("STS-B, seed 11", 11, "out/sts-b/seed-11")),
    ]
    run = runs["STS-B, seed 2"]
    assert (run.export_dir, run.cached_dir) == ("exports/sts-b/seed-2", "out/sts-b")
    runs = job("--task_name=all", "--cached_dir=cached").runs().values()
    assert {run.cached_dir for run in runs} == {"cached"}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--do_predict"], [("mismnli", True, True), ("ax", False, True)]),
        ([], [("mismnli", True, False)]),
        (["--do_eval=false"], []),
        (["--do_eval=false", "--do_predict"], [("mismnli", False, True), ("ax", False, True)]),
    ],
)
def test_the_model_of_mnli_serves_the_other_sets(flags, expected):
    settings = job("--task_name=mnli,rte", "--seeds=3", "--export_dir=exports", *flags)
    mnli, rte = settings.runs().values()
    assert rte.follow_ups() == []
    runs = mnli.follow_ups()
    assert [(run.task_name, run.do_eval, run.do_predict) for run in runs] == expected
    for run in runs:
        assert run.output_dir == f"out/mnli/seed-3/{run.task_name}"
        assert (run.do_train, run.export_dir, run.cached_dir) == (False, "", "out/mnli")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--task_name=mrpc,rt", "--task_name=mrpc,rt: 'rt' is not one of .*; did you mean rte"),
        ("--task_name=al --seeds=1", "'al' is not one of all, cola, .*; did you mean all"),
        ("--task_name=mrpc,", "'' is not one of all, cola"),
        ("--task_name=mnli,mismnli", "'mismnli' is not one of all, cola"),
        ("--task_name=rte,MRPC,Rte", "--task_name=rte,MRPC,Rte has rte twice; remove one"),
        ("--task_name=rte --seeds=1 --seed=2", "--seed and --seeds contradict each other"),
        ("--task_name=all --input_file=x", "--input_file is for a single run of one task; remove"),
        ("--task_name=all --tsv_regression", "--tsv_regression is for a single run of one task"),
    ],
)
def test_jobs_that_make_no_sense_are_errors(flags, message):
    with pytest.raises(FlagError, match=message):
        job(*flags.split()).runs()
    for seeds in ("", "1,", "1,x", "1, 01", "2147483648"):
        with pytest.raises(FlagError, match="seeds.*must be different whole numbers, such as 1,2"):
            GlueSettings.of(task_name="rte", seeds=seeds)


# Human performance: table 2 of https://arxiv.org/abs/1905.10425, whose average is 87.1.
HUMANS = {
    "cola": {"matthew_corr": 0.664, "eval_accuracy": 0.0},
    "sst-2": {"eval_accuracy": 0.978},
    "mrpc": {"eval_accuracy": 0.808, "f1": 0.863},
    "sts-b": {"pearson": 0.927, "spearman": 0.926, "MSE": 7.0},
    "qqp": {"eval_accuracy": 0.804, "f1": 0.595},
    "mnli": {"eval_accuracy": 0.920},
    "mismnli": {"eval_accuracy": 0.928},
    "qnli": {"eval_accuracy": 0.912},
    "rte": {"eval_accuracy": 0.936},
    "wnli": {"eval_accuracy": 0.959},
}


def test_the_table_has_the_papers_columns_and_the_leaderboards_average():
    assert table_lines({task: {12345: scores} for task, scores in HUMANS.items()}) == [
        "MNLI-m/mm  QNLI  QQP        RTE   SST-2  MRPC       CoLA  STS-B      WNLI  average",
        "92.0/92.8  91.2  80.4/59.5  93.6  97.8   80.8/86.3  66.4  92.7/92.6  95.9  87.1",
    ]


def test_several_seeds_give_medians():
    accuracies, f1s = [0.5, 0.9, 0.625], [0.75, 0.25, 0.5]
    results = {
        "mrpc": {
            seed: {"eval_accuracy": accuracy, "f1": f1}
            for seed, (accuracy, f1) in enumerate(zip(accuracies, f1s, strict=True))
        },
        # An even number: another run has not finished yet.
        "rte": {0: {"eval_accuracy": 0.25}, 1: {"eval_accuracy": 0.5}},
    }
    assert table_lines(results) == ["RTE   MRPC       average", "37.5  62.5/50.0  46.9"]
    content = json.loads(json.dumps(as_json(results)))
    assert content["average"] == (0.375 + (0.625 + 0.5) / 2) / 2
    deviation = pytest.approx(np.std(f1s, ddof=1))
    spread = {"median": 0.5, "lowest": 0.25, "highest": 0.75, "deviation": deviation}
    assert content["tasks"]["mrpc"]["f1"] == spread
    assert content["by_seed"]["mrpc"]["1"] == {"eval_accuracy": 0.9, "f1": 0.25}
    # One seed has no deviation: NaN would not be JSON.
    content = as_json({"rte": {7: {"eval_accuracy": 0.25}}})
    spread = {"median": 0.25, "lowest": 0.25, "highest": 0.25}
    assert content["tasks"] == {"rte": {"eval_accuracy": spread}}
