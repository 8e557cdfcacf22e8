"""Sessions for graphs that run a few times."""

import tensorflow.compat.v1 as tf


def quick_session() -> tf.Session:
    """Returns a session without graph optimization, which takes longer than some tiny steps."""
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    return tf.Session(config=config)
