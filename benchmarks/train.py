"""Times training on real batches next to PyTorch `transformers`, in one run.

  make bench NAME=train FLAGS="[--rows float32,MRPC] ..."

In every row of the table, three programs get the same batches in the same order, each in a separate
process on all cores: this project; `transformers` padded to the longest possible feature; and
`transformers` padded to the longest feature of the batch, both with PyTorch's fused attention. They
take turns: each turn has batches whose shapes are new, and then the same batches again. All
programs start from the same random weights, which `albert convert` passes to `transformers`. There
is no dropout, every loss excludes padding, RAdam updates the weights (this project's is that of
PyTorch), and the losses of the first steps are compared.

With --device=gpu, the three use the first GPU, and there is a row with products in TF32. PyTorch
with CUDA's libraries may need a separate environment, whose Python --torch_python names.

"Of peak" is the speed with known shapes relative to that of a large matrix product of the same
type, the best of the same run. It counts the layers' matrix products for real tokens, without
attention.
"""

from __future__ import annotations

import argparse
import sys
import tempfile

import numpy as np

from benchmarks.parts import data, turns
from benchmarks.parts.harness import new_parser
from benchmarks.parts.turns import OURS, Program, Row

PEERS = ("padded", "dynamic")
_ALBERT, _BERT = "albert_base_v2.json", "bert_base_uncased.json"


def _wanted(padded: float, dynamic: float, share: float | None = None) -> dict[str, float]:
    wanted = {"padded": padded, "dynamic": dynamic}
    return wanted if share is None else {**wanted, OURS: share}


ROWS = {
    "float32": Row("training", "train", _ALBERT, "float32", 8, _wanted(2.4, 2.2, 0.8)),
    "bfloat16": Row("training", "train", _ALBERT, "bfloat16", 8, _wanted(1.8, 1.5, 0.7)),
    "MRPC": Row("training", "mrpc", _ALBERT, "float32", 32, _wanted(2.5, 1.6)),
    "BERT": Row("training", "train", _BERT, "float32", 8, _wanted(2.2, 1.8, 0.75)),
}
# A row for a GPU, in addition; in float32, TensorFlow and PyTorch then use no TF32.
ROWS_OF_GPU = {"tf32": Row("training", "train", _ALBERT, "tf32", 8)}
# Largest difference between the losses of the first steps, in float32.
MOST_APART = 1e-3


def main() -> int:
    """Measures, prints the table, and returns 1 if the losses differ."""
    flags = parse_flags()
    rows = {**ROWS, **ROWS_OF_GPU} if flags.device == "gpu" else dict(ROWS)
    wanted = turns.chosen(rows, flags)
    print(turns.HEADER, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        agree = [measure_row(name, row, flags, folder) for name, row in wanted.items()]
    return 0 if all(agree) else 1


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument(
        "--rows", help=f"some of {', '.join(ROWS)}, separated by commas; default: all"
    )
    data.add_flag(parser, "train_file", "spm_model_file", "mrpc_file")
    parser.add_argument(
        "--peers", default=",".join(PEERS), help="ways of `transformers`, separated by commas"
    )
    turns.add_flags(parser, batches=3, turns=2)
    flags = parser.parse_args()
    has_mrpc = "MRPC" in (flags.rows.split(",") if flags.rows else ROWS)
    data.find(flags, "train_file", "spm_model_file", *(["mrpc_file"] if has_mrpc else []))
    return flags


def measure_row(name: str, row: Row, flags: argparse.Namespace, folder: str) -> bool:
    """Measures a row and prints it; returns whether the losses agree."""
    files = turns.prepare(row, flags, folder)
    peers = flags.peers.split(",") if flags.peers else []
    programs = {name: Program(name) for name in (OURS, *peers)}
    measured, peak = turns.take_turns(programs, row, files, flags)
    turns.print_row(name, row, programs, measured, peak, files[1])
    if flags.json:
        turns.append_figures(flags.json, name, row, measured)
    losses = np.array([of.losses for of in measured.values()])
    if row.dtype != "float32" or len(losses) == 1:
        return True
    apart = float(np.max(np.abs(losses - losses[0])[:, :10]))
    print(f"{'':20}losses of the first {min(10, losses.shape[1])} steps: {apart:.1e} apart")
    return apart <= MOST_APART


if __name__ == "__main__":
    sys.exit(main())
