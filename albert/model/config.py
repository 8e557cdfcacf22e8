"""Configurations of the encoders, which their JSON files store."""

from __future__ import annotations

import copy
import dataclasses
import glob
import json
import math
import os
from collections.abc import Callable
from typing import Any, TypeVar

from albert.checkpoints.configurations import SIZES, check_sizes, config_from_theirs
from albert.checkpoints.folder_contract import CONFIG, checked
from albert.core.errors import UserError
from albert.core.files import read_object
from albert.model.layers import get_activation

# Keys that identify the kind of model. An ALBERT configuration has at least one of the first, which
# BERT lacks; a BERT configuration has all of the second.
_ALBERT_KEYS = ("embedding_size", "num_hidden_groups", "inner_group_num")
_BERT_KEYS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
)
_AnyConfig = TypeVar("_AnyConfig", bound="_Config")


class _Config:
    """What the configurations of both encoders can do; the values are those of the subclasses.

    Attributes have the names of the keys in the JSON file. Keys that this project does not use are
    kept, so `to_dict` returns all values that were read.
    """

    _MODEL = "an encoder"

    @classmethod
    def from_dict(cls: type[_AnyConfig], json_object: dict) -> _AnyConfig:
        """Makes a configuration of these values; raises a `UserError` for the name of a method."""
        for key in json_object:
            if hasattr(_Config, key) or isinstance(getattr(cls, key, None), property):
                raise UserError(f"{key!r} cannot be the name of a value; remove it")
        make: Any = cls
        config: _AnyConfig = make(vocab_size=None)
        config.__dict__.update(json_object)
        return config

    @classmethod
    def from_json_file(cls: type[_AnyConfig], json_file: str) -> _AnyConfig:
        """Reads this kind of configuration; raises a `UserError` if it is not a valid one."""
        config = read_config(json_file, cls)
        if not isinstance(config, cls):
            raise UserError(
                f"{json_file} is a configuration of {config._MODEL}, but one of {cls._MODEL} is "
                "needed"
            )
        return config

    def validate(self) -> None:
        """Raises a `UserError` that names the first value with which no model can be built."""
        own: Any = self
        check_sizes({name: getattr(own, name) for name in SIZES})
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            value = getattr(own, name)
            if not isinstance(value, int | float) or not 0 <= value < 1:
                raise UserError(f"{name} must be a number from 0 to below 1, not {value!r}")
        if own.hidden_size % own.num_attention_heads:
            raise UserError(
                f"hidden_size {own.hidden_size} is not a multiple of "
                f"num_attention_heads {own.num_attention_heads}"
            )
        deviation, act = own.initializer_range, own.hidden_act
        if not isinstance(deviation, int | float) or not 0 < deviation < math.inf:
            raise UserError(f"initializer_range must be positive and finite, not {deviation!r}")
        if not (act is None or isinstance(act, str) or callable(act)):
            raise UserError(f"hidden_act must be a name or a function, not {act!r}")
        get_activation(act)

    def to_dict(self) -> dict:
        """Returns all values as a dictionary."""
        return copy.deepcopy(self.__dict__)

    def forward_values(self) -> dict:
        """Returns the values that the forward pass depends on, by name."""
        return {name: vars(self)[name] for name in (*SIZES, "hidden_act") if name in vars(self)}

    def to_json_string(self) -> str:
        """Returns all values as indented JSON with sorted keys."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"


@dataclasses.dataclass(eq=False)
class AlbertConfig(_Config):
    """The configuration of an `AlbertModel`; the defaults are those of ALBERT-xxlarge v1.

    Attributes:
      embedding_size: width E of the embedding tables.
      hidden_size: width H of the encoder; a multiple of `num_attention_heads`.
      num_hidden_layers: number of times that a transformer layer is applied.
      num_hidden_groups: number of sets of weights that the layers share.
      intermediate_size: width I of the feed-forward layer.
      inner_group_num: attention and feed-forward blocks in a layer.
      down_scale_factor: kept for compatibility; not used, here or in the reference.
      hidden_act: name of the activation; see `get_activation`.
      hidden_dropout_prob: dropout rate of embeddings and dense outputs.
      max_position_embeddings: length of the longest sequence.
      type_vocab_size: number of segment ids.
      initializer_range: standard deviation of the weights' truncated normal initializer.
    """

    _MODEL = "ALBERT"

    vocab_size: int
    embedding_size: int = 128
    hidden_size: int = 4096
    num_hidden_layers: int = 12
    num_hidden_groups: int = 1
    num_attention_heads: int = 64
    intermediate_size: int = 16384
    inner_group_num: int = 1
    down_scale_factor: int = 1
    hidden_act: str | Callable | None = "gelu"
    hidden_dropout_prob: float = 0
    attention_probs_dropout_prob: float = 0
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02


@dataclasses.dataclass(eq=False)
class BertConfig(_Config):
    """The configuration of a `BertModel`; the defaults are those of Google's code.

    Every layer has its own weights, and the embeddings are as wide as the encoder. The attributes
    are those of `AlbertConfig`.
    """

    _MODEL = "BERT"

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str | Callable | None = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 16
    initializer_range: float = 0.02

    @property
    def embedding_size(self) -> int:
        """Returns the width E of the embedding tables."""
        return self.hidden_size

    @property
    def num_hidden_groups(self) -> int:
        """Returns the number of sets of weights that the layers have."""
        return self.num_hidden_layers

    @property
    def inner_group_num(self) -> int:
        """Returns the number of attention and feed-forward blocks in a layer."""
        return 1


EncoderConfig = AlbertConfig | BertConfig


def read_config(json_file: str, default: type | None = None) -> EncoderConfig:
    """Reads a configuration of ALBERT or BERT; raises a `UserError` if it is not a valid one.

    `default` is the class of one that has the keys of neither.
    """
    values = read_object(json_file, "the model's configuration")
    kind: Any = default
    # Only configurations of `transformers` have this key, or weights of theirs next to them.
    is_theirs = "model_type" in values or (
        json_file.endswith(CONFIG)
        and glob.glob("model*.safetensors", root_dir=os.path.dirname(json_file) or ".")
    )
    try:
        if is_theirs:
            values = config_from_theirs(checked(values, CONFIG, json_file))
        if any(key in values for key in _ALBERT_KEYS):
            kind = AlbertConfig
        elif all(key in values for key in _BERT_KEYS):
            kind = BertConfig
        if kind:
            config = kind.from_dict(values)
            config.validate()
            return config
    except UserError as e:
        where = f"{json_file}: "
        raise UserError(where + str(e).removeprefix(where)) from e
    missing = ", ".join(key for key in _BERT_KEYS if key not in values)
    raise UserError(
        f"{json_file} is not a configuration of ALBERT, which has {_ALBERT_KEYS[0]} or "
        f"{_ALBERT_KEYS[1]}, nor of BERT: {missing} {'is' if ',' not in missing else 'are'} missing"
    )
