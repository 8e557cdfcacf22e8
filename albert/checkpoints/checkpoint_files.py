"""Finds, names, saves and removes checkpoints on disk.

A checkpoint is a prefix such as `out/model.ckpt-500` of the files `.index`, `.data-?????-of-?????`
and sometimes `.meta`. The checkpoints `model.ckpt-N` are the results of a training. A folder has at
most one `resume.ckpt-N`, from which a stopped or crashed training resumes. Functions that only read
weights also accept a folder of `transformers`.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import glob
import math
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from albert.checkpoints.transformers_folder import (
    TransformersFolder,
    is_transformers_folder,
    open_folder,
)
from albert.core.errors import UserError
from albert.core.files import check_readable, content_of, copy_atomically, flush, open_atomically
from albert.core.text import first_line, listed

BEST = "model.ckpt-best"
RESULT, RESUME = "model.ckpt", "resume.ckpt"
# The folder in which a checkpoint is written before it gets its name.
SAVING = ".saving"
_warn_once = functools.cache(tf.logging.warning)
# Each run of a session takes time, and values that it is fed are in memory twice.
_RESTORED_AT_ONCE = 16
_RESTORE_ERRORS = (
    tf.errors.NotFoundError,
    tf.errors.DataLossError,
    tf.errors.InvalidArgumentError,
    tf.errors.OutOfRangeError,
)


def resolve_checkpoint(path: str) -> str:
    """Returns a checkpoint's prefix from the prefix, one of its files, or a folder that holds it.

    Returns a folder of `transformers` as it is, and the best or newest checkpoint of a run. Raises
    a `UserError` if there is no checkpoint, another folder has several, or a file is missing or
    damaged.
    """
    if is_transformers_folder(path):
        return open_folder(path).path
    if os.path.isdir(path):
        names = sorted(n.removesuffix(".index") for n in glob.glob("*.index", root_dir=path))
        if len(names) > 1 and (chosen := best_or_newest(path)):
            # The folder of a run.
            return chosen
        if len(names) != 1:
            known = ", ".join(names[:4]) or "none"
            raise UserError(f"{path}: expected one checkpoint in this folder, found: {known}")
        path = os.path.join(path, names[0])
    prefix = re.sub(r"\.(index|meta|data-\d{5}-of-\d{5})$", "", path)
    if not os.path.exists(prefix + ".index"):
        raise UserError(f"{path}: no such checkpoint ({prefix}.index does not exist)")
    _check_whole(prefix)
    return prefix


def load_checkpoint(checkpoint: str) -> tf.train.NewCheckpointReader | TransformersFolder:
    """Returns a reader for the names, shapes, types and values of a checkpoint's variables."""
    if os.path.isdir(checkpoint):
        return open_folder(checkpoint)
    return tf.train.load_checkpoint(checkpoint)


def content_of_checkpoint(checkpoint: str) -> str:
    """Returns a digest of a checkpoint's values."""
    if os.path.isdir(checkpoint):
        return open_folder(checkpoint).content()
    # The index holds a checksum of every variable.
    return content_of(checkpoint + ".index")


def write_checkpoint(prefix: str, folder: TransformersFolder) -> None:
    """Writes a checkpoint; raises a `UserError` for values that are not finite, or an `OSError`."""
    dtypes = folder.get_variable_to_dtype_map()
    check_finite(folder.path, folder, dtypes)
    try:
        write_values(prefix, dtypes, folder.get_tensor)
    except tf.errors.OpError as e:
        # TensorFlow's message has "FILE; REASON" among lines about the operation's origin.
        reason = re.search(rf"{re.escape(prefix)}.*; (.+)$", e.message, re.MULTILINE)
        if not reason:
            raise
        raise OSError(errno.EIO, reason[1]) from e


def write_values(
    prefix: str, dtypes: Mapping[str, tf.DType], get: Callable[[str], np.ndarray]
) -> None:
    """Writes a checkpoint of variables by name, whose values `get` returns."""
    config = tf.ConfigProto(device_count={"GPU": 0})
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        # Values that the graph reads are in memory once; fed values would be there twice.
        values = [
            tf.numpy_function(functools.partial(get, name), [], dtype)
            for name, dtype in dtypes.items()
        ]
        save = tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=list(dtypes),
            shape_and_slices=[""] * len(dtypes),
            tensors=values,
        )
        session.run(save)


