"""What reads models and predictions: ask, convert_checkpoint, extract_features, show, evaluate."""

from __future__ import annotations

import json
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
# Values that no configuration of a model may have, by key.
_SIZES = {
    "hidden_size": (0, -32, 33, 32.5, "32", None, True, [32], 10**30, float("nan")),
    "num_attention_heads": (0, 5, "2", 1e400),
    "num_hidden_layers": (0, -1, "2", {}),
    "vocab_size": (0, 7, "many"),
    "embedding_size": (0, 8, "16"),
    "intermediate_size": (0, 63, False),
    "max_position_embeddings": (0, -128, 64.25),
    "type_vocab_size": (0, 3, "2"),
    "hidden_act": ("no such", 3, ["gelu"]),
    "hidden_dropout_prob": (2, -0.1, "0.1", float("nan")),
    "initializer_range": ("x", -1, float("inf")),
    "num_hidden_groups": (0, 2, "1"),
    "inner_group_num": (0, 2, None),
}
# What is no JSON object of a configuration.
_WHOLE = {
    **{"list": "[]", "text": '"albert"', "no-keys": "{}", "half": '{"vocab_size": 1'},
    **{"twice": '{"vocab_size": 1} {"vocab_size": 2}', "deep": "[" * 100_000},
    **{name: BAD[name] for name in ("empty", "zeros", "utf-16")},
}
_SAFETENSORS = {
    "seven-bytes": b"1234567",
    "no-tensors": (19).to_bytes(8, "little") + b'{"__metadata__":{}}',
    "html": b"<!DOCTYPE html><html>404</html>",
    "git-lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 47\n",
    "zip": b"PK\x03\x04" + bytes(100),
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
    ("{t}/none", "{t}/new", "none"),
    ("{w}/text.txt", "{t}/new", "text.txt"),
    ("{w}/squad", "{t}/new", "third", "{t}/third"),
)
_PREDICTIONS = {
    **{"list": "[]", "number": '{"2-0-0-0": 3}', "null": '{"2-0-0-0": null}', "nothing": ""},
    **{"list-in-it": '{"2-0-0-0": ["a"]}', "cut": '{"2-0-0-0": "a', "two": "{}{}"},
    "surrogate-key": '{"\\ud800": 1}',
}
_ENTRIES = {
    **{"text": '"a"', "texts": '["a"]', "no-text": '[{"probability": 1}]'},
    "text-a-list": '[{"text": [], "probability": 1}]',
    "probability-text": '[{"text": "a", "probability": "1"}]',
    "probability-true": '[{"text": "a", "probability": true}]',
}


def attempts() -> Iterator[Attempt]:
    """All of the group."""
    yield from _models()
    yield from _texts()
    yield from _converting()
    yield from _extracting()
    yield from _evaluating()
    yield from _showing()


