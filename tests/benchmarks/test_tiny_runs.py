"""Runs benchmarks on tiny input, as commands or in this process: everything they call exists.

`.ci/run` itself runs `features` and `scaling`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
import tensorflow.compat.v1 as tf

from albert.modeling import BertConfig, read_config
from benchmarks import precision, train
from benchmarks.parts import turns
from tests.helpers.forking import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def usual_log():
    """Restores the log level: benchmarks log only errors, and other tests run in this process."""
    level = tf.get_logger().level
    yield
    tf.get_logger().setLevel(level)


@pytest.fixture
def give(monkeypatch):
    """Sets the command line."""
    return lambda *flags: monkeypatch.setattr("sys.argv", ["benchmark", *map(str, flags)])


def rows_of(output: str) -> dict[str, list[float]]:
    """Returns the numbers of a table's rows, by the text in the first column."""
    found = re.findall(r"^(\S.*?)  +([-+\d].*)$", output, re.MULTILINE)
    return {name: [float(n) for n in re.findall(r"\d+\.?\d*", rest)] for name, rest in found}


def test_the_programs_of_train_have_equal_losses(give, squad_dir, monkeypatch, capsys, torch):
    """Each program runs in a separate process."""
    config = str(squad_dir / "albert.json")
    row = train.Row("training", "train", config, "float32", 2, {"padded": 1.0})
    monkeypatch.setattr(train, "ROWS", {"SQuAD": row})
    sizes = ["--max_seq_length=128", "--matrix_size=64", "--batches=1", "--turns=2"]
    give(f"--data={squad_dir}", *sizes)
    assert train.main() == 0
    output = capsys.readouterr().out
    # Two turns of a batch, each with a new and then with a known shape.
    assert re.search(r"losses of the first 4 steps: [\d.e+-]+ apart", output)
    for program in (turns.OURS, *train.PEERS):
        rates = re.search(rf" {program} +([\d.]+) \(.*?\) +([\d.]+) \(", output)
        assert all(float(rate) > 0 for rate in rates.groups())


PROGRAMS_IN_PREDICTION = {
    "": "this project|transformers|transformers, compiled|ONNX Runtime|ONNX Runtime, int8",
    "--programs --questions=5 --rounds=1 --peers=transformers,onnxruntime": (
        "this project, float32|transformers, float32|ONNX Runtime|ONNX Runtime, int8"
    ),
    "--settings --peers=onnxruntime": (
        "model of albert convert|the same, fused by its optimizer|..., parallel execution|"
        "export of torch.onnx, fused by its optimizer"
    ),
}


@pytest.mark.parametrize("kind", PROGRAMS_IN_PREDICTION)
def test_every_program_of_predict_has_rates(kind, squad_dir, torch):
    sizes = ["--max_seq_length=128", "--matrix_size=64", "--batch_size=2", "--batches=1"]
    flags = [*sizes, "--turns=2", "--rows=float32", *kind.split()]
    flags += [f"--data={squad_dir}", f"--config={squad_dir / 'albert.json'}"]
    command = [sys.executable, "-m", "benchmarks.predict", *flags]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for program in PROGRAMS_IN_PREDICTION[kind].split("|"):
        row = rf"(?:^|  ){re.escape(program)} +([\d.]+) \([\d.]+-[\d.]+\)"
        median = re.search(row, result.stdout, re.MULTILINE)
        assert median and float(median[1]) > 0, result.stdout


_SMALL = "--config={}/albert.json --rounds=1"
RUNS = {
    "answers": (f"{_SMALL} --data={{}} --questions=60 --max_seq_length=128", "1.1|2.0"),
    "ask": (
        f"{_SMALL} --lengths=32,48 --peer_lengths=48 --starts=1",
        "first answer|answer, 48 tokens|encode, all lengths|48 tokens: answer|48 tokens: request, "
        "--engine=onnxruntime|48 tokens: ONNX Runtime, threads: 1",
    ),
    "bound": (
        f"{_SMALL} --batch_size=2 --seq_length=32 --steps=1 --matrix_size=64",
        "all|no GELU|none of the three",
    ),
    "memory": ("--config={}/albert.json --batch_size=2 --seq_length=32", "with|without"),
    "packing": (
        f"{_SMALL} --seq_length=64 --batch_size=2 --steps=3",
        "the text, 64|Wikipedia, 512|rows of one example|packed rows",
    ),
    "prediction_memory": ("--questions=200", "squad 1.1|evaluate 1.1|squad 2.0|evaluate 2.0"),
    "pretraining_data": (
        "--mb=0.1 --plain_mb=0.1 --dupe_factor=1 --vocab_size=200",
        "plain, one process|one process, shards|two processes, shards",
    ),
    "pretraining_text": ("--mb=0.2 --rounds=1", "plain, one process|one process|2 workers"),
    "serve": (
        f"{_SMALL} --lengths=32 --clients=1,2 --seconds=0.1",
        "32 tokens, one by one|32 tokens, 1 clients|32 tokens, 2 clients",
    ),
    "start": (f"{_SMALL} --steps=2", "--help|nothing left to do|first step"),
    "tables": ("--rows=2000", "read|check|convert"),
    "xla": (f"{_SMALL} --batch_size=2 --seq_length=32 --steps=1", "training|prediction"),
    "zero": (
        "--model={}/bert.json --batch_size=2 --seq_length=32 --rounds=1",
        "none|state|gradients",
    ),
}


