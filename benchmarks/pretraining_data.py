"""Times pretraining data, from generated text to closed record files, next to the plain way.

The text has --mb MB. The plain way (`plain_pretraining_data.py`) gets the first --plain_mb of it.
Every way runs in a separate process; start-up does not count. The peak memory is that of the
process and of its largest worker, which shares most of its memory with the process. Two processes
that share the work are started by mpirun; their processor time is twice that of the first.
"""

import itertools
import os
import random
import tempfile

from albert.core import files
from albert.distributed import launcher
from albert.tasks.pretraining.blocks import DataOptions
from albert.tasks.pretraining.masking import MaskingOptions
from albert.tasks.pretraining.pairs import PairOptions
from albert.tasks.pretraining.shards import make_shards, plan_shards
from albert.tokenization import FullTokenizer
from benchmarks.parts import plain_pretraining_data as plain_way
from benchmarks.parts.flags import Flags, parse
from benchmarks.parts.harness import (
    GIGABYTES,
    Table,
    Way,
    in_turns,
    measured,
    mpirun,
    output_of,
    print_estimate,
    seconds_of,
)

CORES = len(os.sched_getaffinity(0))
_LETTERS = "etaoinshrdlucmfwypvbgkjqxz"


def main() -> None:
    """Generates text, runs every way in a separate process and prints the table."""
    flags = parse(__doc__, WAYS, mb=20.0, plain_mb=1.0, dupe_factor=10, vocab_size=8000)
    with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
        write_text(f"{folder}/text.txt", flags.mb)
        write_text(f"{folder}/sample.txt", flags.plain_mb)
        names = f"--input_file={folder}/sample.txt", f"--model_prefix={folder}/spm"
        output_of(files.command("sentencepiece", *names, f"--vocab_size={flags.vocab_size}"))
        turns = in_turns(WAYS, 1, f"--folder={folder}")
        hashing = seconds_of(lambda: files.sha256_of(f"{folder}/text.txt")) / flags.mb
    results = {way: one for way, (one,) in turns.items()}
    # MB of text a second of a core.
    rates = {way: one["mb"] / one["cpu_seconds"] for way, one in results.items()}
    plain_rate = rates["plain, one process"]
    titles = "MB", "records", "MB/min", "MB/min a core", "times plain", "memory", "a worker"
    table = Table(*titles)
    for way, one in results.items():
        speeds = 60 * one["mb"] / one["seconds"], 60 * rates[way], rates[way] / plain_rate
        shown = (f"{value:.1f}" for value in speeds)
        memory = (f"{mb:.0f} MB" for mb in one["memory"])
        table.row(way, f"{one['mb']:.1f}", one["records"], *shown, *memory)
    seconds = GIGABYTES * 1000 * one["seconds"] / one["mb"]
    work = f"records with --dupe_factor={flags.dupe_factor}"
    print_estimate(work, seconds, GIGABYTES * 1000 * hashing)


def write_text(path: str, mb: float) -> None:
    """Writes documents of made-up words, with the frequencies of real words (Zipf's law)."""
    rng, left, weights = random.Random(1), mb * 1e6, range(len(_LETTERS), 0, -1)
    words = ["".join(rng.choices(_LETTERS, weights, k=rng.randint(2, 9))) for _ in range(20000)]
    cumulative = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(words))))
    with open(path, "w", encoding="utf-8") as file:
        while left > 0:
            lines = []
            for _ in range(rng.randint(3, 40)):
                sentence = rng.choices(words, cum_weights=cumulative, k=rng.randint(5, 30))
                sentence[len(sentence) // 2] += rng.choice(["", ",", " 1995,", ";"])
                lines.append(" ".join(sentence).capitalize() + ".\n")
            left -= file.write("".join(lines) + "\n")


def ours(flags: Flags) -> dict:
    """Times this project, for each process of the launcher."""
    lengths = plain_way.MAX_SEQ_LENGTH, plain_way.SHORT_SEQ_PROB
    masks = plain_way.MAX_PREDICTIONS, plain_way.MASKED_LM_PROB, plain_way.NGRAM
    options = DataOptions(
        dupe_factor=flags.dupe_factor,
        random_seed=12345,
        pairs=PairOptions(*lengths, random_next_sentence=False),
        masking=MaskingOptions(*masks),
    )
    outputs = [f"{flags.folder}/{flags.way}-{shard}" for shard in range(8)]
    workers = CORES if flags.way.endswith("workers") else 1
    tokenizer = tokenizer_of(flags)
    plan = plan_shards([f"{flags.folder}/text.txt"], outputs, flags.dupe_factor, False)
    result = measured(lambda: make_shards(plan, tokenizer, options, workers)["records"], flags.mb)
    result["cpu_seconds"] *= launcher.started.size
    return result


def plain(flags: Flags) -> dict:
    """Times the plain way on a part of the text."""
    names = f"{flags.folder}/sample.txt", f"{flags.folder}/plain"
    given = *names, tokenizer_of(flags), flags.dupe_factor
    return measured(lambda: plain_way.convert(*given), flags.plain_mb)


def tokenizer_of(flags: Flags) -> FullTokenizer:
    """Loads the tokenizer that was trained on a part of the text."""
    return FullTokenizer(None, True, f"{flags.folder}/spm.model")


WAYS = {
    "plain, one process": Way(plain),
    "one process": Way(ours),
    "two processes": Way(ours, launcher=mpirun(2)),
    # The last one is that of the estimate.
    f"{CORES} workers": Way(ours),
}

if __name__ == "__main__":
    main()
