"""Text and records for pretraining, and SentencePiece models."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator

from tests.faults.inputs.attempt import Attempt
from tests.faults.inputs.data import training
from tests.faults.inputs.good import copied, with_bytes, with_json, written

_MAKE = (
    *("create_pretraining_data", "--input_file={w}/topics.txt", "--output_file={t}/new"),
    *("--spm_model_file={w}/spm.model", "--max_seq_length=48", "--max_predictions_per_seq=6"),
    "--dupe_factor=1",
)
_LEARN = (
    *("train_sentencepiece", "--input_file={w}/text.txt", "--model_prefix={t}/new"),
    "--vocab_size=100",
)
# Values that a flag cannot have, of each of the three programs.
_OF_MAKING = {
    "input_file": ("{t}/none", "{t}", "{t}/*", ",", "", "/dev/null", "{w}/spm.model"),
    "output_file": ("{t}", "/proc/x", "/dev/full", "{w}/topics.txt"),
    "spm_model_file": ("{t}/none", "{w}/albert.json", "{w}", ""),
    "max_seq_length": ("4", "x", "65537", "-1"),
    "max_predictions_per_seq": ("0", "-1", "1.5", "65537"),
    "masked_lm_prob": ("-0.1", "1.1", "nan", "x"),
    "short_seq_prob": ("-0.1", "2", "nan"),
    "dupe_factor": ("0", "-1", "x", "9" * 40),
    "ngram": ("0", "-3", "65537"),
    "num_shards": ("0", "100000", "1e3"),
    "preprocess_workers": ("0", "-1", "x"),
    "model_type": ("gpt", "", "ALBERT"),
    "random_seed": ("x", "1.5"),
    "vocab_file": ("{t}/none",),
}
_OF_LEARNING = {
    "input_file": ("{t}/none", "{t}", "{t}/*", "", "/dev/null", "{w}/spm.model", ","),
    "model_prefix": ("", "/proc/x", "{w}/albert.json/x", "{t}/" + "x" * 300),
    "vocab_size": ("0", "-1", "3", "1000000", "x", "9" * 30),
    "character_coverage": ("0", "1.1", "nan", "x"),
    "input_sentence_size": ("100", "-1", "x"),
    "num_threads": ("0", "-1", "x"),
}
_OF_TRAINING = {
    "input_file": ("{t}/none", "{t}", "{w}/topics.txt", "{w}/albert.json", "/dev/null", ","),
    "eval_file": ("{t}/none", "{w}/topics.txt", "/dev/null"),
    "max_seq_length": ("32", "64", "4", "129"),
    "max_predictions_per_seq": ("5", "7", "0"),
    "train_batch_size": ("0", "x"),
    "train_steps": ("x", "1.5"),
    "poly_power": ("-1", "nan", "x"),
    "weight_decay": ("nan", "-1"),
    "masked_lm_budget": ("-1", "x", "1000"),
    "albert_config_file": ("{t}/none", "{w}/spm.model", "{w}"),
    "max_eval_steps": ("0", "-1", "x"),
}


def attempts() -> Iterator[Attempt]:
    """All of the group."""
    train = training("run_pretraining", "--num_train_steps=2")
    train = tuple(flag for flag in train if "train_step=" not in flag)
    for name, command, values in (
        ("make", _MAKE, _OF_MAKING),
        ("learn", _LEARN, _OF_LEARNING),
        ("train", train, _OF_TRAINING),
    ):
        for flag, some in values.items():
            for value in some:
                file = value.removeprefix("{w}").removeprefix("{t}").strip("/")
                # Of a folder, its name: that of the good inputs, or the attempt's number.
                named = file or {"{w}": "/good", "{t}": r"/\d+"}.get(value, flag)
                says = f"{flag}|{named[:30]}".replace("*", r"\*")
                yield Attempt(f"{name}-{flag}={value[:20]}", (*command, f"--{flag}={value}"), says)
    yield from _texts()
    yield from _records(train)


def _texts() -> Iterator[Attempt]:
    files = {
        "empty": "",
        "blank": "\n\n\n",
        "latin-1": "café\nolé\n".encode("latin-1"),
        "binary": bytes(range(256)) * 10,
        "utf-16": "One text.\nTwo.\n".encode("utf-16"),
        "one-word": "a\n",
        "zeros": bytes(10_000),
        "spaces": "   \n\t\n",
    }
    for name, content in files.items():
        make = written("in", content)
        for program, command in (("make", _MAKE), ("learn", _LEARN)):
            given = (*command, "--input_file={t}/in")
            yield Attempt(f"{program}-text-{name}", given, "in", make)

    def has_output(result, folder: pathlib.Path) -> bool:
        return any(path.stat().st_size for path in folder.glob("new*"))

    good = "One text of words.\nAnother of them.\n\nMore words.\nAnd more.\n" * 20
    fine = {
        "crlf": good.replace("\n", "\r\n"),
        "mark": "\ufeff" + good,
        "one-line": good.replace("\n", " ") * 20 + "\n\n" + good,
        "nul": good.replace(" ", " \0", 3),
        "no-end": good.rstrip(),
        "separators": good.replace(" ", "\u2028", 5).replace("s", "\x85", 3),
        "bidi": good + "\u202e\u200f\ufeff\n",
    }
    for name, content in fine.items():
        make, given = written("in", content), (*_MAKE, "--input_file={t}/in")
        yield Attempt(f"make-fine-{name}", given, "", make, has_output, must_end_well=True)


def _records(train: tuple[str, ...]) -> Iterator[Attempt]:
    """Records that are damaged, or are not what their header says."""
    given = (*train, "--input_file={t}/topics.tfrecord")

    def spoiled(change):
        def make(good: pathlib.Path, folder: pathlib.Path) -> None:
            shutil.copy(good / "topics.tfrecord.json", folder)
            with_bytes("topics.tfrecord", change)(good, folder)

        return make

    changes = {
        "half": lambda data: data[: len(data) // 2],
        "empty": lambda data: b"",
        "zeros": lambda data: bytes(len(data)),
        "a-bit": lambda data: data[:500] + bytes([data[500] ^ 1]) + data[501:],
        "twice": lambda data: data * 2,
        "one-more-byte": lambda data: data + b"\0",
        "text": lambda data: b"no record\n" * 99,
    }
    for name, change in changes.items():
        yield Attempt(f"record-{name}", given, "topics.tfrecord", spoiled(change))
    yield Attempt("record-alone", given, "topics.tfrecord", copied("topics.tfrecord"), _trained)

    def with_header(change):
        def make(good: pathlib.Path, folder: pathlib.Path) -> None:
            shutil.copy(good / "topics.tfrecord", folder)
            with_json("topics.tfrecord.json", change)(good, folder)

        return make

    for key in ("max_seq_length", "header_sha256", "max_predictions_per_seq"):

        def change_key(header: dict, key=key) -> None:
            header[key] = "7"

        yield Attempt(f"header-{key}", given, "topics.tfrecord", with_header(change_key))


def _trained(result, folder: pathlib.Path) -> bool:
    return any((folder / "out").glob("model.ckpt-*.index"))