def _check_whole(prefix: str) -> None:
    check_readable(f"{prefix}.index", "the checkpoint's index")
    try:
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
    except (tf.errors.OpError, ValueError, RuntimeError) as e:
        raise UserError(
            f"{prefix}: the checkpoint is damaged or incomplete: {first_line(e)}"
        ) from e
    if not shapes:
        raise UserError(f"{prefix}: the checkpoint has no variables")
    dtypes = reader.get_variable_to_dtype_map()
    expected = sum(math.prod(shape) * dtypes[name].size for name, shape in shapes.items())
    size = sum(map(os.path.getsize, glob.glob(glob.escape(prefix) + ".data-*")))
    if size < expected:
        raise UserError(
            f"checkpoint {prefix} is damaged or incomplete: its data files have {size} bytes "
            f"instead of at least {expected}"
        )


def checkpoint_step(prefix: str) -> int:
    """Returns the `global_step` of a checkpoint, else the number at the end of its name, else 0."""
    reader = load_checkpoint(prefix)
    if tf.GraphKeys.GLOBAL_STEP in reader.get_variable_to_shape_map():
        return int(reader.get_tensor(tf.GraphKeys.GLOBAL_STEP))
    number = re.search(r"-(\d+)$", prefix)
    return int(number.group(1)) if number else 0


def list_checkpoints(folder: str, name: str = RESULT) -> dict[int, str]:
    """Returns the prefixes of a folder's complete numbered checkpoints by step, in ascending order.

    Logs a warning about incomplete ones, which a crash may leave. `name` is the part of the file
    names before the number.
    """
    prefixes = {}
    for file in glob.glob(f"{name}-*.index", root_dir=folder):
        number = file.removesuffix(".index").removeprefix(f"{name}-")
        prefix = os.path.join(folder, f"{name}-{number}")
        if number.isdecimal():
            try:
                _check_whole(prefix)
                prefixes[int(number)] = prefix
            except UserError as e:
                _warn_once(f"{e}; ignoring this checkpoint")
    return dict(sorted(prefixes.items()))


def newest_checkpoint(folder: str) -> tuple[int, str] | None:
    """Returns step and prefix of the newest complete checkpoint to resume from, or None."""
    prefixes = list_checkpoints(folder, RESUME) | list_checkpoints(folder, RESULT)
    return max(prefixes.items(), default=None)


def best_or_newest(folder: str) -> str | None:
    """Returns the prefix of a run's best checkpoint, else of its newest; None without any."""
    best = os.path.join(folder, BEST)
    if os.path.exists(best + ".index"):
        return best
    newest = newest_checkpoint(folder)
    return newest[1] if newest else None


def point_to_newest(folder: str) -> int:
    """Points the file `checkpoint`, from which TensorFlow resumes, to the newest checkpoint.

    Ignores the file's earlier content, which may be damaged or name a checkpoint elsewhere.
    Returns the checkpoint's step, or 0 without one.
    """
    newest = newest_checkpoint(folder)
    state = os.path.join(folder, "checkpoint")
    if newest:
        _point_to(newest[1])
    elif os.path.lexists(state):
        os.remove(state)
    return newest[0] if newest else 0


def _point_to(prefix: str) -> None:
    """Writes the file `checkpoint`, unless it already has this content."""
    folder, name = os.path.split(prefix)
    path = os.path.join(folder, "checkpoint")
    content = f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n'
    if os.path.isfile(path):
        with open(path, "rb") as file:
            if file.read() == content.encode():
                return
    with open_atomically(path) as file:
        file.write(content)


def save_checkpoint(
    session: tf.Session,
    folder: str,
    name: str,
    step: int,
    write_more: Callable[[tf.Session, str], list[str]] | None = None,
) -> str:
    """Saves the session's variables as `folder/name-step` and returns that prefix.

    The checkpoint appears only when it is complete. Older `resume.ckpt-N` are then removed. If
    given, `write_more` writes further checkpoints into a folder, and returns their prefixes; they
    become part of this one.
    """
    saver = tf.get_collection(tf.GraphKeys.SAVERS)[0]
    saving, target = os.path.join(folder, SAVING), os.path.join(folder, f"{name}-{step}")
    shutil.rmtree(saving, ignore_errors=True)
    os.makedirs(saving)
    # `_point_to` writes the file `checkpoint`, with the final name.
    try:
        written = saver.save(session, os.path.join(saving, name), write_state=False)
    except tf.errors.OutOfRangeError as e:
        # A file is too large. An estimator takes this error for the end of the data.
        raise tf.errors.ResourceExhaustedError(None, None, e.message) from e
    if more := write_more(session, saving) if write_more else []:
        written = _merged(written, more, os.path.join(saving, "merged"))
    files = _files_of(written)
    for file in files:
        flush(file)
    # Remove an incomplete checkpoint with this name first, so that its index never goes with the
    # new data.
    remove_checkpoint(target)
    for file in files:
        os.replace(file, target + file[len(written) :])
    os.rmdir(saving)
    _point_to(target)
    for prefix in list_checkpoints(folder, RESUME).values():
        if prefix != target:
            remove_checkpoint(prefix)
    return target


