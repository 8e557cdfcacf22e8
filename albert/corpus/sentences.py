"""Splitting of text into sentences with sentencex, Wikimedia's library for that."""

from __future__ import annotations

import re

from albert.core.errors import FlagError

# A longer sentence is cut. In characters, so at most 16 KiB of UTF-8; a model reads 512 tokens.
LONGEST_SENTENCE = 4096
_CODE = re.compile(r"[a-z]{2,3}(-[a-z]+)*")
_END_OF_PARAGRAPH = re.compile(r"\n\s*\n")


def check_language(language: str) -> None:
    """Raises a `FlagError` if a language is no code: sentencex would split it as English."""
    if not _CODE.fullmatch(language):
        raise FlagError(f"--language {language!r} is not a code in small letters, such as en or de")


def split_sentences(text: str, language: str) -> tuple[list[str], int]:
    """Returns the sentences of a text, none of them empty, and how many longer ones were cut.

    A blank line ends a sentence; any other white space, such as the end of a line, is a space. No
    character is lost except white space.
    """
    from sentencex import segment

    sentences, cut = [], 0
    for paragraph in _END_OF_PARAGRAPH.split(text):
        # sentencex fails at some kinds of white space, and wants only spaces.
        rest = " ".join(paragraph.split())
        while rest:
            # In windows: the time of sentencex is quadratic for text that has no spaces.
            window = rest[:LONGEST_SENTENCE]
            complete = segment(language, window)
            if len(window) < len(rest):
                if len(complete) > 1:
                    # The last one may continue.
                    complete.pop()
                else:
                    complete = [window[: window.rfind(" ") + 1] or window]
                    cut += 1
            sentences += complete
            rest = rest[sum(map(len, complete)) :]
    stripped = (sentence.strip() for sentence in sentences)
    return [sentence for sentence in stripped if sentence], cut
