"""The memory that TensorFlow records for its allocations."""

import itertools

import tensorflow.compat.v1 as tf


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
