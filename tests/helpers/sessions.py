"""Sessions for graphs that run a few times, batches of datasets, and the memory of steps."""

import contextlib
import itertools
from collections.abc import Callable

import numpy as np
import tensorflow.compat.v1 as tf


def quick_session() -> tf.Session:
    """Returns a session without graph optimization, which takes longer than some tiny steps."""
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    return tf.Session(config=config)


def batches_of(
    input_fn: Callable[[], tf.data.Dataset], most: int | None = None, seed: int | None = None
) -> list[dict[str, np.ndarray]]:
    """Returns the batches of an input function: all of them, or the first `most`."""
    batches: list[dict[str, np.ndarray]] = []
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(seed)
        batch = tf.data.make_one_shot_iterator(input_fn()).get_next()
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while most is None or len(batches) < most:
                batches.append(session.run(batch))
    return batches


def traced_peak(session: tf.Session, step: tf.Operation | tf.Tensor, feed: dict) -> int:
    """Returns the most bytes that TensorFlow has allocated at any time in the second step."""
    trace = tf.RunMetadata()
    session.run(step, feed)
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    session.run(step, feed, options=options, run_metadata=trace)
    records = [
        (record.alloc_micros, record.alloc_bytes)
        for device in trace.step_stats.dev_stats
        for node in device.node_stats
        for memory in node.memory
        for record in memory.allocation_records
    ]
    return max(itertools.accumulate(size for _, size in sorted(records)))
