"""Model configurations: limits of sizes, and conversion from and to `transformers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from albert.core.errors import UserError

FAMILIES = ("albert", "bert")
SIZES = (
    *("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_hidden_groups"),
    *("num_attention_heads", "intermediate_size", "inner_group_num"),
    *("max_position_embeddings", "type_vocab_size"),
)
# Limits far above the sizes of any model, and low enough that a graph is built in minutes and that
# TensorFlow can count the elements of every variable.
_LARGEST, _MOST_BLOCKS = 2**24, 1000
# `gelu` is the tanh form in Google's code, and the erf form in `transformers`.
_ACTIVATIONS = {
    "gelu": "gelu_new",
    "gelu_erf": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
_OTHER_NAMES = {"gelu_pytorch_tanh": "gelu", "gelu_fast": "gelu", "gelu_python": "gelu_erf"}
_EPSILON = 1e-12
# Keys of `transformers` that do not describe the model.
_NOT_OURS = {"architectures", "dtype", "model_type", "torch_dtype", "transformers_version"}
_NOT_OURS |= {"layer_norm_eps", "position_embedding_type", "is_decoder"}
_OF_ALBERT = ("embedding_size", "num_hidden_groups", "inner_group_num")


def check_sizes(values: Mapping[str, Any]) -> None:
    """Raises a `UserError` that names an invalid size; missing ones have defaults and are valid."""
    for name in SIZES:
        value = values.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _LARGEST:
            raise UserError(
                f"{name} must be a positive integer of {_LARGEST} at most, not {value!r}"
            )
    groups = values.get("num_hidden_groups", 1)
    layers, inner = values.get("num_hidden_layers", groups), values.get("inner_group_num", 1)
    if groups > layers:
        raise UserError(f"num_hidden_groups {groups} is more than num_hidden_layers {layers}")
    if layers * inner > _MOST_BLOCKS:
        raise UserError(
            f"num_hidden_layers {layers} times inner_group_num {inner} must be {_MOST_BLOCKS} at "
            "most"
        )


def config_from_theirs(config: Mapping) -> dict:
    """Converts a configuration of `transformers`; raises a `UserError` if it is not supported."""
    family = family_of(config)
    if family not in FAMILIES:
        raise UserError(
            f"unsupported model_type {family!r}; supported: {', '.join(FAMILIES)}, the networks of "
            "Google's papers; other networks have other layers or tokenizers"
        )
    # A BERT of `transformers` does not look at the keys of an ALBERT.
    others = _NOT_OURS | {*(_OF_ALBERT if family == "bert" else ())}
    values = {name: value for name, value in config.items() if name not in others}
    activation = config.get("hidden_act", "gelu_new" if family == "albert" else "gelu")
    ours = {theirs: ours for ours, theirs in _ACTIVATIONS.items()} | _OTHER_NAMES
    if not isinstance(activation, str) or activation not in ours:
        raise UserError(f"unsupported hidden_act {activation!r}; supported: {', '.join(ours)}")
    return values | {"hidden_act": ours[activation]}


def family_of(config: Mapping) -> str:
    """Returns the family of a configuration of `transformers`; early ones have no model_type."""
    named = str(config.get("architectures") or "").strip("[]'").lower()
    named_family = next((family for family in FAMILIES if named.startswith(family)), "")
    keys_family = "albert" if any(key in config for key in _OF_ALBERT) else "bert"
    return config.get("model_type", named_family or keys_family)


def config_to_theirs(family: str, config: Mapping) -> dict:
    """Converts a configuration of this project to the format of `transformers`."""
    activation = (config.get("hidden_act") or "linear").lower()
    return {
        "model_type": family,
        **{name: value for name, value in config.items() if name != "down_scale_factor"},
        "hidden_act": _ACTIVATIONS[activation],
        "layer_norm_eps": _EPSILON,
    }
