"""Initializes variables from a checkpoint, by name."""

from __future__ import annotations

import collections
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import check_finite, load_checkpoint, resolve_checkpoint
from albert.checkpoints.labels import Labels, rows_by_name
from albert.checkpoints.model_folder import ModelFolder
from albert.checkpoints.transformers_folder import TransformersFolder, set_initial_value
from albert.core.errors import UserError

# Parts of names, with those of the blocks from which later ones can start.
_FIRST_BLOCKS = {
    r"/group_\d+/": "/group_0/",
    r"/ffn_\d+/": "/ffn_1/",
    r"/attention_\d+/": "/attention_1/",
}
# The beginning of the names of the encoder and of its layers, and of all in a module of TF-Hub.
_ENCODER, _LAYERS, _MODULE = "bert/", "bert/encoder/", "module/"
# What else a checkpoint is, by a part of its names.
_OTHERS = {
    "/layer_shared/": "its names are those of albert_zh; use Google's models for Chinese instead, "
    "such as albert_base_zh",
    "/.ATTRIBUTES/VARIABLE_VALUE": "it is a checkpoint of Keras; save the model in the format of "
    "transformers instead",
}
_NEW_HEAD = (
    "The head starts from random values, because the checkpoint has {}; if that is intended, pass "
    "--new_head"
)
_CONFIG = "pass the --albert_config_file that came with the checkpoint"
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
    in_checkpoint = load_checkpoint(init_checkpoint).get_variable_to_shape_map()
    sources = _sources([variable.op.name for variable in tvars], in_checkpoint, num_of_group)
    maps: list[dict[str, str]] = [collections.OrderedDict() for _ in range(max(num_of_group, 1))]
    for name, source in sources.items():
        next(m for m in maps if source not in m)[source] = name
    initialized = dict.fromkeys([key for name in sources for key in (name, name + ":0")], 1)
    return (maps if num_of_group > 0 else maps[0]), initialized


def _sources(
    needed: Iterable[str], in_checkpoint: Container[str], num_of_group: int
) -> dict[str, str]:
    """Returns the name in a checkpoint for each of the variables that it can initialize."""
    sources = {}
    for name in needed:
        candidates = [name, _MODULE + name]
        if num_of_group > 1:
            candidates += [re.sub(pattern, first, name) for pattern, first in _FIRST_BLOCKS.items()]
        if source := next((one for one in candidates if one in in_checkpoint), None):
            sources[name] = source
    return sources


class Initialization(NamedTuple):
    """The names of variables that start from a checkpoint, that it lacks, and that the model lacks.

    The optimizer's variables are not among the unused ones.

    Attributes:
      taken: the names in the checkpoint, by that of the variable.
      sorted_by_name: values of the head whose rows have another order in the checkpoint, by name.
      about_head: a warning about other shapes or labels, or labels without names; "" if none.
    """

    checkpoint: str
    taken: Mapping[str, str]
    new: list[str]
    unused: list[str]
    sorted_by_name: Mapping[str, np.ndarray] = {}
    about_head: str = ""

    def log(self) -> None:
        """Logs the names of variables, and the `warnings`."""
        tf.logging.info(
            "Starting from %s: %d variables taken; new: %s; unused: %s",
            self.checkpoint,
            len(self.taken),
            ", ".join(self.new) or "none",
            ", ".join(self.unused) or "none",
        )
        if self.sorted_by_name:
            tf.logging.info("The rows of the head are reordered by the names of the labels")
        for warning in self.warnings():
            tf.logging.warning("%s", warning)

    def warnings(self) -> Iterator[str]:
        """Yields warnings about layers that are new or unused, and about the head."""
        for names, what in (
            (self.new, "starts from random values, because the checkpoint lacks"),
            (self.unused, "is smaller than the checkpoint's, and does not use"),
        ):
            if layers := [name for name in names if name.removeprefix(_MODULE).startswith(_LAYERS)]:
                count = f"{len(layers)} variables of its layers, such as {layers[0]}"
                yield f"The encoder {what} {count}"
        if self.about_head:
            yield self.about_head


