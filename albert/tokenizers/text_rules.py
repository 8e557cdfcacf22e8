"""Changes that a tokenizer makes to text before it looks for pieces.

Those of `transformers` have rules that Google's code does not have:
https://github.com/huggingface/tokenizers, in `added_vocabulary.rs` and `bert.rs`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from unicodedata import category

from albert.core.errors import UserError

# The most characters of a word that WordPiece splits, in Google's code and in `transformers`.
LONGEST_WORD, _LONGEST_WORD = 200, 100
# Unicode's white space: not all that `str.split` takes for it.
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008"
WHITE_SPACE += "\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


class Normalization(NamedTuple):
    """How a tokenizer changes text, with the names of the flags and of `tokenizer_config.json`.

    Attributes:
      do_lower_case: whether to lower-case text.
      strip_accents: whether WordPiece removes combining marks; None to do so if it lower-cases.
      keep_accents: whether SentencePiece keeps characters as they are; otherwise it replaces them
        with their NFKD form without combining marks.
      tokenize_chinese_chars: whether WordPiece makes every Chinese character a word.
      tokenizer_rules: what a tokenizer of `transformers` does otherwise, see `TextRules`; "" for
        the rules of Google's code.
    """

    do_lower_case: bool = True
    strip_accents: bool | None = None
    keep_accents: bool = False
    tokenize_chinese_chars: bool = True
    tokenizer_rules: str = ""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Normalization:
        """Takes the fields that `values` has; the others have their defaults."""
        given = cls(**{name: values[name] for name in cls._fields if name in values})
        if given.strip_accents == given.do_lower_case:
            return given._replace(strip_accents=None)
        return given

    def recorded(self) -> dict[str, Any]:
        """Returns the values for the description of a model; defaults are omitted.

        `do_lower_case` is always there, as in earlier versions, which had no other value.
        """
        return {
            name: value
            for name, value in self._asdict().items()
            if name == "do_lower_case" or value != self._field_defaults[name]
        }


class AddedToken(NamedTuple):
    """A token that is found in a text before the text is split.

    Attributes:
      id: None for the id of the piece in the vocabulary.
      lstrip, rstrip: whether the token includes the white space before or after it.
      single_word: whether it is only found between characters that are not part of a word.
      normalized: whether it is found in the normalized text, in its normalized form.
    """

    content: str
    id: int | None = None
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> AddedToken:
        """Takes the fields that `values` has."""
        return cls(**{name: values[name] for name in cls._fields if name in values})


class TextRules(NamedTuple):
    """The rules of a tokenizer of `transformers`.

    Attributes:
      cleans, longest_word: for WordPiece: whether controls are removed, and the most characters of
        a word that is split.
      quotes: for SentencePiece: whether "``" and "''" become a quotation mark.
    """

    added: Sequence[AddedToken]
    cleans: bool = True
    longest_word: int = _LONGEST_WORD
    quotes: bool = True

    def recorded(self) -> str:
        """Returns the value of --tokenizer_rules."""
        defaults = AddedToken._field_defaults
        tokens = [
            {n: v for n, v in token._asdict().items() if n == "content" or v != defaults[n]}
            for token in self.added
        ]
        others = {n: v for n, v in self._asdict().items() if v != self._field_defaults.get(n, v)}
        return json.dumps({"added": tokens, **others})

    @classmethod
    @functools.cache
    def parse(cls, value: str) -> TextRules | None:
        """Reads a value of `recorded`; returns None for an empty one, the rules of Google's code.

        Raises a `UserError` for another value.
        """
        if not value:
            return None
        try:
            values = json.loads(value)
            rules = cls(**{**values, "added": tuple(map(AddedToken.of, values["added"]))})
            if not all(isinstance(token.content, str) and token.content for token in rules.added):
                raise TypeError
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise UserError(
                f"--tokenizer_rules={value:.80} is not what a folder of transformers has; pass "
                "its folder as --model instead"
            ) from e
        return rules

    def ids_in(self, vocab: Mapping[str, int], where: str) -> dict[str, int]:
        """Returns the ids of the added tokens; raises a `UserError` if they contradict."""
        ids = dict(vocab)
        for token in self.added:
            # `transformers` would give others a new id, for which the model has no row.
            if token.id is not None and ids.setdefault(token.content, len(ids)) != token.id:
                raise UserError(
                    f"{where}: the token {token.content!r} has the id {token.id} among the added "
                    f"tokens, not {ids[token.content]}, which follows from the vocabulary; use the "
                    "files of one model"
                )
        return {t.content: ids[t.content] for t in self.added if t.content in ids}


class AddedTokens:
    """Finds tokens in texts; `normalize` returns the normalized form of a character."""

    def __init__(
        self, rules: TextRules | None, ids: Mapping[str, int], normalize: Callable[[str], str]
    ):
        self._normalize = normalize
        tokens = rules.added if rules else ()
        added = [t._replace(id=ids[t.content]) for t in tokens if t.content in ids]
        self._kept = {token.content: token for token in added if not token.normalized}
        self._starts = {content[0] for content in self._kept}
        changed = ((self._changed(token.content)[0], token) for token in added if token.normalized)
        self._changing = {content: token for content, token in changed if content}

    def split(self, text: str) -> Iterator[tuple[int, int, int | None]]:
        """Yields the parts of a text: start, end, and a token's id, or None for other text."""
        # Faster than a search, and true for most texts.
        has_none = not any(map(text.__contains__, self._starts))
        for start, end, number in _find({} if has_none else self._kept, text):
            if number is not None or not self._changing:
                yield start, end, number
                continue
            part, origin = self._changed(text[start:end])
            parts = list(_find(self._changing, part))
            # Characters that normalization removes belong to the part before them, as do those
            # whose last part is the white space of a token.
            origin.append(end - start)
            cuts = [first for first, _, _ in parts[1:]]
            cuts = [c + (part[c] == " " and origin[c - 1] == origin[c]) for c in cuts]
            bounds = [0, *map(origin.__getitem__, cuts), end - start]
            for (_, _, one), first, last in zip(parts, bounds, bounds[1:], strict=False):
                yield start + first, start + last, one

    def _changed(self, text: str) -> tuple[str, list[int]]:
        """Returns the normalized text, and the position in `text` of each character."""
        parts = list(map(self._normalize, text))
        return "".join(parts), [i for i, part in enumerate(parts) for _ in part]


def _find(tokens: Mapping[str, AddedToken], text: str) -> Iterator[tuple[int, int, int | None]]:
    done = 0
    for match in _pattern(tuple(tokens)).finditer(text) if tokens else ():
        token, (start, end) = tokens[match[0]], match.span()
        around = text[max(start - 1, 0) : start] + text[end : end + 1]
        if token.single_word and any(c == "_" or category(c)[0] in "LMN" for c in around):
            continue
        if token.lstrip:
            start = max(len(text[:start].rstrip(WHITE_SPACE)), done)
        if token.rstrip:
            end = len(text) - len(text[end:].lstrip(WHITE_SPACE))
        if done < start:
            yield done, start, None
        yield start, end, token.id
        done = end
    if done < len(text):
        yield done, len(text), None


@functools.lru_cache(maxsize=8)
def _pattern(contents: tuple[str, ...]) -> re.Pattern[str]:
    """Returns a pattern that finds the longest of the tokens at a position."""
    return re.compile("|".join(map(re.escape, sorted(contents, key=len, reverse=True))))