def _models() -> Iterator[Attempt]:
    for key, values in _SIZES.items():
        table = {str(value): with_key(key, value) for value in values}
        says = f"config.json|ckpt|{key}"
        yield from of_contents(f"ask-config-{key}", _ASK, says, _CONFIG, table, "squad")
    digits = {"number-of-9999-digits": '{"vocab_size": ' + "9" * 9999 + "}"}
    no_file = {"missing": MISSING, "a-folder": None, "a-loop": LOOP}
    for name, file, says, table in (
        ("config", _CONFIG, "config.json", _WHOLE | digits),
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
    yield Attempt("ask-folder-of-data", ("ask", "{w}/RACE", "text"), "RACE")


def _texts() -> Iterator[Attempt]:
    def without_controls(result: subprocess.CompletedProcess, folder: pathlib.Path) -> bool:
        return not set("\x01\x02\x1b") & set(result.stdout)

    for name, text in {"empty": "", "blank": " \n\t", "controls": "\x01\x02\x1b[31m"}.items():
        # What a terminal would act on is shown as question marks.
        shown = without_controls if name == "controls" else None
        for what, asked in (("context", (text, "Who?")), ("question", ("A cat.", text))):
            command = (*_SQUAD, "--context", asked[0], "--question", asked[1])
            yield Attempt(f"ask-{what}-is-{name}", command, f"{what}|text", holds=shown)
    command = (*_SQUAD, *_QUESTION, "--context_file")
    table = {name: BAD[name] for name in ("binary", "empty", "a-loop")} | {"utf-16": b"\xff\xfeA\0"}
    yield from of_contents("ask-file", (*command, "{t}/context"), "context", "context", table)
    for place, says in (("{t}", r"/\d+"), ("{t}/none", "none"), ("/proc/self/mem", "mem")):
        yield Attempt(f"ask-file-{says}", (*command, place), says)
    asked = (*_SQUAD, "--context", "A cat sat.", *_QUESTION)
    yield from of_values("ask", asked, {"n_best": ("0", "-1", "x", "1.5")})
    yield Attempt("ask-squad-with-options", (*asked, "--option", "a"), "option")
    yield Attempt("ask-squad-with-a-text", (*_SQUAD, "A text."), "context|question")
    yield Attempt("ask-mrpc-a-question", ("ask", "{w}/mrpc", "a", *_QUESTION), "question")
    yield Attempt("ask-mrpc-three-texts", ("ask", "{w}/mrpc", "a", "b", "c"), "text|sentence")

    def is_json(result, folder) -> bool:
        return all(isinstance(json.loads(line), dict) for line in result.stdout.splitlines())

    odd = {"emoji": "\U0001f600" * 9, "rtl": "\u202eabc", "combining": "e" + "\u0301" * 999}
    for name, text in odd.items():
        command = (*_SQUAD, "--context", f"A cat {text} sat.", "--question", text, "--json")
        yield Attempt(f"ask-json-{name}", command, holds=is_json)


def _converting() -> Iterator[Attempt]:
    command = ("convert_checkpoint", "{t}/hf", "{t}/new")
    left_out = {"initializer_range", "type_vocab_size", "inner_group_num"}
    of = {key: with_key(key, values[0]) for key, values in _SIZES.items() if key not in left_out}
    for value in ("gpt2", "", None, 3, ["albert"], "ALBERT"):
        of[f"model_type={value!r}"] = with_key("model_type", value)
    says = "config.json|safetensors|model_type"
    yield from of_contents("convert-config", command, says, "hf/config.json", of, "hf")
    tensors, says = {**_SAFETENSORS, "empty": b""}, "model.safetensors|hf"
    yield from of_contents("convert-is", command, says, "hf/model.safetensors", tensors, "hf")
    for source, target, says, *third in _PLACES:
        make = spoiled("", "", "squad") if source == "{t}/squad" else None
        name = f"convert-{source}-to-{target[:16]}{third}"
        yield Attempt(name, ("convert_checkpoint", source, target, *third), says, make)
    plain = ("convert_checkpoint", "{w}/squad", "{t}/new")
    configs = ("{w}/bert.json", "{t}/none")
    yield from of_values("convert", plain, {"albert_config_file": configs})
    yield from of_values("convert", plain, {"spm_model_file": ("{t}/none", "{w}/albert.json")})


def _extracting() -> Iterator[Attempt]:
    plain = ("extract_features", "--input_file={t}/in", "--output_file={t}/out", "--layers=-1")
    command, good = (*plain, "--init_checkpoint={w}/squad"), spoiled("in", "A cat.\n")
    table = {"latin-1": b"caf\xe9\n", "half-a-letter": b"a\xe2\x82"}
    yield from of_contents("extract", command, "/in", "in", table)
    for count, table in (
        (2, {"blank": "\n\n"}),
        (1, {"nul": "a\0b\n", "cr": "a\rb\n", "bars": " ||| \n", "long": "word " * 400_000 + "\n"}),
    ):

        def has_lines(result, folder, count=count) -> bool:
            return len((folder / "out").read_text().splitlines()) == count

        yield from of_contents("extract", command, "/in", "in", table, holds=has_lines)
    values = {
        "layers": ("x", "0.5", "9" * 30, "-" + "9" * 30, "1,,2", "1;2", "--1", "99"),
        "max_seq_length": ("129", "1000000000000", "4", "-1"),
        "output_file": ("{t}", "{t}/in", "/dev/full"),
        "vocab_file": ("{w}/spm.model",),
    }
    yield from of_values("extract", command, values, good)
    yield Attempt("extract-no-model", plain, "init_checkpoint", good)


def _evaluating() -> Iterator[Attempt]:
    plain = ("evaluate", "{t}/p.json", "--data={w}/dev-v1.1.json")
    yield from of_contents("evaluate", plain, "p.json", "p.json", _PREDICTIONS)
    v2 = ("evaluate", "{w}/squad2/predictions.json", "--data={w}/dev-v2.0.json")
    command = (*v2, "--null_odds_file={t}/odds.json")
    table = {"list": "[1]", "text": '{"2-0-0-0": "x"}', "none": "{"}
    yield from of_contents("evaluate-odds", command, "odds.json", "odds.json", table)
    command = (*v2, "--null_odds_file={w}/squad2/null_odds.json")
    yield from of_values("evaluate", command, {"na_prob_thresh": ("nan", "x", "")})
    command = ("evaluate", "{w}/squad/predictions.json", "--data={t}/d.json")
    table = {"list": "[]", "none": '{"version": "1.1"}', "text": '{"data": "x"}', "two": "{}\n{}"}
    yield from of_contents("evaluate-data", command, "d.json", "d.json", table)
    for places in ((), ("{w}/squad", "{t}/none"), ("{w}/RACE", "{w}/RACE")):
        says = places[-1][4:] if places else "predictions|run"
        yield Attempt(f"evaluate-runs-{says}", ("evaluate", *places), says)
    yield from of_values("evaluate", plain, {"seed": ("-1", "x", "1.5")})


def _showing() -> Iterator[Attempt]:
    plain = ("show_predictions", "--predictions={t}/p.json", "--data={w}/dev-v1.1.json")
    table = {"list": "[]", "number": '{"a": 1}', "cut": "{", "none": ""}
    yield from of_contents("show", plain, "p.json", "p.json", table)
    files = ("show_predictions", "{w}/squad", "--data={w}/dev-v1.1.json", "--page={t}/page.html")
    table = {name: f'{{"2-0-0-0": {entries}}}' for name, entries in _ENTRIES.items()}
    command = (*files, "--nbest_file={t}/n.json")
    yield from of_contents("show-nbest", command, "n.json", "n.json", {"list": "[]", **table})
    values = {"page": ("{t}", "/dev/full"), "num_samples": ("-1", "x", "1e3")}
    yield from of_values("show", files, values)
    name = "name the folder of a run"
    for says, places in ((name, ()), ("RACE", ("{w}/RACE",)), (name, ("{w}/squad", "{w}/mrpc"))):
        yield Attempt(f"show-{places}", ("show_predictions", *places), says)
    other = spoiled("squad/predictions.html", "<html><script>1</script></html>", "squad")
    command = ("show_predictions", "{t}/squad")
    yield Attempt("show-a-page-of-others", command, "predictions.html", other)
