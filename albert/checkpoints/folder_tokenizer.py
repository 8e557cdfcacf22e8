"""The tokenizer in a folder of `transformers`: how it changes text, and its added tokens."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from albert.checkpoints.folder_contract import (
    ADDED_TOKENS,
    CONFIG,
    SPECIAL_TOKENS,
    TOKENIZER,
    TOKENIZER_JSON,
    checked,
    read_checked,
)
from albert.checkpoints.transformers_folder import is_transformers_folder
from albert.core.errors import UserError
from albert.core.files import read_bytes, read_object
from albert.tokenizers.text_rules import AddedToken, Normalization, TextRules
from albert.tokenizers.tokenizer_json import is_unigram, parse_tokenizer, settings_of

# The classes with the code of BERT, of ALBERT, and of any tokenizer.json.
_BERT = ("BertTokenizer", "ElectraTokenizer")
# The second name for any tokenizer.json is that of transformers 5.
_ALBERT, _ANY = "AlbertTokenizer", ("PreTrainedTokenizerFast", "TokenizersBackend")
_DEFAULTS = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}
_SPECIAL = ("[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]", "<unk>", "<pad>")


def tokenizer_settings(path: str) -> dict[str, Any]:
    """Returns the fields of `Normalization` that a folder's tokenizer has; empty if it has none.

    Raises a `UserError` for settings with which this project would make other tokens.
    """
    saved = dict[str, Any]()
    for name in (SPECIAL_TOKENS, TOKENIZER):
        saved |= read_checked(os.path.join(path, name), name, "the tokenizer's configuration")
    file, settings, tokens = os.path.join(path, TOKENIZER_JSON), dict[str, Any](), list[Any]()
    kind = _kind(path, saved)
    if os.path.exists(file) and (tokenizer := parse_tokenizer(read_bytes(file), file)):
        settings = settings_of(checked(tokenizer, TOKENIZER_JSON, file), file)
        tokens += tokenizer.get("added_tokens") or []
        if kind in _BERT and not is_unigram(tokenizer) and "lowercase" in tokenizer["normalizer"]:
            # This class sets the steps, with its own defaults for what the configuration lacks.
            set_again = {n: saved.get(n, default) for n, default in _DEFAULTS.items()}
            is_changed = not set_again.items() <= settings.items()
            if is_changed and any(token.get("normalized") for token in tokens):
                raise UserError(
                    f"{path}: {TOKENIZER} contradicts the normalizer of {TOKENIZER_JSON}, which "
                    "has added tokens to normalize; save the tokenizer again with transformers"
                )
            settings |= set_again
    else:
        settings = {n: saved[n] for n in Normalization._fields if n in saved}
    if not is_transformers_folder(path) and "added_tokens_decoder" not in saved:
        return settings
    names = [name for name in TextRules._fields if name in settings]
    extra = {name: settings.pop(name) for name in names}
    rules = TextRules(list(_added(path, saved, tokens)), **extra)
    return {**settings, "tokenizer_rules": rules.recorded()}


def _kind(path: str, saved: Mapping[str, Any]) -> str:
    """Returns the class of the tokenizer, or that of the family; refuses those of other models."""
    config = os.path.join(path, CONFIG)
    named = saved.get("tokenizer_class")
    if named is None and is_transformers_folder(path):
        named = read_checked(config, CONFIG, "the configuration").get("tokenizer_class")
    kind = named if named in (None, *_ANY) else named.removesuffix("Fast")
    if kind not in (None, _ALBERT, *_ANY, *_BERT):
        raise UserError(
            f"{path}: its tokenizer is a {named}, not a {_BERT[0]} or {_ALBERT}, with which this "
            "project would make other tokens than those of the model's training"
        )
    return kind or _BERT[0]


def _added(path: str, saved: Mapping[str, Any], first: list[Any]) -> Iterator[AddedToken]:
    """Yields the added tokens of a folder's files; of equal ones, the first one counts."""
    special = [saved[name] for name in saved if name.endswith("_token")]
    for name in ("additional_special_tokens", "extra_special_tokens"):
        several = saved.get(name, [])
        special += several.values() if isinstance(several, Mapping) else several
    contents = [one["content"] if isinstance(one, Mapping) else one for one in special]
    tokens = list(first)
    if decoder := saved.get("added_tokens_decoder"):
        tokens += [{**decoder[number], "id": int(number)} for number in sorted(decoder, key=int)]
    elif os.path.exists(file := os.path.join(path, ADDED_TOKENS)):
        ids = read_object(file, "the added tokens")
        if not all(isinstance(number, int) for number in ids.values()):
            raise UserError(f"{file} must have an id for each token")
        tokens += [
            {"content": content, "id": ids[content], "normalized": content not in contents}
            for content in sorted(ids, key=ids.__getitem__)
        ]
    tokens += [{**one, "id": None} if isinstance(one, Mapping) else one for one in special]
    seen = set[str]()
    for one in [*tokens, *_SPECIAL]:
        is_mask_of_albert = one == "[MASK]" and _ALBERT in str(saved.get("tokenizer_class"))
        token = (
            AddedToken.of(one)
            if isinstance(one, Mapping)
            else AddedToken(one, lstrip=is_mask_of_albert)
        )
        if token.content not in seen:
            seen.add(token.content)
            yield token
