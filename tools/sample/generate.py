"""Generates a small reading-comprehension data set about invented things, in SQuAD format.

    python -m tools.sample.generate     writes the sample of `albert demo`, sample.tar.xz

Its files are `train-v1.1.json` and `dev-v1.1.json`, and their text for pretraining, `train.txt` and
`dev.txt`, with one sentence per line. The same arguments give the same bytes on any machine and any
Python version. Each article is about an invented region, and each paragraph is about a thing there.
A random draw chooses the facts, their order and their wording, and also the questions and their
wording. `train-v2.0.json` and `dev-v2.0.json` also have the same number of questions about facts
that the text does not state.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import pathlib
import random
import tarfile
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import sentencepiece as spm

from albert.demo.demo import (
    DATA,
    DEV_FILE,
    SAMPLE,
    SPM_MODEL,
    TRAIN_FILE,
    VOCAB_SIZE,
    files_of_sample,
)
from albert.tasks.pretraining.sentencepiece_trainer import LAYOUT
from albert.tokenizers.sentencepiece_text import preprocess_text
from tools.sample import relations
from tools.sample.relations import RELATIONS, SYLLABLES, TWO_WORDS, UNITS, Relation

T = TypeVar("T")

VERSIONS = ("1.1", "2.0")
TRAIN_TEXT, DEV_TEXT = "train.txt", "dev.txt"
TRAIN_ARTICLES = 600
DEV_ARTICLES = 20
_PARAGRAPHS = 3
_QUESTIONS = 4  # per paragraph; 2.0 adds the same number of unanswerable ones
_MAX_REFERENCE_ANSWERS = 3
# Draws of a name before giving up, because then almost certainly no unused name is left.
_DRAWS = 10_000


class Fact(NamedTuple):
    """A relation with its value for a thing; all `answers` are right, the text has the first."""

    relation: Relation
    answers: tuple[str, ...]


class PortableRandom:
    """A random generator that uses only `Random.random`, whose sequence Python guarantees."""

    def __init__(self, seed: str):
        digest = hashlib.sha256(seed.encode()).digest()
        self._random = random.Random(int.from_bytes(digest[:8], "big"))

    def randrange(self, limit: int) -> int:
        """Draws an integer in [0, limit)."""
        return int(self._random.random() * limit)

    def choice(self, items: Sequence[T]) -> T:
        """Draws one of the items."""
        return items[self.randrange(len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Draws `count` different items in random order."""
        left = list(items)
        return [left.pop(self.randrange(len(left))) for _ in range(count)]


class Writer:
    """A writer of articles that never uses the same name twice."""

    def __init__(self, lot: PortableRandom, unanswerable: PortableRandom | None = None):
        """Takes the generator for what both versions share, and that for questions added in 2.0."""
        self._lot = lot
        self._unanswerable = unanswerable
        self._used: set[str] = set()

    def article(self, number: str, all_answers: bool) -> dict:
        """Writes an article; `number` begins the ids of its questions.

        With `all_answers`, questions have all reference answers, as in development files.
        """
        title = self._name()
        paragraphs = [
            self._paragraph(title, f"{number}-{p}", all_answers) for p in range(_PARAGRAPHS)
        ]
        return {"title": title, "paragraphs": paragraphs}

    def _name(self, endings: Sequence[str] = SYLLABLES) -> str:
        """Returns a name that has not been used yet; raises a `ValueError` if it finds none."""
        for _ in range(_DRAWS):
            name = self._lot.choice(SYLLABLES) + self._lot.choice(endings)
            if name not in self._used:
                self._used.add(name)
                return name.capitalize()
        raise ValueError(f"too many articles for {len(SYLLABLES) * len(endings)} names")

    def _value(self, value_type: str) -> tuple[str, ...]:
        """Draws a value of a type: the wording in the text, and other right answers."""
        lot = self._lot
        if value_type == "year":
            return (str(1100 + lot.randrange(900)),)
        if value_type in UNITS:
            number = str(3 + lot.randrange(300))
            return f"{number} {lot.choice(UNITS[value_type])}", number
        if value_type in TWO_WORDS:
            first, second = (lot.choice(words) for words in TWO_WORDS[value_type])
            return f"{first} {second}", second
        if value_type == "place":
            before, name = lot.choice(relations.SETTLEMENTS), self._name(relations.TOWN_ENDINGS)
        else:
            before = lot.choice(("", "", *relations.TITLES))
            first = lot.choice(relations.FIRST_NAMES)
            name = f"{first} {self._name(relations.FAMILY_ENDINGS)}"
        return (before + name, name) if before else (name,)

    def _paragraph(self, region: str, number: str, all_answers: bool) -> dict:
        lot = self._lot
        noun = lot.choice(relations.NOUNS)
        name = self._name()
        thing = lot.choice((f"the {name} {noun}", name))
        told = [
            Fact(r, self._value(r.value_type)) for r in lot.sample(RELATIONS, 4 + lot.randrange(2))
        ]
        sentences = [*self._sentences(told, thing, noun), self._aside(thing)]
        sentences = lot.sample(sentences, len(sentences))
        sentences.insert(0, f"{region} has a {noun} called {name}.")
        context = " ".join(sentences)
        questions = [
            self._question(fact, thing, context, f"{number}-{q}", all_answers)
            for q, fact in enumerate(lot.sample(told, _QUESTIONS))
        ]
        if self._unanswerable:
            questions = [{**question, "is_impossible": False} for question in questions]
            questions += self._untold_questions(self._unanswerable, told, thing, context, number)
        return {"context": context, "qas": questions}

    def _untold_questions(
        self, lot: PortableRandom, told: list[Fact], thing: str, context: str, number: str
    ) -> list[dict]:
        """Asks for facts that the text lacks; a value of the same type is a plausible answer."""
        answers_by_type = {f.relation.value_type: f.answers[0] for f in told}
        untold = [r for r in RELATIONS if r not in {f.relation for f in told}]
        questions = []
        for q, relation in enumerate(lot.sample(untold, _QUESTIONS)):
            plausible = answers_by_type.get(relation.value_type)
            questions.append(
                {
                    "id": f"sample-{number}-none{q}",
                    "question": lot.choice(relation.questions).format(e=thing),
                    "answers": [],
                    "plausible_answers": [
                        {"text": text, "answer_start": context.index(text)}
                        for text in filter(None, [plausible])
                    ],
                    "is_impossible": True,
                }
            )
        return questions

    def _sentences(self, facts: list[Fact], thing: str, noun: str) -> list[str]:
        """Combines the facts into sentences with two or three facts each."""
        sentences, left = [], list(facts)
        while left:
            size = {2: 2, 3: 3, 4: 2}.get(len(left)) or 2 + self._lot.randrange(2)
            group, left = left[:size], left[size:]
            clauses = [self._lot.choice(f.relation.clauses).format(v=f.answers[0]) for f in group]
            pattern = self._lot.choice(relations.PAIRS if size == 2 else relations.TRIPLES)
            subject = self._lot.choice((thing, f"the {noun}", f"this {noun}"))
            words = dict(zip("abc", clauses, strict=False))
            text = pattern.format(s=subject, t=subject, **words)
            sentences.append(text[0].upper() + text[1:])
        return sentences

    def _aside(self, thing: str) -> str:
        """Writes a sentence that has words of two questions but answers neither."""
        topics = [
            self._lot.choice(r.topics).format(e=thing) for r in self._lot.sample(RELATIONS, 2)
        ]
        return self._lot.choice(relations.ASIDES).format(x=topics[0], y=topics[1])

    def _question(
        self, fact: Fact, thing: str, context: str, number: str, all_answers: bool
    ) -> dict:
        text = self._lot.choice(fact.relation.questions).format(e=thing)
        start = context.index(fact.answers[0])
        answers = [
            {"text": answer, "answer_start": start + fact.answers[0].index(answer)}
            for answer in fact.answers[: _MAX_REFERENCE_ANSWERS if all_answers else 1]
        ]
        return {"id": f"sample-{number}", "question": text, "answers": answers}


