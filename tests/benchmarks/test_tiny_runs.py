"""Benchmarks on tiny input, in this process as far as it goes: what they call is there.

`.ci/run` itself runs those of features and of scaling.
"""

from __future__ import annotations

import json
import os
import re
import shutil

import pytest
import tensorflow.compat.v1 as tf

from benchmarks import (
    answers,
    ask,
    memory,
    precision,
    pretraining_data,
    serve,
    start,
    train,
    zero,
)
from modeling import BertConfig, read_config
from runtime import launcher
from tests.helpers import running

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def usual_log():
    """Benchmarks log errors only; this process goes on with other tests."""
    level = tf.get_logger().level
    yield
    tf.get_logger().setLevel(level)


@pytest.fixture
def give(monkeypatch):
    """Sets the command line."""
    return lambda *flags: monkeypatch.setattr("sys.argv", ["benchmark", *map(str, flags)])


def rows_of(output: str) -> dict[str, list[float]]:
    """The numbers behind the first column of a table, by what stands in that column."""
    found = re.findall(r"^(\S.*?)  +([-+\d].*)$", output, re.MULTILINE)
    return {name: [float(n) for n in re.findall(r"\d+\.?\d*", rest)] for name, rest in found}


def test_train(give, squad_dir, monkeypatch, capsys):
    """Each program in a process of its own; all have the same losses."""
    pytest.importorskip("torch")
    config = str(squad_dir / "albert.json")
    row = train.Row("training", "train", config, "float32", 2, (1.0, 1.0), 0.5)
    monkeypatch.setattr(train, "ROWS", {"SQuAD": row})
    files = {"train_file": "train-v1.1.json", "predict_file": "dev-v1.1.json"}
    files |= {"mrpc_dir": "", "spm_model_file": "spm.model"}
    sizes = ["--max_seq_length=64", "--matrix_size=64", "--batches=1", "--turns=2"]
    give(*(f"--{name}={squad_dir / file}" for name, file in files.items()), *sizes)
    assert train.main() == 0
    output = capsys.readouterr().out
    assert re.search(r"losses of the first 2 steps: [\d.e+-]+ apart", output)
    for program in train.PROGRAMS:
        assert all(float(n) > 0 for n in re.search(rf"{program} +(\S+) +(\S+)", output).groups())


def test_ask(give, squad_dir, capsys):
    give(f"--config={squad_dir / 'albert.json'}", "--lengths=32,48", "--rounds=1", "--starts=1")
    assert ask.main() in (0, 1)
    rows = rows_of(capsys.readouterr().out)
    assert rows.keys() >= {"first answer", "answer, 32 tokens", "answer, 48 tokens"}
    (first, times, *_), later = rows["first answer"], rows["answer, 48 tokens"]
    assert first > 0 and times > 1
    # A part of an answer is the forward pass.
    assert later[1] > 1


def test_start(give, squad_dir, monkeypatch, capsys):
    """Whole programs are forked here; the first answer is that of `ask`."""
    monkeypatch.setattr(start, "run", running.run)
    monkeypatch.setattr(start, "first_answer", lambda folder, text: (2.0, 5.0))
    give(f"--config={squad_dir / 'albert.json'}", "--rounds=1", "--steps=2")
    assert start.main() in (0, 1)
    rows = rows_of(capsys.readouterr().out)
    assert rows.keys() == {"--help", "nothing left to do", "first answer", "first step"}
    for seconds, times, most in rows.values():
        assert seconds > 0 and times > 0 and most > 0
    # A share of a later step.
    assert rows["first step"][2] >= start.MOST_FIRST_STEP


def test_memory(give, squad_dir, monkeypatch, capsys):
    """Both trainings in this process, whose peak is that of all tests before."""
    give(f"--config={squad_dir / 'albert.json'}", "--batch_size=2", "--seq_length=32")

    def run_training(way):
        flags = memory.parse_flags()
        flags.checkpointing = int(way)
        return memory.train(flags)

    monkeypatch.setattr(memory, "run_training", run_training)
    memory.main()
    rows = rows_of(capsys.readouterr().out)
    assert rows.keys() == {"with", "without"}
    assert all(number > 0 for numbers in rows.values() for number in numbers[:3])


