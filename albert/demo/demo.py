"""A demonstration of training on generated data; `albert.cli.demo` describes it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tarfile
import time

from albert.core.errors import UserError
from albert.core.files import command, open_atomically, read_json, write_json

# The made-up articles and a SentencePiece model of them; `make generated` makes it.
SAMPLE = os.path.join(os.path.dirname(__file__), "sample.tar.xz")
# The folder of the articles in it, the names of some files there, and the model.
DATA, TRAIN_FILE, DEV_FILE = "data-1", "train-v{}.json", "dev-v{}.json"
SPM_MODEL = "model-1/spm.model"
LEAST_F1 = 80.0
VOCAB_SIZE = 1200
# Small and shallow, with wide initial weights, because it must learn from scratch in two minutes.
CONFIG = {
    **{"vocab_size": VOCAB_SIZE, "embedding_size": 64, "hidden_size": 64},
    **{"num_hidden_layers": 2, "num_hidden_groups": 2, "num_attention_heads": 2},
    **{"intermediate_size": 256, "max_position_embeddings": 160, "hidden_dropout_prob": 0.0},
    **{"attention_probs_dropout_prob": 0.0, "initializer_range": 0.15},
}
RUN_FLAGS = {
    **{"from_scratch": True, "max_seq_length": 144, "max_query_length": 24, "doc_stride": 64},
    **{"train_batch_size": 32, "predict_batch_size": 64, "learning_rate": 2e-3},
    **{"save_checkpoints_steps": 500, "save_summary_steps": 10, "train_steps": 1000},
}
# In the words of the sample, which are the only ones that the model knows.
CONTEXT = "Lunrun has a bridge called Tamar. The bridge reaches 98 metres upward."
QUESTION = "What is the height of Tamar?"


def main(output_dir: str) -> None:
    """Trains on the sample, and prints what to do with the model and its files.

    Raises a `UserError` if the training fails, or if the scores are too low.
    """
    started = time.monotonic()
    folder = os.path.abspath(output_dir)
    files, run = write_inputs(folder), os.path.join(folder, "run-1")
    flags = {**files, "output_dir": run, **RUN_FLAGS}
    words = ["squad", *(f"--{name}={value}" for name, value in flags.items())]
    print(f"\n$ {_command(*words)}", flush=True)
    if code := subprocess.run(command(*words)).returncode:
        raise UserError(f"albert squad ended with code {code}; see its output above")
    f1 = read_json(os.path.join(run, "eval_results.json"), "the scores")["f1"]
    tensorboard = os.path.join(os.path.dirname(sys.executable), "tensorboard")
    print(f"\nF1 {f1:.1f} on articles that were not trained on, {time.monotonic() - started:.0f} s")
    print(f"  data, model and run: {folder}")
    print(f"  curves:              {_shown(tensorboard)} --logdir {_shown(run)}")
    if f1 < LEAST_F1:
        raise UserError(f"F1 is below {LEAST_F1:g}")
    _name_next_commands(files, run)


def write_inputs(folder: str) -> dict[str, str]:
    """Writes the sample, its SentencePiece model and a configuration; returns their paths by flag.

    The files are in the subfolders `data-1` and `model-1`. The flags are those of the model's two
    files, `train_file` and `predict_file`.
    """
    print(f"\nWriting the sample and its SentencePiece model: {_shown(folder)}", flush=True)
    for name, content in files_of_sample().items():
        with open_atomically(os.path.join(folder, name), "wb") as file:
            file.write(content)
    config = os.path.join(folder, "model-1", "albert_config.json")
    write_json(config, CONFIG)
    return {
        "albert_config_file": config,
        "spm_model_file": os.path.join(folder, SPM_MODEL),
        "train_file": os.path.join(folder, DATA, TRAIN_FILE.format("1.1")),
        "predict_file": os.path.join(folder, DATA, DEV_FILE.format("1.1")),
    }


def files_of_sample() -> dict[str, bytes]:
    """Returns the contents of the sample's files by name."""
    with tarfile.open(SAMPLE) as archive:
        return {one.name: file.read() for one in archive if (file := archive.extractfile(one))}


def _name_next_commands(files: dict[str, str], run: str) -> None:
    """Prints commands that query a run's model, serve it, and train it on the named files."""
    model, train_file = _shown(run), os.path.basename(files["train_file"])
    more = {
        **{name: files[name] for name in ("train_file", "predict_file")},
        **{name: RUN_FLAGS[name] for name in ("max_seq_length", "doc_stride")},
        **{"learning_rate": 5e-4, "train_steps": 100, "output_dir": f"{run}-own"},
    }
    flags = [f"--{name}={_shown(str(value))}" for name, value in more.items()]
    question = [f"--context {shlex.quote(CONTEXT)}", f"--question {shlex.quote(QUESTION)}"]
    commands = {
        "Ask the model; without --question it prompts": [f"ask {model}", *question],
        "Serve it, with a page at http://127.0.0.1:8080; Ctrl-C stops it": [f"serve {model}"],
        f"Train it further; replace {train_file} with your own questions (docs/squad.md)": (
            [f"squad --model={model}", *flags]
        ),
    }
    print("\nNext:")
    for purpose, parts in commands.items():
        print(f"\n# {purpose}\n{_command(*parts)}")


def _command(*parts: str) -> str:
    """Returns a command of `albert` for a shell in the current folder."""
    return f"{_shown(sys.executable)} -m albert " + " \\\n    ".join(parts)


def _shown(path: str) -> str:
    """Returns a path, quoted for a shell in the current folder."""
    return shlex.quote(path.removeprefix(os.path.join(os.getcwd(), "")))
