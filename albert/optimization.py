"""Optimizers with decoupled weight decay, and the training op that uses them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.checkpoints.sharded_state import StateShard
from albert.core.errors import NOT_FINITE
from albert.devices import device, ops
from albert.distributed import collectives
from albert.optimizers.gradients import (
    Gradients,
    StepMetrics,
    compute_gradients,
    local_zeros,
    zeros_of,
)
from albert.optimizers.loss_scale import LossScale
from albert.optimizers.schedule import GRADIENTS, NONE, OptimizerOptions, learning_rate_at
from albert.optimizers.sharded import ShardedOptimizer

_NOT_DECAYED = ("LayerNorm", "layer_norm", "bias")
_LARGE = 2.0**50
_Factors = tuple[float | tf.Tensor, float | tf.Tensor]


class TrainStep(NamedTuple):
    """One optimizer step and its metrics.

    Attributes:
      op: runs the step; with accumulation, runs one micro-batch.
      loss: float32 scalar, the mean over all batches and workers; 0 in runs that do not complete a
        step.
      learning_rate: float32 scalar.
      tokens: float32 scalar, the sum over all batches and workers; 0 in runs that do not complete
        a step.
      sharded: the optimizer's state that is sharded over the workers; may be empty.
      scaling: the loss scale; None if the loss is not scaled.
    """

    op: tf.Operation
    loss: tf.Tensor
    learning_rate: tf.Tensor
    tokens: tf.Tensor
    sharded: Sequence[StateShard] = ()
    scaling: LossScale | None = None


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
) -> tf.Operation:
    """Returns the op of `build_train_step`, with the reference's arguments.

    `use_tpu` must be false. For the others, see `OptimizerOptions` and `build_train_step`.
    """
    if use_tpu:
        raise ValueError("use_tpu: this project does not run on TPU")
    options = OptimizerOptions(
        init_lr, num_train_steps, num_warmup_steps, optimizer, poly_power, start_warmup_step
    )
    return build_train_step(loss, options, excluded_tvars, colocate_gradients_with_ops).op


def build_train_step(
    loss: tf.Tensor,
    options: OptimizerOptions,
    excluded_tvars: Iterable | None = None,
    colocate_gradients_with_ops: bool = False,
    num_tokens: tf.Tensor | None = None,
) -> TrainStep:
    """Builds one optimizer step: gradients, mean, clipping, update, step counter.

    Step k, counted from 0, uses the learning rate of step k, because the counter is incremented
    after the update. If the global norm is not finite, the step raises `InvalidArgumentError`
    before any variable changes. With a loss scale, such a step counts, but changes only the scale,
    and it raises the error only if the scale cannot become smaller.

    `excluded_tvars` are trainable variables, or their names, that must not change. `num_tokens` is
    a scalar, the number of tokens in the batch.
    """
    global_step = tf.train.get_or_create_global_step()
    step = tf.identity(global_step)
    learning_rate = learning_rate_at(options, step)
    optimizer = _make_optimizer(options, learning_rate)
    variables = _without(excluded_tvars or (), tf.trainable_variables())
    scale = LossScale.create() if options.scales_loss else None
    batch = compute_gradients(
        loss, variables, num_tokens, colocate_gradients_with_ops, scale.value if scale else None
    )
    num_batches = options.gradient_accumulation_steps * collectives.size()
    # A single worker has nothing to shard.
    shares = None
    if options.shard_optimizer != NONE and collectives.size() > 1:
        shares = ShardedOptimizer(batch.variables, options.allreduce_dtype)
    else:
        optimizer.create_slots(batch.variables)
    scatters_each = options.shard_optimizer == GRADIENTS
    if shares and scatters_each:
        batch = batch._replace(values=shares.scatter(batch.values))

    def finish(batch: Gradients) -> tf.Tensor:
        values, are_rows = batch.values, batch.are_rows
        if shares is None:
            values = collectives.all_reduce_mean(values, options.allreduce_dtype)
            (metrics,) = collectives.all_reduce_mean([batch.metrics])
            others = [g for g, is_row in zip(values, are_rows, strict=True) if not is_row]
            squares = tf.square(tf.global_norm(others))
        else:
            values = values if scatters_each else shares.scatter(values)
            metrics, squares = shares.all_reduce_metrics_and_norm(batch.metrics, values, are_rows)
        row_squares = StepMetrics(*tf.unstack(metrics)).row_squares / num_batches
        norm = tf.sqrt(squares + row_squares)
        # Skipped steps do not change the moments, so they do not count for their correction.
        done = step - tf.cast(scale.skipped_steps, step.dtype) if scale else step

        def update(factor: tf.Tensor) -> tf.Operation:
            if shares:
                return shares.apply(optimizer, values, factor, done)
            pairs = zip(values, batch.variables, strict=True)
            return optimizer.apply_gradients(pairs, done, factor=factor)

        with tf.control_dependencies([update_if_finite(norm, update, scale)]):
            counted = tf.assign_add(global_step, 1)
        with tf.control_dependencies([counted]):
            return tf.identity(metrics)

    vector = accumulate(batch, options.gradient_accumulation_steps, finish)
    metrics = StepMetrics(*tf.unstack(vector))
    tokens = metrics.tokens * num_batches
    op = tf.group(vector, name="train_op")
    sharded = shares.state if shares else ()
    return TrainStep(op, metrics.loss, learning_rate, tokens, sharded, scale)


def update_if_finite(
    norm: tf.Tensor, update: Callable[[tf.Tensor], tf.Operation], scale: LossScale | None = None
) -> tf.Operation | tf.Tensor:
    """Returns the op that updates with gradients clipped to a global norm of 1, if it is finite.

    `update` builds the update, given the factor of the gradients. `scale` is the scale of the loss,
    and so of the norm; with it, the op skips a norm that is not finite instead of failing.
    """
    if scale:
        norm /= scale.value
        return scale.update_or_skip(norm, lambda: update(1.0 / tf.maximum(norm, 1.0) / scale.value))
    # All updates depend on this check, so no NaN reaches a variable.
    norm = tf.debugging.check_numerics(norm, NOT_FINITE)
    return update(1.0 / tf.maximum(norm, 1.0))


def accumulate(batch: Gradients, runs: int, finish: Callable[[Gradients], tf.Tensor]) -> tf.Tensor:
    """Accumulates the gradients of several runs; the last run finishes the step with their means.

    Checkpoints do not contain the sums, because they are written between steps, when the sums
    are 0. `runs` is the number of runs of the training op per step. `finish` builds the end of a
    step and returns its metrics; the other runs return zeros.
    """
    if runs == 1:
        return finish(batch)

    values = [batch.metrics, *batch.values]
    sums = [
        local_zeros(f"accumulated/{number}", value.shape, value.dtype)
        for number, value in enumerate(values)
    ]
    count = ops.micro_batch()
    # Accumulate means, because dividing sums at the end would take memory for both.
    added = [total.assign_add(value / runs) for total, value in zip(sums, values, strict=True)]
    with tf.control_dependencies(added):
        counted = tf.identity(count.assign_add(1))

    def last_run() -> tf.Tensor:
        metrics, *means = (total.read_value() for total in sums)
        metrics = finish(batch._replace(values=means, metrics=metrics))
        # TensorFlow would compute constant zeros once and keep them in memory next to the sums, so
        # make them depend on the counter.
        zero = counted - runs
        with tf.control_dependencies([metrics]):
            cleared = [v.assign(tf.fill(v.shape, tf.cast(zero, v.dtype))) for v in (*sums, count)]
        with tf.control_dependencies(cleared):
            return tf.identity(metrics)

    with tf.control_dependencies([counted]):
        return tf.cond(tf.equal(counted, runs), last_run, lambda: tf.zeros_like(batch.metrics))


def _without(excluded: Iterable, variables: Sequence[tf.Variable]) -> list[tf.Variable]:
    """Returns the variables that are not excluded; `excluded` has variables or names."""
    left_out = {getattr(entry, "name", entry).split(":")[0] for entry in excluded}
    if unknown := left_out - {variable.op.name for variable in variables}:
        raise ValueError(f"excluded_tvars: not trainable variables: {', '.join(sorted(unknown))}")
    return [variable for variable in variables if variable.op.name not in left_out]


def _make_optimizer(
    options: OptimizerOptions, learning_rate: tf.Tensor
) -> AdamWeightDecayOptimizer:
    name = options.optimizer
    if name not in OPTIMIZERS:
        raise ValueError(f"unsupported optimizer {name!r}; supported: {', '.join(OPTIMIZERS)}")
    return OPTIMIZERS[name](
        learning_rate,
        options.weight_decay,
        epsilon=options.epsilon,
        exclude_from_weight_decay=_NOT_DECAYED,
    )


class AdamWeightDecayOptimizer(tf.train.Optimizer):
    """Adam without bias correction, with decoupled weight decay.

    The decay is that of AdamW (https://arxiv.org/abs/1711.05101). The moments are variables
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
        """Creates the optimizer; the learning rate is a number or a scalar tensor.

        `epsilon` is added to the root of the second moment. A variable whose name contains a match
        of `exclude_from_weight_decay`, regular expressions, does not decay.
        """
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
        global_step: tf.Tensor | tf.Variable | None = None,
        name: str | None = None,
        factor: tf.Tensor | None = None,
    ) -> tf.Operation:
        """Returns the op that updates variables and moments, one variable at a time.

        Updating all at once would take memory for copies of all parameters and moments. Pairs with
        a None are skipped. The step is counted from 0 and, as in the reference, not incremented.
        `factor` is that of the gradients; None for 1.
        """
        factors = self.factors(global_step)
        assignments: list[tf.Operation] = []
        before: list[tf.Operation] = []
        for gradient, variable in grads_and_vars:
            if gradient is not None and variable is not None:
                gradient = tf.convert_to_tensor(gradient)
                with tf.control_dependencies(before):
                    gradient = gradient if factor is None else gradient * factor
                    before = self._assignments(gradient, variable, factors)
                assignments += before
        return tf.group(*assignments, name=name)

    def _assignments(self, gradient: tf.Tensor, variable: tf.Variable, factors: _Factors) -> list:
        # TensorFlow has an operation for a step of Adam with this kind of variable.
        has_fused_step = not device.is_hpu() and variable.op.type == "VarHandleOp"
        adapts = self.adapts(variable.op.name)
        if has_fused_step and not adapts:
            return [self._fused_step(gradient, variable, factors)]
        m, v = self._moments_of(variable)
        next_m, next_v, update = self.next_state(gradient, m, v, factors)
        if decay := self.decay_of(variable.op.name):
            with tf.control_dependencies([update]):
                update += decay * variable
        rate = self.learning_rate
        if adapts:
            rate = self.trust_ratio(tf.norm(variable), tf.norm(update)) * rate
        return [variable.assign(variable - rate * update), m.assign(next_m), v.assign(next_v)]

    def _fused_step(
        self, gradient: tf.Tensor, variable: tf.Variable, factors: _Factors
    ) -> tf.Operation:
        """Updates a variable and its moments in one pass over them, after a pass for the decay."""
        rate = tf.convert_to_tensor(self.learning_rate, variable.dtype)
        decay = self.decay_of(variable.op.name)
        factor, epsilon = factors
        m, v = self._moments_of(variable)
        # The operation computes 1 - beta_2 in float32, and v is thus too small by a constant factor
        # (0.999987 for a beta_2 of 0.999), as is its root.
        root = math.sqrt((1.0 - float(np.float32(self.beta_2))) / (1.0 - self.beta_2))
        # The gradient is computed from the values before the decay.
        with tf.control_dependencies([gradient]):
            decayed = [variable.assign_sub(rate * decay * variable)] if decay else []
        with tf.control_dependencies(decayed):
            return tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=m.handle,
                v=v.handle,
                # The factor has the correction of the bias, so the operation makes none.
                beta1_power=0.0,
                beta2_power=0.0,
                lr=rate * factor * root,
                beta1=self.beta_1,
                beta2=self.beta_2,
                epsilon=epsilon * root,
                grad=gradient,
            )

    def next_state(
        self, gradient: tf.Tensor, m: tf.Tensor, v: tf.Tensor, factors: _Factors
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the moments after a step, and the update at a rate of 1 without decay."""
        factor, epsilon = factors
        # In sequence, like the variables, because each of these takes copies of the variable.
        next_m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
        with tf.control_dependencies([next_m]):
            next_v = self.beta_2 * v + (1.0 - self.beta_2) * tf.square(gradient)
        with tf.control_dependencies([next_v]):
            return next_m, next_v, factor * next_m / (tf.sqrt(next_v) + epsilon)

    def decay_of(self, name: str) -> float:
        """Returns the rate of decay of the variable with a name."""
        return 0.0 if _matches(name, self.exclude_from_weight_decay) else self.weight_decay_rate

    def adapts(self, name: str) -> bool:
        """Returns whether `trust_ratio` scales the rate of the variable with a name."""
        return False

    def trust_ratio(self, weight_norm: tf.Tensor, update_norm: tf.Tensor) -> tf.Tensor:
        """Returns the factor of a variable's rate: |weight| / |update|, or 1 if either is 0."""
        has_both = (weight_norm > 0) & (update_norm > 0)
        return tf.where_v2(has_both, weight_norm / update_norm, 1.0)

    def factors(self, step: tf.Tensor | tf.Variable | None) -> _Factors:
        """Returns the factor and the epsilon of all updates of a step, which is counted from 0.

        An update at a rate of 1 without decay is factor * m / (sqrt(v) + epsilon).
        """
        return 1.0, self.epsilon

    def _weight_sums(
        self, step: tf.Tensor | tf.Variable | None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the step t from 1, and the sums of the weights of all gradients in m and v."""
        if step is None:
            raise ValueError(f"{type(self).__name__}: apply_gradients needs the global_step")
        # In float64, because the second sum begins at 0.001, the difference of numbers near 1.
        t = tf.cast(step, tf.float64) + 1.0
        return t, 1.0 - self.beta_1**t, 1.0 - self.beta_2**t

    def create_slots(self, variables: Iterable[tf.Variable]) -> None:
        """Creates the moments of variables, for `apply_gradients` in a conditional branch."""
        for variable in variables:
            self._moments_of(variable)

    def _moments_of(self, variable: tf.Variable) -> tuple[tf.Variable, tf.Variable]:
        name = variable.op.name
        if name not in self._moments:
            shape = variable.shape.as_list()
            self._moments[name] = tuple(
                tf.get_variable(f"{name}/{slot}", shape, tf.float32, zeros_of, trainable=False)
                for slot in ("adam_m", "adam_v")
            )
        return self._moments[name]


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
        """Creates the optimizer; see `AdamWeightDecayOptimizer` for the other arguments.

        The rate of a variable whose name contains a match of `exclude_from_layer_adaptation`,
        regular expressions, is not scaled. If it is None, `exclude_from_weight_decay` is used.
        """
        rates = learning_rate, weight_decay_rate, beta_1, beta_2
        super().__init__(*rates, epsilon, exclude_from_weight_decay, name)
        self.exclude_from_layer_adaptation = (
            exclude_from_layer_adaptation or exclude_from_weight_decay
        )

    def adapts(self, name: str) -> bool:
        return not _matches(name, self.exclude_from_layer_adaptation)


class CorrectedAdamOptimizer(AdamWeightDecayOptimizer):
    """Adam with bias correction (https://arxiv.org/abs/1412.6980), with the decay of AdamW.

    As in PyTorch's AdamW, the update of step t, counted from 1, with the moments m and v is

      m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon)

    Without the correction, the first steps are up to 3 times as large, which makes fine-tuning on
    small data degenerate for some seeds (https://arxiv.org/abs/2006.05987).
    """

    def factors(self, step: tf.Tensor | tf.Variable | None) -> _Factors:
        _, sum_1, sum_2 = self._weight_sums(step)
        root = tf.sqrt(sum_2)
        return tf.cast(root / sum_1, tf.float32), tf.cast(root * self.epsilon, tf.float32)


class RAdamOptimizer(AdamWeightDecayOptimizer):
    """Rectified Adam (https://arxiv.org/abs/1908.03265, algorithm 2), with the decay of AdamW.

    In step t, counted from 1, with the moments m and v, and rho = 2 / (1 - beta_2) - 1:

      rho_t = rho - 2 t beta_2^t / (1 - beta_2^t)
      r_t = sqrt((rho_t - 4) (rho_t - 2) rho / ((rho - 4) (rho - 2) rho_t))
      update = m / (1 - beta_1^t) * r_t sqrt(1 - beta_2^t) / (sqrt(v) + epsilon)   if rho_t > 5
      update = m / (1 - beta_1^t)                                                  else

    The threshold, which is 4 in the paper, and epsilon, which the paper omits, follow the authors'
    program (https://github.com/LiyuanLucasLiu/RAdam) and PyTorch. With a beta_2 of 0.999, the first
    five steps are not rectified.
    """

    def factors(self, step: tf.Tensor | tf.Variable | None) -> _Factors:
        # In float64, because rho_5 = 4.996 is the difference of two numbers near 2000, and float32
        # may round it to a value above 5.
        t, sum_1, sum_2 = self._weight_sums(step)
        rho = 2.0 / (1.0 - self.beta_2) - 1.0
        rho_t = rho - 2.0 * t * (1.0 - sum_2) / sum_2
        is_rectified = rho_t > 5.0
        rho_t = tf.maximum(rho_t, 5.0)
        r_t = tf.sqrt((rho_t - 4.0) * (rho_t - 2.0) * rho / ((rho - 4.0) * (rho - 2.0) * rho_t))
        # Next to a large power of two, the second moment does not count, and nothing is rounded.
        factor = tf.where_v2(is_rectified, r_t * tf.sqrt(sum_2), _LARGE) / sum_1
        epsilon = tf.where_v2(is_rectified, self.epsilon, _LARGE)
        return tf.cast(factor, tf.float32), tf.cast(epsilon, tf.float32)


OPTIMIZERS = {
    "adamw": AdamWeightDecayOptimizer,
    "adamw_corrected": CorrectedAdamOptimizer,
    "lamb": LAMBOptimizer,
    "radam": RAdamOptimizer,
}


def _matches(name: str, patterns: Sequence[str] | None) -> bool:
    return any(re.search(pattern, name) for pattern in patterns or ())
