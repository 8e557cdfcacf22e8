"""Seeds of dropout masks: functions of the graph's seed, the step, the micro-batch and a site.

A site is a name that the model's code gives, such as `bert/encoder/layer_3/inner_group_0/output`.
No seed depends on the number or the names of operations: an operation more elsewhere changes no
mask, and a layer that is built again, to compute it again, draws the same one.
"""

from __future__ import annotations

import hashlib
import itertools

import tensorflow.compat.v1 as tf

# Collections: the sites of a graph's dropouts, and the tensor of `step_seed`.
SITES = "dropout_places"
_STEP_SEED = "dropout_moment"
# The golden section of 2**31. Its multiples stay as far apart as any number's: no two of the first
# 10 million steps are as near as 64 micro-batches.
_STRIDE = 1327217885


def site_seed(graph_seed: int, site: str | None = None) -> int:
    """Returns the number of a site in a graph with a seed, from 0 to below 2**31.

    Dropouts with one site draw one mask. Without a site it is the variable scope and the count of
    the dropouts without a site that were built in that scope before.
    """
    with tf.init_scope():
        sites = tf.get_collection_ref(SITES)
    if site is None:
        scope = tf.get_variable_scope().name
        numbered = (f"{scope}/dropout_{count}" for count in itertools.count())
        site = next(name for name in numbered if name not in sites)
    sites.append(site)
    digest = hashlib.blake2b(f"{graph_seed} {site}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") % 2**31


def step_seed() -> tf.Tensor:
    """Returns an int32 of the global step and the micro-batch, which a graph computes once."""
    with tf.init_scope(), tf.name_scope(f"{_STEP_SEED}/"):
        if not tf.get_collection(_STEP_SEED):
            step = tf.cast(tf.train.get_or_create_global_step(), tf.int64)
            count = step * _STRIDE + tf.cast(_batches_done(), tf.int64)
            tf.add_to_collection(_STEP_SEED, tf.cast(tf.math.floormod(count, 2**31), tf.int32))
        return tf.get_collection(_STEP_SEED)[0]


def _batches_done() -> tf.Tensor:
    """Returns the value of `micro_batch`; 0 where local variables are not initialized.

    Sessions of programs for the reference may have none, and have no steps of several batches. By
    hand, since `tf.cond` looks for devices while the graph is built.
    """
    counter = micro_batch()
    if_not, if_so = tf.raw_ops.Switch(data=0, pred=counter.is_initialized())
    with tf.control_dependencies([tf.identity(if_so)]):
        value = counter.read_value()
    return tf.raw_ops.Merge(inputs=[if_not, value]).output


def micro_batch() -> tf.Variable:
    """Returns the graph's variable of how many batches of an optimizer step are done, int32.

    The optimizer moves it where a step has several. It is a local variable: a checkpoint is written
    between two steps, when it is 0.
    """
    # One for all scopes that ask for it.
    root = tf.VariableScope(tf.AUTO_REUSE)
    with tf.init_scope(), tf.variable_scope(root, auxiliary_name_scope=False):
        return tf.get_variable(
            "micro_batch",
            [],
            tf.int32,
            tf.zeros_initializer(),
            trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )
