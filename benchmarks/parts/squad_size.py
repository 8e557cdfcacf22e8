"""Makes a SQuAD file of any size from another one, without repeating a paragraph.

Every copy of the paragraphs replaces some long words by others of the same length. So answers stay
at their offsets, and new words keep occurring, as in real text.
"""

import json
import random
import re
import string
import zlib

_VOWELS = "aeiou"
_CONSONANTS = "".join(sorted(set(string.ascii_lowercase) - set(_VOWELS)))
_LONG_WORD = re.compile(r"[A-Za-z]{5,}")
# One of this many long words is changed.
_ONE_IN = 8


def write_questions(source: str, path: str, count: int) -> None:
    """Writes a file of at least `count` questions, and at most one copy of `source` more."""
    with open(source, encoding="utf-8") as file:
        content = json.load(file)
    paragraphs = _different([p for article in content["data"] for p in article["paragraphs"]])
    of_copy, draw = sum(len(p["qas"]) for p in paragraphs), random.Random(0)
    articles = [{"title": "0", "paragraphs": paragraphs}]
    for number in range(1, -(-count // of_copy)):
        table = _table(draw)
        copied = [_copy(paragraph, table, number) for paragraph in paragraphs]
        articles.append({"title": str(number), "paragraphs": copied})
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"version": content["version"], "data": articles}, file)


def _different(paragraphs: list[dict]) -> list[dict]:
    """Returns the paragraphs without repeated questions, and without repeated paragraphs."""
    contexts = {p["context"]: p for p in paragraphs if _LONG_WORD.search(p["context"])}
    seen: set[str] = set()
    different = []
    for paragraph in contexts.values():
        new = {q["question"]: q for q in paragraph["qas"] if q["question"] not in seen}
        seen |= new.keys()
        different.append({**paragraph, "qas": list(new.values())})
    return different


def _table(draw: random.Random) -> dict[int, str]:
    """Returns a replacement for every letter; vowels replace vowels."""
    old = _VOWELS + _CONSONANTS
    new = "".join("".join(draw.sample(letters, len(letters))) for letters in (_VOWELS, _CONSONANTS))
    return str.maketrans(old + old.upper(), new + new.upper())


def _copy(paragraph: dict, table: dict[int, str], number: int) -> dict:
    context, copied = _altered(paragraph["context"], table, number), []
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

    def change(match: re.Match) -> str:
        word = match[0]
        is_drawn = zlib.crc32(f"{word} {number}".encode()) % _ONE_IN == 0
        return word.translate(table) if is_drawn or word == longest else word

    return _LONG_WORD.sub(change, text)
