"""Times steps of fixed shape with XLA next to the same steps without it.

Training and prediction of SQuAD, all sequences of one length, as with --max_seq_length on a card or
in a bucket. XLA compiles clusters of operations (`global_jit_level`); on a CPU it has to be allowed
by TF_XLA_FLAGS. The two ways take turns in separate processes. The table has medians, and the ratio
without to with XLA: above 1, XLA helps.
"""

import statistics
import time

import tensorflow.compat.v1 as tf

from albert import modeling
from albert.devices import device
from albert.optimization import OptimizerOptions
from albert.prediction.model import ModelOptions
from benchmarks.parts.flags import BASE, Flags, parse
from benchmarks.parts.harness import Table, Way, in_turns, ratios_of
from benchmarks.parts.step import PREDICT, TRAIN, make_batch, session_of


def main() -> None:
    """Lets the ways take turns and prints the table."""
    sizes = {"batch_size": 8, "seq_length": 128, "steps": 5, "rounds": 5}
    flags = parse(__doc__, WAYS, config=BASE, device="cpu", **sizes)
    without, compiled = in_turns(WAYS, flags.rounds).values()
    table = Table("without", "with XLA", "ratio", "of the rounds", "first step")
    for mode in without[0]:
        first = statistics.median(one[mode]["first"] for one in compiled)
        for figure in ("wall", "processor"):
            columns = [[one[mode][figure] for one in ways] for ways in (without, compiled)]
            ratios = sorted(ratios_of(*columns))
            seconds = (f"{statistics.median(column):.3f} s" for column in columns)
            row = f"{statistics.median(ratios):.2f}", f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
            table.row(f"{mode}, {figure} time", *seconds, *row, f"{first:.1f} s")


def measure(flags: Flags) -> dict[str, dict[str, float]]:
    """Returns medians of the wall time and processor time of a step of each kind, and the first
    step's time."""
    device.choose(flags.device)
    device.prepare()
    settings = device.session_config()
    if flags.way == "with":
        settings.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
    config = modeling.read_config(flags.config)
    options = ModelOptions(OptimizerOptions(1e-5, 1000, 100))
    batch, measured = make_batch(config, flags.batch_size, flags.seq_length), {}
    for name, mode in (("training", TRAIN), ("prediction", PREDICT)):
        session, step = session_of(config, batch, options, mode, settings)
        times = []
        for _ in range(flags.steps + 1):
            wall, processor = time.perf_counter(), time.process_time()
            step()
            times.append((time.perf_counter() - wall, time.process_time() - processor))
        session.close()
        wall, processor = map(statistics.median, zip(*times[1:], strict=True))
        measured[name] = {"wall": wall, "processor": processor, "first": times[0][0]}
    return measured


_COMPILED = Way(measure, {"TF_XLA_FLAGS": "--tf_xla_cpu_global_jit"})
WAYS = {"without": Way(measure), "with": _COMPILED}

if __name__ == "__main__":
    main()
