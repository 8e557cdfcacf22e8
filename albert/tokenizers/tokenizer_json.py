"""The file `tokenizer.json` of the library `tokenizers`.

It has a WordPiece vocabulary or a SentencePiece unigram model, and how the text is normalized.
"""

from __future__ import annotations

import base64
import collections
import functools
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from albert.core.errors import UserError
from albert.core.files import parse_json, read_bytes

# Types of pieces in the protocol buffer `ModelProto` of SentencePiece.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
_UNIGRAM = 1


# A program that opens a model parses its file several times.
@functools.lru_cache(maxsize=1)
def parse_tokenizer(content: bytes, path: str) -> dict[str, Any] | None:
    """Parses a tokenizer; returns None if the content is something else.

    Raises a `UserError` if it is invalid, or neither WordPiece nor Unigram.
    """
    if content[:1] != b"{" or content.rstrip()[-1:] != b"}":
        return None
    tokenizer = parse_json(content, path)
    if not isinstance(model := tokenizer.get("model"), dict):
        return None
    kind = model.get("type")
    if "type" not in model and "merges" not in model:
        # As files of 2020, which have no type.
        vocab = model.get("vocab")
        kind = "Unigram" if isinstance(vocab, list) else "WordPiece"
        model["type"] = kind
    if kind not in ("WordPiece", "Unigram"):
        raise UserError(
            f"{path} has a tokenizer of the type {kind}; ALBERT and BERT have WordPiece or Unigram"
        )
    return tokenizer


def is_unigram(content: Mapping[str, Any]) -> bool:
    """Returns whether a tokenizer has a SentencePiece model instead of a vocabulary."""
    return content["model"]["type"] == "Unigram"


def vocabulary_of(content: Mapping[str, Any], path: str) -> collections.OrderedDict[str, int]:
    """Returns the WordPiece vocabulary in the order of ids; raises a `UserError` if it has none."""
    ids = None if is_unigram(content) else content["model"].get("vocab")
    if not isinstance(ids, dict) or not all(isinstance(number, int) for number in ids.values()):
        raise UserError(
            f"{path} has no vocabulary of WordPiece; pass a Unigram model with --spm_model_file"
        )
    pieces = sorted(ids.items(), key=lambda pair: pair[1])
    if [number for _, number in pieces] != list(range(len(pieces))):
        raise UserError(f"{path}: the ids of the pieces are not 0, 1, 2 and so on")
    return collections.OrderedDict(pieces)


def sentencepiece_model_of(content: Mapping[str, Any], path: str) -> bytes:
    """Returns the unigram model as SentencePiece serializes it; raises a `UserError` if it cannot.

    The numbers of the fields are those of SentencePiece's `sentencepiece_model.proto`.
    """
    model = content["model"]
    try:
        if not is_unigram(content):
            raise TypeError
        added = {one["id"]: one["special"] for one in content.get("added_tokens", ())}
        unknown, pieces = model["unk_id"], list[bytes]()
        for number, (piece, score) in enumerate(model["vocab"]):
            kind = _NORMAL
            if number in added:
                kind = _CONTROL if added[number] else _USER_DEFINED
            kind = _UNKNOWN if number == unknown else kind
            fields = (1, piece.encode()), (2, float(score)), (3, kind)
            pieces.append(_field(1, b"".join(_field(*field) for field in fields)))
        steps = _steps(content, "normalizer")
        charsmap = [s["precompiled_charsmap"] for s in steps if s["type"] == "Precompiled"]
        normalizer = b"".join(_field(2, base64.b64decode(one)) for one in charsmap)
    except (KeyError, TypeError, ValueError) as e:
        raise UserError(
            f"{path} has no SentencePiece model of the type Unigram; pass a WordPiece tokenizer "
            "with --vocab_file"
        ) from e
    return b"".join(pieces) + _field(2, _field(3, _UNIGRAM)) + _field(3, normalizer)


def native_content(path: str) -> bytes:
    """Reads a vocabulary or model in its usual format; raises a `UserError` if it is invalid."""
    tokenizer = parse_tokenizer(content := read_bytes(path), path)
    if tokenizer is None:
        return content
    if is_unigram(tokenizer):
        return sentencepiece_model_of(tokenizer, path)
    return "".join(f"{piece}\n" for piece in vocabulary_of(tokenizer, path)).encode()


