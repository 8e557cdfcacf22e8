"""Makes a SQuAD file of any size from a smaller one, without repeating a paragraph.

Every copy of the paragraphs replaces some long words by others of the same length. So answers stay
at their offsets, and new words keep occurring, as in real text.
"""

from __future__ import annotations

import json
import random
import re
import string
import zlib
from collections.abc import Iterator

_VOWELS = "aeiou"
_CONSONANTS = "".join(sorted(set(string.ascii_lowercase) - set(_VOWELS)))
_LONG_WORD = re.compile(r"[A-Za-z]{5,}")
# One of this many long words is changed.
_ONE_IN = 8


def write_questions(source: str, path: str, count: int) -> None:
    """Writes a file of at least `count` questions, and at most one copy more.

    Args:
      source: the smaller file, of SQuAD 1.1 or 2.0.
      path: the file to write.
      count: the number of questions.
    """
    with open(source, encoding="utf-8") as file:
        original = json.load(file)
    paragraphs = _different([p for article in original["data"] for p in article["paragraphs"]])
    articles, left = [], count
    for number, copied in enumerate(_copies(paragraphs)):
        articles.append({"title": str(number), "paragraphs": copied})
        left -= sum(len(paragraph["qas"]) for paragraph in copied)
        if left <= 0:
            break
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"version": original["version"], "data": articles}, file)


def _different(paragraphs: list[dict]) -> list[dict]:
    """Returns the paragraphs without repeated questions, and without repeated paragraphs."""
    contexts = {p["context"]: p for p in paragraphs if _LONG_WORD.search(p["context"])}
    asked: set[str] = set()
    different = []
    for paragraph in contexts.values():
        new = {q["question"]: q for q in paragraph["qas"] if q["question"] not in asked}
        asked |= new.keys()
        different.append({**paragraph, "qas": list(new.values())})
    return different


def _copies(paragraphs: list[dict]) -> Iterator[list[dict]]:
    """Yields the copies; the first is the original."""
    yield paragraphs
    draw, number = random.Random(0), 0
    while True:
        number += 1
        table = _table(draw)
        yield [_copy(paragraph, table, number) for paragraph in paragraphs]


def _table(draw: random.Random) -> dict[int, str]:
    """Returns a replacement for every letter; vowels replace vowels."""
    old, new = _VOWELS + _CONSONANTS, ""
    for letters in (_VOWELS, _CONSONANTS):
        new += "".join(draw.sample(letters, len(letters)))
    return str.maketrans(old + old.upper(), new + new.upper())


def _copy(paragraph: dict, table: dict[int, str], number: int) -> dict:
    context = _altered(paragraph["context"], table, number)
    copied = []
    for question in paragraph["qas"]:
        answers = [
            {**answer, "text": context[start : start + len(answer["text"])]}
            for answer in question["answers"]
            if (start := answer["answer_start"]) >= 0
        ]
        text = f"{_altered(question['question'], table, number)} ({number})"
        changed = {"id": f"{question['id']}-{number}", "question": text, "answers": answers}
        copied.append({**question, **changed})
    return {**paragraph, "context": context, "qas": copied}


def _altered(text: str, table: dict[int, str], number: int) -> str:
    """Changes some words of a text, the longest among them."""
    longest = max(_LONG_WORD.findall(text), key=len, default="")

    def change(found: re.Match) -> str:
        word = found[0]
        chosen = zlib.crc32(f"{word} {number}".encode()) % _ONE_IN == 0
        return word.translate(table) if chosen or word == longest else word

    return _LONG_WORD.sub(change, text)
