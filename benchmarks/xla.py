"""Times steps of fixed shape with XLA next to the same steps without it.

  make bench NAME=xla FLAGS="[--config configs/bert_base_uncased.json] [--batch_size 8] ..."

Training and prediction of SQuAD, all sequences of one length, as with --max_seq_length on a card or
in a bucket. XLA compiles clusters of operations (`global_jit_level`); on a CPU it has to be allowed
by TF_XLA_FLAGS. The two ways take turns in separate processes. The table has medians, and the ratio
without to with XLA: above 1, XLA helps.
"""

from __future__ import annotations

import argparse
import statistics
import time

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.
from benchmarks.parts.harness import give, new_parser, run_again

_WAYS = {"without": {}, "with": {"TF_XLA_FLAGS": "--tf_xla_cpu_global_jit"}}
_WORKS = ("training", "prediction")


def main() -> None:
    """Lets the ways take turns and prints the table, or runs one of them."""
    flags = parse_flags()
    if flags.way:
        give({work: measure(work, flags) for work in _WORKS})
        return
    rounds = [
        {way: run_again("xla", f"--way={way}", environment=env) for way, env in _WAYS.items()}
        for _ in range(flags.rounds)
    ]
    print(f"{'':14}{'without':>10}{'with XLA':>10}{'ratio':>8}  ratios of the rounds; compilation")
    for work in _WORKS:
        for figure in ("wall", "processor"):
            seconds = {way: [of[way][work][figure] for of in rounds] for way in _WAYS}
            ratios = sorted(a / b for a, b in zip(*seconds.values(), strict=True))
            first = statistics.median(of["with"][work]["first"] for of in rounds)
            medians = "".join(f"{statistics.median(of):>8.3f} s" for of in seconds.values())
            print(
                f"{work:14}{medians}{statistics.median(ratios):>8.2f}  {ratios[0]:.2f} to "
                f"{ratios[-1]:.2f} ({figure} time; first step {first:.1f} s)"
            )


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--config", default="configs/albert_base_v2.json")
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--seq_length", type=int, default=128)
    parser.add_argument("--steps", type=int, default=5, help="measured steps per round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--way", choices=list(_WAYS), help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(work: str, flags: argparse.Namespace) -> dict[str, float]:
    """Returns medians of the wall time and processor time of a step, and the first step's time."""
    import tensorflow.compat.v1 as tf

    from albert import modeling
    from albert.core import estimators
    from albert.devices import device
    from albert.optimization import OptimizerOptions
    from albert.prediction.model import ModelOptions
    from albert.tasks.squad.head import make_v1_head
    from albert.training.model_fn import make_model_fn
    from benchmarks.parts.step import make_batch

    tf.logging.set_verbosity(tf.logging.ERROR)
    device.choose(flags.device)
    device.prepare()
    options = device.session_config()
    if flags.way == "with":
        options.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
    config = modeling.read_config(flags.config)
    batch = make_batch(config, flags.batch_size, flags.seq_length)
    head = make_v1_head(mask_padding_in_loss=True)
    model_fn = make_model_fn(config, head, ModelOptions(OptimizerOptions(1e-5, 1000, 100)))
    mode = {"training": estimators.ModeKeys.TRAIN, "prediction": estimators.ModeKeys.PREDICT}[work]
    times: dict[str, list[float]] = {"wall": [], "processor": []}
    with tf.Graph().as_default(), tf.Session(config=options) as session:
        features = {name: tf.placeholder(tf.int32, v.shape, name) for name, v in batch.items()}
        spec = model_fn(features, None, mode, {})
        fetched = spec.train_op or list(spec.predictions.values())
        session.run(tf.global_variables_initializer())
        feed = {features[name]: values for name, values in batch.items()}
        for _ in range(flags.steps + 1):
            wall, processor = time.perf_counter(), time.process_time()
            session.run(fetched, feed)
            times["wall"].append(time.perf_counter() - wall)
            times["processor"].append(time.process_time() - processor)
    medians = {name: statistics.median(of[1:]) for name, of in times.items()}
    return {**medians, "first": times["wall"][0]}


if __name__ == "__main__":
    main()
