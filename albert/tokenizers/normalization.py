"""Changes that a tokenizer makes to text before it looks for pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


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