def settings_of(content: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Returns how a tokenizer changes text: fields of `Normalization` and of `TextRules`.

    Raises a `UserError` for steps with which this project would make other tokens.
    """
    normalizers, splits = _steps(content, "normalizer"), _steps(content, "pre_tokenizer")
    kinds, model = [one["type"] for one in normalizers], content["model"]
    expected: dict[str, Any] = {"continuing_subword_prefix": "##", "unk_token": "[UNK]"}
    if is_unigram(content):
        expected = {"byte_fallback": False}
        _check(path, "pre_tokenizer", [one["type"] for one in splits], _SPLITS_OF_UNIGRAM)
        for step in splits:
            _check(path, "replacement", step.get("replacement", "▁"), ["▁"])
            _check(path, "prepend_scheme", step.get("prepend_scheme", "always"), ["always"])
            _check(path, "add_prefix_space", step.get("add_prefix_space", True), [True])
        rest = [one for one in normalizers if one["type"] not in _STEPS_OF_UNIGRAM]
        replaced = [one.get("content") for one in rest if one["type"] == "Replace"]
        _check(path, "normalizer", [one["type"] for one in rest], [["Replace"] * len(replaced)])
        _check(path, "replacements", all(one in _REPLACED for one in replaced), [True])
        _check(path, "NFKD", kinds.count("NFKD"), [kinds.count("StripAccents")])
        settings = {"do_lower_case": "Lowercase" in kinds, "keep_accents": "NFKD" not in kinds}
        settings["quotes"] = '"' in replaced
    else:
        _check(path, "normalizer", kinds, [["BertNormalizer"]])
        _check(path, "pre_tokenizer", [one["type"] for one in splits], [["BertPreTokenizer"]])
        step = {ours: normalizers[0].get(theirs, True) for theirs, ours in _OF_NORMALIZER.items()}
        step["strip_accents"] = normalizers[0].get("strip_accents")
        for name, value in step.items():
            _check(path, name, value, [True, False, None] if "accents" in name else [True, False])
        longest = model.get("max_input_chars_per_word", 100)
        _check(path, "max_input_chars_per_word", type(longest), [int])
        settings = {**step, "longest_word": longest}
    for name, value in expected.items():
        _check(path, name, model.get(name, value), [value])
    _check(path, "post_processor", _template_of(content), [_TEMPLATE])
    return settings


# The steps of BERT's normalizer, and of ALBERT's, which has others between them.
_OF_NORMALIZER = {
    "lowercase": "do_lower_case",
    "handle_chinese_chars": "tokenize_chinese_chars",
    "clean_text": "cleans",
}
_STEPS_OF_UNIGRAM = ("NFKD", "StripAccents", "Lowercase", "Precompiled")
_SPLITS_OF_UNIGRAM = [["Metaspace"], ["WhitespaceSplit", "Metaspace"]]
_REPLACED = ('"', " ")
_TEMPLATE = "[CLS]:0 A:0 [SEP]:0 B:1 [SEP]:1"


def _check(path: str, name: str, value: object, allowed: Sequence[object]) -> None:
    if not any(value == one and type(value) is type(one) for one in allowed):
        raise UserError(
            f"{path} has the {name} {value!r:.80}, not {allowed[0]!r}, with which this project "
            "would make other tokens than those of the model's training"
        )


def _steps(content: Mapping[str, Any], part: str) -> list[Mapping[str, Any]]:
    """Returns the steps of a normalizer or pre-tokenizer, which may be a sequence."""
    one: Any = content.get(part)
    several = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers"}[part]
    steps: Any = [one] if one else []
    if isinstance(one, dict) and one.get("type") == "Sequence":
        steps = one.get(several)
    if not isinstance(steps, list) or not all(isinstance(s, dict) and "type" in s for s in steps):
        raise UserError(f"{part} of the tokenizer is {one!r:.80}, not an object with a type")
    return steps


def _template_of(content: Mapping[str, Any]) -> object:
    """Returns a pair of texts A and B with special tokens and segments, as text."""
    processor, vocab = content.get("post_processor") or {}, content["model"].get("vocab")
    try:
        if processor["type"] == "BertProcessing":
            (cls, first), (sep, last) = processor["cls"], processor["sep"]
            ids, text = {cls: [first], sep: [last]}, f"{cls}:0 A:0 {sep}:0 B:1 {sep}:1"
        else:
            single, pair = ([*map(_part, processor[name])] for name in ("single", "pair"))
            ids = {name: one["ids"] for name, one in processor["special_tokens"].items()}
            text = " ".join(pair) if pair[:3] == single else ""
        is_known = is_unigram(content) or all(ids[name] == [vocab[name]] for name in ids)
        return text if text and is_known else processor
    except (KeyError, TypeError, AttributeError, ValueError):
        return processor


def _part(one: Mapping[str, Mapping[str, Any]]) -> str:
    (value,) = one.values()
    return f"{value['id']}:{value['type_id']}"


def _field(number: int, value: bytes | float | int) -> bytes:
    """Returns a field of a protocol buffer; https://protobuf.dev/programming-guides/encoding."""
    if isinstance(value, bytes):
        return _varint(number << 3 | 2) + _varint(len(value)) + value
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    return _varint(number << 3) + _varint(value)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes((*encoded, number))
