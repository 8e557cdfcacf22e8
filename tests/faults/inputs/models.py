"""What reads models and predictions: ask, convert_checkpoint, extract_features, show, evaluate."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
from collections.abc import Iterator

from tests.faults.inputs.attempt import Attempt
from tests.faults.inputs.good import copied, replaced, with_bytes, with_json, written

_CONFIG, _MODEL = "assets.extra/config.json", "assets.extra/model.json"
_ASK = ("ask", "{t}/squad", "--context", "A cat sat.", "--question", "Who?")
_DATA = "model.ckpt-best.data-00000-of-00001"
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


def attempts() -> Iterator[Attempt]:
    """All of the group."""
    yield from _configurations()
    yield from _folders()
    yield from _texts()
    yield from _converting()
    yield from _extracting()
    yield from _evaluating()
    yield from _showing()


def _configurations() -> Iterator[Attempt]:
    for key, values in _SIZES.items():
        for value in values:

            def change(config: dict, key=key, value=value) -> None:
                config[key] = value

            make = with_json("squad", change, _CONFIG)
            yield Attempt(f"ask-config-{key}={value}", _ASK, f"config.json|ckpt|{key}", make)
    whole = {
        "list": "[]",
        "text": '"albert"',
        "empty": "",
        "no-keys": "{}",
        "half": '{"vocab_size": 1',
        "twice": '{"vocab_size": 1} {"vocab_size": 2}',
        "utf-16": '{"vocab_size": 100}'.encode("utf-16"),
        "zeros": b"\0" * 100,
        "deep": "[" * 100_000,
        "number-of-9999-digits": '{"vocab_size": ' + "9" * 9999 + "}",
    }
    for name, content in whole.items():
        yield Attempt(
            f"ask-config-is-{name}", _ASK, "config.json", replaced("squad", _CONFIG, content)
        )
        if name != "number-of-9999-digits":
            make = replaced("squad", _MODEL, content)
            yield Attempt(f"ask-model.json-is-{name}", _ASK, "model.json", make)


def _folders() -> Iterator[Attempt]:
    for name in ("config.json", "model.json", "spm.model"):
        file = f"assets.extra/{name}"

        def as_folder(folder: pathlib.Path, file=file) -> None:
            (folder / file).unlink()
            (folder / file).mkdir()

        def as_loop(folder: pathlib.Path, file=file) -> None:
            (folder / file).unlink()
            (folder / file).symlink_to(folder / file)

        def without(folder: pathlib.Path, file=file) -> None:
            (folder / file).unlink()

        for how, then in (("missing", without), ("a-folder", as_folder), ("a-loop", as_loop)):
            yield Attempt(f"ask-{name}-is-{how}", _ASK, "assets.extra|spm", copied("squad", then))
    contents = {"empty": b"", "text": b"hello", "zeros": bytes(5000), "half-a-varint": b"\x0a\xff"}
    for name, content in contents.items():
        make = replaced("squad", "assets.extra/spm.model", content)
        yield Attempt(f"ask-spm.model-is-{name}", _ASK, "spm.model", make)
    make = with_bytes("squad", lambda data: data[: len(data) // 2], "assets.extra/spm.model")
    yield Attempt("ask-spm.model-is-half", _ASK, "spm.model", make)
    spoiled = {
        "data-half": (_DATA, lambda data: data[: len(data) // 2]),
        "data-empty": (_DATA, lambda data: b""),
        "data-zeros": (_DATA, lambda data: bytes(len(data))),
        "data-inverted": (_DATA, lambda data: bytes(255 - byte for byte in data)),
        "index-half": ("model.ckpt-best.index", lambda data: data[: len(data) // 2]),
        "index-empty": ("model.ckpt-best.index", lambda data: b""),
        "index-text": ("model.ckpt-best.index", lambda data: b"no index\n" * 50),
    }
    for name, (file, change) in spoiled.items():
        yield Attempt(f"ask-{name}", _ASK, "ckpt", with_bytes("squad", change, file))

    def without_data(folder: pathlib.Path) -> None:
        (folder / _DATA).unlink()

    yield Attempt("ask-data-missing", _ASK, "ckpt", copied("squad", without_data))

    def others_data(good: pathlib.Path, folder: pathlib.Path) -> None:
        copied("squad")(good, folder)
        shutil.copy(good / "mrpc" / _DATA, folder / "squad")

    yield Attempt("ask-data-of-another-run", _ASK, "ckpt", others_data)
    for name, path in {"missing": "{t}/none", "a-file": "{w}/albert.json", "empty": ""}.items():
        command = ("ask", path, "--context", "A.", "--question", "B?")
        yield Attempt(f"ask-folder-is-{name}", command, "albert.json|none|MODEL|folder|model")
    yield Attempt("ask-folder-is-of-data", ("ask", "{w}/RACE", "text"), "RACE")


def _without_controls(result: subprocess.CompletedProcess, folder: pathlib.Path) -> bool:
    return not set("\x01\x02\x1b") & set(result.stdout)


def _texts() -> Iterator[Attempt]:
    squad, mrpc = ("ask", "{w}/squad"), ("ask", "{w}/mrpc")
    question = ("--question", "Who?")
    for name, text in {"empty": "", "blank": " \n\t", "controls": "\x01\x02\x1b[31m"}.items():
        # What a terminal would act on is shown as question marks.
        shown = _without_controls if name == "controls" else None
        command = (*squad, "--context", text, *question)
        yield Attempt(f"ask-context-is-{name}", command, "context|text", holds=shown)
        yield Attempt(
            f"ask-question-is-{name}",
            (*squad, "--context", "A cat.", "--question", text),
            "uestion",
            holds=shown,
        )
    for name, content in {
        "binary": bytes(range(256)),
        "empty": b"",
        "utf-16": b"\xff\xfeA\0",
    }.items():
        command = (*squad, "--context_file", "{t}/context", *question)
        yield Attempt(f"ask-file-is-{name}", command, "context", written("context", content))
    for name, place in {"folder": "{t}", "missing": "{t}/none", "itself": "/proc/self/mem"}.items():
        command = (*squad, "--context_file", place, *question)
        yield Attempt(f"ask-file-is-{name}", command, place.replace("{t}", "").lstrip("/"))
    for value in ("0", "-1", "x", "1.5"):
        command = (*squad, "--context", "A cat sat.", *question, f"--n_best={value}")
        yield Attempt(f"ask-n_best-{value[:9]}", command, "n_best")
    yield Attempt("ask-squad-with-options", (*_squad_asked(), "--option", "a"), "option")
    yield Attempt("ask-squad-with-a-text", ("ask", "{w}/squad", "A text."), "context|question")
    yield Attempt("ask-mrpc-with-a-question", (*mrpc, "a", *question), "question")
    yield Attempt("ask-mrpc-with-three-texts", (*mrpc, "a", "b", "c"), "text|sentence|argument")

    def is_json(result, folder) -> bool:
        return all(isinstance(json.loads(line), dict) for line in result.stdout.splitlines())

    odd = {"emoji": "\U0001f600" * 9, "rtl": "\u202eabc", "combining": "e" + "\u0301" * 999}
    for name, text in odd.items():
        command = (*squad, "--context", f"A cat {text} sat.", "--question", text, "--json")
        yield Attempt(f"ask-json-{name}", command, holds=is_json)


def _squad_asked() -> tuple[str, ...]:
    return ("ask", "{w}/squad", "--context", "A cat sat.", "--question", "Who?")


def _converting() -> Iterator[Attempt]:
    back = ("convert_checkpoint", "{t}/hf", "{t}/new")
    for key, values in _SIZES.items():
        if key not in ("initializer_range", "type_vocab_size", "inner_group_num"):
            value = values[0]

            def change(config: dict, key=key, value=value) -> None:
                config[key] = value

            make = with_json("hf", change, "config.json")
            yield Attempt(f"convert-config-{key}={value}", back, "config.json|safetensors", make)

    for value in ("gpt2", "", None, 3, ["albert"], "ALBERT"):

        def change_type(config: dict, value=value) -> None:
            config["model_type"] = value

        make = with_json("hf", change_type, "config.json")
        yield Attempt(f"convert-model_type={value!r}", back, "config.json|model_type", make)
    header = b'{"__metadata__":{}}'
    spoiled = {
        "empty": b"",
        "seven-bytes": b"1234567",
        "no-tensors": len(header).to_bytes(8, "little") + header,
        "html": b"<!DOCTYPE html><html>404</html>",
        "git-lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 47\n",
        "zip": b"PK\x03\x04" + bytes(100),
    }
    for name, content in spoiled.items():
        make = replaced("hf", "model.safetensors", content)
        yield Attempt(f"convert-safetensors-is-{name}", back, "model.safetensors|hf", make)
    places = {
        "a-file": ("{w}/squad", "{w}/albert.json", "albert.json"),
        "itself": ("{t}/squad", "{t}/squad", "squad"),
        "below-a-file": ("{w}/squad", "{w}/albert.json/new", "albert.json"),
        "not-empty": ("{w}/squad", "{w}/RACE", "RACE"),
        "in-proc": ("{w}/squad", "/proc/new", "/proc"),
        "of-300-letters": ("{w}/squad", "{t}/" + "x" * 300, "xxx"),
        "nothing": ("{w}/squad", "", "TO|folder|name"),
    }
    for name, (source, target, says) in places.items():
        make = copied("squad") if name == "itself" else None
        yield Attempt(f"convert-to-{name}", ("convert_checkpoint", source, target), says, make)
    for name, source in {"empty": "{t}", "missing": "{t}/none", "a-text": "{w}/text.txt"}.items():
        command = ("convert_checkpoint", source, "{t}/new")
        yield Attempt(f"convert-from-{name}", command, "checkpoint|none|text.txt|folder")
    plain = ("convert_checkpoint", "{w}/squad", "{t}/new")
    flags = {
        "config-of-bert": ("--albert_config_file={w}/bert.json",),
        "config-missing": ("--albert_config_file={t}/none",),
        "spm-missing": ("--spm_model_file={t}/none",),
        "spm-is-json": ("--spm_model_file={w}/albert.json",),
        "three-places": ("{t}/third",),
    }
    for name, more in flags.items():
        yield Attempt(f"convert-{name}", (*plain, *more), "none|json|_file|argument|third")


def _extracting() -> Iterator[Attempt]:
    plain = ("extract_features", "--input_file={t}/in", "--output_file={t}/out", "--layers=-1")
    model = "--init_checkpoint={w}/squad"
    good = written("in", "A cat.\n")
    for name, content in {"latin-1": b"caf\xe9\n", "half-a-letter": b"a\xe2\x82"}.items():
        yield Attempt(f"extract-{name}", (*plain, model), "/in", written("in", content))

    def has_lines(count: int):
        return lambda result, folder: len((folder / "out").read_text().splitlines()) == count

    texts = {
        "blank": ("\n\n", 2),
        "nul": ("a\0b\n", 1),
        "cr": ("a\rb\n", 1),
        "bars": (" ||| \n", 1),
    }
    for name, (content, count) in texts.items():
        make = written("in", content)
        yield Attempt(f"extract-{name}", (*plain, model), "/in", make, has_lines(count))
    long = written("in", "word " * 400_000 + "\n")
    yield Attempt("extract-a-long-line", (*plain, model), "/in", long, has_lines(1))
    for value in ("x", "0.5", "9" * 30, "-" + "9" * 30, "1,,2", "1;2", "--1", "99"):
        yield Attempt(
            f"extract-layers-{value[:9]}", (*plain, model, f"--layers={value}"), "layer", good
        )
    for value in ("129", "1000000000000", "4", "-1"):
        command = (*plain, model, f"--max_seq_length={value}")
        yield Attempt(f"extract-length-{value}", command, "max_seq_length|positions", good)
    places = {
        "a-folder": "{t}",
        "the-input": "{t}/in",
        "full": "/dev/full",
    }
    for name, place in places.items():
        command = (*plain, f"--output_file={place}", model)
        says = "output_file|" + place.replace("{t}", "")
        yield Attempt(f"extract-to-{name}", command, says, good)
    yield Attempt("extract-no-model", plain, "init_checkpoint", good)
    command = (*plain, "--init_checkpoint={w}/squad/model.ckpt-best", "--vocab_file={w}/spm.model")
    yield Attempt("extract-spm-as-vocab", command, "spm.model|vocab|tokenizer", good)


def _evaluating() -> Iterator[Attempt]:
    plain = ("evaluate", "{t}/p.json", "--data={w}/dev-v1.1.json")
    predictions = {
        "list": "[]",
        "number": '{"2-0-0-0": 3}',
        "null": '{"2-0-0-0": null}',
        "list-in-it": '{"2-0-0-0": ["a"]}',
        "cut": '{"2-0-0-0": "a',
        "nothing": "",
        "two": "{}{}",
        "surrogate-key": '{"\\ud800": 1}',
    }
    for name, content in predictions.items():
        yield Attempt(f"evaluate-{name}", plain, "p.json", written("p.json", content))
    v2 = ("evaluate", "{w}/squad2/predictions.json", "--data={w}/dev-v2.0.json")
    for name, content in {"list": "[1]", "text": '{"2-0-0-0": "x"}', "none": "{"}.items():
        command = (*v2, "--null_odds_file={t}/odds.json")
        yield Attempt(f"evaluate-odds-{name}", command, "odds.json", written("odds.json", content))
    for value in ("nan", "x", ""):
        command = (*v2, "--null_odds_file={w}/squad2/null_odds.json", f"--na_prob_thresh={value}")
        yield Attempt(f"evaluate-threshold-{value}", command, "na_prob_thresh")
    data = {
        "list": "[]",
        "no-data": '{"version": "1.1"}',
        "text": '{"data": "x"}',
        "jsonl": "{}\n{}",
    }
    for name, content in data.items():
        command = ("evaluate", "{w}/squad/predictions.json", "--data={t}/d.json")
        yield Attempt(f"evaluate-data-{name}", command, "d.json", written("d.json", content))
    runs = {"none": (), "a-missing": ("{w}/squad", "{t}/none"), "data-folder": ("{w}/RACE",) * 2}
    for name, places in runs.items():
        yield Attempt(
            f"evaluate-runs-{name}", ("evaluate", *places), "none|RACE|PREDICTIONS|RUN|run"
        )
    for value in ("-1", "x", "1.5"):
        yield Attempt(f"evaluate-seed-{value}", (*plain, f"--seed={value}"), "seed")


def _showing() -> Iterator[Attempt]:
    plain = ("show_predictions", "--predictions={t}/p.json", "--data={w}/dev-v1.1.json")
    for name, content in {"list": "[]", "number": '{"a": 1}', "cut": "{", "none": ""}.items():
        yield Attempt(f"show-{name}", plain, "p.json", written("p.json", content))
    files = ("show_predictions", "{w}/squad", "--data={w}/dev-v1.1.json", "--page={t}/page.html")
    nbest = {
        "list": "[]",
        "entry-a-text": '{"2-0-0-0": "a"}',
        "entries-texts": '{"2-0-0-0": ["a"]}',
        "no-text": '{"2-0-0-0": [{"probability": 1}]}',
        "text-a-list": '{"2-0-0-0": [{"text": [], "probability": 1}]}',
        "probability-text": '{"2-0-0-0": [{"text": "a", "probability": "1"}]}',
        "probability-true": '{"2-0-0-0": [{"text": "a", "probability": true}]}',
    }
    for name, content in nbest.items():
        command = (*files, "--nbest_file={t}/n.json")
        yield Attempt(f"show-nbest-{name}", command, "n.json", written("n.json", content))
    pages = {"a-folder": "{t}", "full": "/dev/full"}
    for name, place in pages.items():
        says = "page|" + place.replace("{t}", "")
        yield Attempt(f"show-page-{name}", (*files, f"--page={place}"), says)
    for value in ("-1", "x", "1e3"):
        yield Attempt(f"show-samples-{value}", (*files, f"--num_samples={value}"), "num_samples")
    yield Attempt("show-nothing", ("show_predictions",), "FOLDER|predictions")
    yield Attempt("show-a-data-folder", ("show_predictions", "{w}/RACE"), "RACE")
    yield Attempt(
        "show-two-folders",
        ("show_predictions", "{w}/squad", "{w}/mrpc"),
        "name the folder of a run",
    )
    page = replaced("squad", "predictions.html", "<html><script>1</script></html>")
    yield Attempt(
        "show-a-page-of-others", ("show_predictions", "{t}/squad"), "predictions.html", page
    )
