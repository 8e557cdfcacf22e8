"""Times the steps before and after SQuAD's prediction: features, answers, scores and files.

  make bench NAME=answers FLAGS="[--questions 10000] [--data FOLDER] ..."

Before the prediction, features are made and ordered; after it, answers are found, scored and
written. The questions are those of the training files, and similar ones (`squad_size.py`). The
model's outputs are random, so that there are more probable answers than with a trained model. Each
version of SQuAD runs in a separate process; the fastest round counts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.

# isort: split
import numpy as np
import tensorflow.compat.v1 as tf

from albert.data import DEV
from albert.data.batches import Data
from albert.prediction.session import Output
from albert.tasks.squad.settings import SquadV1Settings, SquadV2Settings
from albert.tasks.squad.task import SquadTask, SquadV1Task, SquadV2Task
from albert.tokenization import FullTokenizer
from benchmarks.parts import data as files
from benchmarks.parts.harness import give, new_parser, run_again
from benchmarks.parts.squad_size import write_questions

# The bound for 10,000 questions, in seconds.
MOST, OF_QUESTIONS = 5.0, 10000
_SIZES = {"1.1": (SquadV1Settings, SquadV1Task), "2.0": (SquadV2Settings, SquadV2Task)}
_FILES = {"1.1": "train_file", "2.0": "train_v2_file"}


def main() -> int:
    """Prints the table and returns 1 if the bound is exceeded; or measures one version."""
    flags = parse_flags()
    if flags.version:
        tf.logging.set_verbosity(tf.logging.ERROR)
        give(measure(flags))
        return 0
    holds = True
    titles = ("questions", "windows", "before", "answers, scores", "files", "after, of 10,000")
    print("SQuAD" + "".join(f"{title:>18}" for title in titles))
    for version in _SIZES:
        questions, windows, *seconds = run_again("answers", f"--version={version}")
        of_many = sum(seconds[1:]) * OF_QUESTIONS / questions
        times = "".join(f"{value:>16.2f} s" for value in (*seconds, of_many))
        print(f"{version:<5}{questions:>18}{windows:>18}{times}")
        holds = holds and of_many <= MOST
    return 0 if holds else 1


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    files.add_flag(parser, *_FILES.values(), "spm_model_file")
    parser.add_argument("--config", default="configs/albert_base_v2.json")
    parser.add_argument("--questions", type=int, default=OF_QUESTIONS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max_seq_length", type=int, default=384)
    parser.add_argument("--version", choices=_SIZES, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    wanted = [_FILES[flags.version]] if flags.version else _FILES.values()
    files.find(flags, *wanted, "spm_model_file")
    return flags


def measure(flags: argparse.Namespace) -> tuple[int, int, float, float, float]:
    """Returns the numbers of questions and of windows, and the seconds before the prediction, of
    answers and scores, and of files."""
    with tempfile.TemporaryDirectory() as folder:
        task = make_task(flags, folder)
        start = time.perf_counter()
        data = task.split(DEV).prepared()
        data.order()
        before = time.perf_counter() - start
        outputs = drawn_outputs(flags, data)
        rounds = []
        for _ in range(flags.rounds):
            start = time.perf_counter()
            scored = task.score(data, outputs)
            middle = time.perf_counter()
            scored.write_outputs()
            rounds.append((middle - start, time.perf_counter() - middle))
        counts = data.num_examples, data.num_records
        return *counts, before, *min(rounds, key=sum)


def make_task(flags: argparse.Namespace, folder: str) -> SquadTask:
    """Returns the task for a file with the given number of questions."""
    questions, config = (os.path.join(folder, name) for name in ("questions", "config"))
    write_questions(getattr(flags, _FILES[flags.version]), questions, flags.questions)
    with open(flags.config, encoding="utf-8") as file:
        sizes = json.load(file)
    sizes["vocab_size"] = FullTokenizer(None, True, flags.spm_model_file).size
    with open(config, "w", encoding="utf-8") as file:
        json.dump(sizes, file)
    kind, task_class = _SIZES[flags.version]
    settings = kind.of(
        predict_file=questions,
        albert_config_file=config,
        do_train=False,
        spm_model_file=flags.spm_model_file,
        output_dir=folder,
        max_seq_length=flags.max_seq_length,
        max_query_length=flags.max_seq_length // 6,
        doc_stride=flags.max_seq_length // 3,
    )
    return task_class(settings)


def drawn_outputs(flags: argparse.Namespace, data: Data) -> list[Output]:
    """Returns random outputs of a head for every feature."""
    rng, is_v2 = np.random.default_rng(0), flags.version == "2.0"

    def best(count: int, of_each: int = 1) -> tuple[np.ndarray, np.ndarray]:
        scores = rng.normal(size=(of_each, flags.max_seq_length)).astype(np.float32)
        order = np.argsort(-scores, axis=1)[:, :count]
        return order.ravel(), np.take_along_axis(scores, order, 1).ravel()

    outputs = []
    for feature in data.source.features:
        starts, ends = (best(5), best(5, 5)) if is_v2 else (best(20), best(20))
        names = ("start_top_index", "start_top_log_probs", "end_top_index", "end_top_log_probs")
        output = dict(zip(names, (*starts, *ends), strict=True))
        odds = {"cls_logits": rng.normal()} if is_v2 else {}
        outputs.append({"unique_ids": feature.unique_id, **odds, **output})
    return outputs


if __name__ == "__main__":
    sys.exit(main())
