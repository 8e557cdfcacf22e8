"""A demonstration of training on generated data; `albert.cli.demo` describes it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tarfile
import textwrap
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
    """Runs all steps; raises a `UserError` if one fails, or if the scores are too low."""
    started = time.monotonic()
    folder = os.path.abspath(output_dir)
    out = os.path.join(folder, "run-1")
    paths = {**write_inputs(folder), "output_dir": out}
    _run("squad", *(f"--{name}={value}" for name, value in {**paths, **RUN_FLAGS}.items()))
    _report(paths["predict_file"], out, folder, time.monotonic() - started)
    _name_next_commands({**paths, "output_dir": f"{out}-own"}, out)


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


def _run(*words: str) -> None:
    """Prints a command of `albert` and runs it; raises a `UserError` if it fails."""
    print(f"\n$ {_command(*words)}", flush=True)
    code = subprocess.run(command(*words)).returncode
    if code:
        raise UserError(f"albert {words[0]} ended with code {code}; see its output above")


def _report(dev_file: str, out: str, folder: str, seconds: float) -> None:
    """Prints scores, some answers and where files are; raises a `UserError` for too low a score."""
    results = read_json(os.path.join(out, "eval_results.json"), "the scores")
    predictions = read_json(os.path.join(out, "predictions.json"), "the answers")
    articles = read_json(dev_file, "the sample")["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    print(f"\nOn {len(predictions)} questions about articles that were not trained on:")
    print(f"  exact match {results['exact_match']:.1f}   F1 {results['f1']:.1f}\n")
    print(textwrap.fill(paragraphs[0]["context"], 96, initial_indent="  ", subsequent_indent="  "))
    print(f"\n  {'question':<56}{'answer':<24}true answer")
    for paragraph in paragraphs[:2]:
        for question in paragraph["qas"]:
            answer, true = predictions[question["id"]], question["answers"][0]["text"]
            print(f"  {question['question'][:54]:<56}{answer[:22]:<24}{true}")
    print(f"\n  data, model and run: {folder}")
    print(f"  answers and scores:  {out}/predictions.json, eval_results.json")
    print(f"  all questions:       {out}/predictions.html (open it in a browser)")
    tensorboard = os.path.join(os.path.dirname(sys.executable), "tensorboard")
    print(f"  curves:              {_shown(tensorboard)} --logdir {_shown(out)}")
    print(f"  took {seconds:.0f} s")
    if results["f1"] < LEAST_F1:
        raise UserError(f"F1 is below {LEAST_F1:g}")


def _name_next_commands(paths: dict[str, str], run: str) -> None:
    """Prints commands that query a run's model, serve it, and train it on the files in `paths`."""
    options = {
        "init_checkpoint": os.path.join(run, "model.ckpt-best"),
        **paths,
        **{name: RUN_FLAGS[name] for name in ("max_seq_length", "doc_stride")},
        "learning_rate": 5e-4,
        "train_steps": 100,
    }
    flags = [f"--{name}={_shown(str(value))}" for name, value in options.items()]
    question = [f"--context {shlex.quote(CONTEXT)}", f"--question {shlex.quote(QUESTION)}"]
    train_file = os.path.basename(paths["train_file"])
    commands = {
        "Ask the model; without --question it prompts": [f"ask {_shown(run)}", *question],
        "Serve it, with a page at http://127.0.0.1:8080; Ctrl-C stops it": [f"serve {_shown(run)}"],
        f"Train it further; replace {train_file} with your own questions (docs/squad.md)": [
            "squad",
            *flags,
        ],
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
