"""Optimizers with decoupled weight decay, and the training op around them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from runtime import distributed, estimators
from runtime.checkpoints.initialization import initialize_from_checkpoint
from runtime.training import graph_keys

_NOT_DECAYED = ("LayerNorm", "layer_norm", "bias")


def training_spec(
    loss: tf.Tensor,
    input_mask: tf.Tensor,
    init_checkpoint: str | None,
    *schedule: Any,
    num_groups: int = 0,
    **options: Any,
) -> estimators.EstimatorSpec:
    """How every task's `model_fn` ends in training: first values, optimizer, specification.

    Args:
      loss: scalar.
      input_mask: int32 [B, S], 1 for the tokens that the loss is of.
      init_checkpoint: checkpoint that variables start from, or None.
      *schedule: the arguments of `create_optimizer` after the loss.
      num_groups: see `initialize_from_checkpoint`.
      **options: further arguments of `create_optimizer` by name.
    """
    if init_checkpoint:
        initialize_from_checkpoint(tf.trainable_variables(), init_checkpoint, num_groups).log()
    train_op = create_optimizer(loss, *schedule, num_tokens=tf.reduce_sum(input_mask), **options)
    return estimators.EstimatorSpec(estimators.ModeKeys.TRAIN, loss=loss, train_op=train_op)


def create_optimizer(
    loss,
    init_lr,
    num_train_steps,
    num_warmup_steps,
    use_tpu,
    optimizer="adamw",
    poly_power=1.0,
    start_warmup_step=0,
    colocate_gradients_with_ops=False,
    excluded_tvars=None,
    *,
    num_tokens: tf.Tensor | None = None,
    gradient_accumulation_steps: int = 1,
    allreduce_dtype: tf.DType | None = None,
):
    """Builds the op of one optimizer step: gradients, clipping, update, and the step counter.

    Gradients are averaged over the workers and clipped to a global norm of 1. Step k, counted from
    0, uses the learning rate of step k: the counter moves only after the update. A global norm that
    is not finite raises `InvalidArgumentError` before any variable changes.

    Args:
      loss: scalar tensor.
      init_lr: the highest learning rate.
      num_train_steps: the step at which the polynomial decay reaches 0.
      num_warmup_steps: steps of linear warmup; 0 or None for none.
      use_tpu: must be false.
      optimizer: "adamw" or "lamb".
      poly_power: exponent of the decay, 1 for linear.
      start_warmup_step: the step at which the warmup begins; the rate is 0 before.
      colocate_gradients_with_ops: as in `tf.gradients`.
      excluded_tvars: trainable variables, or their names, that are not to change.
      num_tokens: scalar, tokens of the batch that the loss is of; reported with the loss.
      gradient_accumulation_steps: runs of the op for one optimizer step: gradients of so many
        batches are added up, then sent, clipped and applied as the mean of one large batch.
      allreduce_dtype: type of the gradients on the wire, if not float32.

    Returns:
      The training op. A step's loss and tokens, of all its batches and workers, and its learning
      rate are in the collections of `graph_keys`.
    """
    if use_tpu:
        raise ValueError("create_optimizer: this project does not run on TPU")
    global_step = tf.train.get_or_create_global_step()
    learning_rate = _schedule(
        init_lr, global_step, num_train_steps, num_warmup_steps, poly_power, start_warmup_step
    )
    tf.add_to_collection(graph_keys.LEARNING_RATE, learning_rate)
    optimizer = _make_optimizer(optimizer, learning_rate)

    variables = _without(excluded_tvars or (), tf.trainable_variables())
    gradients = tf.gradients(
        loss, variables, colocate_gradients_with_ops=colocate_gradients_with_ops
    )
    pairs = [(g, v) for g, v in zip(gradients, variables, strict=True) if g is not None]
    gradients, variables = zip(*pairs, strict=True)
    optimizer.create_slots(variables)
    is_table = [isinstance(gradient, tf.IndexedSlices) for gradient in gradients]
    num_batches = gradient_accumulation_steps * distributed.size()

    def apply(facts: tf.Tensor, *gradients: tf.Tensor) -> tf.Tensor:
        """Updates the variables with a step's mean gradients; returns its mean facts."""
        gradients = distributed.mean(gradients, allreduce_dtype)
        (facts,) = distributed.mean([facts])
        others = [g for g, table in zip(gradients, is_table, strict=True) if not table]
        norm = tf.sqrt(tf.square(tf.global_norm(others)) + facts[2] / num_batches)
        # Everything that follows depends on the check, so that no NaN ever reaches a variable.
        norm = tf.debugging.check_numerics(norm, graph_keys.NOT_FINITE)
        gradients, _ = tf.clip_by_global_norm(gradients, clip_norm=1.0, use_norm=norm)
        update = optimizer.apply_gradients(zip(gradients, variables, strict=True))
        with tf.control_dependencies([update]):
            counted = tf.assign_add(global_step, 1)
        with tf.control_dependencies([counted]):
            return tf.identity(facts)

    # As in the reference the rows of an embedding table's gradient count one by one in the norm,
    # also where several tokens have the same row; when they are added up it is too late for that.
    rows = [g.values for g, table in zip(gradients, is_table, strict=True) if table]
    squares = sum((2 * tf.nn.l2_loss(values) for values in rows), tf.constant(0.0))
    tokens = tf.cast(0 if num_tokens is None else num_tokens, tf.float32)
    values = [tf.stack([loss, tokens, squares]), *map(_dense, gradients, variables)]
    if gradient_accumulation_steps > 1:
        facts = _every_so_often(gradient_accumulation_steps, apply, values)
    else:
        facts = apply(*values)
    tf.add_to_collection(graph_keys.LOSS, facts[0])
    tf.add_to_collection(graph_keys.TOKENS, facts[1] * num_batches)
    return tf.group(facts, name="train_op")


