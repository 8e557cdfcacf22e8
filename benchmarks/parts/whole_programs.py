"""Times whole programs that answer a file of questions, from the command to their end."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from albert.tokenization import FullTokenizer
from benchmarks.parts import turns
from benchmarks.parts.batches import feature_options, features
from benchmarks.parts.harness import ROOT
from benchmarks.parts.peers import ONNX_MODELS, PEERS
from benchmarks.parts.program import BEST, peak_memory
from benchmarks.parts.turns import OURS, Row

_PROGRAM = os.path.join(ROOT, "run_squad_v1.py")
_PREDICTIONS, _FEATURES = "predictions.json", "features.npz"
# Seconds between two readings of the memory.
_POLL = 0.05


class Command(NamedTuple):
    """A program to time: its command except for the output, the flag of this, and variables."""

    words: list[str]
    output: str
    environment: Mapping[str, str]


class Run(NamedTuple):
    """A run of a program: its seconds and its peak memory in gigabytes."""

    seconds: float
    memory: float


def measure(rows: Mapping[str, Row], flags: argparse.Namespace, folder: str) -> None:
    """Times the programs of all rows in rounds, and prints the table."""
    rows = {name: fitted(row, flags.spm_model_file, folder) for name, row in rows.items()}
    row = next(iter(rows.values()))
    first_questions(flags.predict_file, os.path.join(folder, "questions.json"), flags.questions)
    flags.predict_file = os.path.join(folder, "questions.json")
    made = features("dev", flags, folder)
    np.savez(os.path.join(folder, _FEATURES), **made)
    has_onnx = "onnxruntime" in flags.peers
    model = turns.write_model(row, folder, ONNX_MODELS if has_onnx else ())
    commands = {
        **our_commands(rows, flags, model),
        **peer_commands(rows, flags, model, os.path.join(folder, _FEATURES)),
    }
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(flags.rounds):
        for name, command in commands.items():
            runs[name].append(run(command, folder))
    print_table(runs, len(made["input_mask"]))


def fitted(row: Row, spm_model_file: str, folder: str) -> Row:
    """Returns a row whose configuration has the tokenizer's vocabulary, as programs require."""
    with open(turns.config_path(row), encoding="utf-8") as file:
        config = json.load(file)
    config["vocab_size"] = FullTokenizer(None, True, spm_model_file).size
    path = os.path.join(folder, os.path.basename(row.config))
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    return row._replace(config=path)


def first_questions(source: str, target: str, count: int | None) -> None:
    """Writes a file with the first questions of another one."""
    with open(source, encoding="utf-8") as file:
        content = json.load(file)
    left = sys.maxsize if count is None else count
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = paragraph["qas"][:left]
            left -= len(paragraph["qas"])
        article["paragraphs"] = [p for p in article["paragraphs"] if p["qas"]]
    content["data"] = [article for article in content["data"] if article["paragraphs"]]
    with open(target, "w", encoding="utf-8") as file:
        json.dump(content, file)


def our_commands(
    rows: Mapping[str, Row], flags: argparse.Namespace, model: str
) -> dict[str, Command]:
    """Returns this project's commands: one for each row, and one for its other engine."""
    row = next(iter(rows.values()))
    words = [
        *(sys.executable, _PROGRAM, "--do_train=false", "--do_predict", f"--device={flags.device}"),
        f"--albert_config_file={turns.config_path(row)}",
        f"--spm_model_file={flags.spm_model_file}",
        f"--init_checkpoint={os.path.join(model, BEST)}",
        f"--predict_file={flags.predict_file}",
        f"--predict_batch_size={row.batch_size}",
        *(f"--{name}={value}" for name, value in feature_options(flags)._asdict().items()),
    ]
    found = {}
    for of in rows.values():
        converts = {"TF_BF16_CONVERSION": "1"} if of.dtype == "bfloat16" else {}
        found[f"{OURS}, {of.dtype}"] = Command(words, "--output_dir", converts)
    if "onnxruntime" in flags.peers:
        engine = [*words, "--engine=onnxruntime"]
        found[f"{OURS}, ONNX Runtime"] = Command(engine, "--output_dir", {})
    return found


def peer_commands(
    rows: Mapping[str, Row], flags: argparse.Namespace, model: str, records: str
) -> dict[str, Command]:
    """Returns the commands of the peers."""
    found = {}
    for row in rows.values():
        for name, program in PEERS[row.dtype].items():
            if program.kind not in flags.peers:
                continue
            uses_torch = turns.uses_torch(program.kind)
            words = [
                flags.torch_python if uses_torch else sys.executable,
                *("-m", "benchmarks.parts.plain_predict", f"--kind={program.kind}"),
                f"--model={model}",
                f"--features={records}",
                f"--batch_size={row.batch_size}",
                f"--dtype={row.dtype}",
                f"--device={flags.device}",
                f"--options={json.dumps(program.options)}",
            ]
            full = f"{name}, {row.dtype}" if uses_torch else name
            found[full] = Command(words, "--output", program.environment)
    return found


def run(command: Command, folder: str) -> Run:
    """Runs a program with a new output.

    Raises:
      RuntimeError: it fails or writes no answers.
    """
    with tempfile.TemporaryDirectory(dir=folder) as output_dir:
        path = os.path.join(output_dir, _PREDICTIONS)
        target = path if command.output == "--output" else output_dir
        words = [*command.words, f"{command.output}={target}"]
        log = os.path.join(folder, "log")
        with open(log, "w", encoding="utf-8") as file:
            began = time.perf_counter()
            process = subprocess.Popen(
                words,
                cwd=ROOT,
                env=turns.environment(command.environment),
                stdout=file,
                stderr=subprocess.STDOUT,
            )
            memory, ended = [0], threading.Event()
            watcher = threading.Thread(target=watch, args=(process.pid, memory, ended))
            watcher.start()
            code = process.wait()
            seconds = time.perf_counter() - began
        ended.set()
        watcher.join()
        if code or not os.path.exists(path):
            with open(log, encoding="utf-8") as file:
                raise RuntimeError(f"{words} failed: {file.read()[-2000:]}")
    return Run(seconds, memory[0] / 1e9)


def watch(pid: int, memory: list[int], ended: threading.Event) -> None:
    """Keeps the peak memory of a process in a list of one number, until it ends.

    The system's record for ended processes would include this process, which starts them.
    """
    while not ended.wait(_POLL):
        with contextlib.suppress(OSError):
            memory[0] = max(memory[0], peak_memory(pid))


def print_table(runs: Mapping[str, list[Run]], count: int) -> None:
    """Prints medians of the rounds, with the smallest and largest."""
    ours = [name for name in runs if name.startswith(OURS)]
    print(f"{count} features")
    heads = "".join(f"{'/ ' + name.removeprefix(f'{OURS}, '):>22}" for name in ours)
    print(f"{'':30}{'seconds':>24}{'features/s':>12}{'memory':>10}{heads}")
    for name, measured in runs.items():
        seconds = [one.seconds for one in measured]
        times = "".join(
            f"{turns.spread([a / b.seconds for a, b in zip(seconds, runs[of], strict=True)]):>22}"
            for of in ours
        )
        print(
            f"{name:30}{turns.spread(seconds):>24}{count / statistics.median(seconds):>12.2f}"
            f"{max(one.memory for one in measured):>7.2f} GB{times}",
            flush=True,
        )
