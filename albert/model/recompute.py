"""Layers that are computed again in the backward pass, instead of kept from the forward pass.

This is gradient checkpointing (https://arxiv.org/abs/1604.06174): of each layer the input alone
stays in memory until its gradient is due.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow.compat.v1 as tf


class Recomputation:
    """Applies layers, and computes each of them again when the gradient of its output has come.

    The layers may share variables. Gradients of these are added up layer by layer, from the last
    one down: each layer takes the sum of those behind it and adds its own, so that one sum is in
    memory, where `tf.gradients` alone would hold a summand of every layer until it has the last.
    For that, `_weights` are passed through the layers, which change only their gradients.
    """

    def __init__(self):
        """Starts before the first layer."""
        # Of every variable by name: its value, as the layers compute with it, and as the last layer
        # that took it has passed it on.
        self._values: dict[str, tf.Tensor] = {}
        self._weights: dict[str, tf.Tensor] = {}

    def apply(self, layer: Callable[[tf.Tensor], tf.Tensor], state: tf.Tensor) -> tf.Tensor:
        """Returns `layer(state)`, of which nothing but `state` is kept for the gradient.

        Args:
          layer: builds the same operations whenever it is called, from `state` and from variables
            that it gets by `tf.get_variable`. What else it takes gets no gradient. Dropout in it
            draws its mask by site, in a graph with a seed.
          state: float, the output of the layer before.

        Raises:
          ValueError: the graph has no seed, so that masks of dropout would differ.
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
            def gradient(of_output: tf.Tensor, *of_weights: tf.Tensor) -> list:
                # What the last layer has passed on nobody took: its gradient, whole zeros, is left
                # out.
                sums = [
                    [] if self._weights[name] is last else [of_weight]
                    for name, last, of_weight in zip(names, passed_on, of_weights, strict=True)
                ]
                # Without this, all layers would be computed again in the forward pass; and with the
                # sums, no layer begins before the one behind it is done with.
                with tf.control_dependencies([tf.group(of_output, *sum(sums, []))]):
                    again = tf.stop_gradient(state)
                    output_again = build(again)
                of_state, *own = tf.gradients(output_again, [again, *values], of_output)
                sums = [tf.add_n([*before, new]) for before, new in zip(sums, own, strict=True)]
                return [None, of_state, *sums]

            return [tf.identity(output), *map(tf.identity, weights)], gradient

        weights = [self._weights.get(name, self._values[name]) for name in names]
        output, *passed_on = join(output, state, *weights)
        self._weights.update(zip(names, passed_on, strict=True))
        return output
