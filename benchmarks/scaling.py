"""Times a training step of one worker on one core next to two workers on two, one core each.

Every worker trains on a batch of the same size (weak scaling), so ideally a step takes as long with
two workers as with one. With --device=gpu, one worker on one GPU is compared with two workers on
two. The jobs take turns and the fastest round of each counts, so that other load affects all of
them. The output has the efficiency and the time of only the all-reduce of the gradients.
"""

import statistics
import sys
from collections.abc import Callable

import numpy as np
import tensorflow.compat.v1 as tf

from albert import modeling
from albert.devices import device, host
from albert.distributed import collectives
from albert.optimization import OptimizerOptions
from albert.prediction.model import ModelOptions
from benchmarks.parts.flags import BASE, Flags, parse
from benchmarks.parts.harness import Table, Way, give, in_turns, mpirun, seconds_of
from benchmarks.parts.step import make_batch, session_of


def main() -> None:
    """Starts the jobs and prints the table, or runs one of their workers."""
    sizes = {"batch_size": 8, "seq_length": 128, "steps": 5, "rounds": 2}
    flags = parse(__doc__, config=BASE, device="cpu", **sizes)
    if flags.way:
        work(flags)
        return
    on, placing = "core", []
    if flags.device == "gpu":
        on, placing = "GPU", ["--bind-to", "none", "--oversubscribe"]
        if (gpus := device.count_nvidia_cards()) < 2:
            sys.exit(f"benchmark: error: --device=gpu needs two GPUs; this machine has {gpus}")
    jobs = {
        f"1 worker, 1 {on}": Way(work, launcher=mpirun(1, *placing)),
        f"2 workers, 2 {on}s": Way(work, launcher=mpirun(2, *placing)),
    }
    best = {name: min(rounds) for name, rounds in in_turns(jobs, flags.rounds).items()}
    one = next(iter(best.values()))[0]
    table = Table("s a step", "examples/s", "efficiency", "all-reduce, ms")
    for size, (name, (step, communication)) in enumerate(best.items(), 1):
        rate = f"{size * flags.batch_size / step:.2f}"
        shown = f"{1e3 * communication:.1f}" if size > 1 else "-"
        table.row(name, f"{step:.3f}", rate, f"{one / step:.3f}", shown)


def work(flags: Flags) -> None:
    """Trains as a worker; rank 0 prints the seconds of a step and of its communication."""
    collectives.join_job(use_horovod=True)
    device.choose(flags.device)
    host.limit_threads()
    device.prepare()
    collectives.connect(on_cpu=flags.device == "cpu")
    config = modeling.AlbertConfig.from_json_file(flags.config)
    batch = make_batch(config, flags.batch_size, flags.seq_length)
    session, step = session_of(config, batch, ModelOptions(OptimizerOptions(1e-5, 1000, 100)))
    with session:
        step_seconds = median_seconds(step, flags.steps)
    # Values like the gradients', without computing them.
    shapes = [v.shape.as_list() for v in session.graph.get_collection("trainable_variables")]
    with tf.Graph().as_default(), tf.Session(config=device.session_config()) as session:
        feed = {tf.placeholder(tf.float32, shape): np.zeros(shape, np.float32) for shape in shapes}
        means = tf.group(*collectives.all_reduce_mean([*feed]))
        seconds = median_seconds(lambda: session.run(means, feed), 20)
    if collectives.is_chief():
        give((step_seconds, seconds))


def median_seconds(call: Callable[[], object], times: int) -> float:
    """Returns the median time of a call, after two to warm up."""
    return statistics.median([seconds_of(call) for _ in range(times + 2)][2:])


if __name__ == "__main__":
    main()
