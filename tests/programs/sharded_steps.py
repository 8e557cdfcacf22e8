"""Runs training steps with each way to shard the optimizer.

  mpirun -np N python tests/programs/sharded_steps.py FOLDER

The model is small. The final weights of a way are in FOLDER/WAY.npz, and `Found` in
FOLDER/found.json.
"""

import json
import os
import pathlib
import re
import sys
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.

import tensorflow.compat.v1 as tf  # isort: skip

from albert.cli.lifecycle import quieten_tensorflow
from albert.distributed import collectives, exchange
from albert.optimization import OptimizerOptions, TrainStep, build_train_step

WARMED = 2  # steps before bytes are counted
BATCH = 8  # examples a step
STEPS, LENGTH, WIDTH, LAYERS, CLASSES = 6, 16, 161, 5, 5
OVERFLOW = 4  # the step in which a scaled loss overflows, from 0
SHARDS = ("none", "state", "gradients")


class Way(NamedTuple):
    """A way to compute the steps."""

    shard: str
    batches: int = 1
    optimizer: str = "adamw"
    wire: str = "float32"
    scaled: bool = False  # the loss, whose gradients overflow on one worker in one step

    def __str__(self) -> str:
        return "-".join(map(str, self))


class Found(NamedTuple):
    """The observations of a way in addition to the weights."""

    losses: list[float]
    # Bytes that each worker sends in a step, on average.
    sent: float
    # The fraction of the backward pass that each vector's reduce-scatter waits for.
    waits_for: list[float]
    # By worker, the scale of the loss after each step, and whether weights and moments stayed.
    scales: list[list[tuple[float, bool]]] = []


WAYS = (
    *(Way(shard, 2) for shard in SHARDS),
    # The norm of each variable, over all shards.
    *(Way(shard, 1, "lamb") for shard in SHARDS[:2]),
    *(Way(shard, 2, wire="float16") for shard in ("none", "gradients")),
    *(Way(shard, 2, scaled=True) for shard in SHARDS),
)


def build(features: dict[str, tf.Tensor], options: OptimizerOptions) -> TrainStep:
    """Builds a step of an embedding and some layers, whose gradients are clipped."""
    rng = np.random.default_rng(2)

    def variable(name: str, *shape: int) -> tf.Variable:
        first = rng.normal(0, 1 / np.sqrt(shape[0]), shape)
        return tf.get_variable(name, initializer=first.astype(np.float32))

    words = variable("embeddings", 301, WIDTH)
    states = 10 * tf.reduce_mean(tf.gather(words, features["ids"]), axis=1)
    for number in range(LAYERS):
        states += tf.tanh(tf.matmul(states, variable(f"{number}/kernel", WIDTH, WIDTH)))
    scores = tf.matmul(states, variable("scores", WIDTH, CLASSES)) + variable("bias", CLASSES)
    loss = tf.losses.sparse_softmax_cross_entropy(features["label"], scores)
    return build_train_step(loss * tf.placeholder_with_default(1.0, [], "slope"), options)


def main(folder: pathlib.Path) -> None:
    os.environ["HOROVOD_CYCLE_TIME"] = "2"
    quieten_tensorflow()
    collectives.join_job(use_horovod=True)
    collectives.connect()
    found, collectives._VECTOR_BYTES = {}, 100_000
    for way in WAYS:
        weights, own = train(way)
        found[str(way)] = own._replace(sent=np.mean(exchange.all_gather_objects(own.sent)))
        if collectives.is_chief():
            np.savez(folder / f"{way}.npz", **weights)
    if collectives.is_chief():
        (folder / "found.json").write_text(json.dumps(found))


def train(way: Way) -> tuple[dict, Found]:
    """Returns the weights after the steps, and the observations."""
    rng, count = np.random.default_rng(1), STEPS * BATCH
    data = {"ids": rng.integers(0, 301, (count, LENGTH)), "label": rng.integers(0, CLASSES, count)}
    size = BATCH // way.batches // collectives.size()
    options = OptimizerOptions(
        *(5e-3, STEPS, 2, way.optimizer),
        gradient_accumulation_steps=way.batches,
        allreduce_dtype=None if way.wire == "float32" else tf.as_dtype(way.wire),
        shard_optimizer=way.shard,
        scales_loss=way.scaled,
    )
    # Grappler's rewriting is not tested here, and takes longer than the steps.
    plain = tf.ConfigProto()
    plain.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default() as graph, tf.Session(config=plain) as session:
        tf.set_random_seed(1)
        shapes = {name: [size, *values.shape[1:]] for name, values in data.items()}
        features = {name: tf.placeholder(tf.int32, shape) for name, shape in shapes.items()}
        step = build(features, options)
        weights, seen, scales = {v.op.name: v for v in tf.trainable_variables()}, [], []
        state = [*tf.global_variables(), *(moment.variable for moment in step.sharded)]
        state = [v for v in state if v.dtype == tf.float32 and v.op.name != "loss_scale"]
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        before_step = []
        for run in range(STEPS * way.batches):
            if run == WARMED * way.batches:
                before = bytes_written()
            first = (run * collectives.size() + collectives.rank()) * size
            batch = {features[n]: values[first : first + size] for n, values in data.items()}
            number, micro_batch = divmod(run, way.batches)
            if way.scaled:
                # In the first batch of the step, on the last worker.
                if number == OVERFLOW and not micro_batch and collectives.rank():
                    batch["slope:0"] = 1e36
                before_step = before_step if micro_batch else session.run(state)
            seen.append(session.run([step.op, step.loss], batch)[1])
            if way.scaled and micro_batch == way.batches - 1:
                pairs = zip(before_step, session.run(state), strict=True)
                is_same = all(np.array_equal(*pair) for pair in pairs)
                scales.append((float(session.run(step.scaling.scale)), is_same))
        sent = (bytes_written() - before) / (STEPS - WARMED)
        losses = np.array(seen[way.batches - 1 :: way.batches], float).tolist()
        own = Found(losses, sent, parts_of_backward(graph))
        return session.run(weights), own._replace(scales=exchange.all_gather_objects(scales))


def parts_of_backward(graph: tf.Graph) -> list[float]:
    """Returns the part of the backward pass that each reduce-scatter depends on."""
    needs, parts = {}, []
    for op in graph.get_operations():  # what an operation needs comes before it
        before = {*(tensor.op for tensor in op.inputs), *op.control_inputs}
        needs[op] = before.union(*(needs.get(other, ()) for other in before))
        if op.type == "HorovodReducescatter":
            parts.append(sum(other.name.startswith("gradients/") for other in needs[op]))
    backward = sum(op.name.startswith("gradients/") for op in graph.get_operations())
    return [part / backward for part in parts]


def bytes_written() -> int:
    """Returns how many bytes this process has written so far, to files and sockets."""
    return int(re.search(r"^wchar: (\d+)$", pathlib.Path("/proc/self/io").read_text(), re.M)[1])


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
