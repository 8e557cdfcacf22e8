"""Text and records for pretraining, and SentencePiece models."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from tests.faults.inputs.attempt import Attempt, of_contents
from tests.faults.inputs.good import BAD, Content, half, spoiled, training, with_key

MAKE = (
    *("create_pretraining_data", "--input_file={w}/topics.txt", "--output_file={t}/new"),
    *("--spm_model_file={w}/spm.model", "--max_seq_length=48", "--max_predictions_per_seq=6"),
)
LEARN = (
    *("sentencepiece", "--input_file={w}/text.txt", "--model_prefix={t}/new"),
    "--vocab_size=100",
)
_TRAIN = training("run_pretraining")
_TEXTS: dict[str, Content] = {
    **BAD,
    **{"blank": " \n\t\n\n", "latin-1": b"caf\xe9\nol\xe9\n", "one-word": "a\n"},
}
_GOOD = "One text of words.\nAnother of them.\n\nMore words.\nAnd more.\n" * 20
_FINE = {
    "crlf": _GOOD.replace("\n", "\r\n"),
    "mark": "\ufeff" + _GOOD,
    "one-line": _GOOD.replace("\n", " ") * 20 + "\n\n" + _GOOD,
    "nul": _GOOD.replace(" ", " \0", 3),
    "no-end": _GOOD.rstrip(),
    "separators": _GOOD.replace(" ", "\u2028", 5).replace("s", "\x85", 3),
    "bidi": _GOOD + "\u202e\u200f\ufeff\n",
}
_RECORDS: dict[str, Content] = {
    **{"half": half, "empty": b"", "zeros": lambda data: bytes(len(data))},
    **{"twice": lambda data: data * 2, "one-more-byte": lambda data: data + b"\0"},
    "a-bit": lambda data: data[:500] + bytes([data[500] ^ 1]) + data[501:],
    "text": b"no record\n" * 99,
}


def attempts() -> Iterator[Attempt]:
    """Yields all attempts of the group."""
    make = (*MAKE, "--dupe_factor=1")
    for name, command in (("make", make), ("learn", LEARN)):
        given = (*command, "--input_file={t}/in")
        yield from of_contents(f"{name}-text", given, "/in|text", "in", _TEXTS)

    def has_output(result, folder: pathlib.Path) -> bool:
        return any(path.stat().st_size for path in folder.glob("new*"))

    more = {"holds": has_output, "must_end_well": True}
    yield from of_contents("make-fine", (*make, "--input_file={t}/in"), "", "in", _FINE, **more)

    def trained(result, folder: pathlib.Path) -> bool:
        return any((folder / "out").glob("model.ckpt-*.index"))

    name, given = "topics.tfrecord", (*_TRAIN, "--input_file={t}/topics.tfrecord")
    copies = (name, f"{name}.json")
    yield from of_contents("record", given, name, name, _RECORDS, *copies)
    yield Attempt("record-alone", given, name, spoiled("", "", name), trained)
    keys = ("max_seq_length", "header_sha256", "max_predictions_per_seq")
    headers = {key: with_key(key, "7") for key in keys}
    yield from of_contents("header", given, name, f"{name}.json", headers, *copies)
