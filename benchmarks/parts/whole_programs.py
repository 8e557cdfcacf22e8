"""Times whole programs that answer a file of questions, from the command to their end."""

import os
import statistics
import sys
import tempfile
from collections.abc import Mapping

import numpy as np

from benchmarks.parts import turns
from benchmarks.parts.batches import feature_options, features
from benchmarks.parts.flags import Flags, with_vocabulary_of
from benchmarks.parts.harness import ROOT, Table, Timed, ratios_of, spread, timed
from benchmarks.parts.peers import peers_of
from benchmarks.parts.program import BEST
from benchmarks.parts.this_project import write_models

# Words of a command, one of which has `_OUTPUT`, and variables.
Command = tuple[list[str], Mapping[str, str]]
_OUTPUT = "OUTPUT_FOLDER"
_PREDICTIONS = "predictions.json"


def measure(flags: Flags, folder: str) -> None:
    """Times the programs in rounds, and prints medians, with the smallest and largest."""
    # The programs require the tokenizer's vocabulary.
    config = os.path.join(folder, "config.json")
    flags.config = with_vocabulary_of(flags.config, flags.spm_model_file, config)
    flags.model = os.path.join(folder, "model")
    made = features(False, flags, folder)
    flags.batches_file = os.path.join(folder, "features.npz")
    np.savez(flags.batches_file, **made)
    commands, models = commands_of(flags)
    write_models(flags.model, flags.config, sorted(models))
    runs: dict[str, list[Timed]] = {name: [] for name in commands}
    for _ in range(flags.rounds):
        for name, command in commands.items():
            runs[name].append(run(command, folder))
    count = len(made["input_mask"])
    print(f"{count} features")
    seconds = {name: [one.seconds for one in measured] for name, measured in runs.items()}
    ours = [name for name in runs if name.startswith(turns.OURS)]
    titles = [f"/ {name.removeprefix(f'{turns.OURS}, ')}" for name in ours]
    table = Table("seconds", "features/s", "memory", *titles, name_width=30, width=24)
    for name, measured in runs.items():
        rate = f"{count / statistics.median(seconds[name]):.2f}"
        memory = f"{max(one.memory for one in measured) / 1e9:.2f} GB"
        ratios = [spread(ratios_of(seconds[name], seconds[base])) for base in ours]
        table.row(name, spread(seconds[name]), rate, memory, *ratios)


def commands_of(flags: Flags) -> tuple[dict[str, Command], set[str]]:
    """Returns this project's commands and those of the peers, and the models of ONNX."""
    words = [
        *(sys.executable, os.path.join(ROOT, "run_squad_v1.py"), f"--device={flags.device}"),
        *("--do_train=false", "--do_predict", f"--albert_config_file={flags.config}"),
        *(f"--{name}={getattr(flags, name)}" for name in ("spm_model_file", "predict_file")),
        f"--init_checkpoint={os.path.join(flags.model, BEST)}",
        f"--predict_batch_size={flags.batch_size}",
        *(f"--{name}={value}" for name, value in feature_options(flags)._asdict().items()),
        f"--output_dir={_OUTPUT}",
    ]
    ours, others, models = {}, {}, set()
    for dtype in flags.dtypes:
        converts = {"TF_BF16_CONVERSION": "1"} if dtype == "bfloat16" else {}
        ours[f"{turns.OURS}, {dtype}"] = words, converts
        if "openvino" in flags.peers:
            ours[f"{turns.OURS}, TensorFlow, {dtype}"] = [*words, "--engine=tensorflow"], converts
        peers, needed = peers_of(dtype, flags.peers)
        models |= needed
        for name, peer in peers.items():
            command = turns.command_of(peer, dtype, flags, os.path.join(_OUTPUT, _PREDICTIONS))
            full = name if peer.kind == "onnxruntime" else f"{name}, {dtype}"
            others[full] = command, peer.environment
    return {**ours, **others}, models


def run(command: Command, folder: str) -> Timed:
    """Runs a program with a new output."""
    with tempfile.TemporaryDirectory(dir=folder) as output:
        words = [word.replace(_OUTPUT, output) for word in command[0]]
        measured = timed(words, os.path.join(folder, "log"), command[1])
        if not os.path.exists(os.path.join(output, _PREDICTIONS)):
            raise RuntimeError(f"{words} has written no answers")
    return measured
