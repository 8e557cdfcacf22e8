"""Times how soon programs begin, in multiples of `import tensorflow`, with ALBERT-base.

Each program runs in a new process and is timed from the command to its end. A training is timed to
the end of its first step; it starts from a random checkpoint, with existing features. The programs
take turns in each round, which also times `import tensorflow`; a row has the medians of the rounds.
The benchmark fails if a time exceeds its limit.
"""

import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

from albert.checkpoints.checkpoint_files import BEST
from albert.checkpoints.model_folder import ASSETS, SPM_MODEL
from albert.core.files import write_json
from albert.inference.folders import ModelFolder, open_folder
from benchmarks.parts.flags import BASE, Flags, parse
from benchmarks.parts.harness import ROOT, Table, output_of, ratios_of, seconds_of
from benchmarks.parts.models import QUESTION, first_answer, text_of, write_model

_PROGRAM = [sys.executable, os.path.join(ROOT, "run_squad_v1.py")]
# As multiples of `import tensorflow`; a first step may also take a share of a later one.
_MOST = {"--help": 0.5, "nothing left to do": 2.0, "first answer": 3.0, "first step": 3.0}
_MOST_OF_LATER = 1.5
_BATCH, _ANSWERED_LENGTH = 8, 384
_IMPORT = "import tensorflow"
_QUIET = {"stderr": subprocess.DEVNULL}


def main() -> int:
    """Measures, prints the table, and returns 1 if a limit is exceeded."""
    flags = parse(__doc__, config=BASE, rounds=3, steps=3)
    with tempfile.TemporaryDirectory() as folder:
        job = prepare(folder, flags)
        rounds = [measure(folder, job) for _ in range(flags.rounds)]
    seconds = {name: [measured[name] for measured in rounds] for name in rounds[0]}
    imports = seconds[_IMPORT]
    times = {name: statistics.median(ratios_of(s, imports)) for name, s in seconds.items()}
    print(f"import tensorflow takes {statistics.median(imports):.2f} s")
    table, holds = Table("seconds", "times", "at most"), True
    for name, most in _MOST.items():
        most += _MOST_OF_LATER * times["later step"] * (name == "first step")
        values = statistics.median(seconds[name]), times[name], most
        table.row(name, *(f"{value:.2f}" for value in values))
        holds = holds and times[name] <= most
    return 0 if holds else 1


def prepare(folder: str, flags: Flags) -> list[str]:
    """Makes a model, features and a finished run; returns its command without the folder."""
    model = os.path.join(folder, "model")
    os.makedirs(model)
    write_model(model, flags.config)
    opened = open_folder(model)
    longest = opened.value("max_seq_length")
    for split, count in (("train", _BATCH * flags.steps), ("predict", 1)):
        write_json(f"{folder}/{split}.json", made_up_questions(opened, count))
    options = {
        **{"albert_config_file": flags.config, "device": "cpu", "log_steps": 1},
        "spm_model_file": os.path.join(model, ASSETS, SPM_MODEL),
        "init_checkpoint": os.path.join(model, BEST),
        "train_feature_file": f"{folder}/train.tf_record",
        **{f"{split}_file": f"{folder}/{split}.json" for split in ("train", "predict")},
        **{"train_batch_size": _BATCH, "train_steps": flags.steps, "max_seq_length": longest},
        **dict.fromkeys(("max_query_length", "doc_stride"), longest // 4),
    }
    job = [*_PROGRAM, *(f"--{name}={value}" for name, value in options.items())]
    output_of([*job, f"--output_dir={folder}/finished"], **_QUIET)
    return job


def made_up_questions(folder: ModelFolder, count: int) -> dict:
    """Returns answerable questions in the form of SQuAD 1.1, each with one window of any length."""
    draw, longest = random.Random(0), folder.value("max_seq_length")
    paragraphs = []
    for number in range(count):
        text = text_of(folder, draw.randint(longest // 3, longest))
        answers = [{"text": text.split()[0], "answer_start": 0}]
        qas = [{"id": str(number), "question": QUESTION, "answers": answers}]
        paragraphs.append({"context": text, "qas": qas})
    return {"version": "1.1", "data": [{"title": "made up", "paragraphs": paragraphs}]}


def measure(folder: str, job: list[str]) -> dict[str, float]:
    """Returns the seconds of every program in one round."""
    commands = {
        _IMPORT: [sys.executable, "-c", "from albert import cli; import tensorflow"],
        "--help": [*_PROGRAM, "--help"],
        "nothing left to do": [*job, f"--output_dir={folder}/finished"],
    }
    seconds = {
        name: seconds_of(lambda words=words: output_of(words, **_QUIET))
        for name, words in commands.items()
    }
    model = os.path.join(folder, "model")
    imported, answered = first_answer(model, text_of(open_folder(model), _ANSWERED_LENGTH))
    # In multiples of the import in the same process.
    seconds["first answer"] = answered / imported * seconds[_IMPORT]
    with tempfile.TemporaryDirectory(dir=folder) as output_dir:
        ends = step_ends([*job, "--do_predict=false", f"--output_dir={output_dir}"])
    later = [after - before for before, after in zip(ends, ends[1:], strict=False)]
    return {**seconds, "first step": ends[0], "later step": statistics.median(later)}


def step_ends(command: list[str]) -> list[float]:
    """Runs a training; returns the seconds up to the end of each step, from its log."""
    start, ends = time.perf_counter(), []
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if re.search(r" step (\d+)/", line):
                ends.append(time.perf_counter() - start)
    if process.returncode or len(ends) < 2:
        raise RuntimeError(f"the training has ended with {process.returncode}: {command}")
    return ends


if __name__ == "__main__":
    sys.exit(main())
