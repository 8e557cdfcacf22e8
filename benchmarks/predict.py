"""Times prediction on real batches next to `transformers` and ONNX Runtime.

  make bench NAME=predict FLAGS="[--rows float32] ..."      batches, in processes that take turns
  make bench NAME=predict FLAGS="--settings ..."            the same for each setting of a peer
  make bench NAME=predict FLAGS="--programs [--questions 100] ..."   whole programs

All programs get the same batches of features of similar length, padded to the longest of the batch.
Each turn has batches spread over all lengths. Their shapes are new at first; then the same batches
come again. Weights are random, and `albert convert` passes them to the peers. `transformers`
runs as it is, or compiled by PyTorch, before it gets the batches. ONNX Runtime has weights in
float32, or in eight bits with dynamic quantization. `--settings` shows what else was
tried for the peers; the fastest are the defaults. Settings that change the numbers, such as
oneDNN's faster types for products in float32, were not tried.

Whole programs are timed from the command to their end, and they alternate. This project reads
questions, makes features and writes all files of a prediction. The others get ready features, and
write the positions of the most probable answers; compiling counts.

"Of peak" is the speed with known shapes relative to that of a large matrix product of the same
type, the best of the same run. It counts the layers' matrix products for real tokens, without
attention. With --device=gpu, the programs use the first GPU, ONNX Runtime is omitted, and there is
a row with products in TF32.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from benchmarks.parts import data, turns, whole_programs
from benchmarks.parts.harness import new_parser
from benchmarks.parts.peers import KINDS, ONNX_MODELS, PEERS, SETTINGS, kinds_of
from benchmarks.parts.turns import OURS, Program, Row

_ALBERT = "albert_base_v2.json"
ROWS = {
    "float32": Row("prediction", "dev", _ALBERT, "float32", 8, {OURS: 0.8}),
    "bfloat16": Row("prediction", "dev", _ALBERT, "bfloat16", 8, {OURS: 0.7}),
}
# A row for a GPU, in addition; in float32, TensorFlow and PyTorch then use no TF32.
ROWS_OF_GPU = {"tf32": Row("prediction", "dev", _ALBERT, "tf32", 8)}


def main() -> None:
    """Measures and prints a table."""
    flags = parse_flags()
    rows = {**ROWS, **ROWS_OF_GPU} if flags.device == "gpu" else dict(ROWS)
    rows = turns.chosen(rows, flags)
    if flags.config:
        rows = {name: row._replace(config=flags.config) for name, row in rows.items()}
    measure = measure_settings if flags.settings else measure_turns
    with tempfile.TemporaryDirectory() as folder:
        if flags.programs:
            whole_programs.measure(rows, flags, folder)
        else:
            measure(rows, flags, folder)


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--rows", help=f"some of {', '.join(ROWS)}; default: all")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--settings", action="store_true", help="time the settings of the peers")
    kind.add_argument("--programs", action="store_true", help="time whole programs")
    parser.add_argument(
        "--peers", default=",".join(KINDS), help="programs to compare with, separated by commas"
    )
    parser.add_argument("--config", help="configuration of the model; default: ALBERT-base")
    parser.add_argument(
        "--questions",
        type=int,
        help="for whole programs: first questions of the file; default: all",
    )
    parser.add_argument("--rounds", type=int, default=3, help="for whole programs: runs of each")
    data.add_flag(parser, "predict_file", "spm_model_file")
    turns.add_flags(parser, batches=3, turns=3)
    flags = parser.parse_args()
    data.find(flags, "predict_file", "spm_model_file")
    flags.config = flags.config and os.path.abspath(flags.config)
    flags.peers = kinds_of(flags)
    return flags


def programs_of(row: Row, flags: argparse.Namespace) -> dict[str, Program]:
    """Returns this project and its peers in a row."""
    peers = {name: of for name, of in PEERS[row.dtype].items() if of.kind in flags.peers}
    return {OURS: Program(OURS), **peers}


def measure_turns(rows: dict[str, Row], flags: argparse.Namespace, folder: str) -> None:
    """Prints the rows with known and new shapes."""
    print(turns.HEADER, flush=True)
    for name, row in rows.items():
        programs = programs_of(row, flags)
        models = ONNX_MODELS if "onnxruntime" in flags.peers else ()
        files = turns.prepare(row, flags, folder, models)
        measured, peak = turns.take_turns(programs, row, files, flags)
        turns.print_row(name, row, programs, measured, peak, files[1])
        if flags.json:
            turns.append_figures(flags.json, name, row, measured)


def measure_settings(rows: dict[str, Row], flags: argparse.Namespace, folder: str) -> None:
    """Prints the speed of each setting of the peers; those of a peer take turns."""
    print(f"{'':70}{'examples/s':^44}\n{'':70}{'new shapes':>22}{'known shapes':>22}")
    for dtype, row in rows.items():
        for name, settings in SETTINGS[dtype].items():
            programs = {setting: of for setting, of in settings.items() if of.kind in flags.peers}
            models = {of.options["model"] for of in programs.values() if "model" in of.options}
            if not programs:
                continue
            # Other peers need other models.
            with tempfile.TemporaryDirectory(dir=folder) as of_peer:
                files = turns.prepare(row, flags, of_peer, sorted(models))
                measured, _ = turns.take_turns(programs, row, files, flags, peak=False)
            for setting, of in measured.items():
                speeds = f"{turns.spread(of.new):>22}{turns.spread(of.known):>22}"
                print(f"{name:24}{setting:46}{speeds}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
