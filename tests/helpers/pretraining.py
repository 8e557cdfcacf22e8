"""A text of made-up sentences for pretraining."""

import pathlib
import random


def write_topics(path: pathlib.Path, seed: int, documents: int) -> None:
    """Writes documents of sentences, each about one topic and with words of no other topic."""
    rng = random.Random(seed)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(documents):
            topic = rng.randrange(12)
            for _ in range(rng.randint(2, 9)):
                words = [f"{'abcdefghijkl'[topic]}{rng.choice('xyz')}ono" for _ in range(6)]
                file.write(" ".join(words).capitalize() + rng.choice([".", ", 1995,", ""]) + "\n")
            file.write("\n")
