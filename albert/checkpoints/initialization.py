"""Initializes variables from a checkpoint, by name."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import (
    check_same_encoder,
    load_checkpoint,
    resolve_checkpoint,
)
from albert.checkpoints.finite import check_finite
from albert.checkpoints.transformers_folder import TransformersFolder
from albert.core.errors import UserError

# Parts of names, with those of the blocks from which later ones can start.
_FIRST_BLOCKS = {
    r"/group_\d+/": "/group_0/",
    r"/ffn_\d+/": "/ffn_1/",
    r"/attention_\d+/": "/attention_1/",
}
# The beginning of the names of the encoder's layers, and that of all names in a module of TF-Hub.
_LAYERS, _MODULE = "bert/encoder/", "module/"
# What else a checkpoint is, by a part of its names.
_OTHERS = {
    "/layer_shared/": "its names are those of albert_zh; use Google's models for Chinese instead, "
    "such as albert_base_zh",
    "/.ATTRIBUTES/VARIABLE_VALUE": "it is a checkpoint of Keras; save the model in the format of "
    "transformers instead",
}
# The variable of the optimizer that scales the loss.
LOSS_SCALE = "loss_scale"


def get_assignment_map_from_checkpoint(
    tvars: Sequence[tf.Variable], init_checkpoint: str, num_of_group: int = 0
) -> tuple:
    """Pairs the graph's variables with a checkpoint's, by name.

    Args:
      num_of_group: if more than 1, variables of later groups, feed-forward and attention blocks
        start from those of the first one if the checkpoint lacks them.

    Returns:
      (map from checkpoint name to variable name, dictionary from the names of initialized
      variables, with and without ":0", to 1). With `num_of_group` above 0 the map is a list of
      that many maps, because one name of the checkpoint then serves several variables.
    """
    in_checkpoint = set(load_checkpoint(init_checkpoint).get_variable_to_shape_map())
    maps: list[dict[str, str]] = [collections.OrderedDict() for _ in range(max(num_of_group, 1))]
    initialized = {}
    for variable in tvars:
        name = variable.op.name
        candidates = [name, _MODULE + name]
        if num_of_group > 1:
            candidates += [re.sub(pattern, first, name) for pattern, first in _FIRST_BLOCKS.items()]
        source = next((one for one in candidates if one in in_checkpoint), None)
        if source is None:
            tf.logging.debug("%s: not in %s", name, init_checkpoint)
            continue
        next(m for m in maps if source not in m)[source] = name
        initialized[name] = 1
        initialized[name + ":0"] = 1
    return (maps if num_of_group > 0 else maps[0]), initialized


class Initialization(NamedTuple):
    """The names of variables that start from a checkpoint, that it lacks, and that the model lacks.

    The optimizer's variables are not among the unused ones.
    """

    checkpoint: str
    taken: list[str]
    new: list[str]
    unused: list[str]

    def log(self) -> None:
        """Logs the names of variables; warns if layers of the encoder are new or unused."""
        tf.logging.info(
            "Starting from %s: %d variables taken; new: %s; unused: %s",
            self.checkpoint,
            len(self.taken),
            ", ".join(self.new) or "none",
            ", ".join(self.unused) or "none",
        )
        for names, what in (
            (self.new, "starts from random values, because the checkpoint lacks"),
            (self.unused, "is smaller than the checkpoint's, and does not use"),
        ):
            if layers := [name for name in names if name.removeprefix(_MODULE).startswith(_LAYERS)]:
                message = "The encoder %s %d variables of its layers, such as %s"
                tf.logging.warning(message, what, len(layers), layers[0])


def initialize_from_checkpoint(
    tvars: Sequence[tf.Variable], init_checkpoint: str, num_groups: int = 0
) -> Initialization:
    """Initializes variables from a checkpoint's values, without optimizer slots.

    For `init_checkpoint` see `resolve_checkpoint`, for `num_groups` see
    `get_assignment_map_from_checkpoint`. Raises a `UserError` if no variable matches, a shape
    differs, or values are not finite.
    """
    start, assignments = compare_with_checkpoint(tvars, init_checkpoint, num_groups)
    reader = load_checkpoint(start.checkpoint)
    by_name = {variable.op.name: variable for variable in tvars}
    for assignment in assignments:
        if isinstance(reader, TransformersFolder):
            for source, name in assignment.items():
                reader.initialize(by_name[name], source)
        else:
            tf.train.init_from_checkpoint(start.checkpoint, assignment)
    return start


def compare_with_checkpoint(
    tvars: Sequence[tf.Variable], init_checkpoint: str, num_groups: int = 0
) -> tuple[Initialization, list[dict[str, str]]]:
    """Returns the result of `initialize_from_checkpoint`, and the maps of names that it uses."""
    checkpoint = resolve_checkpoint(init_checkpoint)
    assignments, initialized = get_assignment_map_from_checkpoint(
        tvars, checkpoint, max(num_groups, 1)
    )
    pairs = [pair for assignment in assignments for pair in assignment.items()]
    reader = load_checkpoint(checkpoint)
    shapes = reader.get_variable_to_shape_map()
    needed = {v.op.name: v.shape.as_list() for v in tvars}
    check_same_encoder(checkpoint, shapes, needed)
    if not pairs:
        raise UserError(
            f"{checkpoint}: none of its {len(shapes)} variables matches the model, which needs "
            f"{tvars[0].op.name}, for example; the checkpoint has {min(shapes, default='none')}, "
            "for example"
        )
    layers = [name for name in needed if name.startswith(_LAYERS)]
    if layers and not any(name in initialized for name in layers):
        kind = (text for part, text in _OTHERS.items() if any(part in name for name in shapes))
        raise UserError(
            f"{checkpoint}: none of its {len(shapes)} variables is part of a layer of the encoder, "
            f"which needs {layers[0]}, for example; "
            + next(kind, f"the checkpoint has {max(shapes)}, for example")
        )
    dtypes = reader.get_variable_to_dtype_map()
    differ = [
        f"{name} {dtypes[source].name} {shapes[source]} (the model has float32 {needed[name]})"
        for source, name in pairs
        if list(shapes[source]) != needed[name] or dtypes[source] != tf.float32
    ]
    if differ:
        raise UserError(
            f"{checkpoint}: {len(differ)} variables have other shapes or types than the model: "
            + ", ".join(differ[:3])
        )
    check_finite(checkpoint, reader, [source for source, _ in pairs])
    known = {source for source, _ in pairs} | optimizer_variables(shapes)
    start = Initialization(
        checkpoint,
        taken=[name for _, name in pairs],
        new=[name for name in needed if name not in initialized],
        unused=sorted(shapes.keys() - known),
    )
    return start, assignments


def optimizer_variables(names: Iterable[str]) -> set[str]:
    """Returns the names of optimizer variables among variable names, for any optimizer.

    Optimizers name a variable's slots `<variable>/<slot>`, such as `bert/w/adam_m`. The loss scale
    has variables of this form, too.
    """
    names = set(names)
    return {name for name in names if name == LOSS_SCALE or name.rpartition("/")[0] in names}