@pytest.mark.usefixtures("mpirun")
@pytest.mark.parametrize("name", RUNS)
def test_a_benchmark_prints_its_rows(name, squad_dir):
    flags, expected = RUNS[name]
    shutil.copy(squad_dir / "train-v1.1.json", squad_dir / "train-v2.0.json")
    given = [flag.replace("{}", str(squad_dir)) for flag in flags.split()]
    command = [sys.executable, "-m", f"benchmarks.{name}", *given]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    # What is promised for a large model need not hold for a tiny one.
    assert result.returncode in (0, 1) and "Traceback" not in result.stderr, result.stderr
    rows = rows_of(result.stdout)
    for row in expected.split("|"):
        assert row in rows and min(rows[row][:2]) > 0, result.stdout


@pytest.mark.usefixtures("mpirun")
def test_the_report_on_a_machine_has_every_part(tmp_path):
    """On the CPU, without `transformers`: its Python has no torch."""
    report = tmp_path / "report.md"
    flags = "--device=cpu", "--quick", f"--report={report}", "--torch_python=/bin/false"
    command = [sys.executable, "-m", "benchmarks.gpu", *flags]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0 and "Traceback" not in result.stderr, result.stderr
    text = report.read_text()
    assert re.search(r"## Demo\n\n\d+ s, F1 \d+\.\d\d\n", text), text
    for work, padded in (("training", "failed"), ("prediction", "not measured")):
        rate = rf"[1-9][\d.]*, [\d.]+ GB \| {padded} \| failed \|"
        assert re.search(rf"^\| {work}/float32: .* \| 2 \| {rate}$", text, re.MULTILINE), text
    assert re.search(r"^\| 2 workers, 2 cores \| [\d.]+ \|$", text, re.MULTILINE), text


def test_pretraining_fine_tunes_with_and_without(squad_dir, tmp_path):
    (tmp_path / "text").mkdir()
    for article in json.loads((squad_dir / "train-v1.1.json").read_text())["data"]:
        text = "\n\n".join(paragraph["context"] for paragraph in article["paragraphs"])
        (tmp_path / "text" / f"{article['title']}.txt").write_text(text)
    flags = [f"--data={squad_dir}", f"--text={tmp_path}/text"]
    flags += [f"--folder={tmp_path}/out", "--seeds=7", "--dev_fraction=0.5", "--hidden_size=16"]
    flags += ["--pretraining_steps=8", "--fine_tuning_steps=1"]
    command = [sys.executable, "-m", "benchmarks.pretraining", *flags]
    for _ in range(2):
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (found,) = json.loads((tmp_path / "out/results.json").read_text())["seeds"]
    assert found["seed"] == 7 and found["pretraining"]["masked_lm_loss"] > 0
    starts = [found[arm]["init_checkpoint"] for arm in ("from scratch", "pretrained")]
    assert starts[0] is None and starts[1].endswith("model.ckpt-8")


def test_precision_tabulates_finished_runs(give, squad_dir, trained, tmp_path, monkeypatch, capsys):
    """The tables and the figure show short runs as if they were longer."""
    losses, commands = precision.losses, []

    def longer(run: str) -> dict[int, float]:
        return {5 * step - n: loss for step, loss in losses(run).items() for n in range(5)}

    monkeypatch.setattr(precision, "losses", longer)
    monkeypatch.setattr(precision, "run", lambda *command: commands.append(command))
    (tmp_path / "data-1").mkdir()
    shutil.copy(squad_dir / "train-v1.1.json", tmp_path / "data-1")
    for name in ("run-1", "run-albert.json", "run-bert-float32", "run-bert-bert.json"):
        shutil.copytree(trained, tmp_path / name)
    shipped = os.path.join(precision.ROOT, "bf16_config", "albert.json")
    give(f"--output_dir={tmp_path}", f"--figure={tmp_path}/figure.svg", "--configs", shipped)
    precision.main()
    assert [command[0] for command in commands] == ["0", shipped, "0", precision.SHIPPED[1]]
    assert f"--output_dir={tmp_path / 'run-albert.json'}" in commands[1]
    assert type(read_config(str(tmp_path / "model-bert/bert_config.json"))) is BertConfig
    rows = rows_of(capsys.readouterr().out)
    assert len([name for name in rows if " to " in name]) == precision.ROWS
    assert rows["f1 - f1 in float32"] == [0, 0]
    assert "albert.json: F1" in (tmp_path / "figure.svg").read_text()
