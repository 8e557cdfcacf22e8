"""The memory that TensorFlow records for its allocations."""

from __future__ import annotations

import itertools

import tensorflow.compat.v1 as tf

# For a session that runs operations in turn, in the calling thread. The process has as many threads
# as its first session asked for, even if a later configuration asks for one. With several threads,
# the load of the machine would change the order of operations and so the allocation at any time.
IN_TURN = tf.ConfigProto(inter_op_parallelism_threads=-1)


def traced_peak(session: tf.Session, step: tf.Operation | tf.Tensor, feed: dict) -> int:
    """Returns the most bytes that TensorFlow has allocated at any time in a step, which runs
    twice."""
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
