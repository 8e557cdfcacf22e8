"""Sessions for graphs that run a few times, and the memory of their steps."""

import itertools

import tensorflow.compat.v1 as tf


def quick_session() -> tf.Session:
    """Returns a session without graph optimization, which takes longer than some tiny steps."""
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    return tf.Session(config=config)


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