def test_serve(give, squad_dir, capsys):
    sizes = ["--lengths=32", "--clients=1,2", "--seconds=0.1", "--rounds=1"]
    give(f"--config={squad_dir / 'albert.json'}", *sizes)
    assert serve.main() in (0, 1)
    rows = rows_of(capsys.readouterr().out)
    alone, *served = (rows[f"32 tokens, {way}"] for way in ("one by one", "1 clients", "2 clients"))
    assert alone[0] > 0 and alone[1] == 1
    for rate, times, p50, p99, bound in served:
        assert rate > 0 and times > 0 and 0 < p50 <= p99 and bound > 0


def test_zero(give, squad_dir, monkeypatch, capsys):
    """The worker's part as the only worker, who has nobody to share with."""
    give("--batch_size=2", "--seq_length=32", "--rounds=1", f"--model={squad_dir / 'bert.json'}")
    monkeypatch.setattr(launcher, "started", launcher.Worker())

    def run_job(model: str, ways: str, steps: int) -> dict:
        flags = zero.parse_flags()
        flags.ways, flags.rounds = ways, steps
        zero.work(flags)
        line = capsys.readouterr().out.splitlines()[-1]
        return json.loads(line.removeprefix(zero._MARK))

    monkeypatch.setattr(zero, "run_job", run_job)
    zero.main()
    rows = rows_of(capsys.readouterr().out)
    for way in zero._WAYS:
        assert rows[way][:2] == [rows["none"][0], 1.0]


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_answers(give, squad_dir, tmp_path, set_flags, monkeypatch, version):
    shutil.copy(squad_dir / "train-v1.1.json", tmp_path / f"train-v{version}.json")
    model = f"--spm_model_file={squad_dir / 'spm.model'}"
    monkeypatch.setattr(answers, "_LONGEST", 128)
    config = f"--config={squad_dir / 'albert.json'}"
    give(f"--data={tmp_path}", model, config, f"--version={version}", "--questions=60")
    flags = answers.parse_flags()
    flags.rounds = 1
    measured = []
    set_flags([lambda: measured.append(answers.measure(flags))])
    ((questions, windows, *seconds),) = measured
    assert 60 <= questions < 120 and windows >= questions
    assert len(seconds) == 3 and min(seconds) > 0


def test_pretraining_data(give, squad_dir, tmp_path, capsys):
    results = {}
    for number, way in enumerate(pretraining_data.WAYS):
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.copy(squad_dir / "spm.model", folder)
        for name in ("text", "sample"):
            pretraining_data.write_text(str(folder / f"{name}.txt"), 0.02)
        give("--mb=0.02", "--plain_mb=0.02", "--dupe_factor=1", f"--folder={folder}")
        results[way] = pretraining_data.WAYS[way](pretraining_data.parse_flags())
        assert results[way]["records"] > 10 and results[way]["cpu_seconds"] > 0
    pretraining_data.print_table(results)
    assert rows_of(capsys.readouterr().out).keys() == results.keys()


def test_precision(give, squad_dir, trained, tmp_path, monkeypatch, capsys):
    """Of runs that have been made already, as if they were longer: the tables and the figure."""
    losses, commands = precision.losses, []
    monkeypatch.setattr(
        precision,
        "losses",
        lambda run: {5 * step - n: v for step, v in losses(run).items() for n in range(5)},
    )
    monkeypatch.setattr(precision, "run", lambda *command: commands.append(command))
    (tmp_path / "data-1").mkdir()
    shutil.copy(squad_dir / "train-v1.1.json", tmp_path / "data-1")
    for name in ("run-1", "run-albert.json", "run-bert-float32", "run-bert-bert.json"):
        shutil.copytree(trained, tmp_path / name)
    figure = tmp_path / "figure.svg"
    shipped = os.path.join(precision.ROOT, "bf16_config", "albert.json")
    give(f"--output_dir={tmp_path}", f"--figure={figure}", "--configs", shipped)
    precision.main()
    bert = precision.SHIPPED[1]
    assert [command[0] for command in commands] == ["0", shipped, "0", bert]
    assert f"--vocab_file={tmp_path}/model-bert/vocab.txt" in commands[2]
    config = read_config(str(tmp_path / "model-bert" / "bert_config.json"))
    assert type(config) is BertConfig
    assert f"--output_dir={tmp_path / 'run-albert.json'}" in commands[1]
    rows = rows_of(capsys.readouterr().out)
    assert len([name for name in rows if " to " in name]) == precision.ROWS
    assert rows["f1 - f1 in float32"] == [0, 0]
    assert "albert.json: F1" in figure.read_text()
