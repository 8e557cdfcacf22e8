"""Pretrains a small ALBERT on a folder of text, and fine-tunes it next to one from scratch.

  make bench NAME=pretraining FLAGS="[--data FOLDER] [--text FOLDER] ..."

Everything runs by the public commands: `pretraining-text`, `pretraining-data`, `pretrain` and
`squad`. For each seed, there are a pretraining and two fine-tunings with the same settings. By
default, the text is that of the file for the fine-tuning. Two jobs run at a time, each on one core.
If you repeat a command that was stopped, it continues in --folder.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import queue
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from albert.core import files
from benchmarks.parts import data
from benchmarks.parts.harness import new_parser

_FILES = "train_file", "predict_file", "spm_model_file"
_ARMS = {"from scratch": "--from_scratch", "pretrained": "--init_checkpoint={}/model.ckpt-{}"}
_SCORES = ("masked_lm_accuracy", "masked_lm_loss", "sentence_order_accuracy")


def main() -> None:
    """Makes the data, trains for every seed, and prints the tables."""
    flags, started = parse_flags(), time.perf_counter()
    folder = pathlib.Path(flags.folder)
    folder.mkdir(parents=True, exist_ok=True)
    make_records(flags, folder)
    write_config(flags, folder)
    cores = queue.SimpleQueue[int]()
    for core in sorted(os.sched_getaffinity(0))[: flags.jobs]:
        cores.put(core)
    jobs = Jobs(flags, folder, cores)
    with concurrent.futures.ThreadPoolExecutor(flags.jobs) as pool:
        # In this order, no fine-tuning waits for its pretraining while another job could run.
        models = {seed: pool.submit(jobs.pretrain, seed) for seed in flags.seeds}
        tuned = {
            (seed, arm): pool.submit(jobs.fine_tune, seed, arm, models[seed].result)
            for seed, arm in itertools.product(flags.seeds, _ARMS)
        }
        of_seeds = [
            {
                "seed": seed,
                "pretraining": models[seed].result(),
                **{arm: tuned[seed, arm].result() for arm in _ARMS},
            }
            for seed in flags.seeds
        ]
    print_tables(of_seeds, folder, time.perf_counter() - started)


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--text", help="folder of .txt and .jsonl files for `pretraining-text`")
    parser.add_argument("--folder", default="out/pretraining_benchmark", help="for all files")
    data.add_flag(parser, *_FILES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=2, help="jobs at a time, each on one core")
    parser.add_argument("--dev_fraction", type=float, default=0.03, help="of the documents")
    parser.add_argument("--hidden_size", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--pretraining_steps", type=int, default=6000)
    parser.add_argument("--pretraining_rate", type=float, default=1e-3)
    parser.add_argument("--fine_tuning_steps", type=int, default=240)
    parser.add_argument("--fine_tuning_rate", type=float, default=2e-4)
    flags = parser.parse_args()
    data.find(flags, *_FILES)
    return flags


def documents(flags: argparse.Namespace) -> Iterator[str]:
    """Yields the paragraphs of the training file, each with its questions.

    Raises:
      ValueError: a paragraph is in the development file, too.
    """
    held_out = {paragraph for paragraph, _ in paragraphs(flags.predict_file)}
    for paragraph, questions in paragraphs(flags.train_file):
        if any(other in paragraph or paragraph in other for other in held_out):
            raise ValueError(f"the development file has the paragraph {paragraph[:60]!r}")
        yield "\n\n".join([paragraph, *dict.fromkeys(questions)])


def paragraphs(path: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the paragraphs and questions of a SQuAD file."""
    for article in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            yield paragraph["context"], [qa["question"].strip() for qa in paragraph["qas"]]


def make_records(flags: argparse.Namespace, folder: pathlib.Path) -> None:
    """Makes text and then records without masks, which the training draws."""
    source = flags.text
    if not source:
        source = str(folder / "texts.jsonl")
        if not os.path.exists(source):
            with files.open_atomically(source) as file:
                file.writelines(json.dumps({"text": text}) + "\n" for text in documents(flags))
    kept = f"--input={source}", f"--dev_fraction={flags.dev_fraction}"
    run(["pretraining-text", *kept, f"--output_dir={folder}/text"], folder / "text.log")
    for part in ("train", "dev"):
        names = f"--input_file={folder}/text/{part}-*.txt", f"--output_file={folder}/{part}"
        more = f"--spm_model_file={flags.spm_model_file}", "--masked_lm_prob=0", "--dupe_factor=4"
        run(["pretraining-data", *names, *more, *_LENGTHS], folder / f"{part}.log")


_LENGTHS = ("--max_seq_length=128", "--max_predictions_per_seq=24")


