"""Packs pretraining examples into rows, and trains with and without packing, in turns.

  make bench NAME=packing FLAGS="[--text FILE --spm_model_file FILE] [--seq_length 128] ..."

The first table has the fraction of the positions that hold a token, for the examples of a text and
for the published lengths of BERT's sequences on Wikipedia. For rows of one size, as a card needs
them, the examples per row are the gain. The second table has the real tokens per second of a
training on this device, from the log of `albert pretrain`. By default, the text is generated.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.
from albert.core import files
from albert.demo.generate import write_sample
from benchmarks.parts.harness import new_parser, output_of

_LENGTHS = pathlib.Path(__file__).parent / "parts" / "wikipedia_lengths.txt"
_WAYS = {"rows of one example": (), "packed rows": ("--pack_sequences",)}


def main() -> None:
    """Makes the records, prints how densely they are packed, and trains in turns."""
    flags = parse_flags()
    with tempfile.TemporaryDirectory() as folder:
        make_records(flags, folder)
        describe_packing(flags, os.path.join(folder, "records"))
        rates = {way: list[float]() for way in _WAYS}
        for turn in range(flags.rounds):
            for way, more in _WAYS.items():
                output = f"--output_dir={folder}/{turn}-{len(more)}"
                rates[way].append(tokens_per_second(training(flags, folder, output, *more)))
    before, after = rates.values()
    print(f"\n{'':24}{'tokens/s':>10}")
    for way, found in rates.items():
        print(f"{way:24}{statistics.median(found):>10.0f}")
    ratios = sorted(b / a for a, b in zip(before, after, strict=True))
    print(f"packed: {statistics.median(ratios):.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f})")


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--text", help="text for `albert pretraining-data`; generated if missing")
    parser.add_argument("--spm_model_file", help="its tokenizer; trained if missing")
    parser.add_argument("--config", default="configs/albert_base_v2.json")
    parser.add_argument("--seq_length", type=int, default=128)
    parser.add_argument("--batch_size", type=int, default=8, help="rows per step")
    parser.add_argument("--steps", type=int, default=8, help="steps per training")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def make_records(flags: argparse.Namespace, folder: str) -> None:
    """Writes the records and the configuration of a model with their vocabulary."""
    text, model = flags.text, flags.spm_model_file
    if not text:
        write_sample(os.path.join(folder, "text"), seed=1)
        text = os.path.join(folder, "text", "train.txt")
    if not model:
        names = f"--input_file={text}", f"--model_prefix={folder}/spm", "--vocab_size=1200"
        output_of(files.command("sentencepiece", *names))
        model = os.path.join(folder, "spm.model")
    import sentencepiece

    config = json.loads(pathlib.Path(files.packaged(flags.config)).read_text())
    config["vocab_size"] = sentencepiece.SentencePieceProcessor(model_file=model).get_piece_size()
    pathlib.Path(folder, "config.json").write_text(json.dumps(config))
    names = f"--input_file={text}", f"--output_file={folder}/records", f"--spm_model_file={model}"
    output_of(files.command("pretraining-data", *names, *sizes(flags), "--dupe_factor=2"))


def sizes(flags: argparse.Namespace) -> list[str]:
    """Returns the flags of the lengths."""
    most = round(0.15 * flags.seq_length)
    return [f"--max_seq_length={flags.seq_length}", f"--max_predictions_per_seq={most}"]


def describe_packing(flags: argparse.Namespace, records: str) -> None:
    """Prints how densely the examples of the text, and of Wikipedia, are packed."""
    import numpy as np

    from albert.data.order import pack_lengths
    from albert.tasks.pretraining.input_pipeline import RecordOptions, read_sizes

    lengths = read_sizes([records], RecordOptions(flags.seq_length, 0, 0), 1).lengths
    lines = _LENGTHS.read_text().splitlines()
    words = itertools.chain.from_iterable(line.split() for line in lines if line[0] != "#")
    counts = {
        f"the text, {flags.seq_length}": np.bincount(lengths, minlength=flags.seq_length + 1),
        "Wikipedia, 512": np.array([0, *map(int, words)]),
    }
    print(f"{'':24}{'examples':>10}{'tokens':>9}{'packed':>9}{'examples per row':>18}")
    for name, of_length in counts.items():
        longest = len(of_length) - 1
        tokens = int((of_length * np.arange(longest + 1)).sum())
        examples, rows = int(of_length.sum()), int(pack_lengths(of_length, longest)[1].sum())
        print(
            f"{name:24}{examples:>10}{tokens / (examples * longest):>9.1%}"
            f"{tokens / (rows * longest):>9.1%}{examples / rows:>18.3f}"
        )


def training(flags: argparse.Namespace, folder: str, *more: str) -> list[str]:
    """Returns the command of a training."""
    names = f"--input_file={folder}/records", f"--albert_config_file={folder}/config.json"
    steps = f"--train_batch_size={flags.batch_size}", f"--num_train_steps={flags.steps}"
    steps += "--num_warmup_steps=1", "--log_steps=1"
    return files.command("pretrain", *names, *sizes(flags), *steps, *more)


def tokens_per_second(command: list[str]) -> float:
    """Runs a training and returns the median rate of its steps except the first."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return statistics.median(map(float, re.findall(r"  ([\d.]+) tokens/s", done.stderr)[1:]))


if __name__ == "__main__":
    main()
