"""Gradient checkpointing (https://arxiv.org/abs/1604.06174), which saves memory.

The forward pass keeps only each layer's input. The backward pass computes the layer again when its
gradient is needed.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow.compat.v1 as tf


class Recomputation:
    """Applies layers, and computes each layer again in the backward pass.

    The layers may share variables, whose gradients are accumulated from the last layer to the
    first: each layer adds its own to the sum that it receives. Only one sum is in memory at a time,
    whereas `tf.gradients` on its own would keep one term per layer until it has all of them. For
    this, `_weights` pass through the layers, which change only their gradients.
    """

    def __init__(self):
        # By name of the variable: its value in the layers' computation, and the tensor that the
        # last layer with this variable passed on.
        self._values: dict[str, tf.Tensor] = {}
        self._weights: dict[str, tf.Tensor] = {}

    def apply(self, layer: Callable[[tf.Tensor], tf.Tensor], state: tf.Tensor) -> tf.Tensor:
        """Returns `layer(state)`, and keeps only `state` for the gradient.

        The layer builds the same operations at every call, from `state` and from variables that it
        gets with `tf.get_variable`. Other tensors that it uses get no gradient. Its dropout draws
        masks by site; without a seed of the graph, they would differ, which is a `ValueError`.
        """
        if tf.get_seed(None)[0] is None:
            raise ValueError("recomputed layers need tf.set_random_seed, for equal dropout masks")
        scope, names = tf.get_variable_scope(), []

        def value_of(getter: Callable, name: str, *args, **kwargs) -> tf.Tensor:
            if name not in self._values:
                self._values[name] = tf.convert_to_tensor(getter(name, *args, **kwargs))
            if name not in names:
                names.append(name)
            return self._values[name]

        def build(state: tf.Tensor) -> tf.Tensor:
            with tf.variable_scope(scope, custom_getter=value_of, auxiliary_name_scope=False):
                return layer(state)

        output = build(state)
        values = [self._values[name] for name in names]

        @tf.custom_gradient
        def join(output: tf.Tensor, state: tf.Tensor, *weights: tf.Tensor):
            def gradient(output_gradient: tf.Tensor, *weight_gradients: tf.Tensor) -> list:
                # No layer uses what the last one passed on; its gradient, a tensor of zeros, is
                # skipped.
                sums = [
                    [] if self._weights[name] is last else [weight_gradient]
                    for name, last, weight_gradient in zip(
                        names, passed_on, weight_gradients, strict=True
                    )
                ]
                # Without this dependency, all layers would be computed again in the forward pass.
                # With the sums in it, a layer does not begin before the one after it has finished.
                with tf.control_dependencies([tf.group(output_gradient, *sum(sums, []))]):
                    again = tf.stop_gradient(state)
                    output_again = build(again)
                state_gradient, *own = tf.gradients(output_again, [again, *values], output_gradient)
                sums = [tf.add_n([*before, new]) for before, new in zip(sums, own, strict=True)]
                return [None, state_gradient, *sums]

            return [tf.identity(output), *map(tf.identity, weights)], gradient

        weights = [self._weights.get(name, self._values[name]) for name in names]
        output, *passed_on = join(output, state, *weights)
        self._weights.update(zip(names, passed_on, strict=True))
        return output
