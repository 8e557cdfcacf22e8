"""Times training on real batches next to PyTorch `transformers`, in one run.

Both programs get the same batches in the same order, each in a separate process on all cores:
this project, and `transformers` with PyTorch's fused attention, padded to the longest feature of
the batch. They take turns: each turn has --batches whose shapes are new, and then the same batches
again. They start from the same random weights, which `albert convert` passes to `transformers`.
The loss excludes padding, and AdamW updates the weights (`adamw_corrected` here, a fused one in
PyTorch). The losses of the first step are compared, unless --dropout sets a probability of dropout;
in later steps, AdamW magnifies the rounding of tiny gradients. --config is a configuration of
ALBERT or BERT.

--rows are some of float32, bfloat16 and, with --device=gpu, tf32. On a GPU, both use the first one.
PyTorch with CUDA's libraries may need a separate environment, whose Python --torch_python names.

"Of peak" is the speed with known shapes relative to that of a large matrix product of the same
type, the best of the same run. It counts the layers' matrix products for real tokens, without
attention.
"""

import sys
import tempfile

import numpy as np

from benchmarks.parts import turns
from benchmarks.parts.flags import Flags
from benchmarks.parts.turns import OURS, Program

# Largest difference between the losses of the first step, in float32.
MOST_APART = 1e-4


def main() -> int:
    """Measures, prints the table, and returns 1 if the losses differ."""
    flags = turns.parse(__doc__, "training", "train_file", 2, peers="transformers", dropout=0.0)
    with tempfile.TemporaryDirectory() as folder:
        turns.prepare(flags, folder)
        return 0 if all([measure(dtype, flags) for dtype in flags.dtypes]) else 1


def measure(dtype: str, flags: Flags) -> bool:
    """Measures a type of products and prints it; returns whether the losses agree."""
    programs = {name: Program(name) for name in (OURS, flags.peers) if name}
    measured, peak = turns.take_turns(programs, dtype, flags)
    turns.print_rows(dtype, programs, measured, peak, flags)
    losses = np.array([result.losses for result in measured.values()])
    if dtype != "float32" or len(losses) == 1 or flags.dropout:
        return True
    apart = float(np.ptp(losses[:, 0]))
    print(f"losses of the first step: {apart:.1e} apart")
    return apart <= MOST_APART


if __name__ == "__main__":
    sys.exit(main())