def initialize_from_checkpoint(
    tvars: Sequence[tf.Variable],
    init_checkpoint: str,
    num_groups: int = 0,
    new_head: bool | None = None,
    labels: Labels = (),
) -> Initialization:
    """Initializes variables from a checkpoint's values, without optimizer slots.

    For `init_checkpoint` see `resolve_checkpoint`, for `num_groups` see
    `get_assignment_map_from_checkpoint`, for the others `compare_with_checkpoint`, also for the
    errors.
    """
    needed = {variable.op.name: variable.shape.as_list() for variable in tvars}
    start = compare_with_checkpoint(needed, init_checkpoint, num_groups, new_head, labels)
    reader = load_checkpoint(start.checkpoint)
    by_name = {variable.op.name: variable for variable in tvars}
    for name, value in start.sorted_by_name.items():
        set_initial_value(by_name[name], tf.constant(value))
    unsorted = [(s, by_name[n]) for n, s in start.taken.items() if n not in start.sorted_by_name]
    if isinstance(reader, TransformersFolder):
        for source, variable in unsorted:
            reader.initialize(variable, source)
    else:
        tf.train.init_from_checkpoint(start.checkpoint, unsorted)
    return start


def compare_with_checkpoint(
    needed: Mapping[str, Sequence[int]],
    init_checkpoint: str,
    num_groups: int = 0,
    new_head: bool | None = None,
    labels: Labels = (),
) -> Initialization:
    """Returns the result of `initialize_from_checkpoint`, without the graph.

    Args:
      needed: the shapes of the model's variables, by name.
      new_head: whether the variables outside the encoder start from their initial values. None for
        those whose shapes or labels differ, with a warning; False if that is an error.
      labels: the labels of the head's rows, to compare with those of the checkpoint's model.

    Raises:
      UserError: no variable, or none of the encoder's layers, matches; a shape or label differs;
        or values are not finite.
    """
    checkpoint = resolve_checkpoint(init_checkpoint)
    reader = load_checkpoint(checkpoint)
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    names = [name for name in needed if not new_head or name.startswith(_ENCODER)]
    sources = _sources(names, shapes, num_groups)
    layers = [name for name in needed if name.startswith(_LAYERS)] or [*needed]
    if not sources.keys() & layers:
        kind = (text for part, text in _OTHERS.items() if any(part in name for name in shapes))
        raise UserError(
            f"{checkpoint}: none of its {len(shapes)} variables fits a layer of the model, which "
            f"needs {layers[0]}, for example; "
            + next(kind, f"the checkpoint has {max(shapes)}, for example; {_CONFIG}")
        )
    differ, heads = {}, set[str]()
    for name, source in sources.items():
        shape, dtype, own = list(shapes[source]), dtypes[source], list(needed[name])
        if shape != own or dtype != tf.float32:
            differ[name] = f"{name} {dtype.name} {shape} (the model has float32 {own})"
        if shape != own and new_head is None and not name.startswith(_ENCODER):
            heads.add(name)
    if wrong := [text for name, text in differ.items() if name not in heads]:
        is_head = not any(name.startswith(_ENCODER) for name in differ)
        raise UserError(
            f"{checkpoint}: {len(wrong)} variables have other shapes or types than the model: "
            + ", ".join(wrong[:3])
            + (
                "; with --new_head, a training starts them from random values"
                if is_head
                else f"; {_CONFIG}"
            )
        )
    other = heads and "other shapes: " + ", ".join(differ[name] for name in sorted(heads))
    head = {
        name: source
        for name, source in sources.items()
        if not name.startswith(_ENCODER) and [*needed[name]][:1] == [len(labels)]
        if name not in heads
    }
    theirs = ModelFolder.from_checkpoint(checkpoint).known.get("labels") if head else None
    rows, note = ([], "") if theirs is None else rows_by_name(theirs, labels)
    if rows is None and new_head is False:
        raise UserError(f"{checkpoint}: its head has {note}; a training needs --new_head")
    if rows is None:
        rows, heads, other = [], heads | {*head}, note
    if other:
        note = _NEW_HEAD.format(other)
    values = {n: reader.get_tensor(s)[rows] for n, s in head.items() if rows != sorted(rows)}
    taken = {name: source for name, source in sources.items() if name not in heads}
    check_finite(checkpoint, reader, taken.values())
    return Initialization(
        checkpoint,
        taken=taken,
        new=[name for name in needed if name not in taken],
        unused=sorted(shapes.keys() - {*sources.values()} - optimizer_variables(shapes)),
        sorted_by_name=values,
        about_head=note,
    )


def optimizer_variables(names: Iterable[str]) -> set[str]:
    """Returns the names of optimizer variables among variable names, for any optimizer.

    Optimizers name a variable's slots `<variable>/<slot>`, such as `bert/w/adam_m`. The loss scale
    has variables of this form, too.
    """
    names = set(names)
    return {name for name in names if name == LOSS_SCALE or name.rpartition("/")[0] in names}
