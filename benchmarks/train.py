"""Times training and prediction on real batches next to PyTorch `transformers`, in one run.

  make bench NAME=train FLAGS="[--rows training/float32,MRPC] ..."

In every row of the table, three programs get the same batches in the same order, each in a separate
process on all cores: this project; `transformers` padded to the longest possible feature; and
`transformers` padded to the longest feature of the batch. They take turns, so that other load
affects all of them. Every turn has the same batches. The first turn is not measured; in later ones
all shapes have occurred before, as after some hundred steps of a training. All programs start from
the same random weights, which `albert convert` passes to `transformers`. There is no dropout, every
loss excludes padding, RAdam updates the weights (this project's is that of PyTorch), and the losses
of the first steps are compared.

With --device=gpu, the three use the first GPU, and there are rows with products in TF32. PyTorch
with CUDA's libraries may need a separate environment, whose Python --torch_python names.

"Of peak" is the speed relative to that of a large matrix product of the same type, the best of the
same run. It counts the layers' matrix products for real tokens, without attention.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from albert.devices import host
from benchmarks.features import DOC_STRIDE, MAX_QUERY_LENGTH, MAX_SEQ_LENGTH
from benchmarks.parts.harness import DATA, ROOT, new_parser

PROGRAMS = ("this project", "padded", "dynamic")
MRPC_LENGTH = 128


class Row(NamedTuple):
    """A row of the table.

    Attributes:
      work: "training" or "prediction".
      data: "train", "dev" (of SQuAD 1.1) or "mrpc".
      config: of the model, in `configs/`.
      dtype: of matrix products.
      batch_size: examples in a batch.
      wanted: required ratios to the speed of `transformers`, padded and dynamic.
      share: required fraction of the peak.
    """

    work: str
    data: str
    config: str
    dtype: str
    batch_size: int
    wanted: tuple[float | None, float | None]
    share: float | None = None


_ALBERT = "albert_base_v2.json"
ROWS = {
    "training/float32": Row("training", "train", _ALBERT, "float32", 8, (2.4, 2.2), 0.8),
    "training/bfloat16": Row("training", "train", _ALBERT, "bfloat16", 8, (1.8, 1.5), 0.7),
    "prediction/float32": Row("prediction", "dev", _ALBERT, "float32", 8, (2.8, 2.4), 0.8),
    "prediction/bfloat16": Row("prediction", "dev", _ALBERT, "bfloat16", 8, (None, 1.6), 0.7),
    "MRPC": Row("training", "mrpc", _ALBERT, "float32", 32, (2.5, 1.6)),
    "BERT": Row("training", "train", "bert_base_uncased.json", "float32", 8, (2.2, 1.8), 0.75),
}
_NO_AIMS = (None, None)
# Rows for a GPU, in addition; in float32, TensorFlow and PyTorch then use no TF32.
ROWS_OF_GPU = {
    "training/tf32": Row("training", "train", _ALBERT, "tf32", 8, _NO_AIMS),
    "prediction/tf32": Row("prediction", "dev", _ALBERT, "tf32", 8, _NO_AIMS),
}
# Largest difference between the losses of the first steps, in float32.
MOST_APART = 1e-3


class Measurement(NamedTuple):
    """The measurements of a program in a row: for each turn, and in total."""

    seconds: list[float]
    losses: list[float]
    matrix_peak: float
    memory: float


def main() -> int:
    """Measures, prints the table, and returns 1 if the losses differ."""
    flags = parse_flags()
    rows = {**ROWS, **ROWS_OF_GPU} if flags.device == "gpu" else dict(ROWS)
    names = flags.rows.split(",") if flags.rows else list(rows)
    if unknown := set(names) - set(rows):
        sys.exit(f"bench-train: error: no row is {', '.join(unknown)}; there are {', '.join(rows)}")
    has_bfloat16, why = host.find_processor().bfloat16()
    if flags.device == "cpu" and not has_bfloat16:
        print(f"without the rows in bfloat16: {why or 'the instructions are not known'}")
        names = [name for name in names if rows[name].dtype == "float32"]
    print(HEADER, flush=True)
    agree = True
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            row = rows[name]._replace(batch_size=flags.batch_size or rows[name].batch_size)
            agree &= measure_row(name, row, flags, folder)
    return 0 if agree else 1


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument(
        "--rows", help=f"some of {', '.join(ROWS)}, separated by commas; default: all"
    )
    parser.add_argument("--batches", type=int, default=2, help="batches per turn")
    parser.add_argument(
        "--turns", type=int, default=5, help="turns of each program; the first is not measured"
    )
    parser.add_argument("--train_file", default=os.path.join(DATA, "squad", "train-v1.1.json"))
    parser.add_argument("--predict_file", default=os.path.join(DATA, "squad", "dev-v1.1.json"))
    parser.add_argument("--mrpc_dir", default=os.path.join(DATA, "mrpc"))
    parser.add_argument("--spm_model_file", default=os.path.join(DATA, "spm", "en8k.model"))
    parser.add_argument(
        "--max_seq_length", type=int, default=MAX_SEQ_LENGTH, help="length of SQuAD's features"
    )
    parser.add_argument(
        "--matrix_size", type=int, default=4096, help="size of the large matrix product"
    )
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--batch_size", type=int, help="examples in a batch; default: the row's")
    parser.add_argument(
        "--torch_python", default=sys.executable, help="the Python that has torch and transformers"
    )
    parser.add_argument("--no_transformers", action="store_true", help="time only this project")
    parser.add_argument("--json", help="file for the figures, a line of JSON for each row")
    flags = parser.parse_args()
    needed = ["train_file", "predict_file", "spm_model_file"]
    needed += [] if flags.rows and "MRPC" not in flags.rows else ["mrpc_dir"]
    for name in needed:
        if not os.path.exists(getattr(flags, name)):
            sys.exit(f"bench-train: error: {getattr(flags, name)} is missing; give --{name}")
    return flags


def measure_row(name: str, row: Row, flags: argparse.Namespace, folder: str) -> bool:
    """Measures a row and prints it; returns whether the losses agree."""
    count = row.batch_size * flags.batches
    batches = os.path.join(folder, f"{row.data}-{count}.npz")
    if not os.path.exists(batches):
        np.savez(batches, **features(row.data, flags, folder, count))
    model = os.path.join(folder, f"{row.config}-{row.data}")
    if not os.path.exists(model):
        command = program_command("make", model=model, config=config_path(row), data=row.data)
        subprocess.run(command, cwd=ROOT, env=environment(), check=True)
    measured = take_turns(row, model, batches, flags)
    tokens, turns = int(np.load(batches)["input_mask"].sum()), flags.turns - 1
    print_row(name, row, measured, count * turns, tokens * turns)
    if flags.json:
        append_figures(flags.json, name, row, measured, count * turns)
    losses = np.array([of.losses for of in measured.values()])
    if row.dtype != "float32" or not losses.size or len(losses) == 1:
        return True
    apart = float(np.max(np.abs(losses - losses[0])[:, :10]))
    print(f"{'':20}losses of the first {min(10, losses.shape[1])} steps: {apart:.1e} apart")
    return apart <= MOST_APART


def append_figures(
    path: str, name: str, row: Row, measured: Mapping[str, Measurement], examples: int
) -> None:
    """Appends a row's examples per second and gigabytes of each program, as a line of JSON."""
    programs = {
        program: {"rate": examples / sum(of.seconds), "memory": of.memory}
        for program, of in measured.items()
    }
    with open(path, "a", encoding="utf-8") as file:
        print(json.dumps({"row": name, "batch": row.batch_size, "programs": programs}), file=file)


