"""Measures a training step of two workers with and without a sharded optimizer.

  make bench NAME=zero FLAGS="[--rounds 7] [--batch_size 2] ..."

For every model and way, a job of two workers with a core each trains two steps. This gives the
bytes of a worker's optimizer state, and the peak of its resident memory. Another job times the ways
in turns in one process, so that other load affects all of them. The table has medians, and the
median ratio to the time without sharding in the same round. Batches are small: communication and
updates do not depend on their size, and take most of such a step. Without --accumulation=2,
"gradients" computes the same as "state", which shows how much times vary.

With --table nothing is trained: the output is what workers keep and send by the formula of
docs/workers.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.
from albert.preflight.scaling import Link, scale, step_traffic
from benchmarks.parts.harness import ROOT, give, mpirun, new_parser, run_again

_MODELS = ("albert_xlarge_v2", "bert_base_uncased")
_TABLE = ("albert_xxlarge_v2", "bert_large_uncased")
_WAYS = ("none", "state", "gradients")
# Ways and batches per step.
_COLUMNS = (("none", 1), ("state", 1), ("none", 4), ("state", 4), ("gradients", 4))


def main() -> None:
    """Starts the jobs and prints the tables, or runs one of their workers."""
    flags = parse_flags()
    if flags.ways:
        work(flags)
    elif flags.table:
        print_table()
    else:
        for model in flags.model or _MODELS:
            compare(model, flags)


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument(
        "--model", action="append", help="name in configs/, or a path; may be repeated"
    )
    parser.add_argument("--batch_size", type=int, default=2, help="examples per worker")
    parser.add_argument("--seq_length", type=int, default=64)
    parser.add_argument("--accumulation", type=int, default=1, help="batches per step")
    parser.add_argument("--rounds", type=int, default=7, help="measured steps per way")
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument(
        "--table", action="store_true", help="print what more workers keep and send"
    )
    parser.add_argument("--ways", help=argparse.SUPPRESS)
    return parser.parse_args()


def compare(model: str, flags: argparse.Namespace) -> None:
    """Prints the table of a model."""
    alone = {way: run_job(model, way, 2) for way in _WAYS}
    seconds = run_job(model, ",".join(_WAYS), flags.rounds + 1)["seconds"]
    print(f"{model}, {flags.accumulation} x {flags.batch_size} x {flags.seq_length}, 2 workers")
    print(f"{'':<12}{'optimizer, MB':>14}{'ratio':>8}{'peak, GB':>10}{'s a step':>10}{'ratio':>8}")
    first = alone["none"]
    for way, found in alone.items():
        ratios = [a / b for a, b in zip(seconds[way][1:], seconds["none"][1:], strict=True)]
        print(
            f"{way:<12}{found['state'] / 1e6:>14.1f}{found['state'] / first['state']:>8.3f}"
            f"{found['peak'] / 1e9:>10.2f}{statistics.median(seconds[way][1:]):>10.3f}"
            f"{statistics.median(ratios):>8.3f}",
            flush=True,
        )


def run_job(model: str, ways: str, steps: int) -> dict:
    """Returns the measurements of rank 0 of a job of two workers, see `work`."""
    flags = f"--model={model}", f"--ways={ways}", f"--rounds={steps}"
    return run_again("zero", *flags, launcher=mpirun(2))


def work(flags: argparse.Namespace) -> None:
    """Trains as a worker, alternating between ways.

    Rank 0 prints the seconds of every step by way, the bytes of its optimizer state, and its peak
    memory.
    """
    from albert.devices.memory_use import peak_host_memory
    from albert.distributed import collectives

    collectives.join_job(use_horovod=True)
    collectives.connect()
    ways = {way: make_step(flags, way) for way in flags.ways.split(",")}
    seconds = {way: [] for way in ways}
    for _ in range(flags.rounds):
        for way, (step, _) in ways.items():
            # All begin together.
            collectives.broadcast_object(None)
            start = time.perf_counter()
            step()
            seconds[way].append(time.perf_counter() - start)
    if collectives.is_chief():
        state = sum(state for _, state in ways.values())
        give({"seconds": seconds, "state": state, "peak": peak_host_memory()})


def make_step(flags: argparse.Namespace, way: str) -> tuple[Callable[[], None], int]:
    """Returns a training step with random weights, and the bytes of the optimizer's state."""
    import tensorflow.compat.v1 as tf

    from albert import modeling
    from albert.optimization import OptimizerOptions
    from albert.prediction.model import ModelOptions
    from albert.tasks.squad.head import make_v1_head
    from albert.training.model_fn import make_model_fn
    from benchmarks.parts.step import make_batch, training_step

    tf.logging.set_verbosity(tf.logging.ERROR)
    config = modeling.read_config(path_of(flags.model[-1]))
    batch = make_batch(config, flags.batch_size, flags.seq_length)
    options = OptimizerOptions(
        1e-5,
        1000,
        optimizer=flags.optimizer,
        gradient_accumulation_steps=flags.accumulation,
        shard_optimizer=way,
    )
    model_fn = make_model_fn(config, make_v1_head(True), ModelOptions(options))
    session = tf.Session(graph=tf.Graph())
    with session.graph.as_default():
        tf.set_random_seed(1)
        train_op, feed = training_step(model_fn, batch)
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        kept = [*tf.global_variables(), *tf.local_variables()]

    def step() -> None:
        for _ in range(flags.accumulation):
            session.run(train_op, feed)

    moments = [v for v in kept if v.op.name.endswith(("/adam_m", "/adam_v"))]
    return step, sum(v.shape.num_elements() * v.dtype.size for v in moments)


def path_of(model: str) -> str:
    """Returns the path of a model's configuration."""
    return model if model.endswith(".json") else os.path.join(ROOT, "configs", f"{model}.json")


def print_table() -> None:
    """Prints, in Markdown, what each of several workers keeps and sends, without and with
    sharding."""
    link = Link()
    heads = [way + f", {batches} batches" * (batches > 1) for way, batches in _COLUMNS]
    print(cells(["model", "workers", *heads]), "|---" * (2 + len(heads)) + "|", sep="\n")
    for model in _TABLE:
        values = num_weights(path_of(model))
        for workers in (2, 8, 64):
            found = []
            for way, batches in _COLUMNS:
                sent = step_traffic(values, workers, shard=way, batches=batches)
                kept = kept_bytes(values, workers, way, batches)
                seconds = scale(0.0, sent, link).allreduce
                found.append(f"{kept / 1e9:.2f} GB, {1e3 * seconds:.0f} ms")
            print(cells([model, str(workers), *found]), flush=True)


def cells(values: list[str]) -> str:
    """Returns a row of a table in Markdown."""
    return f"| {' | '.join(values)} |"


def kept_bytes(values: int, workers: int, shard: str, batches: int) -> float:
    """Returns a worker's bytes between batches: weights, moments and accumulated gradients."""
    moments = 2 / (1 if shard == "none" else workers)
    gradients = (batches > 1) / (workers if shard == "gradients" else 1)
    return 4 * values * (1 + moments + gradients)


def num_weights(path: str) -> int:
    """Returns the number of a model's weights."""
    import tensorflow.compat.v1 as tf

    from albert import modeling

    config = modeling.read_config(path)
    with tf.Graph().as_default():
        modeling.Encoder(config, False, *[tf.zeros([1, 8], tf.int32)] * 3)
        return sum(v.shape.num_elements() for v in tf.trainable_variables())


if __name__ == "__main__":
    main()
