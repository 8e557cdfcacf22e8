"""The file `tokenizer.json` of the library `tokenizers`.

It has a WordPiece vocabulary or a SentencePiece unigram model, and how the text is normalized.
"""

from __future__ import annotations

import base64
import collections
import functools
import struct
from collections.abc import Mapping
from typing import Any

from albert.core.errors import UserError
from albert.core.files import parse_json, read_bytes
from albert.tokenizers.normalization import Normalization

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
        charsmap = [one["precompiled_charsmap"] for one in _steps(content, "Precompiled")]
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


def normalization_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of `Normalization` that the tokenizer has; empty without a normalizer."""
    if is_unigram(content):
        return {
            "do_lower_case": bool(_steps(content, "Lowercase")),
            "keep_accents": not _steps(content, "StripAccents"),
        }
    names = {"do_lower_case": "lowercase", "tokenize_chinese_chars": "handle_chinese_chars"}
    steps = _steps(content, "BertNormalizer")
    named = ((name, names.get(name, name)) for name in Normalization._fields)
    return {name: one[theirs] for one in steps for name, theirs in named if theirs in one}


def _steps(content: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    """Returns the steps of the normalizer that have a type."""
    normalizer = content.get("normalizer") or {}
    return [one for one in normalizer.get("normalizers", [normalizer]) if one.get("type") == kind]


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
