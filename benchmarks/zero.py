"""Measures a training step of two workers with and without a sharded optimizer.

For every model and way, a job of two workers with a core each trains two steps. This gives the
bytes of a worker's optimizer state, and the peak of its resident memory. Another job times the ways
in turns in one process, so that other load affects all of them. The table has medians, and the
median ratio to the time without sharding in the same round. Batches are small: communication and
updates do not depend on their size, and take most of such a step. "gradients" computes the same as
"state", which shows how much times vary.

With --table nothing is trained: the output is what workers keep and send by the formula of
docs/workers.md.
"""

import statistics
from collections.abc import Callable

import tensorflow.compat.v1 as tf

from albert import modeling
from albert.devices.memory_use import peak_host_memory
from albert.distributed import collectives, exchange
from albert.optimization import OptimizerOptions
from albert.prediction.model import ModelOptions
from albert.preflight.scaling import Link, scale, step_traffic
from benchmarks.parts.flags import Flags, parse
from benchmarks.parts.harness import Table, Way, give, mpirun, ratios_of, run_again, seconds_of
from benchmarks.parts.step import make_batch, session_of

_WAYS = ("none", "state", "gradients")
_TABLE = ("albert_xxlarge_v2", "bert_large_uncased")
# Ways and batches per step.
_COLUMNS = (("none", 1), ("state", 1), ("none", 4), ("state", 4), ("gradients", 4))


def main() -> None:
    """Starts the jobs and prints the tables, or runs one of their workers."""
    models = "configs/albert_xlarge_v2.json,configs/bert_base_uncased.json"
    flags = parse(__doc__, model=models, batch_size=2, seq_length=64, rounds=7, table=False)
    if flags.way:
        work(flags)
    elif flags.table:
        print_table()
    else:
        for model in flags.model.split(","):
            compare(model, flags)


def compare(model: str, flags: Flags) -> None:
    """Prints the table of a model."""
    single = {way: run_job(model, way, 2) for way in _WAYS}
    seconds = run_job(model, ",".join(_WAYS), flags.rounds + 1)["seconds"]
    print(f"{model}, {flags.batch_size} x {flags.seq_length}, 2 workers")
    table = Table("optimizer, MB", "ratio", "peak, GB", "s a step", "ratio", name_width=12)
    for way, job in single.items():
        state, ratio = job["state"] / 1e6, job["state"] / single["none"]["state"]
        columns = seconds[way][1:], ratios_of(seconds[way][1:], seconds["none"][1:])
        row = f"{state:.1f}", f"{ratio:.3f}", f"{job['peak'] / 1e9:.2f}"
        table.row(way, *row, *(f"{statistics.median(column):.3f}" for column in columns))


def run_job(model: str, ways: str, steps: int) -> dict:
    """Returns the measurements of rank 0 of a job of two workers, see `work`."""
    flags = f"--model={model}", f"--way={ways}", f"--rounds={steps}"
    return run_again(*flags, way=Way(work, launcher=mpirun(2)))


def work(flags: Flags) -> None:
    """Trains as a worker, alternating between ways; rank 0 prints the seconds of every step by way,
    the bytes of its optimizer state, and its peak memory."""
    collectives.join_job(use_horovod=True)
    collectives.connect()
    ways = {way: make_step(flags, way) for way in flags.way.split(",")}
    seconds = {way: [] for way in ways}
    for _ in range(flags.rounds):
        for way, (step, _) in ways.items():
            # All begin together.
            exchange.broadcast_object(None)
            seconds[way].append(seconds_of(step))
    if collectives.is_chief():
        state = sum(state for _, state in ways.values())
        give({"seconds": seconds, "state": state, "peak": peak_host_memory()})


def make_step(flags: Flags, way: str) -> tuple[Callable[[], object], int]:
    """Returns a training step with random weights, and the bytes of the optimizer's state."""
    config = modeling.read_config(flags.model)
    options = ModelOptions(OptimizerOptions(1e-5, 1000, optimizer="adamw", shard_optimizer=way))
    batch = make_batch(config, flags.batch_size, flags.seq_length)
    session, step = session_of(config, batch, options, settings=tf.ConfigProto())
    with session.graph.as_default():
        kept = [*tf.global_variables(), *tf.local_variables()]
    moments = [v for v in kept if v.op.name.endswith(("/adam_m", "/adam_v"))]
    return step, sum(v.shape.num_elements() * v.dtype.size for v in moments)


def print_table() -> None:
    """Prints, in Markdown, what each worker keeps and sends, without and with sharding."""
    heads = [way + f", {batches} batches" * (batches > 1) for way, batches in _COLUMNS]
    rows = [["model", "workers", *heads], ["---"] * (2 + len(heads))]
    for model in _TABLE:
        config = modeling.read_config(f"configs/{model}.json")
        with tf.Graph().as_default():
            modeling.Encoder(config, False, *[tf.zeros([1, 8], tf.int32)] * 3)
            values = sum(v.shape.num_elements() for v in tf.trainable_variables())
        for workers in (2, 8, 64):
            columns = [model, str(workers)]
            for way, batches in _COLUMNS:
                sent = step_traffic(values, workers, shard=way, batches=batches)
                kept = kept_bytes(values, workers, way, batches)
                seconds = scale(0.0, sent, Link()).allreduce
                columns.append(f"{kept / 1e9:.2f} GB, {1e3 * seconds:.0f} ms")
            rows.append(columns)
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))


def kept_bytes(values: int, workers: int, shard: str, batches: int) -> float:
    """Returns a worker's bytes between batches: weights, moments and accumulated gradients."""
    moments = 2 / (1 if shard == "none" else workers)
    gradients = (batches > 1) / (workers if shard == "gradients" else 1)
    return 4 * values * (1 + moments + gradients)


if __name__ == "__main__":
    main()