def config_path(row: Row) -> str:
    return os.path.join(ROOT, "configs", row.config)


def features(
    data: str, flags: argparse.Namespace, folder: str, count: int
) -> Mapping[str, np.ndarray]:
    """Returns `count` features of a data set, padded to its longest; shuffled for training."""
    import tensorflow.compat.v1 as tf

    tf.logging.set_verbosity(tf.logging.ERROR)
    with tf.Graph().as_default(), tf.Session() as session:
        part = source(data, flags, folder).prepared()._replace(trims=False)
        made = part.input_fn(count, shuffle_seed=None if data == "dev" else 1)()
        return session.run(tf.data.make_one_shot_iterator(made).get_next())


def source(data: str, flags: argparse.Namespace, folder: str):
    """Returns the features of a data set, made as by the programs."""
    from albert.tasks.glue.features import GlueFeatures
    from albert.tasks.glue.tasks import PROCESSORS
    from albert.tasks.squad.feature_files import FeatureOptions, SquadFeatures
    from albert.tasks.squad.question_source import QuestionSource
    from albert.tokenization import FullTokenizer

    tokenizer = FullTokenizer(None, True, flags.spm_model_file)
    path = os.path.join(folder, f"{data}.tf_record")
    if data == "mrpc":
        processor = PROCESSORS["mrpc"](use_spm=True, do_lower_case=True)
        file = os.path.join(flags.mrpc_dir, "msr_paraphrase_train.txt")
        return GlueFeatures(processor, tokenizer, MRPC_LENGTH, "train", file, path)
    options = FeatureOptions(flags.max_seq_length, DOC_STRIDE, MAX_QUERY_LENGTH)
    if data == "train":
        return SquadFeatures(QuestionSource(flags.train_file), [path], tokenizer, options)
    left = os.path.join(folder, f"{data}_left.npz")
    return SquadFeatures(QuestionSource(flags.predict_file), [path, left], tokenizer, options)


