"""The table of GLUE: columns, medians and the average."""

import json

import numpy as np
import pytest

from albert.tasks.glue.table import Table

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
    table = Table({task: {12345: scores} for task, scores in HUMANS.items()})
    assert table.lines() == [
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
    table = Table(results)
    assert table.lines() == ["RTE   MRPC       average", "37.5  62.5/50.0  46.9"]
    content = json.loads(json.dumps(table.as_json()))
    assert content["average"] == (0.375 + (0.625 + 0.5) / 2) / 2
    deviation = pytest.approx(np.std(f1s, ddof=1))
    spread = {"median": 0.5, "lowest": 0.25, "highest": 0.75, "deviation": deviation}
    assert content["tasks"]["mrpc"]["f1"] == spread
    assert content["by_seed"]["mrpc"]["1"] == {"eval_accuracy": 0.9, "f1": 0.25}
    # One seed has no deviation: NaN would not be JSON.
    content = Table({"rte": {7: {"eval_accuracy": 0.25}}}).as_json()
    spread = {"median": 0.25, "lowest": 0.25, "highest": 0.25}
    assert content["tasks"] == {"rte": {"eval_accuracy": spread}}
