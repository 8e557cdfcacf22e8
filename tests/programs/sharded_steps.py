"""The golden training steps of SQuAD 1.1 by each way in turn to share out the optimizer.

  mpirun -np N python tests/programs/sharded_steps.py GOLDEN FOLDER

The final weights of a way are in FOLDER/WAY.npz, and FOLDER/sent.json has the bytes that each
worker sent in a step of it, in the mean. Gloo writes what it sends to sockets.
"""

from __future__ import annotations

import glob
import json
import os
import pathlib
import re
import sys
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import runtime  # noqa: F401  First: it silences what TensorFlow prints when it is imported.

import tensorflow.compat.v1 as tf  # isort: skip

import modeling
from encoder_task import ModelOptions, make_model_fn
from optimization import OptimizerOptions
from runtime import distributed, estimators
from squad.head import make_v1_head
from tests.programs.golden_steps import GOLDEN_BATCH, NAMES, start_worker

WARMED = 2  # steps before bytes are counted


class Way(NamedTuple):
    """How the golden steps are done."""

    shard: str
    batches: int = 1
    optimizer: str = "adamw"
    wire: str = "float32"

    def __str__(self) -> str:
        return "-".join(map(str, self))


WAYS = {
    "albert": [
        *(Way(shard, 1) for shard in ("none", "state")),
        *(Way(shard, 2) for shard in ("none", "state", "gradients")),
        *(Way(shard, 2, "lamb") for shard in ("none", "gradients")),
        *(Way(shard, 1, "radam") for shard in ("none", "state")),
        *(Way(shard, 2, "adamw", "float16") for shard in ("none", "state", "gradients")),
    ],
    "bert": [
        *(Way(shard, 1, "lamb") for shard in ("none", "state")),
        *(Way(shard, 2) for shard in ("none", "state", "gradients")),
    ],
}


def main(golden: str, folder: pathlib.Path) -> None:
    start_worker()
    curve = np.load(f"{golden}/squad_v1_adamw.npz")
    (path,) = glob.glob(f"{golden}/*_config.json")
    config, sent = modeling.read_config(path), {}
    for way in WAYS[re.match(r"[a-z]+", os.path.basename(path)).group()]:
        weights, own = train(way, golden, config, curve)
        sent[str(way)] = np.mean(distributed.gather_json(own))
        if distributed.is_chief():
            np.savez(folder / f"{way}.npz", **weights)
    if distributed.is_chief():
        (folder / "sent.json").write_text(json.dumps(sent))


def train(way: Way, golden: str, config: modeling.EncoderConfig, curve) -> tuple[dict, float]:
    """The weights after the golden steps, and the bytes that are sent in each."""
    steps = int(curve["num_train_steps"])
    size = GOLDEN_BATCH // way.batches // distributed.size()
    options = OptimizerOptions(
        float(curve["learning_rate"]),
        steps,
        int(curve["num_warmup_steps"]),
        way.optimizer,
        gradient_accumulation_steps=way.batches,
        allreduce_dtype=None if way.wire == "float32" else tf.as_dtype(way.wire),
        shard_optimizer=way.shard,
    )
    head = make_v1_head(mask_padding_in_loss=False)
    model_fn = make_model_fn(config, head, ModelOptions(options, golden))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        features = {n: tf.placeholder(tf.int32, [size, *curve[n].shape[1:]]) for n in NAMES}
        step = model_fn(features, None, estimators.ModeKeys.TRAIN, {}).train_op
        weights = {v.op.name: v for v in tf.trainable_variables()}
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        weights["cls/squad/output_weights"].load(curve["output_weights"], session)
        for run in range(steps * way.batches):
            if run == WARMED * way.batches:
                before = bytes_written()
            first = (run * distributed.size() + distributed.rank()) * size
            batch = {features[n]: curve[n][first : first + size] for n in NAMES}
            session.run(step, batch)
        return session.run(weights), (bytes_written() - before) / (steps - WARMED)


def bytes_written() -> int:
    """What this process has written so far, to files and sockets."""
    return int(re.search(r"^wchar: (\d+)$", pathlib.Path("/proc/self/io").read_text(), re.M)[1])


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
