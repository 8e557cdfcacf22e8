"""Exact match and F1 for other languages than English, by the rules of their data sets.

The rules are those of mlqa_evaluation_v1.py of MLQA (https://github.com/facebookresearch/MLQA), of
evaluate-v1.0.py of KorQuAD 1.0 (https://korquad.github.io), and of DRCD as its authors describe
them (https://github.com/DRCKnowledgeTeam/DRCD/issues/6).
"""

from __future__ import annotations

import functools
import re
import string
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

from albert.core.errors import FlagError
from albert.tasks.squad.scoring import Scorer, overlap_f1

_NOTHING = "(?!)"
_ASCII = frozenset(string.punctuation)


def _is_punctuation(character: str) -> bool:
    return character in _ASCII or unicodedata.category(character).startswith("P")


class Rules(NamedTuple):
    """How texts are normalized before they are compared; the patterns are regular expressions.

    Attributes:
      is_removed: whether a character of the text in lower case is removed.
      blanks: what becomes a blank before that.
      articles: what becomes a blank after that.
      words: what a blank then separates from its neighbors.
      units: returns what F1 counts in a normalized text.
    """

    is_removed: Callable[[str], bool]
    blanks: str = _NOTHING
    articles: str = _NOTHING
    words: str = r"\S+"
    units: Callable[[str], Sequence[str]] = str.split

    def normalize(self, text: str) -> str:
        """Returns a normalized text; equal ones match exactly."""
        text = re.sub(self.blanks, " ", text).lower()
        text = "".join(character for character in text if not self.is_removed(character))
        return " ".join(re.findall(self.words, re.sub(self.articles, " ", text)))


_ARTICLES = {
    # MLQA removes the Arabic article in the middle of words, too.
    "ar": "ال",
    "de": r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "en": r"\b(a|an|the)\b",
    "es": r"\b(un|una|unos|unas|el|la|los|las)\b",
    "hi": _NOTHING,
    "vi": r"\b(của|là|cái|chiếc|những)\b",
    "zh": _NOTHING,
}
# In MLQA, Chinese characters are words.
_WORDS = {"zh": "[\u4e00-\u9fa5]|[^\\s\u4e00-\u9fa5]+"}
_KORQUAD = Rules(
    _ASCII.__contains__, blanks="['\"《》<>〈〉()‘’]", units=lambda text: text.replace(" ", "")
)
# In DRCD, a blank counts, too.
_DRCD = Rules((_ASCII | {*"《》？，。、；："}).__contains__, articles=_ARTICLES["en"], units=str)
# By metric and language; None is for a call without --language.
RULES: dict[str, dict[str | None, Rules]] = {
    "character": {None: _KORQUAD, "ko": _KORQUAD, "zh": _DRCD},
    "mlqa": {
        language: Rules(_is_punctuation, articles=articles, words=_WORDS.get(language, r"\S+"))
        for language, articles in _ARTICLES.items()
    },
}


def scorer_of(metric: str, language: str | None) -> Callable[[], Scorer]:
    """Returns the maker of scorers for --metric and --language; raises a `FlagError` if none."""
    if metric not in RULES:
        if language:
            raise FlagError(f"--language is for --metric={' and '.join(RULES)}; remove it")
        return Scorer
    if language not in RULES[metric]:
        languages = ", ".join(filter(None, RULES[metric]))
        raise FlagError(f"--metric={metric} needs --language, one of {languages}; not {language}")
    rules = RULES[metric][language]
    normalize = functools.lru_cache(maxsize=64)(rules.normalize)
    return functools.partial(
        Scorer,
        lambda *texts: len({*map(normalize, texts)}) == 1,
        lambda *texts: overlap_f1(*(rules.units(normalize(text)) for text in texts)),
    )