def write_config(flags: argparse.Namespace, folder: pathlib.Path) -> None:
    """Writes the configuration of an ALBERT whose layers share their weights."""
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=flags.spm_model_file)
    config = {
        **{"vocab_size": model.get_piece_size(), "embedding_size": 128},
        **{"hidden_size": flags.hidden_size, "intermediate_size": 4 * flags.hidden_size},
        **{"num_hidden_layers": flags.layers, "num_attention_heads": 4},
        **{"max_position_embeddings": 512, "type_vocab_size": 2, "initializer_range": 0.02},
        **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    }
    files.write_json(str(folder / "config.json"), config)


class Jobs(NamedTuple):
    """The trainings, each on a free one of `cores`."""

    flags: argparse.Namespace
    folder: pathlib.Path
    cores: queue.SimpleQueue[int]

    def pretrain(self, seed: int) -> dict:
        """Pretrains with a seed; returns the scores of the best checkpoint on the held-out text."""
        flags, folder, steps = self.flags, self.folder, self.flags.pretraining_steps
        shape = f"--num_train_steps={steps}", f"--num_warmup_steps={steps // 20}"
        shape += "--train_batch_size=16", f"--learning_rate={flags.pretraining_rate}"
        shape += "--masked_lm_budget=0.2", "--pack_sequences", *_LENGTHS
        watch = "--do_eval", "--evaluate_while_training", f"--save_checkpoints_steps={steps // 8}"
        names = f"--input_file={folder}/train", f"--eval_file={folder}/dev"
        words = ["pretrain", *shape, *watch, *names, "--keep_checkpoint_max=1"]
        return self._run(words, seed, f"pretrained-{seed}")

    def fine_tune(self, seed: int, arm: str, wait: Callable[[], object]) -> dict:
        """Fine-tunes for SQuAD with a seed after `wait()`; returns the best checkpoint's scores."""
        wait()
        flags, folder, steps = self.flags, self.folder, self.flags.fine_tuning_steps
        start = _ARMS[arm].format(folder / f"pretrained-{seed}", flags.pretraining_steps)
        shape = f"--train_steps={steps}", f"--save_checkpoints_steps={max(steps // 6, 1)}"
        shape += ("--evaluate_while_training",)
        shape += "--train_batch_size=32", f"--learning_rate={flags.fine_tuning_rate}"
        shape += "--max_seq_length=192", "--max_query_length=32", "--doc_stride=96"
        names = f"--train_file={flags.train_file}", f"--predict_file={flags.predict_file}"
        name = f"squad-{arm.replace(' ', '-')}-{seed}"
        return self._run(["squad", *shape, *names, start], seed, name)

    def _run(self, words: Sequence[str], seed: int, name: str) -> dict:
        """Runs a training command; returns the content of its `eval_results.json`."""
        model = f"--albert_config_file={self.folder}/config.json", "--optimizer=adamw"
        model += f"--spm_model_file={self.flags.spm_model_file}", f"--seed={seed}"
        out, core = self.folder / name, self.cores.get()
        try:
            words = [*words, *model, f"--output_dir={out}"]
            run(words, self.folder / f"{name}.log", core)
        finally:
            self.cores.put(core)
        return json.loads((out / "eval_results.json").read_text())


def run(words: Sequence[str], log: pathlib.Path, core: int | None = None) -> None:
    """Runs a command of `albert`, on one core if it is given; its output goes to a log."""
    on = ["taskset", "-c", str(core)] if core is not None else []
    with open(log, "a") as file:
        done = subprocess.run([*on, *files.command(*words)], stdout=file, stderr=file)
    if done.returncode:
        raise SystemExit(f"{words[0]} failed; see {log}")


def print_tables(of_seeds: list[dict], folder: pathlib.Path, seconds: float) -> None:
    """Prints the means and the ranges over the seeds, and writes all results."""
    files.write_json(str(folder / "results.json"), {"seconds": seconds, "seeds": of_seeds})
    print(f"{len(of_seeds)} seeds, {seconds / 60:.0f} minutes; mean (lowest to highest)")
    for score in _SCORES:
        print(f"  {'held-out ' + score:36}{summary([of['pretraining'][score] for of in of_seeds])}")
    for arm in _ARMS:
        for score in ("f1", "exact_match"):
            print(f"  {f'{arm}, {score}':36}{summary([of[arm][score] for of in of_seeds])}")
    gains = [of["pretrained"]["f1"] - of["from scratch"]["f1"] for of in of_seeds]
    print(f"  {'gain in f1, by seed':36}{', '.join(f'{gain:+.2f}' for gain in gains)}")


def summary(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


if __name__ == "__main__":
    main()
