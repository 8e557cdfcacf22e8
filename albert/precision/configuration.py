"""The list of operations in low precision: a JSON file in the format of Habana's models.

Three lists name operation types, such as `MatMul`, and exceptions name single nodes of a graph.
`albert.precision.rules` explains the lists. `bf16_config/` has the lists of this project.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import pathlib
import re
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from albert.core.errors import FlagError, UserError, see_help
from albert.core.files import packaged, read_json, resource

VARIABLE = "TF_BF16_CONVERSION"
DEPRECATED_VARIABLE = "TF_ENABLE_BF16_CONVERSION"
_FOLDER = pathlib.Path(resource("bf16_config"))
SHIPPED, SHIPPED_FOR_BERT = str(_FOLDER / "albert.json"), str(_FOLDER / "bert.json")
_PAGE = "docs/memory-and-speed.md"
LISTS = ("allowlist", "conditional_list", "strict_conditional_list")
EXCEPTIONS = ("non_convertible_exceptions", "convertible_exceptions")
_KEYS = (*LISTS, *EXCEPTIONS)
# Values of the variable that select no list.
_NONE = ("", "0", "false")
# In float16, only the encoder and its gradients, because the heads' scores of padding, -1e30, are
# below float16's smallest number.
_NOT_IN_ENCODER = r"(?!bert/|gradients/(bert/|AddN)).*"
_BASIC = {
    "allowlist": ["BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "MatMul"],
    "non_convertible_exceptions": [[".*KEEP_FP32_PRECISION.*", ""]],
    "convertible_exceptions": [[".*FORCE_BF16_PRECISION.*", ""]],
}
# Prefixes of the op types of Habana's bridge and of Horovod, which a list may name without these
# libraries being loaded, and of TensorFlow's internal op types.
_UNCHECKED = ("Habana", "Hpu", "PyramidRoiAlign", "Horovod", "_")
_warn_once = functools.cache(tf.logging.warning)


class NodePattern(NamedTuple):
    """The nodes of an exception: those whose whole name matches, of the type `op` ("" for any)."""

    name: re.Pattern
    op: str

    def matches(self, name: str, op: str) -> bool:
        """Returns whether the exception applies to a node with this name and type."""
        return self.op in ("", op) and self.name.fullmatch(name) is not None


class PrecisionConfig(NamedTuple):
    """The content of a configuration file; `source` is its path, or "basic".

    `dtype` is the type of the converted operations, bfloat16 or float16.
    """

    source: str
    allowlist: frozenset[str] = frozenset()
    conditional_list: frozenset[str] = frozenset()
    strict_conditional_list: frozenset[str] = frozenset()
    non_convertible_exceptions: tuple[NodePattern, ...] = ()
    convertible_exceptions: tuple[NodePattern, ...] = ()
    dtype: tf.DType = tf.bfloat16

    def digest(self) -> str:
        """Returns a hash of the configuration's content, without its path."""
        lists = [sorted(getattr(self, key)) for key in LISTS]
        patterns = [[(p.name.pattern, p.op) for p in getattr(self, key)] for key in EXCEPTIONS]
        content = json.dumps([lists, patterns])
        return "sha256:" + hashlib.sha256(content.encode()).hexdigest()[:16]


def chosen(precision: str | None = None, shipped: str = SHIPPED) -> PrecisionConfig | None:
    """Returns the configuration that --precision and the environment choose; None for float32.

    `shipped` is the path of the model's list, for "bfloat16" without the variable and for
    "float16". Raises a `FlagError` if the flag and the variable contradict each other.
    """
    value = os.environ.get(VARIABLE, "")
    names_list = value.lower() not in _NONE
    if names_list and precision in ("float32", "float16"):
        raise FlagError(
            f"--precision={precision} contradicts {VARIABLE}={value}, which selects bfloat16; "
            "unset the variable, or remove the flag"
        )
    if precision in ("bfloat16", "float16") and not names_list:
        value = "1"
    elif DEPRECATED_VARIABLE in os.environ:
        _warn_once(
            f"{DEPRECATED_VARIABLE} is deprecated and has no effect; set {VARIABLE}=1, or to the "
            "path of a JSON file"
        )
    config = load(value, shipped)
    if config and precision == "float16":
        return in_encoder(config)._replace(dtype=tf.float16)
    return config


