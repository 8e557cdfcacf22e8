"""Checkpoints on disk: finding, naming and keeping them.

A checkpoint is a prefix such as `out/model.ckpt-500`, of the files `.index`, `.data-?????-of-?????`
and perhaps `.meta`. TensorFlow writes the index last, by renaming; what has one is whole.
"""

from __future__ import annotations

import contextlib
import glob
import math
import os
import re
from collections.abc import Iterator, Sequence

import tensorflow.compat.v1 as tf

from runtime.errors import UserError
from runtime.files import copy_atomically

BEST = "model.ckpt-best"
_RESTORE_ERRORS = (
    tf.errors.NotFoundError,
    tf.errors.DataLossError,
    tf.errors.InvalidArgumentError,
    tf.errors.OutOfRangeError,
)


def resolve_checkpoint(path: str) -> str:
    """The prefix of a checkpoint, given itself, one of its files, or a folder with one checkpoint.

    Raises:
      UserError: there is none, the folder holds several, or a file of it is missing or damaged.
    """
    if os.path.isdir(path):
        return _only_checkpoint(path)
    prefix = re.sub(r"\.(index|meta|data-\d{5}-of-\d{5})$", "", path)
    if not os.path.exists(prefix + ".index"):
        raise UserError(f"{path}: no checkpoint there ({prefix}.index does not exist)")
    _check_whole(prefix)
    return prefix


def _only_checkpoint(folder: str) -> str:
    prefixes = sorted(
        p[: -len(".index")] for p in glob.glob(os.path.join(glob.escape(folder), "*.index"))
    )
    if len(prefixes) != 1:
        found = ", ".join(os.path.basename(p) for p in prefixes[:4]) or "none"
        raise UserError(f"{folder}: one checkpoint is expected in this folder, found: {found}")
    _check_whole(prefixes[0])
    return prefixes[0]


def _check_whole(prefix: str) -> None:
    try:
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
    except (tf.errors.OpError, ValueError, RuntimeError) as e:
        raise UserError(
            f"{prefix}: the checkpoint is damaged or incomplete: {_first_line(e)}"
        ) from e
    if not shapes:
        raise UserError(f"{prefix}: the checkpoint holds no variables")
    dtypes = reader.get_variable_to_dtype_map()
    wanted = sum(math.prod(shape) * dtypes[name].size for name, shape in shapes.items())
    found = sum(map(os.path.getsize, glob.glob(glob.escape(prefix) + ".data-*")))
    if found < wanted:
        raise UserError(
            f"checkpoint {prefix} is damaged or incomplete: its data files have {found} bytes of "
            f"at least {wanted}"
        )


def checkpoint_step(prefix: str) -> int:
    """The `global_step` stored in a checkpoint, or the number its name ends in, or 0."""
    reader = tf.train.load_checkpoint(prefix)
    if reader.has_tensor(tf.GraphKeys.GLOBAL_STEP):
        return int(reader.get_tensor(tf.GraphKeys.GLOBAL_STEP))
    number = re.search(r"-(\d+)$", prefix)
    return int(number.group(1)) if number else 0


def list_checkpoints(folder: str) -> dict[int, str]:
    """The numbered checkpoints `model.ckpt-N` of a folder: prefixes by step, in order."""
    found = {}
    for path in glob.glob(os.path.join(glob.escape(folder), "model.ckpt-*.index")):
        number = re.search(r"model\.ckpt-(\d+)\.index$", path)
        if number:
            found[int(number.group(1))] = path[: -len(".index")]
    return dict(sorted(found.items()))


def copy_checkpoint(source: str, target: str) -> None:
    """Copies a checkpoint to another prefix; at every moment, a target with an index is whole."""
    if source == target:
        return
    resolve_checkpoint(source)
    remove_checkpoint(target)
    files = sorted(glob.glob(glob.escape(source) + ".*"), key=lambda f: f.endswith(".index"))
    for file in files:
        copy_atomically(file, target + file[len(source) :])


def remove_checkpoint(prefix: str) -> None:
    """Removes a checkpoint's files, the index first."""
    files = sorted(glob.glob(glob.escape(prefix) + ".*"), key=lambda f: not f.endswith(".index"))
    for file in files:
        os.remove(file)


def keep_last(folder: str, count: int) -> None:
    """Removes all numbered checkpoints of a folder but the last `count`; none if that is 0."""
    for prefix in list(list_checkpoints(folder).values())[:-count] if count else []:
        remove_checkpoint(prefix)


class FitsModel(tf.train.SessionRunHook):
    """Checks, before a session restores a checkpoint, that it has the model's variables.

    TensorFlow itself gives a variable whatever shape the checkpoint's has.
    """

    def __init__(self, checkpoint: str):
        """For a checkpoint, by its prefix."""
        self._checkpoint = checkpoint

    def begin(self) -> None:
        """Raises a `UserError` if a variable of the graph is missing or has another shape."""
        check_fits(self._checkpoint, tf.global_variables())


def check_fits(checkpoint: str, variables: Sequence[tf.Variable]) -> None:
    """Raises a `UserError` unless a checkpoint has all the variables, in their shapes."""
    shapes = dict(tf.train.list_variables(checkpoint))
    differ = [
        f"{v.op.name} {shapes.get(v.op.name, 'is missing')} (the model has {v.shape.as_list()})"
        for v in variables
        if shapes.get(v.op.name) != v.shape.as_list()
    ]
    if differ:
        raise UserError(
            f"{checkpoint} does not fit the model: {len(differ)} variables differ, such as "
            f"{', '.join(differ[:3])}; was it trained for another task, or with another "
            "--albert_config_file?"
        )


@contextlib.contextmanager
def restoring(checkpoint: str) -> Iterator[None]:
    """Turns TensorFlow's errors of restoring a checkpoint into a `UserError` that names it."""
    try:
        yield
    except _RESTORE_ERRORS as e:
        key = re.search(r"Key (\S+) not found", e.message)
        reason = f"it has no variable {key.group(1)}" if key else _first_line(e)
        raise UserError(f"{checkpoint} does not fit the model or is damaged: {reason}") from e


def _first_line(error: Exception) -> str:
    message = getattr(error, "message", None) or str(error)
    return message.strip().splitlines()[0]
