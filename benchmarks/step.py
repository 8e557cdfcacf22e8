"""Times a SQuAD training step and a prediction next to PyTorch `transformers`, in one run.

  make bench-step        or: python -m benchmarks.step [--batch_size 8] [--seq_length 384] ...

Both train the same ALBERT with AdamW on the same batch, on all cores, in turns, so that what else
the machine does falls on both. Printed are medians and their ratios. Without torch only this
project's figures are printed. TF_BF16_CONVERSION applies to this project's side.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import tensorflow.compat.v1 as tf

import modeling
from encoder_task import ModelOptions, make_model_fn
from optimization import OptimizerOptions
from runtime import estimators
from runtime.bf16 import configuration, conversion
from squad.head import make_v1_head


def main() -> None:
    """Measures and prints the table."""
    flags = parse_flags()
    config = modeling.AlbertConfig.from_json_file(flags.config)
    batch = make_batch(config, flags.batch_size, flags.seq_length)
    programs = {"this project": albert_for_tensorflow(config, batch)}
    try:
        programs["transformers"] = transformers_albert(config, batch)
    except ImportError as e:
        print(f"no comparison: {e}")
    seconds = measure(programs, flags.rounds)
    print_table(seconds, flags.batch_size)


def parse_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--config", default="configs/albert_base_v2.json")
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--seq_length", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=5, help="measured steps of each kind")
    return parser.parse_args()


def make_batch(config: modeling.AlbertConfig, size: int, length: int) -> dict[str, np.ndarray]:
    """Makes random features without padding."""
    rng = np.random.default_rng(1)
    segments = np.zeros((size, length), np.int32)
    segments[:, length // 8 :] = 1
    start = rng.integers(length // 8, length - 5, size, dtype=np.int32)
    return {
        "input_ids": rng.integers(5, config.vocab_size, (size, length), dtype=np.int32),
        "input_mask": np.ones((size, length), np.int32),
        "segment_ids": segments,
        "start_positions": start,
        "end_positions": start + 3,
    }


def albert_for_tensorflow(
    config: modeling.AlbertConfig, batch: dict[str, np.ndarray]
) -> dict[str, Callable[[], object]]:
    """Builds this project's step and forward pass."""
    options = ModelOptions(OptimizerOptions(1e-5, 1000, 100))
    model_fn = make_model_fn(config, make_v1_head(mask_padding_in_loss=True), options)
    in_bf16 = configuration.from_environment()
    if in_bf16:
        model_fn = conversion.convert(model_fn, in_bf16)
    session = tf.Session(graph=tf.Graph())
    with session.graph.as_default():
        features = {k: tf.placeholder(tf.int32, v.shape, k) for k, v in batch.items()}
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            train = model_fn(features, None, estimators.ModeKeys.TRAIN, {})
            answer = model_fn(features, None, estimators.ModeKeys.PREDICT, {})
        session.run(tf.global_variables_initializer())
    feed = {features[k]: v for k, v in batch.items()}
    return {
        "training step": lambda: session.run([train.train_op, train.loss], feed),
        "prediction": lambda: session.run(answer.predictions, feed),
    }


def transformers_albert(
    config: modeling.AlbertConfig, batch: dict[str, np.ndarray]
) -> dict[str, Callable[[], object]]:
    """Builds the step and forward pass of `AlbertForQuestionAnswering`."""
    import torch
    from transformers import AlbertConfig, AlbertForQuestionAnswering

    values = {**config.to_dict(), "hidden_act": "gelu_new", "classifier_dropout_prob": 0.0}
    model = AlbertForQuestionAnswering(AlbertConfig(**values))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    inputs = {
        "input_ids": torch.tensor(batch["input_ids"], dtype=torch.long),
        "attention_mask": torch.tensor(batch["input_mask"]),
        "token_type_ids": torch.tensor(batch["segment_ids"], dtype=torch.long),
    }
    answers = {
        k: torch.tensor(batch[k], dtype=torch.long) for k in ("start_positions", "end_positions")
    }

    def step() -> None:
        model.train()
        optimizer.zero_grad()
        model(**inputs, **answers).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    def forward() -> None:
        model.eval()
        with torch.inference_mode():
            model(**inputs)

    return {"training step": step, "prediction": forward}


def measure(
    programs: dict[str, dict[str, Callable[[], object]]], rounds: int
) -> dict[str, dict[str, float]]:
    """Returns median seconds of each program's each kind of work, in turns after one warm-up."""
    times = {name: {kind: [] for kind in work} for name, work in programs.items()}
    for number in range(rounds + 1):
        for name, work in programs.items():
            for kind, call in work.items():
                start = time.perf_counter()
                call()
                if number:
                    times[name][kind].append(time.perf_counter() - start)
    return {
        name: {kind: statistics.median(values) for kind, values in kinds.items()}
        for name, kinds in times.items()
    }


def print_table(seconds: dict[str, dict[str, float]], batch_size: int) -> None:
    """Prints examples a second of every program, and how many times the last one's ours are."""
    print(f"{'examples/s':<16}" + "".join(f"{name:>16}" for name in seconds) + f"{'ratio':>10}")
    for kind in next(iter(seconds.values())):
        rates = [batch_size / kinds[kind] for kinds in seconds.values()]
        row = "".join(f"{rate:>16.2f}" for rate in rates)
        print(f"{kind:<16}{row}{rates[0] / rates[-1]:>10.2f}")


if __name__ == "__main__":
    main()
