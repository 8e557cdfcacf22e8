"""Checkpoints on disk: finding, naming and keeping them.

A checkpoint is a prefix such as `out/model.ckpt-500`, of the files `.index`, `.data-?????-of-?????`
and perhaps `.meta`. `model.ckpt-N` are the results of a training. `resume.ckpt-N`, of which there
is one at most, is where a training goes on that was stopped, or would be after a crash. A folder of
`transformers` takes the place of one where weights are only read.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import tensorflow.compat.v1 as tf

from albert.checkpoints.finite import check_finite
from albert.checkpoints.transformers_folder import (
    TransformersFolder,
    is_transformers_folder,
    open_folder,
    write_checkpoint,
)
from albert.core.errors import UserError
from albert.core.files import check_readable, content_of, copy_atomically, flush, open_atomically

BEST = "model.ckpt-best"
RESULT, RESUME = "model.ckpt", "resume.ckpt"
# By these variables of a layer it is known which model a checkpoint is of.
_LAYERS = {"ALBERT": r"/encoder/transformer/group_\d+/", "BERT": r"/encoder/layer_\d+/"}
# A folder in which a checkpoint is written before it takes its name.
SAVING = ".saving"
_RESTORE_ERRORS = (
    tf.errors.NotFoundError,
    tf.errors.DataLossError,
    tf.errors.InvalidArgumentError,
    tf.errors.OutOfRangeError,
)


def resolve_checkpoint(path: str) -> str:
    """Returns a checkpoint's prefix; `path` is one, a file of it, or a folder with one checkpoint.

    Of a folder of `transformers` it is the folder.

    Raises:
      UserError: there is none, the folder holds several, or a file of it is missing or damaged.
    """
    if is_transformers_folder(path):
        return open_folder(os.path.normpath(path)).path
    if os.path.isdir(path):
        return _only_checkpoint(path)
    prefix = re.sub(r"\.(index|meta|data-\d{5}-of-\d{5})$", "", path)
    if not os.path.exists(prefix + ".index"):
        raise UserError(f"{path}: no checkpoint there ({prefix}.index does not exist)")
    _check_whole(prefix)
    return prefix


def load_checkpoint(checkpoint: str) -> tf.train.NewCheckpointReader | TransformersFolder:
    """Returns a reader of names, shapes, types and values of a checkpoint's variables."""
    if os.path.isdir(checkpoint):
        return open_folder(checkpoint)
    return tf.train.load_checkpoint(checkpoint)


def content_of_checkpoint(checkpoint: str) -> str:
    """Returns a digest of a checkpoint's values."""
    if os.path.isdir(checkpoint):
        return open_folder(checkpoint).content()
    # The index holds a checksum of every variable.
    return content_of(checkpoint + ".index")


@contextlib.contextmanager
def as_files(checkpoint: str) -> Iterator[str]:
    """Yields the prefix of TensorFlow's files, which of a folder of `transformers` are made now."""
    if not os.path.isdir(checkpoint):
        yield checkpoint
        return
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "model.ckpt")
        try:
            write_checkpoint(prefix, open_folder(checkpoint))
        except OSError as e:
            raise UserError(f"temporary folder {folder} cannot be written: {e.strerror}") from e
        yield prefix


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
    check_readable(f"{prefix}.index", "the checkpoint's index")
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
    """Returns the `global_step` stored in a checkpoint, or the number its name ends in, or 0."""
    reader = load_checkpoint(prefix)
    if reader.has_tensor(tf.GraphKeys.GLOBAL_STEP):
        return int(reader.get_tensor(tf.GraphKeys.GLOBAL_STEP))
    number = re.search(r"-(\d+)$", prefix)
    return int(number.group(1)) if number else 0


def list_checkpoints(folder: str, name: str = RESULT) -> dict[int, str]:
    """Returns the numbered checkpoints `model.ckpt-N` of a folder that are whole.

    Of one that is not, as a crash may leave it, a warning says so.

    Args:
      folder: of the checkpoints.
      name: what comes before the number.

    Returns:
      Prefixes by step, in order.
    """
    found = {}
    for path in glob.glob(os.path.join(glob.escape(folder), f"{name}-*.index")):
        number = re.search(rf"{re.escape(name)}-(\d+)\.index$", path)
        prefix = path.removesuffix(".index")
        if number and _is_whole(prefix):
            found[int(number.group(1))] = prefix
    return dict(sorted(found.items()))


def _is_whole(prefix: str) -> bool:
    try:
        _check_whole(prefix)
    except UserError as e:
        _warn_once(f"{e}; it is left out of account")
        return False
    return True


@functools.cache
def _warn_once(message: str) -> None:
    tf.logging.warning("%s", message)


def newest_checkpoint(folder: str) -> tuple[int, str] | None:
    """Returns step and prefix of the newest whole checkpoint from which a training can go on."""
    found = list_checkpoints(folder, RESUME) | list_checkpoints(folder, RESULT)
    return max(found.items(), default=None)


