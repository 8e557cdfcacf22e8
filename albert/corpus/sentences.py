"""Splitting of text into sentences with sentencex, Wikimedia's library for that."""

from __future__ import annotations

import re

from albert.core.optional import optional

# A longer sentence is cut. In characters, so at most 16 KiB of UTF-8; a model reads 512 tokens.
LONGEST_SENTENCE = 4096
_END_OF_PARAGRAPH = re.compile(r"\n\s*\n")


def check_installed() -> None:
    """Raises a `UserError` if sentencex is not installed."""
    _segment()


def split_sentences(text: str, language: str) -> tuple[list[str], int]:
    """Splits a text into sentences.

    A blank line ends a sentence; any other white space, such as the end of a line, is a space. No
    character is lost except white space.

    Args:
      text: the text.
      language: the language, such as "en"; for one that sentencex does not know, it uses general
        rules.

    Returns:
      The sentences, none of which is empty; and how many longer ones were cut.
    """
    segment, sentences, cut = _segment(), [], 0
    for paragraph in _END_OF_PARAGRAPH.split(text):
        # sentencex fails at some kinds of white space, and wants only spaces.
        rest = " ".join(paragraph.split())
        while rest:
            # In windows: the time of sentencex is quadratic for text that has no spaces.
            window = rest[:LONGEST_SENTENCE]
            found = segment(language, window)
            if len(window) < len(rest):
                if len(found) > 1:
                    # The last one may continue.
                    found.pop()
                else:
                    found = [window[: window.rfind(" ") + 1] or window]
                    cut += 1
            sentences += found
            rest = rest[sum(map(len, found)) :]
    stripped = (sentence.strip() for sentence in sentences)
    return [sentence for sentence in stripped if sentence], cut


def _segment():
    with optional("sentencex"):
        from sentencex import segment
    return segment
