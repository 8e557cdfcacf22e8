"""The flags of benchmarks, and the files that some of them read: real ones, or generated ones."""

import argparse
import collections
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from benchmarks.parts.harness import ROOT, Way, give

BASE = os.path.join(ROOT, "configs", "albert_base_v2.json")
# The reference's lengths for SQuAD.
MAX_SEQ_LENGTH, DOC_STRIDE, MAX_QUERY_LENGTH = 384, 128, 64
# Names in the folder of --data, by the flags that get the paths.
FILES = {
    "train_file": "train-v1.1.json",
    "predict_file": "dev-v1.1.json",
    "spm_model_file": "spm.model",
    "vocab_file": "vocab.txt",
}
# Pieces of every WordPiece vocabulary.
SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# The flags of a benchmark.
Flags = argparse.Namespace
_GENERATED = os.path.join(ROOT, "out", "benchmark_data")


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows the docstring unchanged, and default values."""


def parse(
    text: str, ways: Mapping[str, Way] | None = None, files: Sequence[str] = (), /, **flags: Any
) -> Flags:
    """Returns the flags of a benchmark. A process of a single way measures it, and ends here.

    Args:
      text: the docstring of the benchmark.
      ways: what `harness.in_turns` measures.
      files: names of `FILES`, which become flags with their paths.
      flags: defaults with the types of the flags; False for a switch.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=_Help)
    for hidden in ("way", *({"folder"} - flags.keys())):
        parser.add_argument(f"--{hidden}", help=argparse.SUPPRESS)
    if files:
        names = ", ".join(FILES[name] for name in files)
        parser.add_argument("--data", help=f"folder with {names}", default=_GENERATED)
    for name, value in flags.items():
        kind = {"type": str if value is None else type(value), "default": value}
        kind = {"action": "store_true"} if value is False else kind
        parser.add_argument(f"--{name}", help=" ", **kind)
    parsed = parser.parse_args()
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    if files and parsed.data == _GENERATED:
        generated()
    for name in files:
        path = os.path.join(os.path.abspath(parsed.data), FILES[name])
        if not os.path.exists(path):
            sys.exit(f"benchmark: error: {path} is missing; see --data in --help")
        setattr(parsed, name, path)
    if ways and parsed.way:
        give(ways[parsed.way].measure(parsed))
        sys.exit()
    return parsed


def choose(names: str, known: Collection[str], what: str) -> list[str]:
    """Returns the names of a list with commas; ends the program if one of them is not known."""
    chosen = [name for name in names.split(",") if name]
    if unknown := set(chosen) - set(known):
        sys.exit(
            f"benchmark: error: no {what} is {', '.join(unknown)}; there are {', '.join(known)}"
        )
    return chosen


def generated() -> str:
    """Returns the folder of generated files; writes them if they are missing."""
    if os.path.exists(_GENERATED):
        return _GENERATED
    # Not at the top: the memory of a way that needs no TensorFlow is measured without it.
    from albert.demo.demo import write_inputs

    parent = os.path.dirname(_GENERATED)
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        paths = write_inputs(folder)
        made = os.path.dirname(paths["train_file"])
        shutil.copy(paths["spm_model_file"], os.path.join(made, FILES["spm_model_file"]))
        write_pieces(paths["train_file"], os.path.join(made, FILES["vocab_file"]))
        os.rename(made, _GENERATED)
    return _GENERATED


def write_pieces(questions: str, target: str) -> None:
    """Writes a WordPiece vocabulary of the letters and most frequent words of a SQuAD file."""
    from albert.demo.demo import VOCAB_SIZE
    from albert.tokenization import BasicTokenizer

    with open(questions, encoding="utf-8") as file:
        paragraphs = [p for article in json.load(file)["data"] for p in article["paragraphs"]]
    texts = [p["context"] for p in paragraphs]
    texts += [q["question"] for p in paragraphs for q in p["qas"]]
    tokenizer = BasicTokenizer(do_lower_case=True)
    counts = collections.Counter(word for text in texts for word in tokenizer.tokenize(text))
    letters = sorted(set("".join(counts)))
    pieces = [*SPECIAL_PIECES, *letters, *(f"##{c}" for c in letters)]
    pieces += [word for word, _ in counts.most_common() if len(word) > 1]
    with open(target, "w", encoding="utf-8") as file:
        file.write("\n".join(pieces[:VOCAB_SIZE]) + "\n")


def with_vocabulary_of(config_file: str, spm_model_file: str, target: str) -> str:
    """Writes a configuration with the vocabulary of a tokenizer; returns its path."""
    import sentencepiece

    with open(os.path.join(ROOT, config_file), encoding="utf-8") as file:
        config = json.load(file)
    model = sentencepiece.SentencePieceProcessor(model_file=spm_model_file)
    config["vocab_size"] = model.get_piece_size()
    with open(target, "w", encoding="utf-8") as file:
        json.dump(config, file)
    return target
