"""What reads models and predictions: ask, convert_checkpoint, extract_features, show, evaluate."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Iterator

from tests.faults.inputs.attempt import Attempt, of_contents, of_values
from tests.faults.inputs.good import BAD, LOOP, MISSING, half, spoiled, with_key

_CONFIG, _MODEL = "squad/assets.extra/config.json", "squad/assets.extra/model.json"
_SPM = "squad/assets.extra/spm.model"
_DATA, _INDEX = "squad/model.ckpt-best.data-00000-of-00001", "squad/model.ckpt-best.index"
_QUESTION = ("--question", "Who?")
_SQUAD, _ASK = ("ask", "{w}/squad"), ("ask", "{t}/squad", "--context", "A cat sat.", *_QUESTION)
# What is no JSON object of a configuration.
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
# Where a model is converted from and to, and what the line must say.
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
_PREDICTIONS = {
    **{"list": "[]", "number": '{"2-0-0-0": 3}', "null": '{"2-0-0-0": null}', "nothing": ""},
    **{"cut": '{"2-0-0-0": "a', "two": "{}{}", "surrogate-key": '{"\\ud800": 1}'},
}


def attempts() -> Iterator[Attempt]:
    """All of the group."""
    yield from _models()
    yield from _texts()
    yield from _converting()
    yield from _extracting()
    yield from _predictions()


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


def _texts() -> Iterator[Attempt]:
    def without_controls(result: subprocess.CompletedProcess, folder: pathlib.Path) -> bool:
        return not set("\x01\x02\x1b") & set(result.stdout)

    for name, text in {"blank": " \n\t", "controls": "\x01\x02\x1b[31m"}.items():
        # What a terminal would act on is shown as question marks.
        shown = without_controls if name == "controls" else None
        for what, asked in (("context", (text, "Who?")), ("question", ("A cat.", text))):
            command = (*_SQUAD, "--context", asked[0], "--question", asked[1])
            yield Attempt(f"ask-{what}-is-{name}", command, f"{what}|text", holds=shown)
    command = (*_SQUAD, *_QUESTION, "--context_file")
    table = {name: BAD[name] for name in ("binary", "empty", "a-loop")} | {"utf-16": b"\xff\xfeA\0"}
    yield from of_contents("ask-file", (*command, "{t}/context"), "context", "context", table)
    for place, says in (("{t}", r"/\d+"), ("/proc/self/mem", "mem")):
        yield Attempt(f"ask-file-{says}", (*command, place), says)


def _converting() -> Iterator[Attempt]:
    command, says = ("convert_checkpoint", "{t}/hf", "{t}/new"), "config.json|safetensors"
    of = {str(value): with_key("model_type", value) for value in ("", None, 3, ["albert"])}
    yield from of_contents("convert-type", command, says, "hf/config.json", of, "hf")
    file, says = "hf/model.safetensors", "model.safetensors|hf"
    yield from of_contents("convert-is", command, says, file, _SAFETENSORS, "hf")
    for source, target, says in _PLACES:
        make = spoiled("", "", "squad") if source == "{t}/squad" else None
        name = f"convert-{source}-to-{target[:16]}"
        yield Attempt(name, ("convert_checkpoint", source, target), says, make)


def _extracting() -> Iterator[Attempt]:
    plain = ("extract_features", "--input_file={t}/in", "--output_file={t}/out", "--layers=-1")
    command, good = (*plain, "--init_checkpoint={w}/squad"), spoiled("in", "A cat.\n")
    yield from of_contents("extract", command, "/in", "in", {"half-a-letter": b"a\xe2\x82"})
    odd = {"blank": "\n\n", "nul": "a\0b\n", "cr": "a\rb\n", "long": "word " * 400_000 + "\n"}

    def has_lines(result, folder) -> bool:
        return len((folder / "out").read_text().splitlines()) in (1, 2)

    yield from of_contents("extract", command, "/in", "in", odd, holds=has_lines)
    values = {
        "layers": ("0.5", "9" * 30, "-" + "9" * 30, "1,,2", "1;2", "--1"),
        "max_seq_length": ("1000000000000", "4", "-1"),
        "output_file": ("{t}", "/dev/full"),
    }
    yield from of_values("extract", command, values, good)


def _predictions() -> Iterator[Attempt]:
    data = "--data={w}/dev-v1.1.json"
    plain = ("evaluate", "{t}/p.json", data)
    yield from of_contents("evaluate", plain, "p.json", "p.json", _PREDICTIONS)
    command = (*("evaluate", "{w}/squad2/predictions.json"), "--data={w}/dev-v2.0.json")
    table = {"list": "[1]", "text": '{"2-0-0-0": "x"}', "none": "{"}
    odds = (*command, "--null_odds_file={t}/odds.json")
    yield from of_contents("evaluate-odds", odds, "odds.json", "odds.json", table)
    command = ("evaluate", "{w}/squad/predictions.json", "--data={t}/d.json")
    table = {"list": "[]", "none": '{"version": "1.1"}', "text": '{"data": "x"}', "two": "{}\n{}"}
    yield from of_contents("evaluate-data", command, "d.json", "d.json", table)
    plain = ("show_predictions", "--predictions={t}/p.json", data)
    yield from of_contents("show", plain, "p.json", "p.json", _PREDICTIONS)
    other = spoiled("squad/predictions.html", "<html><script>1</script></html>", "squad")
    command = ("show_predictions", "{t}/squad")
    yield Attempt("show-a-page-of-others", command, "predictions.html", other)
