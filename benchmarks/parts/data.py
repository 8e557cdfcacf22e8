"""The files that benchmarks read: real ones in a folder, or generated ones."""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import os
import shutil
import sys
import tempfile

from benchmarks.parts.harness import ROOT

# Names in the folder, by the flags that get the paths.
FILES = {
    "train_file": "train-v1.1.json",
    "train_v2_file": "train-v2.0.json",
    "predict_file": "dev-v1.1.json",
    "mrpc_file": "MRPC/train.tsv",
    "spm_model_file": "spm.model",
    "vocab_file": "vocab.txt",
}
_GENERATED = os.path.join(ROOT, "out", "benchmark_data")


def add_flag(parser: argparse.ArgumentParser, *names: str) -> None:
    """Adds --data, whose help lists the files with these names of `FILES`."""
    files = ", ".join(FILES[name] for name in names)
    text = f"folder with {files}; default: text of `albert.demo.generate`, in out/benchmark_data"
    parser.add_argument("--data", help=text)


def find(flags: argparse.Namespace, *names: str) -> None:
    """Adds the paths of files to the flags, by the names of `FILES`, or ends the process."""
    folder = os.path.abspath(flags.data or _generated())
    for name in names:
        path = os.path.join(folder, FILES[name])
        if not os.path.exists(path):
            sys.exit(f"benchmark: error: {path} is missing; see --data in --help")
        setattr(flags, name, path)


def _generated() -> str:
    """Returns the folder of the generated files, which are written if they are missing."""
    if not os.path.exists(_GENERATED):
        # Not at the top: the memory of a way that needs no TensorFlow is measured without it.
        from albert.demo.demo import write_inputs
        from albert.demo.generate import TRAIN_TEXT

        parent = os.path.dirname(_GENERATED)
        os.makedirs(parent, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=parent) as folder:
            paths = write_inputs(folder)
            made = os.path.dirname(paths["train_file"])
            shutil.copy(paths["spm_model_file"], os.path.join(made, FILES["spm_model_file"]))
            with open(os.path.join(made, FILES["vocab_file"]), "w", encoding="utf-8") as file:
                file.write("\n".join(word_pieces(paths["train_file"])) + "\n")
            _write_pairs(os.path.join(made, TRAIN_TEXT), os.path.join(made, FILES["mrpc_file"]))
            os.rename(made, _GENERATED)
    return _GENERATED


def word_pieces(path: str) -> list[str]:
    """Returns a WordPiece vocabulary of the letters and the most frequent words of a SQuAD file."""
    from albert.demo.demo import VOCAB_SIZE
    from albert.tokenization import BasicTokenizer

    with open(path, encoding="utf-8") as file:
        paragraphs = [p for article in json.load(file)["data"] for p in article["paragraphs"]]
    texts = [p["context"] for p in paragraphs]
    texts += [q["question"] for p in paragraphs for q in p["qas"]]
    tokenizer = BasicTokenizer(do_lower_case=True)
    counts = collections.Counter(word for text in texts for word in tokenizer.tokenize(text))
    letters = sorted(set("".join(counts)))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters)]
    pieces += [word for word, _ in counts.most_common() if len(word) > 1]
    return pieces[:VOCAB_SIZE]


def _write_pairs(text: str, target: str) -> None:
    """Writes pairs of sentences that follow each other as MRPC has them, with labels in turn."""
    with open(text, encoding="utf-8") as file:
        sentences = [line.strip() for line in file if line.strip()]
    os.makedirs(os.path.dirname(target))
    with open(target, "w", encoding="utf-8") as file:
        file.write("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n")
        for number, (first, second) in enumerate(itertools.pairwise(sentences)):
            file.write(f"{number % 2}\t{number}\t{number + 1}\t{first}\t{second}\n")
