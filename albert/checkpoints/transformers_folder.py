"""Reads a model folder of Hugging Face's `transformers` like a TensorFlow checkpoint.

It has `config.json`, and either `model.safetensors` or several files of weights with an index.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import glob
import hashlib
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import safetensors
import tensorflow.compat.v1 as tf

from albert.checkpoints import transformers_names as names
from albert.checkpoints.configurations import check_sizes, config_from_theirs, family_of
from albert.checkpoints.folder_contract import CONFIG, read_checked
from albert.core.errors import UserError
from albert.core.files import MOST_OF_POINTER, read_bytes, read_json, sha256_of
from albert.core.text import listed

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
# The key of the training step in the metadata of `WEIGHTS`.
STEP = tf.GraphKeys.GLOBAL_STEP
# The types of weights that float32 represents exactly.
_DTYPES = ("F32", "F16", "BF16")
_PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt")
_LOAD = "load it in transformers with {} and call save_pretrained"
# What a folder may have instead, by pattern, and what to do.
_OTHERS = {
    "adapter_config.json": "merge the adapter with its base model (merge_and_unload in peft) and "
    "save that model",
    "checkpoint-*": "pass {}",
    "snapshots/*": "pass {}",
    "0_*/config.json": "load the folder in sentence-transformers and save it again",
    "tf_model.h5": _LOAD.format("from_tf=True"),
    "flax_model.msgpack": _LOAD.format("from_flax=True"),
    "rust_model.ot": "pass the folder of the model that it was converted from",
    "*.gguf": "pass the folder of the model that it was converted from",
    "**/*.onnx": "pass the folder of the model that it was converted from",
}
# Endings of names in old files, variables without use here, and copies of other variables.
_OLD_ENDS = {".gamma": ".weight", ".beta": ".bias"}
_NOT_NEEDED = ("embeddings.position_ids", "embeddings.token_type_ids")
_COPIES = {
    "predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "predictions.decoder.bias": "predictions.bias",
}


class _Tensor(NamedTuple):
    """The file of a tensor, and its name and shape in that file."""

    file: str
    name: str
    shape: tuple[int, ...]


def is_transformers_folder(path: str) -> bool:
    """Returns whether a path is a folder of `transformers`, complete or not."""
    named = (CONFIG, WEIGHTS, INDEX, "pytorch_model.bin")
    is_named = any(os.path.isfile(os.path.join(path, name)) for name in named)
    return is_named and not glob.glob("*.index", root_dir=path)


class TransformersFolder:
    """The weights in a folder, with the methods of TensorFlow's checkpoint reader.

    Attributes:
      config: configuration of the model in this project's format.
      family: "albert" or "bert".
      parts: parts of the model in the folder, such as `transformers_names.SQUAD_V1`.
    """

    def __init__(self, path: str):
        """Reads the configuration, and the names and shapes of the variables.

        Raises a `UserError` if there are no weights that can be read without running code, or they
        belong to another family, or are damaged or incomplete.
        """
        self.path = path
        theirs = read_checked(os.path.join(path, CONFIG), CONFIG, "the configuration")
        try:
            self.config, self.family = config_from_theirs(theirs), family_of(theirs)
            # Before `pairs_of`, because the sizes determine the number of variables.
            check_sizes(self.config)
            pairs = names.pairs_of(self.family, self.config)
        except UserError as e:
            raise UserError(f"{path}/{CONFIG}: {e}") from e
        except KeyError as e:
            raise UserError(f"{path}/{CONFIG} has no {e.args[0]}") from e
        # The classifiers for texts and for tokens have the same names.
        is_of_tokens = "TokenClassification" in str(theirs.get("architectures"))
        del pairs[names.CLASSIFIER if is_of_tokens else names.TOKENS]
        self._files = [os.path.join(path, name) for name in _files_of(path)]
        self._step: np.int64 | None = None
        self._tensors = self._find()
        self._drop_copies()
        # The layer after the embeddings, an identity that this project omits.
        mapping = []
        if self.family == "albert" and self.config["embedding_size"] == self.config["hidden_size"]:
            mapping = [p for p in names.mapping_in(self.config) if p.theirs in self._tensors]
        shapes = {name: tensor.shape for name, tensor in self._tensors.items()}
        expected = {**pairs, names.ENCODER: mapping + pairs[names.ENCODER]}
        self.parts = names.parts_in(expected, shapes, path, theirs=True)
        for pair in mapping:
            value = self._read(pair.theirs)
            if np.any(value != (np.eye(len(value)) if pair.is_transposed else 0)):
                raise UserError(
                    f"{path}: {pair.theirs} is not an identity; models whose embedding_size "
                    "equals their hidden_size have no such layer in this project"
                )
        self._pairs = {pair.ours: pair for part in self.parts for pair in pairs[part]}
        self._shapes: dict[str, list[int]] = {}
        for name, pair in self._pairs.items():
            shape = list(shapes[pair.theirs])
            self._shapes[name] = shape[::-1] if pair.is_transposed else shape
        # A graph that does not use its pooler can have one of zeros.
        self._unused = {pair.ours: list(pair.shape) for pair in pairs[names.POOLER]}
        if names.WITHOUT_POOLER & {*self.parts}:
            self._shapes |= self._unused
        self._shapes |= {} if self._step is None else {STEP: []}

    def _find(self) -> dict[str, _Tensor]:
        """Returns every tensor by its current name in a model with a head."""
        tensors = {}
        for path in self._files:
            with _reading(path) as file:
                # The metadata of other programs may have anything under this name.
                step = (file.metadata() or {}).get(STEP, "")
                if re.fullmatch("[0-9]{1,18}", step):
                    self._step = np.int64(step)
                for name in file.keys():  # noqa: SIM118  It is not a dictionary.
                    tensor = file.get_slice(name)
                    if name.endswith(_NOT_NEEDED):
                        continue
                    if (dtype := tensor.get_dtype()) not in _DTYPES:
                        raise UserError(
                            f"{path}: {name} is {dtype}, not one of {', '.join(_DTYPES)}; load the "
                            "model in transformers with dtype=torch.float32 and save it again"
                        )
                    end = next((end for end in _OLD_ENDS if name.endswith(end)), "")
                    new = name.removesuffix(end) + _OLD_ENDS.get(end, "")
                    # torch.compile adds this.
                    new = new.replace("_orig_mod.", "")
                    tensors[new] = _Tensor(path, name, tuple(tensor.get_shape()))
        prefix = f"{self.family}."
        if any(name.startswith(prefix) for name in tensors):
            return tensors
        # Those of an encoder without a head lack the prefix.
        beginnings = ("embeddings.", "encoder.", "pooler.")
        return {prefix * name.startswith(beginnings) + name: tensors[name] for name in tensors}

    def _drop_copies(self) -> None:
        for own, original in _COPIES.items():
            for name in [name for name in self._tensors if name.endswith(own)]:
                begin = f"{self.family}." if "embeddings" in original else name.removesuffix(own)
                if begin + original not in self._tensors:
                    continue
                both = self._read(name), self._read(begin + original)
                if not np.array_equal(*both, equal_nan=True):
                    raise UserError(
                        f"{self.path}: {name} differs from {begin}{original}; in this project they "
                        "are one variable"
                    )
                del self._tensors[name]

    def _read(self, theirs: str) -> np.ndarray:
        path, name, _ = self._tensors[theirs]
        with _reading(path) as file:
            return file.get_tensor(name).astype(np.float32, copy=False)

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Returns the shapes of all variables, by their names in this project."""
        return {**self._shapes}

    def predicting(self) -> TransformersFolder:
        """Returns the folder with a pooler of zeros if it has none, for graphs without its use."""
        folder = copy.copy(self)
        folder._shapes = {**self._shapes, **self._unused}
        return folder

    def get_variable_to_dtype_map(self) -> dict[str, tf.DType]:
        """Returns the types of all variables, by their names in this project."""
        return {name: tf.int64 if name == STEP else tf.float32 for name in self._shapes}

    def get_tensor(self, name: str) -> np.ndarray:
        """Reads and returns the value of a variable."""
        if name == STEP:
            return np.asarray(self._step)
        if name not in self._pairs:
            return np.zeros(self._shapes[name], np.float32)
        pair = self._pairs[name]
        value = self._read(pair.theirs)
        return np.ascontiguousarray(value.T) if pair.is_transposed else value

    def initialize(self, variable: tf.Variable, name: str) -> None:
        """Initializes a graph's variable as the session begins, like `init_from_checkpoint`."""
        getter = functools.partial(self.get_tensor, name)
        with tf.device("/cpu:0"):
            value = tf.numpy_function(getter, [], variable.dtype.base_dtype)
        value.set_shape(variable.shape)
        set_initial_value(variable, value)

    def content(self) -> str:
        """Returns a digest of the weights."""
        digests = "".join(map(sha256_of, self._files))
        return "sha256:" + hashlib.sha256(digests.encode()).hexdigest()[:16]