def _merged(first: str, more: Sequence[str], target: str) -> str:
    """Merges checkpoints into one, which takes over their data files; returns its prefix."""
    with tf.Graph().as_default(), tf.Session() as session:
        merge = tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=[first, *more], destination_prefix=target, delete_old_dirs=False
        )
        session.run(merge)
    os.replace(f"{first}.meta", f"{target}.meta")
    return target


def copy_checkpoint(source: str, target: str) -> None:
    """Copies a checkpoint to another prefix; whenever the target has an index, it is complete.

    A folder of `transformers` becomes a checkpoint.
    """
    if source == target:
        return
    if os.path.isdir(source):
        write_checkpoint(target, open_folder(source).predicting())
        return
    resolve_checkpoint(source)
    remove_checkpoint(target)
    for file in _files_of(source):
        copy_atomically(file, target + file[len(source) :])


def remove_checkpoint(prefix: str) -> None:
    """Removes a checkpoint's files, the index first."""
    for file in reversed(_files_of(prefix)):
        os.remove(file)


def _files_of(prefix: str) -> list[str]:
    """Returns the files of a checkpoint, the index last; a checkpoint with an index is complete."""
    files = glob.glob(glob.escape(prefix) + ".*")
    return sorted(files, key=lambda file: (file.endswith(".index"), file))


def keep_last(folder: str, count: int) -> None:
    """Removes all numbered checkpoints of a folder except the last `count`; keeps all if 0."""
    for prefix in list(list_checkpoints(folder).values())[:-count] if count else []:
        remove_checkpoint(prefix)


def restore(
    session: tf.Session, saver: tf.train.Saver, variables: Sequence[tf.Variable], checkpoint: str
) -> None:
    """Restores a saver's variables in a session that predicts; raises the errors of `check_fits`.

    A model of `transformers` without a pooler gets one of zeros.
    """
    if not os.path.isdir(checkpoint):
        check_fits(checkpoint, load_checkpoint(checkpoint), variables)
        saver.restore(session, checkpoint)
        return
    folder = open_folder(checkpoint).predicting()
    check_fits(checkpoint, folder, variables)
    for start in range(0, len(variables), _RESTORED_AT_ONCE):
        some = variables[start : start + _RESTORED_AT_ONCE]
        values = {v.initializer.inputs[1]: folder.get_tensor(v.op.name) for v in some}
        session.run([variable.initializer for variable in some], values)


def check_fits(checkpoint: str, reader: Any, variables: Sequence[tf.Variable]) -> None:
    """Raises a `UserError` unless a checkpoint has all variables, in their shapes and finite.

    `reader` is a result of `load_checkpoint`.
    """
    shapes = reader.get_variable_to_shape_map()
    differ = [
        f"{v.op.name} {shapes.get(v.op.name, 'is missing')} (the model has {v.shape.as_list()})"
        for v in variables
        if shapes.get(v.op.name) != v.shape.as_list()
    ]
    if differ:
        raise UserError(
            f"{checkpoint} does not match the model: {len(differ)} variables differ, such as "
            f"{', '.join(differ[:3])}; was it trained for another task, or with another "
            "--albert_config_file?"
        )
    check_finite(checkpoint, reader, [v.op.name for v in variables])


def check_finite(where: str, reader: Any, names: Iterable[str]) -> None:
    """Raises a `UserError` if variables of a checkpoint are not finite or cannot be read.

    `where` is the checkpoint's path, for messages, and `reader` a result of `load_checkpoint`.
    """
    wrong = []
    for name in sorted(set(names)):
        try:
            value = reader.get_tensor(name)
        except tf.errors.OpError as e:
            raise UserError(f"{where} is damaged: {name} cannot be read: {first_line(e)}") from e
        # Values of other types are always finite.
        if value.dtype.kind == "f" and (count := np.count_nonzero(~np.isfinite(value))):
            wrong.append(f"{count} of {value.size} in {name}")
    if wrong:
        raise UserError(
            f"{where} has values that are not finite (NaN or infinite): "
            f"{listed(wrong)}; take another checkpoint"
        )


@contextlib.contextmanager
def restoring(checkpoint: str) -> Iterator[None]:
    """Converts TensorFlow's errors about a checkpoint in the `with` block to a `UserError`."""
    try:
        yield
    except _RESTORE_ERRORS as e:
        key = re.search(r"Key (\S+) not found", e.message)
        reason = f"it has no variable {key.group(1)}" if key else first_line(e)
        raise UserError(f"{checkpoint} does not match the model or is damaged: {reason}") from e