def in_encoder(config: PrecisionConfig) -> PrecisionConfig:
    """Returns a configuration that converts only the encoder and its gradients, not the heads."""
    pattern = NodePattern(re.compile(_NOT_IN_ENCODER), "")
    kept = (*config.non_convertible_exceptions, pattern)
    return config._replace(non_convertible_exceptions=kept)


@functools.cache
def load(value: str | None, shipped: str = SHIPPED) -> PrecisionConfig | None:
    """Loads the configuration for a value of `TF_BF16_CONVERSION`, once.

    The value is "0", "false", "" or None for none; "1", "true" or "full" for `shipped`, the path of
    the model's list; "basic" for matrix products only; otherwise the path of a JSON file. Raises a
    `UserError` if the file cannot be read or is not valid.
    """
    word = (value or "").lower()
    if word in _NONE:
        return None
    if word == "basic":
        return from_dict(_BASIC, "basic")
    path = packaged(value) if value and word not in ("1", "true", "full") else shipped
    if not os.path.exists(path):
        raise UserError(f"{VARIABLE}={value} is not 0, 1, full, basic or an existing JSON file")
    return from_dict(read_json(path, f"{VARIABLE}:", lambda p: _without_repeats(p, path)), path)


def _without_repeats(pairs: list[tuple[str, Any]], path: str) -> dict:
    """Returns a JSON object; raises a `UserError` if it has a key twice."""
    keys = [key for key, _ in pairs]
    if repeated := [key for key in keys if keys.count(key) > 1]:
        raise UserError(f"{path}: duplicate key {repeated[0]!r}; merge the two entries")
    return dict(pairs)


def from_dict(content: Any, source: str) -> PrecisionConfig:
    """Checks a configuration and returns it; missing lists are empty, and unknown op types warn."""
    if not isinstance(content, dict):
        raise UserError(f"{source}: must be a JSON object with the keys {', '.join(_KEYS)}")
    for key in content:
        if key not in _KEYS:
            raise UserError(f"{source}: unknown key {key!r}{see_help(key, _KEYS, _PAGE)}")
    lists = {key: _op_types(content.get(key, []), key, source) for key in LISTS}
    for first, second in itertools.combinations(LISTS, 2):
        for op in sorted(lists[first] & lists[second]):
            raise UserError(f"{source}: {op} is in {first} and in {second}; keep it in one")
    patterns = {key: _patterns(content.get(key, []), key, source) for key in EXCEPTIONS}
    named = set().union(*lists.values(), *({p.op for p in ps} for ps in patterns.values()))
    known = dir(tf.raw_ops)
    for op in sorted(named - {""}):
        if op not in known and not op.startswith(_UNCHECKED):
            advice = see_help(op, known, _PAGE)
            tf.logging.warning("%s: TensorFlow has no op type %r%s", source, op, advice)
    allowed, conditional, strict = lists.values()
    in_float32, in_bfloat16 = patterns.values()
    return PrecisionConfig(source, allowed, conditional, strict, in_float32, in_bfloat16)


def _op_types(entries: Any, key: str, source: str) -> frozenset[str]:
    if not isinstance(entries, list) or not all(isinstance(e, str) and e for e in entries):
        raise UserError(f'{source}: {key} must be a list of op types, such as ["MatMul"]')
    return frozenset(entries)


def _patterns(entries: Any, key: str, source: str) -> tuple[NodePattern, ...]:
    patterns = []
    for number, entry in enumerate(entries if isinstance(entries, list) else [entries], 1):
        where = f"{source}: {key}, entry {number}"
        is_pair = isinstance(entry, list) and len(entry) == 2
        if not is_pair or not all(isinstance(text, str) for text in entry):
            raise UserError(
                f"{where}: {json.dumps(entry)} is not a pair of a regular expression for names and "
                'an op type ("" for any)'
            )
        try:
            patterns.append(NodePattern(re.compile(entry[0]), entry[1]))
        except (re.error, OverflowError) as e:
            raise UserError(f"{where}: {entry[0]!r} is not a regular expression: {e}") from e
    return tuple(patterns)
