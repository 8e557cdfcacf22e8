"""A tiny RACE, whose right options are always the same word, at any of the four positions."""

import json
import pathlib
import random
from collections.abc import Sequence

OPTIONS = ("n", "r", "l", "s")


def passage(seed: int, words: Sequence[str], questions: int = 2) -> dict:
    """Returns a passage as a file has it; the right options are the first of `OPTIONS`."""
    rng = random.Random(seed)
    options = [rng.sample(OPTIONS, 4) for _ in range(questions)]
    return {
        "id": f"middle{seed}.txt",
        "article": " ".join(rng.choices(words, k=6)),
        "questions": ["Which?" if number % 2 else "It is _ ." for number in range(questions)],
        "options": options,
        "answers": ["ABCD"[four.index(OPTIONS[0])] for four in options],
    }


def write_race(folder: pathlib.Path, words: Sequence[str], first: int = 0, count: int = 6) -> None:
    """Writes RACE/train and RACE/dev as all.txt, and RACE/test as one file per passage."""
    for number, split in enumerate(("train", "dev", "test")):
        for level in ("middle", "high"):
            level_folder = folder / "RACE" / split / level
            level_folder.mkdir(parents=True)
            seeds = range(first + 1000 * number, first + 1000 * number + count)
            made = {f"{seed}.txt": json.dumps(passage(seed, words)) + "\n" for seed in seeds}
            if split != "test":
                made = {"all.txt": "".join(made.values())}
            for name, text in made.items():
                (level_folder / name).write_text(text)