def _without(excluded: Iterable, variables: Sequence[tf.Variable]) -> list[tf.Variable]:
    """The variables that are not excluded, by themselves or by name."""
    left_out = {getattr(entry, "name", entry).split(":")[0] for entry in excluded}
    if unknown := left_out - {variable.op.name for variable in variables}:
        raise ValueError(f"excluded_tvars: no trainable variable is {', '.join(sorted(unknown))}")
    return [variable for variable in variables if variable.op.name not in left_out]


def _dense(gradient: tf.Tensor | tf.IndexedSlices, variable: tf.Variable) -> tf.Tensor:
    """A gradient in the shape of its variable, of which nothing is left to find out at run time."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, variable.shape[0])
    return gradient


def _every_so_often(
    runs: int, apply: Callable[..., tf.Tensor], values: Sequence[tf.Tensor]
) -> tf.Tensor:
    """Adds the values up; in the last of so many runs returns `apply` of their means.

    Sums are no part of a checkpoint: one is written between two steps, when they are 0.
    """

    def zeros(name: str, like: tf.Tensor) -> tf.Variable:
        return tf.get_variable(
            f"accumulated/{name}",
            like.shape,
            like.dtype,
            tf.zeros_initializer(),
            trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )

    sums = [zeros(str(number), value) for number, value in enumerate(values)]
    count = zeros("count", tf.constant(0))
    added = [total.assign_add(value) for total, value in zip(sums, values, strict=True)]
    with tf.control_dependencies(added):
        counted = tf.identity(count.assign_add(1))

    def finish() -> tf.Tensor:
        facts = apply(*(total.read_value() / runs for total in sums))
        with tf.control_dependencies([facts]):
            cleared = [v.assign(tf.zeros_like(v)) for v in (*sums, count)]
        with tf.control_dependencies(cleared):
            return tf.identity(facts)

    with tf.control_dependencies([counted]):
        return tf.cond(tf.equal(counted, runs), finish, lambda: tf.zeros_like(values[0]))


def _schedule(
    init_lr: float,
    global_step: tf.Variable,
    num_train_steps: int,
    num_warmup_steps: int | None,
    poly_power: float,
    start_warmup_step: int,
) -> tf.Tensor:
    """Polynomial decay to 0 from the first step on; during the warmup a linear rise instead."""
    step = tf.identity(global_step)
    rate = tf.train.polynomial_decay(
        tf.constant(init_lr, tf.float32),
        step,
        num_train_steps,
        end_learning_rate=0.0,
        power=poly_power,
        cycle=False,
    )
    if not num_warmup_steps:
        return rate
    # Before the start the reference has negative rates, which climb the loss.
    warmed = tf.maximum(tf.cast(step - start_warmup_step, tf.float32), 0.0)
    warmup_rate = init_lr * (warmed / float(num_warmup_steps))
    return tf.where(warmed < float(num_warmup_steps), warmup_rate, rate)


def _make_optimizer(name: str, learning_rate: tf.Tensor) -> AdamWeightDecayOptimizer:
    classes = {"adamw": AdamWeightDecayOptimizer, "lamb": LAMBOptimizer}
    if name not in classes:
        raise ValueError(f"Not supported optimizer: {name} (known: {', '.join(classes)})")
    return classes[name](
        learning_rate=learning_rate,
        weight_decay_rate=0.01,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        exclude_from_weight_decay=list(_NOT_DECAYED),
    )


class AdamWeightDecayOptimizer(tf.train.Optimizer):
    """Adam without bias correction, with weight decay apart from the gradient.

    The decay is that of AdamW (https://arxiv.org/abs/1711.05101); moments are kept in variables
    `<name>/adam_m` and `<name>/adam_v`.
    """

    def __init__(
        self,
        learning_rate,
        weight_decay_rate=0.0,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        exclude_from_weight_decay=None,
        name="AdamWeightDecayOptimizer",
    ):
        """`exclude_from_weight_decay`: regular expressions searched in variable names."""
        super().__init__(False, name)
        self.learning_rate = learning_rate
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.exclude_from_weight_decay = exclude_from_weight_decay
        self._moments = {}

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple],
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        """The op that updates variables and moments. As in the reference, `global_step` stays."""
        assignments = []
        for gradient, variable in grads_and_vars:
            if gradient is not None and variable is not None:
                assignments += self._assignments(tf.convert_to_tensor(gradient), variable)
        return tf.group(*assignments, name=name)

    def _assignments(self, gradient: tf.Tensor, variable: tf.Variable) -> list:
        m, v = self._moments_of(variable)
        next_m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
        next_v = self.beta_2 * v + (1.0 - self.beta_2) * tf.square(gradient)
        update = next_m / (tf.sqrt(next_v) + self.epsilon)
        if self.weight_decay_rate and not _matches(
            variable.op.name, self.exclude_from_weight_decay
        ):
            update += self.weight_decay_rate * variable
        rate = self._rate(variable, update)
        return [variable.assign(variable - rate * update), m.assign(next_m), v.assign(next_v)]

    def _rate(self, variable: tf.Variable, update: tf.Tensor):
        """The learning rate of one variable."""
        return self.learning_rate

    def create_slots(self, variables: Iterable[tf.Variable]) -> None:
        """Makes the moments of variables, for `apply_gradients` inside a conditional branch."""
        for variable in variables:
            self._moments_of(variable)

    def _moments_of(self, variable: tf.Variable) -> tuple[tf.Variable, tf.Variable]:
        name = variable.op.name
        if name not in self._moments:
            self._moments[name] = tuple(self._slot(variable, s) for s in ("adam_m", "adam_v"))
        return self._moments[name]

    @staticmethod
    def _slot(variable: tf.Variable, slot: str) -> tf.Variable:
        return tf.get_variable(
            f"{variable.op.name}/{slot}",
            shape=variable.shape.as_list(),
            dtype=tf.float32,
            trainable=False,
            initializer=tf.zeros_initializer(),
        )


class LAMBOptimizer(AdamWeightDecayOptimizer):
    """LAMB (https://arxiv.org/abs/1904.00962): a trust ratio scales the rate of each variable."""

    def __init__(
        self,
        learning_rate,
        weight_decay_rate=0.0,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        exclude_from_weight_decay=None,
        exclude_from_layer_adaptation=None,
        name="LAMBOptimizer",
    ):
        """Without `exclude_from_layer_adaptation`, `exclude_from_weight_decay` serves for both."""
        super().__init__(
            learning_rate,
            weight_decay_rate,
            beta_1,
            beta_2,
            epsilon,
            exclude_from_weight_decay,
            name,
        )
        self.exclude_from_layer_adaptation = (
            exclude_from_layer_adaptation or exclude_from_weight_decay
        )

    def _rate(self, variable: tf.Variable, update: tf.Tensor):
        """The learning rate times |variable| / |update|; times 1 where a norm is 0, or excluded."""
        if _matches(variable.op.name, self.exclude_from_layer_adaptation):
            return self.learning_rate
        weight_norm, update_norm = tf.norm(variable), tf.norm(update)
        ratio = tf.where((weight_norm > 0) & (update_norm > 0), weight_norm / update_norm, 1.0)
        return ratio * self.learning_rate


def _matches(name: str, patterns: Sequence[str] | None) -> bool:
    return any(re.search(pattern, name) for pattern in patterns or ())