def generate(
    seed: int,
    train_articles: int = TRAIN_ARTICLES,
    dev_articles: int = DEV_ARTICLES,
    version: str = "1.1",
) -> tuple[dict, dict]:
    """Returns the training and the development file as JSON objects, which share no names.

    Both versions have the same paragraphs, and 2.0 has all questions of 1.1.
    """
    writer = Writer(
        PortableRandom(f"sample {seed}"),
        PortableRandom(f"sample {seed} unanswerable") if version == "2.0" else None,
    )
    files = []
    for split, count in (("train", train_articles), ("dev", dev_articles)):
        data = [writer.article(f"{seed}-{split}-{i}", split == "dev") for i in range(count)]
        files.append({"version": "v2.0" if version == "2.0" else "1.1", "data": data})
    return files[0], files[1]


def text_of(file: dict) -> str:
    """Returns the paragraphs as text: one sentence per line, a blank line after each paragraph."""
    paragraphs = (p["context"] for article in file["data"] for p in article["paragraphs"])
    return "".join(paragraph.replace(". ", ".\n") + "\n\n" for paragraph in paragraphs)


def contents(
    seed: int, train_articles: int = TRAIN_ARTICLES, dev_articles: int = DEV_ARTICLES
) -> dict[str, str]:
    """Returns the files of a sample by name; raises a `ValueError` if there are too few names."""
    texts = dict[str, str]()
    for version in VERSIONS:
        train, dev = generate(seed, train_articles, dev_articles, version)
        texts[TRAIN_FILE.format(version)] = json.dumps(train) + "\n"
        texts[DEV_FILE.format(version)] = json.dumps(dev) + "\n"
    return {**texts, TRAIN_TEXT: text_of(train), DEV_TEXT: text_of(dev)}


def write_sample(folder: str, seed: int, train_articles: int, dev_articles: int) -> None:
    """Writes SQuAD 1.1, SQuAD 2.0 and text to a folder; raises as `contents`."""
    os.makedirs(folder, exist_ok=True)
    for name, text in contents(seed, train_articles, dev_articles).items():
        pathlib.Path(folder, name).write_text(text, encoding="utf-8")


def sentencepiece_of(train: dict) -> bytes:
    """Returns a SentencePiece model of the texts and questions of a file."""
    model = io.BytesIO()
    paragraphs = (p for article in train["data"] for p in article["paragraphs"])
    texts = (t for p in paragraphs for t in (p["context"], *(q["question"] for q in p["qas"])))
    spm.SentencePieceTrainer.train(
        sentence_iterator=(preprocess_text(text, lower=True) for text in texts),
        model_writer=model,
        vocab_size=VOCAB_SIZE,
        **LAYOUT,
        num_threads=1,
        minloglevel=1,
    )
    return model.getvalue()


def main() -> None:
    """Writes the sample of the demo, unless it has the same articles already.

    To make its SentencePiece model again, delete it first.
    """
    files = {f"{DATA}/{name}": text.encode() for name, text in contents(seed=1).items()}
    # Other versions of SentencePiece and xz may make other bytes.
    if os.path.exists(SAMPLE) and files.items() <= files_of_sample().items():
        return
    files[SPM_MODEL] = sentencepiece_of(json.loads(files[f"{DATA}/{TRAIN_FILE.format('1.1')}"]))
    with tarfile.open(SAMPLE, "w:xz", preset=9 | lzma.PRESET_EXTREME) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


if __name__ == "__main__":
    main()
