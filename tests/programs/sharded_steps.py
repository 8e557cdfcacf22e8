"""The golden training steps of SQuAD 1.1 by each way in turn to share out the optimizer.

  mpirun -np N python tests/programs/sharded_steps.py GOLDEN FOLDER

The final weights of a way are in FOLDER/WAY.npz, and FOLDER/found.json has what was seen besides,
see `Found`. Gloo writes what it sends to sockets.
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


class Found(NamedTuple):
    """What was seen of a way besides the weights.

    Attributes:
      sent: bytes that each worker sends in a step, in the mean.
      norms: of the gradients of each step, where no batches are accumulated.
      waits_for: of the backward pass, the part that each vector's reduce-scatter waits for.
    """

    sent: float
    norms: list[float]
    waits_for: list[float]


SHARDS = ("none", "state", "gradients")
WAYS = {
    "albert": [
        *(Way(shard, batches) for batches in (1, 2) for shard in SHARDS),
        *(Way(shard, 2, "adamw", "float16") for shard in SHARDS),
    ],
    "bert": [
        *(Way(shard, 1, "lamb") for shard in SHARDS[:2]),
        *(Way(shard, 2) for shard in SHARDS),
        *(Way(shard, 1, "radam") for shard in SHARDS[:2]),
        *(Way(shard, 1, "adamw", "float16") for shard in SHARDS[:2]),
    ],
}


def main(golden: str, folder: pathlib.Path) -> None:
    start_worker()
    curve = np.load(f"{golden}/squad_v1_adamw.npz")
    (path,) = glob.glob(f"{golden}/*_config.json")
    config, found = modeling.read_config(path), {}
    for way in WAYS[re.match(r"[a-z]+", os.path.basename(path)).group()]:
        weights, own = train(way, golden, config, curve)
        sent = np.mean(distributed.gather_json(own.sent))
        found[str(way)] = own._replace(sent=sent)
        if distributed.is_chief():
            np.savez(folder / f"{way}.npz", **weights)
    if distributed.is_chief():
        (folder / "found.json").write_text(json.dumps(found))


def train(way: Way, golden: str, config: modeling.EncoderConfig, curve) -> tuple[dict, Found]:
    """The weights after the golden steps, and what was seen."""
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
    # What Grappler rewrites is not looked at here, and takes longer than the steps.
    plain = tf.ConfigProto()
    plain.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default() as graph, tf.Session(config=plain) as session:
        tf.set_random_seed(1)
        features = {n: tf.placeholder(tf.int32, [size, *curve[n].shape[1:]]) for n in NAMES}
        step = model_fn(features, None, estimators.ModeKeys.TRAIN, {}).train_op
        weights, norms = {v.op.name: v for v in tf.trainable_variables()}, []
        norm = [op.outputs[0] for op in graph.get_operations() if op.type == "CheckNumerics"]
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        weights["cls/squad/output_weights"].load(curve["output_weights"], session)
        for run in range(steps * way.batches):
            if run == WARMED * way.batches:
                before = bytes_written()
            first = (run * distributed.size() + distributed.rank()) * size
            batch = {features[n]: curve[n][first : first + size] for n in NAMES}
            norms += map(float, session.run([step, *norm], batch)[1:])
        sent = (bytes_written() - before) / (steps - WARMED)
        return session.run(weights), Found(sent, norms, parts_of_backward_pass(graph))


def parts_of_backward_pass(graph: tf.Graph) -> list[float]:
    """Of the operations of the backward pass, how many each reduce-scatter depends on, in parts."""
    needs, parts = {}, []
    for op in graph.get_operations():  # what an operation needs comes before it
        before = {*(tensor.op for tensor in op.inputs), *op.control_inputs}
        needs[op] = before.union(*(needs.get(other, ()) for other in before))
        if op.type == "HorovodReducescatter":
            parts.append(sum(other.name.startswith("gradients/") for other in needs[op]))
    backward = sum(op.name.startswith("gradients/") for op in graph.get_operations())
    return [part / backward for part in parts]


def bytes_written() -> int:
    """What this process has written so far, to files and sockets."""
    return int(re.search(r"^wchar: (\d+)$", pathlib.Path("/proc/self/io").read_text(), re.M)[1])


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
