"""Times a training step of one worker on one core next to two workers on two, one core each.

  make bench NAME=scaling FLAGS="[--batch_size 8] [--seq_length 128] ..."

Every worker trains on a batch of the same size (weak scaling), so ideally a step takes as long with
two workers as with one. Two more jobs have two workers that are not bound to cores: with
TensorFlow's default number of threads, and with as many as there are cores. With --device=gpu, one
worker on one GPU is compared with two workers on two. The jobs take turns and
the fastest round of each counts, so that other load affects all of them. The output has the
efficiency, the time of only the all-reduce of the gradients, and the model's figures for more
workers (`albert/preflight/scaling.py`).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.
from albert.core.files import write_json
from albert.devices import device, host
from albert.preflight.scaling import Link, scale, step_traffic
from benchmarks.parts.harness import give, mpirun, new_parser, run_again

_BOUND = ()
_UNBOUND = ("--bind-to", "none", "--oversubscribe")


class Job(NamedTuple):
    """A job to measure: workers, how mpirun places them, and whether each has too many threads."""

    size: int
    placing: Sequence[str]
    crowded: bool = False


JOBS = {
    "1 worker, 1 core": Job(1, _BOUND),
    "2 workers, 2 cores": Job(2, _BOUND),
    "2 workers, not bound": Job(2, _UNBOUND),
    "with threads of all": Job(2, _UNBOUND, crowded=True),
}

JOBS_OF_GPU = {"1 worker, 1 GPU": Job(1, _UNBOUND), "2 workers, 2 GPUs": Job(2, _UNBOUND)}


class Measurement(NamedTuple):
    """Seconds of a step and of its communication, and the bytes of the gradients."""

    step: float
    communication: float
    gradient_bytes: int


def main() -> None:
    """Starts the jobs and prints the table, or runs one of their workers."""
    flags = parse_flags()
    if flags.worker:
        work(flags)
        return
    jobs = JOBS_OF_GPU if flags.device == "gpu" else JOBS
    if flags.device == "gpu" and (gpus := device.count_nvidia_cards()) < 2:
        sys.exit(f"bench-scaling: error: --device=gpu needs two GPUs, and this machine has {gpus}")
    runs = {name: [] for name in jobs}
    for _ in range(flags.rounds):
        for name, of_job in runs.items():
            of_job.append(run_job(jobs[name]))
    best = {name: min(of_job) for name, of_job in runs.items()}
    print_measured(best, jobs, flags.batch_size)
    if flags.json:
        rates = {name: jobs[name].size * flags.batch_size / of.step for name, of in best.items()}
        write_json(flags.json, rates)
    print_model(next(iter(best.values())), flags)


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--config", default="configs/albert_base_v2.json")
    parser.add_argument("--batch_size", type=int, default=8, help="examples per worker")
    parser.add_argument("--seq_length", type=int, default=128)
    parser.add_argument("--steps", type=int, default=5, help="measured steps per round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--gbit", type=float, default=Link().gbit, help="bandwidth of the model's link, Gbit/s"
    )
    parser.add_argument(
        "--microseconds",
        type=float,
        default=Link().microseconds,
        help="latency of the model's link",
    )
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--json", help="file for the examples per second of the jobs")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def run_job(job: Job) -> Measurement:
    """Returns the measurements of rank 0 of a job."""
    all_cores = dict.fromkeys(host.VARIABLES, str(os.cpu_count())) if job.crowded else {}
    launcher = mpirun(job.size, *job.placing)
    return Measurement(*run_again("scaling", "--worker", launcher=launcher, environment=all_cores))


def work(flags: argparse.Namespace) -> None:
    """Trains as a worker; rank 0 prints its measurements."""
    import tensorflow.compat.v1 as tf

    from albert import modeling
    from albert.distributed import collectives
    from albert.optimization import OptimizerOptions
    from albert.precision import configuration, conversion
    from albert.prediction.model import ModelOptions
    from albert.tasks.squad.head import make_v1_head
    from albert.training.model_fn import make_model_fn
    from benchmarks.parts.step import make_batch, training_step

    collectives.join_job(use_horovod=True)
    device.choose(flags.device)
    host.limit_threads()
    device.prepare()
    collectives.connect(on_cpu=flags.device == "cpu")
    config = modeling.AlbertConfig.from_json_file(flags.config)
    batch = make_batch(config, flags.batch_size, flags.seq_length)
    options = ModelOptions(OptimizerOptions(1e-5, 1000, 100))
    model_fn = make_model_fn(config, make_v1_head(mask_padding_in_loss=True), options)
    if in_bf16 := configuration.chosen():
        model_fn = conversion.convert(model_fn, in_bf16, device.kind())
    options_of_session = device.session_config()
    with tf.Graph().as_default(), tf.Session(config=options_of_session) as session:
        step, feed = training_step(model_fn, batch)
        session.run(tf.global_variables_initializer())
        step_seconds = median_seconds(lambda: session.run(step, feed), flags.steps)
    # Values like the gradients', without computing them.
    with tf.Graph().as_default():
        shapes = parameter_shapes(config)
        values = [np.zeros(shape, np.float32) for shape in shapes]
        gradients = [tf.placeholder(tf.float32, shape) for shape in shapes]
        means = tf.group(*collectives.all_reduce_mean(gradients))
        with tf.Session(config=options_of_session) as session:
            feed = dict(zip(gradients, values, strict=True))
            seconds = median_seconds(lambda: session.run(means, feed), 20)
    if collectives.is_chief():
        give(Measurement(step_seconds, seconds, sum(value.nbytes for value in values)))


def parameter_shapes(config) -> list[list[int]]:
    """Returns the shapes of the model's trainable variables."""
    import tensorflow.compat.v1 as tf

    from albert import modeling

    with tf.Graph().as_default():
        modeling.AlbertModel(config, False, tf.zeros([1, 8], tf.int32))
        return [variable.shape.as_list() for variable in tf.trainable_variables()]


def median_seconds(call, times: int) -> float:
    """Returns the median time of a call, after two to warm up."""
    seconds = []
    for _ in range(times + 2):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[2:])


def print_measured(best: dict[str, Measurement], jobs: dict[str, Job], batch_size: int) -> None:
    """Prints the table of the jobs."""
    one = next(iter(best.values()))
    print(f"{'':<22}{'s a step':>12}{'examples/s':>12}{'efficiency':>12}{'all-reduce':>14}")
    for name, measured in best.items():
        size = jobs[name].size
        rate = size * batch_size / measured.step
        print(
            f"{name:<22}{measured.step:>12.3f}{rate:>12.2f}{one.step / measured.step:>12.3f}"
            + (f"{1e3 * measured.communication:>11.1f} ms" if size > 1 else f"{'-':>14}")
        )


def print_model(one: Measurement, flags: argparse.Namespace) -> None:
    """Prints the model's figures for more workers, from one worker's step and a link."""
    link = Link(flags.gbit, flags.microseconds)
    print(f"\nmodel: {one.gradient_bytes / 1e6:.1f} MB of gradients, ring all-reduce, {link}")
    for size in (2, 8, 64):
        scaled = scale(one.step, step_traffic(one.gradient_bytes // 4, size), link)
        print(
            f"{size:>4} workers: all-reduce {1e3 * scaled.allreduce:.1f} ms, efficiency "
            f"{scaled.efficiency:.3f}, {size * flags.batch_size / scaled.step:.1f} examples/s"
        )


if __name__ == "__main__":
    main()