def set_initial_value(variable: tf.Variable, value: tf.Tensor) -> None:
    """Replaces the initial value of a graph's variable."""
    # TensorFlow has no public function for this.
    variable._initializer_op = variable.assign(value, read_value=False)
    variable._initial_value = value


def open_folder(path: str) -> TransformersFolder:
    """Returns the folder at a path: the same object as long as its files do not change."""
    path = os.path.normpath(path)
    files = [f for f in os.scandir(path) if f.name.endswith((".json", ".safetensors"))]
    state = sorted((f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in files)
    return _opened(path, tuple(state))


@functools.cache
def _opened(path: str, state: tuple) -> TransformersFolder:
    return TransformersFolder(path)


def _files_of(path: str) -> list[str]:
    """Returns the names of the files with weights that can be read without running code."""
    if os.path.isfile(os.path.join(path, WEIGHTS)):
        return [WEIGHTS]
    index = os.path.join(path, INDEX)
    if os.path.isfile(index):
        content = read_json(index, "the index of the weights")
        try:
            files = sorted(set(map(str, content["weight_map"].values())))
        except (KeyError, TypeError, AttributeError) as e:
            raise UserError(f"{index} is damaged: it has no weight_map") from e
        if outside := [name for name in files if os.path.basename(name) != name]:
            raise UserError(f"{index} names {outside[0]}, which is not in its folder")
        missing = [name for name in files if not os.path.isfile(os.path.join(path, name))]
        if missing:
            raise UserError(f"{path} lacks {listed(missing)}, which {INDEX} lists")
        return files
    if pickles := [name for one in _PICKLES for name in glob.glob(one, root_dir=path)]:
        raise UserError(
            f"refusing to load the pickle {os.path.join(path, pickles[0])}, because unpickling can "
            f"run arbitrary code; write {WEIGHTS} with transformers: save_pretrained(..., "
            "safe_serialization=True)"
        )
    raise UserError("; ".join(filter(None, (f"{path} has no {WEIGHTS}", other_files(path)))))


def other_files(path: str) -> str:
    """Names what a folder has instead of weights that can be read, and what to do; "" if none."""
    for pattern, remedy in _OTHERS.items():
        if paths := sorted(glob.glob(pattern, root_dir=path, recursive=True)):
            return f"found {paths[-1]}: {remedy.format(os.path.join(path, paths[-1]))}"
    return ""


@contextlib.contextmanager
def _reading(path: str) -> Iterator[safetensors.safe_open]:
    try:
        with safetensors.safe_open(path, framework="np") as file:
            yield file
    except (OSError, safetensors.SafetensorError) as e:
        if os.path.isfile(path) and os.path.getsize(path) < MOST_OF_POINTER:
            read_bytes(path)
        raise UserError(f"{path} is damaged or cannot be read: {e}") from e
