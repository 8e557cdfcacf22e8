"""Times pretraining data, from generated text to closed record files, next to the plain way.

  make bench NAME=pretraining_data FLAGS="--mb 100"

The plain way (`plain_pretraining_data.py`) gets the first part of the same text. Every way runs in
a separate process; start-up does not count. The peak memory is that of the process and of its
largest worker, which shares most of its memory with the process. Two processes that share the work
are started by mpirun; their processor time is twice that of the first.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import tempfile
import time

from albert.core import files
from benchmarks.parts.harness import (
    GIGABYTES,
    give,
    measured,
    mpirun,
    new_parser,
    output_of,
    print_estimate,
    run_again,
)
from benchmarks.parts.plain_pretraining_data import (
    MASKED_LM_PROB,
    MAX_PREDICTIONS,
    MAX_SEQ_LENGTH,
    NGRAM,
    SHORT_SEQ_PROB,
    convert,
)

SHARDS = 8
CORES = len(os.sched_getaffinity(0))


def main() -> None:
    """Generates text, runs every way in a separate process and prints the table."""
    flags = parse_flags()
    if flags.way:
        give(WAYS[flags.way](flags))
        return
    with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
        for name, mb in (("text", flags.mb), ("sample", flags.plain_mb)):
            write_text(os.path.join(folder, f"{name}.txt"), mb)
        prefix = os.path.join(folder, "spm")
        sample = os.path.join(folder, "sample.txt")
        names = {"input_file": sample, "model_prefix": prefix, "vocab_size": flags.vocab_size}
        options = [f"--{name}={value}" for name, value in names.items()]
        output_of(files.command("sentencepiece", *options))
        place = f"--folder={folder}"
        results = {
            way: run_again(
                "pretraining_data", f"--way={way}", place, launcher=LAUNCHERS.get(way, ())
            )
            for way in WAYS
        }
        started = time.perf_counter()
        files.sha256_of(os.path.join(folder, "text.txt"))
        hashing = (time.perf_counter() - started) / flags.mb
    print_table(results)
    of_host = results[f"{CORES} workers"]
    seconds = GIGABYTES * 1000 * of_host["seconds"] / of_host["mb"]
    copies = f"--dupe_factor={flags.dupe_factor}"
    print_estimate(f"records with {copies}", seconds, GIGABYTES * 1000 * hashing)


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--mb", type=float, default=20, help="size of the text in MB")
    parser.add_argument(
        "--plain_mb", type=float, default=1, help="size of its part for the plain way"
    )
    parser.add_argument("--dupe_factor", type=int, default=10)
    parser.add_argument("--vocab_size", type=int, default=8000)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help="folder for the files, which are removed")
    return parser.parse_args()


def write_text(path: str, mb: float) -> None:
    """Writes documents of made-up words, with the frequencies of real words (Zipf's law)."""
    rng = random.Random(1)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    weights = range(len(letters), 0, -1)
    words = ["".join(rng.choices(letters, weights, k=rng.randint(2, 9))) for _ in range(20000)]
    cumulative = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(words))))
    left = mb * 1e6
    with open(path, "w", encoding="utf-8") as file:
        while left > 0:
            lines = []
            for _ in range(rng.randint(3, 40)):
                sentence = rng.choices(words, cum_weights=cumulative, k=rng.randint(5, 30))
                sentence[len(sentence) // 2] += rng.choice(["", ",", " 1995,", ";"])
                lines.append(" ".join(sentence).capitalize() + ".\n")
            left -= file.write("".join(lines) + "\n")


def ours(flags: argparse.Namespace, workers: int, shards: int = 1) -> dict:
    """Times this project, with `workers` worker processes for each process of the launcher."""
    from albert.distributed import launcher
    from albert.tasks.pretraining.blocks import DataOptions
    from albert.tasks.pretraining.masking import MaskingOptions
    from albert.tasks.pretraining.pairs import PairOptions
    from albert.tasks.pretraining.shards import make_shards, plan_shards

    options = DataOptions(
        dupe_factor=flags.dupe_factor,
        random_seed=12345,
        pairs=PairOptions(MAX_SEQ_LENGTH, SHORT_SEQ_PROB, random_next_sentence=False),
        masking=MaskingOptions(MAX_PREDICTIONS, MASKED_LM_PROB, NGRAM),
    )
    prefix = os.path.join(flags.folder, f"records-{launcher.started.size}-{workers}-{shards}")
    outputs = [f"{prefix}-{k}" for k in range(shards)]
    tokenizer = load_tokenizer(flags)

    def work() -> int:
        text = os.path.join(flags.folder, "text.txt")
        plan = plan_shards([text], outputs, flags.dupe_factor, False)
        return make_shards(plan, tokenizer, options, workers)["records"]

    result = measured(work, flags.mb)
    result["cpu_seconds"] *= launcher.started.size
    # The other process may still look at them.
    if launcher.started.size == 1:
        for output in outputs:
            os.remove(output)
    return result


def plain(flags: argparse.Namespace) -> dict:
    """Times the plain way on a part of the text."""
    tokenizer = load_tokenizer(flags)
    sample, output = (os.path.join(flags.folder, name) for name in ("sample.txt", "records"))
    return measured(lambda: convert(sample, output, tokenizer, flags.dupe_factor), flags.plain_mb)


def load_tokenizer(flags: argparse.Namespace):
    """Loads the tokenizer that was trained on a part of the text."""
    import tensorflow.compat.v1 as tf

    from albert.tokenization import FullTokenizer

    tf.logging.set_verbosity(tf.logging.ERROR)
    return FullTokenizer(None, True, os.path.join(flags.folder, "spm.model"))


# The ways to measure.
WAYS = {
    "plain, one process": plain,
    "one process": lambda flags: ours(flags, 1),
    "one process, shards": lambda flags: ours(flags, 1, SHARDS),
    "two processes, shards": lambda flags: ours(flags, 1, SHARDS),
    f"{CORES} workers": lambda flags: ours(flags, CORES),
}
LAUNCHERS = {"two processes, shards": mpirun(2)}


def print_table(results: dict[str, dict]) -> None:
    """Prints rates in MB of text a minute, by wall-clock and processor time, and memory."""
    plain_rate = results["plain, one process"]["mb"] / results["plain, one process"]["cpu_seconds"]
    print(
        f"{'':<24}{'MB':>8}{'records':>10}{'MB/min':>9}{'MB/min a core':>15}{'times plain':>13}"
        f"{'memory':>10}{'a worker':>10}"
    )
    for way, result in results.items():
        rate = result["mb"] / result["cpu_seconds"]
        own, workers = (f"{mb:.0f} MB" for mb in result["memory"])
        print(
            f"{way:<24}{result['mb']:>8.1f}{result['records']:>10}"
            f"{60 * result['mb'] / result['seconds']:>9.1f}{60 * rate:>15.1f}"
            f"{rate / plain_rate:>13.1f}{own:>10}{workers:>10}"
        )


if __name__ == "__main__":
    main()
