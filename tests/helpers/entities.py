"""A made-up language with entities: persons of one word and places of two words."""

import json
import pathlib
import random
from collections.abc import Sequence

from albert.report.spans import Span
from albert.tasks.entities.annotations import spans_of_tags

# Words of one piece each.
OTHERS, PERSONS, FIRSTS, SECONDS = "nrlscm", "eg", "bp", "ta"


def sentences(seed: int, count: int) -> list[list[tuple[str, str]]]:
    """Returns sentences as tokens with their tags in BIO."""
    rng, made = random.Random(seed), []
    for _ in range(count):
        rows: list[tuple[str, str]] = []
        for _ in range(rng.randint(1, 3)):
            rows += [(word, "O") for word in rng.choices(OTHERS, k=rng.randint(1, 3))]
            if rng.random() < 0.5:
                rows.append((rng.choice(PERSONS), "B-PER"))
            else:
                rows += [(rng.choice(FIRSTS), "B-PLACE"), (rng.choice(SECONDS), "I-PLACE")]
        made.append([*rows, (".", "O")])
    return made


def spans_in(tags: str) -> list[Span]:
    """Returns the spans that the tags of one-letter words give."""
    words = [(2 * number, 2 * number + 1) for number in range(len(tags.split()))]
    return [span for _, span in spans_of_tags(" ".join("a" * len(words)), words, tags.split())]


def as_columns(rows: Sequence[Sequence[tuple[str, str]]], columns: int = 2) -> str:
    """Returns sentences in the format of CoNLL; without tags if `columns` is 1."""
    blocks = ("".join(" ".join(row[:columns]) + "\n" for row in block) for block in rows)
    return "\n".join(blocks)


def as_spans(rows: Sequence[tuple[str, str]]) -> dict:
    """Returns a sentence as an object with its text and its spans."""
    text, spans = "", []
    for token, tag in rows:
        start, end = len(text), len(text) + len(token)
        if tag[0] == "I":
            spans[-1]["end"] = end
        elif tag != "O":
            spans.append({"start": start, "end": end, "label": tag[2:]})
        text += f"{token} "
    return {"text": text[:-1], "spans": spans}


def write_entities(folder: pathlib.Path, count: int = 12) -> None:
    """Writes train.conll, dev.jsonl, and test.txt, which has no tags."""
    made = [sentences(seed, count) for seed in range(3)]
    (folder / "train.conll").write_text(f"-DOCSTART- O\n\n{as_columns(made[0])}")
    lines = (json.dumps(as_spans(rows)) + "\n" for rows in made[1])
    (folder / "dev.jsonl").write_text("".join(lines))
    (folder / "test.txt").write_text(as_columns(made[2], columns=1))
