"""Times training steps without GELU, softmax and layer normalization: what else can be gained?

Each way replaces operations, and thereby their gradients, by nothing: a scaled identity. The ways
take turns in separate processes. The table has the medians of the steps, and the share of the peak:
the operations of the layers' matrix products per second, divided by those of a large product in the
same process. The last way shows the highest share that faster versions of these operations allow.
"""

import statistics

import tensorflow.compat.v1 as tf

from albert.devices import ops
from albert.optimization import OptimizerOptions
from albert.prediction.model import ModelOptions
from benchmarks.parts.flags import BASE, Flags, parse
from benchmarks.parts.harness import Table, Way, in_turns, seconds_of
from benchmarks.parts.step import make_batch, session_of
from benchmarks.parts.this_project import choose_device, product_turn, with_dropout
from benchmarks.parts.turns import matrix_work

# What each way removes.
_REMOVED = {"all": [], "no GELU": ["gelu"], "no softmax": ["softmax"], "no norm": ["norm"]}
_REMOVED["none of the three"] = sum(_REMOVED.values(), [])
# Keeps the states of twelve layers finite.
_SCALE = 0.9


def main() -> None:
    """Lets the ways take turns and prints the table."""
    sizes = {"batch_size": 8, "seq_length": 200, "steps": 5, "rounds": 3, "matrix_size": 4096}
    flags = parse(__doc__, WAYS, config=BASE, dtype="float32", device="cpu", **sizes)
    table = Table("step", "of peak", "shares of the rounds")
    for way, rounds in in_turns(WAYS, flags.rounds).items():
        seconds, shares = (sorted(column) for column in zip(*rounds, strict=True))
        middle = f"{statistics.median(seconds):.3f} s", f"{statistics.median(shares):.1%}"
        table.row(way, *middle, f"{shares[0]:.1%} to {shares[-1]:.1%}")


def measure(flags: Flags) -> tuple[float, float]:
    """Returns the median time of a step, and the share of the peak."""
    choose_device(flags)
    remove(_REMOVED[flags.way])
    config = with_dropout(flags.config)
    options = ModelOptions(OptimizerOptions(1e-5, 10**9, optimizer="radam"))
    batch = make_batch(config, flags.batch_size, flags.seq_length)
    session, step = session_of(config, batch, options)
    with session:
        seconds = statistics.median([seconds_of(step) for _ in range(flags.steps + 1)][1:])
    peak = product_turn(flags)(0)["rate"]
    tokens = flags.batch_size * flags.seq_length
    return seconds, matrix_work(flags.config, "training") * tokens / seconds / peak


def remove(names: list[str]) -> None:
    """Replaces operations by scaled identities in this process."""
    if "gelu" in names:
        ops.gelu = lambda x: x
    if "softmax" in names:
        tf.nn.softmax = lambda x, name=None: x * _SCALE
    if "norm" in names:
        # The variables stay in the graph.
        ops.layer_norm = lambda x, gamma, beta, epsilon: x * _SCALE


WAYS = dict.fromkeys(_REMOVED, Way(measure))

if __name__ == "__main__":
    main()
