"""Times training steps without GELU, softmax and layer normalization: what else can be gained?

  make bench NAME=bound FLAGS="[--config configs/bert_base_uncased.json] [--batch_size 8] ..."

Each way replaces operations, and thereby their gradients, by nothing: a scaled identity. The ways
take turns in separate processes. The table has the medians of the steps, and the share of the peak:
the operations of the layers' matrix products per second, divided by those of a large product in the
same process. The last way shows the highest share that faster versions of these operations allow.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.
from benchmarks.parts.harness import give, new_parser, run_again

_WAYS = {"all": "", "no GELU": "gelu", "no softmax": "softmax", "no norm": "norm"}
_WAYS["none of the three"] = "gelu softmax norm"
# Keeps the states of twelve layers finite.
_SCALE = 0.9


def main() -> None:
    """Lets the ways take turns and prints the table, or runs one of them."""
    flags = parse_flags()
    if flags.way:
        give(measure(flags))
        return
    rounds = [
        {way: run_again("bound", f"--way={way}") for way in _WAYS} for _ in range(flags.rounds)
    ]
    print(f"{'':20}{'step':>10}{'of peak':>9}  shares of the rounds")
    for way in _WAYS:
        shares = sorted(of[way]["share"] for of in rounds)
        seconds = statistics.median(of[way]["seconds"] for of in rounds)
        print(
            f"{way:20}{seconds:>8.3f} s{statistics.median(shares):>9.1%}  {shares[0]:.1%} to "
            f"{shares[-1]:.1%}"
        )


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--config", default="configs/albert_base_v2.json")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--seq_length", type=int, default=200)
    parser.add_argument("--steps", type=int, default=5, help="measured steps per round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--matrix_size", type=int, default=4096)
    parser.add_argument("--way", choices=list(_WAYS), help=argparse.SUPPRESS)
    parser.set_defaults(device="cpu")
    return parser.parse_args()


def measure(flags: argparse.Namespace) -> dict[str, float]:
    """Returns the median time of a step, and the share of the peak."""
    import tensorflow.compat.v1 as tf

    from albert import modeling
    from albert.devices import device
    from albert.optimization import OptimizerOptions
    from albert.precision import configuration, conversion
    from albert.prediction.model import ModelOptions
    from albert.tasks.squad.head import make_v1_head
    from albert.training.model_fn import make_model_fn
    from benchmarks.parts.program import fastest_product
    from benchmarks.parts.step import make_batch, training_step
    from benchmarks.parts.this_project import choose_device, matrix_product
    from benchmarks.parts.turns import matrix_work

    choose_device(flags)
    remove(_WAYS[flags.way].split())
    config = modeling.read_config(flags.config)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    batch = make_batch(config, flags.batch_size, flags.seq_length)
    head = make_v1_head(mask_padding_in_loss=True)
    options = OptimizerOptions(1e-5, 10**9, optimizer="radam")
    model_fn = make_model_fn(config, head, ModelOptions(options))
    if flags.dtype == "bfloat16":
        os.environ.setdefault(configuration.VARIABLE, "1")
        model_fn = conversion.convert(model_fn, configuration.chosen(), device.kind())
    with tf.Graph().as_default(), tf.Session(config=device.session_config()) as session:
        step, feed = training_step(model_fn, batch)
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        steps = [seconds_of(session, step, feed) for _ in range(flags.steps + 1)][1:]
    peak = fastest_product(matrix_product(flags), flags.matrix_size)
    tokens, seconds = flags.batch_size * flags.seq_length, statistics.median(steps)
    rate = matrix_work(flags.config, "training") * tokens / seconds
    return {"seconds": seconds, "share": rate / peak}


def remove(names: list[str]) -> None:
    """Replaces operations by scaled identities in this process."""
    import tensorflow.compat.v1 as tf

    from albert.devices import ops

    if "gelu" in names:
        ops.gelu = lambda x: x
    if "softmax" in names:
        tf.nn.softmax = lambda x, name=None: x * _SCALE
    if "norm" in names:
        # The variables stay in the graph.
        ops.layer_norm = lambda x, gamma, beta, epsilon: x * _SCALE


def seconds_of(session, operation, feed) -> float:
    """Returns the time that a session takes for an operation."""
    began = time.perf_counter()
    session.run(operation, feed)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