def best_or_newest(folder: str) -> str | None:
    """Returns the prefix of a run's best checkpoint, or else of its newest; None if it has none."""
    best = os.path.join(folder, BEST)
    if os.path.exists(best + ".index"):
        return best
    newest = newest_checkpoint(folder)
    return newest[1] if newest else None


def point_to_newest(folder: str) -> int:
    """Makes the file `checkpoint`, which TensorFlow resumes by, name the newest checkpoint.

    What it says otherwise is not looked at: it may be damaged, or name another folder's.

    Returns:
      The step of the newest checkpoint, 0 if there is none.

    Raises:
      UserError: the file cannot be written.
    """
    newest = newest_checkpoint(folder)
    state = os.path.join(folder, "checkpoint")
    try:
        if newest:
            _point_to(newest[1])
        elif os.path.lexists(state):
            os.remove(state)
    except OSError as e:
        raise UserError(
            f"{state} cannot be written ({e.strerror}); move away what has this name"
        ) from e
    return newest[0] if newest else 0


def _point_to(prefix: str) -> None:
    """Writes the file `checkpoint`, unless it says the same already."""
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
    """Saves the session's variables as `folder/name-step`, which is there when it is whole.

    A checkpoint for resuming goes when there is a newer one of either kind.

    Args:
      session: of the variables.
      folder: of the checkpoints.
      name: what comes before the number.
      step: the number.
      write_more: writes, from a session into a folder, checkpoints of what belongs into this one,
        too, and returns their prefixes.

    Returns:
      The prefix.
    """
    saver = tf.get_collection(tf.GraphKeys.SAVERS)[0]
    saving, target = os.path.join(folder, SAVING), os.path.join(folder, f"{name}-{step}")
    shutil.rmtree(saving, ignore_errors=True)
    os.makedirs(saving)
    # The file `checkpoint` is to name it under its own name.
    written = saver.save(session, os.path.join(saving, name), write_state=False)
    if more := write_more(session, saving) if write_more else []:
        written = _merged(written, more, os.path.join(saving, "merged"))
    files = _files_of(written)
    for file in files:
        flush(file)
    # One that is not whole: its index must not vouch for what takes the place of its data.
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
    """Makes one checkpoint of several, whose data files become its own; returns its prefix."""
    with tf.Graph().as_default(), tf.Session() as session:
        merge = tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=[first, *more], destination_prefix=target, delete_old_dirs=False
        )
        session.run(merge)
    os.replace(f"{first}.meta", f"{target}.meta")
    return target


def copy_checkpoint(source: str, target: str) -> None:
    """Copies a checkpoint to another prefix; at every moment, a target with an index is whole."""
    if source == target:
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
    """Returns the files of a checkpoint, the index last: what has one is whole."""
    files = glob.glob(glob.escape(prefix) + ".*")
    return sorted(files, key=lambda file: (file.endswith(".index"), file))


def keep_last(folder: str, count: int) -> None:
    """Removes all numbered checkpoints of a folder but the last `count`; none if that is 0."""
    for prefix in list(list_checkpoints(folder).values())[:-count] if count else []:
        remove_checkpoint(prefix)


def check_fits(checkpoint: str, variables: Sequence[tf.Variable]) -> None:
    """Raises a `UserError` unless a checkpoint has all the variables, in their shapes, finite."""
    reader = load_checkpoint(checkpoint)
    shapes = reader.get_variable_to_shape_map()
    check_same_encoder(checkpoint, shapes, {v.op.name: v.shape.as_list() for v in variables})
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
    check_finite(checkpoint, reader, [v.op.name for v in variables])


def check_same_encoder(
    checkpoint: str, shapes: Mapping[str, Sequence[int]], wanted: Mapping[str, Sequence[int]]
) -> None:
    """Checks that a checkpoint can be of the encoder that the configuration says.

    Args:
      checkpoint: its path.
      shapes: of its variables, by name.
      wanted: likewise, of the model's.

    Raises:
      UserError: one of the two is an ALBERT and the other a BERT, or their vocabularies differ.
    """
    theirs, ours = _model_of(shapes), _model_of(wanted)
    if theirs and ours and theirs != ours:
        raise UserError(
            f"{checkpoint} is a checkpoint of {theirs}, --albert_config_file is of {ours}: they "
            "must be of the same model"
        )
    for name in (n for n in wanted if n in shapes and n.endswith("/word_embeddings")):
        size, needed = shapes[name][0], wanted[name][0]
        if size != needed:
            raise UserError(
                f"{checkpoint} has a vocabulary of {size} pieces, --albert_config_file a "
                f"vocab_size of {needed}: they must be of the same model"
            )


def _model_of(names: Iterable[str]) -> str | None:
    """Returns the model that variables are of; None if no layer of it is among them."""
    joined = "\n".join(names)
    return next((model for model, layer in _LAYERS.items() if re.search(layer, joined)), None)


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