def program_command(name: str, python: str = sys.executable, **arguments: object) -> list[str]:
    given = {"program": name, **arguments}
    module = [python, "-m", "benchmarks.parts.train_programs"]
    return [*module, *(f"--{flag}={value}" for flag, value in given.items())]


def environment() -> dict[str, str]:
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2", "TRANSFORMERS_VERBOSITY": "error"}
    return {**quiet, **os.environ}


class Program:
    """One of the programs, in a process that waits for its turns."""

    def __init__(self, name: str, row: Row, model: str, batches: str, flags: argparse.Namespace):
        command = program_command(
            name,
            sys.executable if name == PROGRAMS[0] else flags.torch_python,
            model=model,
            config=config_path(row),
            data=row.data,
            batches=batches,
            batch_size=row.batch_size,
            work=row.work,
            dtype=row.dtype,
            matrix_size=flags.matrix_size,
            device=flags.device,
        )
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def turn(self) -> dict:
        """Lets the program work on the batches, and returns its measurements."""
        print(file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise ChildProcessError(f"a program ended with code {self._process.wait()}, see above")
        return json.loads(line)

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()


def take_turns(
    row: Row, model: str, batches: str, flags: argparse.Namespace
) -> dict[str, Measurement]:
    """Returns the programs' measurements: the losses of all turns, the times without the first
    one."""
    names = PROGRAMS[:1] if flags.no_transformers else PROGRAMS
    programs = {name: Program(name, row, model, batches, flags) for name in names}
    try:
        turns = {name: [] for name in names}
        for _ in range(flags.turns):
            for name, program in programs.items():
                turns[name].append(program.turn())
    finally:
        for program in programs.values():
            program.close()
    return {
        name: Measurement(
            [turn["seconds"] for turn in of_program[1:]],
            [loss for turn in of_program for loss in turn["losses"]],
            max(turn["matrix_peak"] for turn in of_program),
            max(turn["memory"] for turn in of_program),
        )
        for name, of_program in turns.items()
    }


HEADER = (
    f"{'':20}{'program':<14}{'examples/s':>11}{'tokens/s':>10}{'of peak':>9}{'peak memory':>13}"
    f"{'ours':>7}{'wanted':>8}"
)


def print_row(
    name: str, row: Row, measured: Mapping[str, Measurement], examples: int, tokens: int
) -> None:
    """Prints the programs' measurements; a ratio is the median over the turns."""
    peak = max(of.matrix_peak for of in measured.values())
    work = matrix_work(config_path(row), row.work) * tokens
    ours = measured[PROGRAMS[0]].seconds
    wanted = dict(zip(PROGRAMS, (row.share, *row.wanted), strict=True))
    for program, of in measured.items():
        seconds = sum(of.seconds)
        times = statistics.median(b / a for a, b in zip(ours, of.seconds, strict=True))
        shown = f"{times:.2f}" if program != PROGRAMS[0] else ""
        aim = wanted[program]
        aims = "" if aim is None else f"{aim:.0%}" if program == PROGRAMS[0] else f"{aim:.1f}"
        print(
            f"{name if program == PROGRAMS[0] else '':20}{program:<14}{examples / seconds:>11.2f}"
            f"{tokens / seconds:>10.0f}{work / seconds / peak:>9.0%}{of.memory:>10.2f} GB"
            f"{shown:>7}{aims:>8}",
            flush=True,
        )
    print(f"{'':20}peak of a matrix product in {row.dtype}: {peak / 1e9:.0f} GFLOP/s", flush=True)


def matrix_work(config_file: str, work: str) -> float:
    """Returns the operations of the layers' matrix products for one token."""
    with open(config_file, encoding="utf-8") as file:
        config = json.load(file)
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    layer = 2.0 * (4 * hidden * hidden + 2 * hidden * wide)
    mapping = 2.0 * config.get("embedding_size", 0) * hidden
    forward = config["num_hidden_layers"] * layer + mapping
    return forward * (3 if work == "training" else 1)


if __name__ == "__main__":
    sys.exit(main())
