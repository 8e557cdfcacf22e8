"""The programs that read models: ask, convert_checkpoint, extract_features."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from tests.faults.inputs.attempt import Attempt, of_contents
from tests.faults.inputs.good import BAD, LOOP, MISSING, half, spoiled, with_key

_CONFIG, _MODEL = "squad/assets.extra/config.json", "squad/assets.extra/model.json"
_SPM = "squad/assets.extra/spm.model"
_DATA, _INDEX = "squad/model.ckpt-best.data-00000-of-00001", "squad/model.ckpt-best.index"
_ASK = ("ask", "{t}/squad", "--context", "A cat sat.", "--question", "Who?")
# Text that is no JSON object of a configuration.
_WHOLE = {
    **{"list": "[]", "text": '"albert"', "no-keys": "{}", "half": '{"vocab_size": 1'},
    **{"twice": '{"vocab_size": 1} {"vocab_size": 2}', "deep": "[" * 100_000},
    **{name: BAD[name] for name in ("empty", "zeros", "utf-16")},
}
_SAFETENSORS = {
    **{"empty": b"", "seven-bytes": b"1234567", "zip": b"PK\x03\x04" + bytes(100)},
    "no-tensors": (19).to_bytes(8, "little") + b'{"__metadata__":{}}',
    "html": b"<!DOCTYPE html><html>404</html>",
    "git-lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 47\n",
}
# Source and target of a conversion, and what the line must say.
_PLACES = (
    ("{w}/squad", "{w}/albert.json", "albert.json"),
    ("{t}/squad", "{t}/squad", "squad"),
    ("{w}/squad", "{w}/albert.json/new", "albert.json"),
    ("{w}/squad", "{w}/RACE", "RACE"),
    ("{w}/squad", "/proc/new", "/proc"),
    ("{w}/squad", "{t}/" + "x" * 300, "xxx"),
    ("{w}/squad", "", "TO|folder|name"),
    ("{t}", "{t}/new", r"/\d+"),
    ("{w}/text.txt", "{t}/new", "text.txt"),
)


def attempts() -> Iterator[Attempt]:
    """Yields all attempts of the group."""
    yield from _models()
    yield from _converting()
    yield from _extracting()


def _models() -> Iterator[Attempt]:
    no_file = {"missing": MISSING, "a-folder": None, "a-loop": LOOP}
    for name, file, says, table in (
        ("config", _CONFIG, "config.json", _WHOLE),
        ("model.json", _MODEL, "model.json", _WHOLE),
        ("config", _CONFIG, "assets.extra", no_file),
        ("model.json", _MODEL, "assets.extra", no_file),
        ("spm", _SPM, "assets.extra|spm", no_file),
        ("spm", _SPM, "spm.model", {"half": half, "text": b"hello", "half-a-varint": b"\x0a\xff"}),
        ("spm", _SPM, "spm.model", {name: BAD[name] for name in ("empty", "zeros")}),
        ("index", _INDEX, "ckpt", {"half": half, "empty": b"", "text": b"no index\n" * 50}),
        ("data", _DATA, "ckpt", {"half": half, "empty": b"", "missing": MISSING}),
        ("data", _DATA, "ckpt", {"zeros": lambda data: bytes(len(data))}),
        ("data", _DATA, "ckpt", {"inverted": lambda data: bytes(255 - byte for byte in data)}),
        ("data", _DATA, "ckpt", {"another": pathlib.PurePath(_DATA.replace("squad", "mrpc"))}),
    ):
        yield from of_contents(f"ask-{name}-is", _ASK, says, file, table, "squad")
    for place in ("{t}/none", "{w}/albert.json", ""):
        command = ("ask", place, "--context", "A.", "--question", "B?")
        yield Attempt(f"ask-folder-{place[4:]}", command, place[4:] or "MODEL|folder|model")


def _converting() -> Iterator[Attempt]:
    command, says = ("convert", "{t}/hf", "{t}/new"), "config.json|safetensors"
    of = {str(value): with_key("model_type", value) for value in ("", None, 3, ["albert"])}
    yield from of_contents("convert-type", command, says, "hf/config.json", of, "hf")
    file, says = "hf/model.safetensors", "model.safetensors|hf"
    yield from of_contents("convert-is", command, says, file, _SAFETENSORS, "hf")
    for source, target, says in _PLACES:
        make = spoiled("", "", "squad") if source == "{t}/squad" else None
        name = f"convert-{source}-to-{target[:16]}"
        yield Attempt(name, ("convert", source, target), says, make)


def _extracting() -> Iterator[Attempt]:
    command = (
        *("embed", "--input_file={t}/in", "--output_file={t}/out", "--layers=-1"),
        "--init_checkpoint={w}/squad",
    )
    odd = {"blank": "\n\n", "nul": "a\0b\n", "cr": "a\rb\n", "long": "word " * 400_000 + "\n"}

    def has_lines(result, folder) -> bool:
        return len((folder / "out").read_text().splitlines()) in (1, 2)

    yield from of_contents("extract", command, "/in", "in", odd, holds=has_lines)
