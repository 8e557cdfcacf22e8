"""Packs pretraining examples into rows, and trains with and without packing, in turns.

The first table has the fraction of the positions that hold a token, for the examples of a text and
for the published lengths of BERT's sequences on Wikipedia. For rows of one size, as a card needs
them, the examples per row are the gain. The second table has the real tokens per second of a
training on this device, from the log of `albert pretrain`. By default, the text is generated.
"""

import os
import pathlib
import re
import statistics
import subprocess
import tempfile

import numpy as np

from albert.core import files
from albert.demo.demo import write_inputs
from albert.records.order import pack_lengths
from albert.tasks.pretraining.input_pipeline import RecordOptions, read_sizes
from benchmarks.parts.flags import BASE, Flags, parse, with_vocabulary_of
from benchmarks.parts.harness import Table, output_of, ratios_of, spread

_LENGTHS = pathlib.Path(__file__).parent / "parts" / "wikipedia_lengths.txt"
_WAYS = {"rows of one example": (), "packed rows": ("--pack_sequences",)}


def main() -> None:
    """Makes the records, prints how densely they are packed, and trains in turns."""
    sizes = {"seq_length": 128, "batch_size": 8, "steps": 8, "rounds": 3}
    flags = parse(__doc__, text=None, spm_model_file=None, config=BASE, **sizes)
    lengths = f"--max_seq_length={flags.seq_length}"
    options = [lengths, f"--max_predictions_per_seq={round(0.15 * flags.seq_length)}"]
    with tempfile.TemporaryDirectory() as folder:
        make_records(flags, folder, options)
        describe_packing(flags.seq_length, os.path.join(folder, "records"))
        steps = f"--train_batch_size={flags.batch_size}", f"--num_train_steps={flags.steps}"
        names = f"--input_file={folder}/records", f"--albert_config_file={folder}/config.json"
        options += *names, *steps, "--num_warmup_steps=1", "--log_steps=1"
        rates = {way: list[float]() for way in _WAYS}
        for turn in range(flags.rounds):
            for way, more in _WAYS.items():
                output = f"--output_dir={folder}/{turn}-{len(more)}"
                rates[way].append(tokens_per_second(*options, output, *more))
    print()
    table, base = Table("tokens/s", "times", width=20), [*rates.values()][0]
    for way, measured in rates.items():
        times = spread(ratios_of(measured, base))
        table.row(way, f"{statistics.median(measured):.0f}", times)


def make_records(flags: Flags, folder: str, options: list[str]) -> None:
    """Writes the records and the configuration of a model with their vocabulary."""
    text, model = flags.text, flags.spm_model_file
    if not text:
        inputs = write_inputs(folder)
        text = os.path.join(os.path.dirname(inputs["train_file"]), "train.txt")
    if not model:
        names = f"--input_file={text}", f"--model_prefix={folder}/spm", "--vocab_size=1200"
        output_of(files.command("sentencepiece", *names))
        model = os.path.join(folder, "spm.model")
    with_vocabulary_of(flags.config, model, os.path.join(folder, "config.json"))
    names = f"--input_file={text}", f"--output_file={folder}/records", f"--spm_model_file={model}"
    output_of(files.command("pretraining-data", *names, *options, "--dupe_factor=2"))


def describe_packing(length: int, records: str) -> None:
    """Prints how densely the examples of the text, and of Wikipedia, are packed."""
    lengths, _ = read_sizes([records], RecordOptions(length, 0, 0), 1)
    lines = [line for line in _LENGTHS.read_text().splitlines() if line[0] != "#"]
    counts = {
        f"the text, {length}": np.bincount(lengths, minlength=length + 1),
        "Wikipedia, 512": np.array([0, *map(int, " ".join(lines).split())]),
    }
    table = Table("examples", "tokens", "packed", "examples per row")
    for name, by_length in counts.items():
        longest = len(by_length) - 1
        density = (by_length * np.arange(longest + 1)).sum() / longest
        examples, rows = by_length.sum(), pack_lengths(by_length, longest)[1].sum()
        shares = (f"{density / count:.1%}" for count in (examples, rows))
        table.row(name, examples, *shares, f"{examples / rows:.3f}")


def tokens_per_second(*options: str) -> float:
    """Runs a training and returns the median rate of its steps except the first."""
    log = output_of(files.command("pretrain", *options), stderr=subprocess.STDOUT)
    return statistics.median(map(float, re.findall(r"  ([\d.]+) tokens/s", log)[1:]))


if __name__ == "__main__":
    main()
