"""Times how soon programs begin, in multiples of `import tensorflow`, with ALBERT-base.

  make bench NAME=start FLAGS="[--rounds 3] [--config FILE] [--steps 3]"

Each program runs in a new process and is timed from the command to its end. A training is timed to
the end of its first step; it starts from a random checkpoint, with existing features. The programs
take turns in each round, which also times `import tensorflow`; a row has the medians of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.
from albert.checkpoints.checkpoint_files import BEST
from albert.checkpoints.model_folder import ASSETS, SPM_MODEL
from albert.inference.folders import ModelFolder, open_folder
from benchmarks.ask import MOST_FIRST, QUESTION, first_answer, text_of, write_model
from benchmarks.parts.harness import ROOT, new_parser

PROGRAM = os.path.join(ROOT, "run_squad_v1.py")
# The bounds, as multiples of `import tensorflow`; a first step may also take a share of a later
# one.
MOST_HELP, MOST_NOTHING_LEFT = 0.5, 2.0
MOST_FIRST_STEP, MOST_OF_LATER = 3.0, 1.5
_BATCH, _ANSWERED_LENGTH = 8, 384
_STEP = re.compile(r" step (\d+)/")


class Row(NamedTuple):
    """Medians of the rounds: seconds, multiples of `import tensorflow`, and the bound of these."""

    seconds: float
    times: float
    most: float


def main() -> int:
    """Measures, prints the table, and returns 1 if a bound is exceeded."""
    flags = parse_flags()
    with tempfile.TemporaryDirectory() as folder:
        job = prepare(folder, flags)
        rounds = [measure(folder, job) for _ in range(flags.rounds)]
    rows = summary(rounds)
    imported = statistics.median(measured["import tensorflow"] for measured in rounds)
    print(f"import tensorflow takes {imported:.2f} s")
    print(f"{'':24}{'seconds':>10}{'times':>8}{'at most':>10}")
    for name, row in rows.items():
        print(f"{name:24}{row.seconds:>10.2f}{row.times:>8.2f}{row.most:>10.2f}")
    return 0 if all(row.times <= row.most for row in rows.values()) else 1


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--config", default="configs/albert_base_v2.json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="steps of the training")
    return parser.parse_args()


def prepare(folder: str, flags: argparse.Namespace) -> list[str]:
    """Makes a model, questions, features and a finished run; returns its command without the
    folder."""
    model = os.path.join(folder, "model")
    os.makedirs(model)
    write_model(model, flags.config)
    folder_of_model = open_folder(model)
    longest = folder_of_model.value("max_seq_length")
    questions = {}
    for part, count in (("train", _BATCH * flags.steps), ("predict", 1)):
        questions[part] = os.path.join(folder, f"{part}.json")
        with open(questions[part], "w", encoding="utf-8") as file:
            json.dump(made_up_questions(folder_of_model, count), file)
    job = [
        *(sys.executable, PROGRAM, f"--albert_config_file={flags.config}", "--device=cpu"),
        f"--spm_model_file={os.path.join(model, ASSETS, SPM_MODEL)}",
        f"--init_checkpoint={os.path.join(model, BEST)}",
        f"--train_file={questions['train']}",
        f"--train_feature_file={os.path.join(folder, 'train.tf_record')}",
        f"--predict_file={questions['predict']}",
        f"--train_batch_size={_BATCH}",
        f"--train_steps={flags.steps}",
        f"--max_seq_length={longest}",
        f"--max_query_length={longest // 4}",
        f"--doc_stride={longest // 4}",
        "--log_steps=1",
    ]
    timed(finished(folder, job))
    return job


def finished(folder: str, job: list[str]) -> list[str]:
    """Returns the command of a run that is already complete."""
    return [*job, f"--output_dir={os.path.join(folder, 'finished')}"]


def made_up_questions(folder: ModelFolder, count: int) -> dict:
    """Returns answerable questions in the form of SQuAD 1.1, each with one window of any length."""
    draw, longest = random.Random(0), folder.value("max_seq_length")
    texts = [text_of(folder, draw.randint(longest // 3, longest)) for _ in range(count)]
    paragraphs = [
        {
            "context": text,
            "qas": [
                {
                    "id": str(number),
                    "question": QUESTION,
                    "answers": [{"text": text.split()[0], "answer_start": 0}],
                }
            ],
        }
        for number, text in enumerate(texts)
    ]
    return {"version": "1.1", "data": [{"title": "made up", "paragraphs": paragraphs}]}


def measure(folder: str, job: list[str]) -> dict[str, float]:
    """Returns the seconds of every program in one round."""
    seconds = {
        "import tensorflow": timed(
            [sys.executable, "-c", "from albert import cli; import tensorflow"]
        ),
        "--help": timed([sys.executable, PROGRAM, "--help"]),
        "nothing left to do": timed(finished(folder, job)),
    }
    model = os.path.join(folder, "model")
    text = text_of(open_folder(model), _ANSWERED_LENGTH)
    imported, answered = first_answer(model, text)
    # In multiples of the import in the same process.
    seconds["first answer"] = answered / imported * seconds["import tensorflow"]
    with tempfile.TemporaryDirectory(dir=folder) as output_dir:
        ends = step_ends([*job, "--do_predict=false", f"--output_dir={output_dir}"])
    seconds["first step"] = ends[0]
    later = [after - before for before, after in zip(ends, ends[1:], strict=False)]
    seconds["later step"] = statistics.median(later)
    return seconds


def timed(command: list[str]) -> float:
    """Returns the seconds that a command takes."""
    start = time.perf_counter()
    run(command).check_returncode()
    return time.perf_counter() - start


def run(command: list[str]) -> subprocess.CompletedProcess:
    """Runs a command to its end."""
    return subprocess.run(command, cwd=ROOT, capture_output=True)


def step_ends(command: list[str]) -> list[float]:
    """Runs a training; returns the seconds up to the end of each step, from its log."""
    start, ends = time.perf_counter(), []
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if _STEP.search(line):
                ends.append(time.perf_counter() - start)
    if process.returncode or len(ends) < 2:
        raise RuntimeError(f"the training has ended with {process.returncode}: {command}")
    return ends


def summary(rounds: list[dict[str, float]]) -> dict[str, Row]:
    """Returns the rows of the programs that have bounds."""
    rows = {}
    most = {
        "--help": MOST_HELP,
        "nothing left to do": MOST_NOTHING_LEFT,
        "first answer": MOST_FIRST,
        "first step": MOST_FIRST_STEP,
    }
    later_share = statistics.median(r["later step"] / r["import tensorflow"] for r in rounds)
    for name, times in most.items():
        rows[name] = Row(
            statistics.median(r[name] for r in rounds),
            statistics.median(r[name] / r["import tensorflow"] for r in rounds),
            times + MOST_OF_LATER * later_share * (name == "first step"),
        )
    return rows


if __name__ == "__main__":
    sys.exit(main())
