"""Data and vocabularies of the programs that train: SQuAD, RACE, GLUE, one's own texts."""

from __future__ import annotations

import copy
import json
import pathlib
from collections.abc import Callable, Iterator

from tests.faults.inputs.attempt import Attempt
from tests.faults.inputs.good import copied, written
from tests.faults.jobs import FLAGS
from tests.helpers.race import passage
from tests.helpers.squad import make_squad

_LOOP = "a loop"


def training(program: str, *flags: str) -> tuple[str, ...]:
    """The command of two steps of a program on good inputs; later flags win."""
    steps = "--train_steps=2" if "squad" in program else "--train_step=2"
    given = [flag.format("{w}") for flag in FLAGS[program]]
    return (program, *given, steps, "--output_dir={t}/out", *flags)


def attempts() -> Iterator[Attempt]:
    """All of the group."""
    yield from _squad()
    yield from _race()
    yield from _glue()
    yield from _own_texts()
    yield from _vocabularies()


def _placed(name: str, content: str | bytes | None) -> Callable[[pathlib.Path, pathlib.Path], None]:
    """Writes a file, or in its place a folder (None), or a link to itself."""

    def make(good: pathlib.Path, folder: pathlib.Path) -> None:
        path = folder / name
        if content is None:
            path.mkdir(parents=True)
        elif content == _LOOP:
            path.symlink_to(path)
        else:
            written(name, content)(good, folder)

    return make


def _squad() -> Iterator[Attempt]:
    files = {
        "a-folder": None,
        "a-loop": _LOOP,
        "empty": "",
        "binary": bytes(range(256)),
        "half": '{"data": [{"paragraphs": [{"con',
        "utf-16": json.dumps(make_squad(1, 1)).encode("utf-16"),
        "zeros": bytes(4096),
        "html": "<html>404 Not Found</html>",
        "gzip": b"\x1f\x8b\x08\0" + bytes(20),
        "no-articles": '{"data": []}',
        "two-objects": '{"data": []}{"data": []}',
        "infinite": '{"data": Infinity}',
        "csv": "id,question\n1,Who?\n",
    }
    for version in ("v1", "v2"):
        for flag in ("train_file", "predict_file"):
            command = training(f"run_squad_{version}", f"--{flag}={{t}}/bad")
            for name, content in files.items():
                name = f"squad-{version}-{flag}-{name}"
                yield Attempt(name, command, r"/bad|question", _placed("bad", content))
    for path, values in _SQUAD_PARTS.items():
        for number, value in enumerate(values):
            content = json.dumps(_squad_with(path.split("."), value))
            # Answers of 2.0 may be null: there are none.
            for version in ("v1",) if (path, value) == ("answers", None) else ("v1", "v2"):
                command = training(f"run_squad_{version}", "--train_file={t}/bad.json")
                name = f"squad-{version}-{path}-{number}"
                yield Attempt(name, command, "bad.json", written("bad.json", content))


# What no SQuAD has, of every article, paragraph, question and answer.
_SQUAD_PARTS = {
    "data": (None, {}, "x", [None], [1], [[]]),
    "paragraphs": (None, {}, "x", [None], 7),
    "context": (None, 3, ["a"], ""),
    "qas": (None, {}, [None], ["x"], "x"),
    "id": (None, ["a"], {}, "the same"),
    "question": (None, 3, ["Who?"]),
    "answers": (None, {}, ["x"], [None], "x"),
    "text": (None, 3, [], "not in the text at all"),
    "answer_start": (None, "3", -1, 10**9, 1.5, [0]),
}


def _squad_with(path: list[str], value: object) -> dict:
    """A SQuAD file where every value of a key is another."""

    def change(part: object) -> None:
        if isinstance(part, dict):
            for key, inner in part.items():
                if key == path[-1]:
                    part[key] = copy.deepcopy(value)
                else:
                    change(inner)
        elif isinstance(part, list):
            for inner in part:
                change(inner)

    content = make_squad(1, 2)
    change(content)
    return content


def _race() -> Iterator[Attempt]:
    values = {
        "article": (None, 3, ["a"]),
        "questions": (None, "Which?", ["one"], [1, 2], [None, None]),
        "options": (None, "abcd", [["a"] * 3] * 2, [["a"] * 5] * 2, [[1] * 4] * 2, [[], []]),
        "answers": (None, "AB", ["E", "A"], ["a", "b"], [0, 1], ["", ""], ["A"], ["AB", "A"]),
    }
    place = "RACE/train/high/all.txt"
    for key, some in values.items():
        for number, value in enumerate(some):
            content = json.dumps({**passage(1, ["a", "b"]), key: value})
            yield _of_race(f"race-{key}-{number}", place, content + "\n")
    whole = {
        "list": "[]\n",
        "binary": bytes(range(256)),
        "latin-1": '{"article": "é"}'.encode("latin-1"),
        "one-object-on-lines": json.dumps(passage(1, ["a"]), indent=1),
        "a-number": "3\n",
        "no-keys": "{}\n",
    }
    for name, content in whole.items():
        yield _of_race(f"race-file-{name}", place, content)
    for name, data in {"none": "{t}/none", "a-file": "{w}/text.txt", "inside": "{w}/RACE"}.items():
        yield Attempt(
            f"race-data_dir-{name}", training("run_race", f"--data_dir={data}"), "RACE|text|none"
        )
    both = training("run_race", "--high_only", "--middle_only")
    yield Attempt("race-both-only", both, "only")


def _of_race(name: str, place: str, content: str | bytes) -> Attempt:
    def make(good: pathlib.Path, folder: pathlib.Path) -> None:
        copied("RACE")(good, folder)
        written(place, content)(good, folder)

    return Attempt(name, training("run_race", "--data_dir={t}"), "all.txt|middle1.txt", make)


def _glue() -> Iterator[Attempt]:
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    row = "1\t1\t2\tn r l\ts c m\n"
    files = {
        "empty": "",
        "header-alone": header,
        "label-2": header + row.replace("1", "2", 1),
        "label-none": header + row[1:],
        "label-of-words": header + "yes" + row[1:],
        "few-columns": header + "1\t1\t2\tn r l\n",
        "one-column": header + "1\n",
        "commas": (header + row).replace("\t", ","),
        "binary": bytes(range(256)),
        "utf-16": (header + row).encode("utf-16"),
        "latin-1": (header + row).replace("n", "é").encode("latin-1"),
        "a-folder": None,
        "a-loop": _LOOP,
        "zeros": bytes(1000),
    }
    for part in ("train", "dev", "test"):
        for name, content in files.items():
            # A test set has no labels.
            if part != "test" or "label" not in name:
                file = f"MRPC/{part}.tsv"

                def make(good, folder, file=file, content=content) -> None:
                    copied("MRPC")(good, folder)
                    (folder / file).unlink()
                    _placed(file, content)(good, folder)

                command = training("run_classifier", "--data_dir={t}")
                yield Attempt(f"mrpc-{part}-{name}", command, part, make)
    for score in ("nan", "inf", "x", "", "1,5", "0x1"):

        def make_score(good, folder, score=score) -> None:
            copied("STS-B")(good, folder)
            path = folder / "STS-B/train.tsv"
            first, *rows = path.read_text().splitlines()
            rows = [row.rpartition("\t")[0] + f"\t{score}" for row in rows]
            path.write_text("\n".join([first, *rows]))

        command = training("run_classifier", "--data_dir={t}", "--task_name=sts-b")
        yield Attempt(f"sts-b-score-{score}", command, "train.tsv|example|label", make_score)
    for name in ("MRPC2", "", "mrpc,cola", "../mrpc", "tsv"):
        yield Attempt(
            f"task-{name}", training("run_classifier", f"--task_name={name}"), "task_name|train|tsv"
        )


def _own_texts() -> Iterator[Attempt]:
    """Of --task_name=tsv."""
    files = {
        "one-label": "sentence\tlabel\na\tx\nb\tx\n",
        "no-label": "sentence\na\nb\n",
        "no-text": "label\nx\ny\n",
        "three-texts": "text_a\ttext_b\ttext_c\tlabel\na\tb\tc\tx\n",
        "twice-a-column": "sentence\tsentence\tlabel\na\tb\tx\n",
        "empty": "",
        "blank": "\n\n\n",
        "ragged": "sentence\tlabel\na\tx\nb\n",
    }
    for name, content in files.items():
        command = training("run_classifier", "--task_name=tsv", "--data_dir={t}")

        def make(good, folder, content=content) -> None:
            for part in ("train", "dev", "test"):
                written(f"{part}.tsv", content)(good, folder)

        yield Attempt(f"tsv-{name}", command, r"\.tsv", make)
    numbers = {"words": "x", "nan": "nan", "inf": "inf", "none": ""}
    for name, value in numbers.items():
        flags = ("--task_name=tsv", "--tsv_regression", "--data_dir={t}")

        def make_numbers(good, folder, value=value) -> None:
            for part in ("train", "dev", "test"):
                content = f"sentence\tlabel\na\t1\nb\t{value}\n"
                written(f"{part}.tsv", content)(good, folder)

        command = training("run_classifier", *flags)
        yield Attempt(f"tsv-number-{name}", command, r"\.tsv|example", make_numbers)


def _vocabularies() -> Iterator[Attempt]:
    special = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
    files = {
        "empty": "",
        "one-line": "[PAD]",
        "special-pieces-alone": special.replace("[CLS]\n", ""),
        "no-unk": special.replace("[UNK]\n", "") + "a\nb\n",
        "no-sep": special.replace("[SEP]\n", "") + "a\nb\n",
        "twice-a-piece": special + "a\nb\na\n",
        "too-many": special + "".join(f"word{n}\n" for n in range(1000)),
        "utf-16": (special + "a\nb\n").encode("utf-16"),
        "binary": bytes(range(256)) * 4,
        "json": '{"[PAD]": 0, "[UNK]": 1}',
        "a-folder": None,
        "a-loop": _LOOP,
    }
    bert = ("--bert_config_file={w}/bert.json", "--spm_model_file=")
    for name, content in files.items():
        command = training("run_squad_v1", *bert, "--vocab_file={t}/vocab.txt")
        yield Attempt(f"vocabulary-{name}", command, "vocab", _placed("vocab.txt", content))
    models = {"vocab": "{w}/vocab.txt", "json": "{w}/albert.json", "none": "{t}/none", "dir": "{w}"}
    for name, place in models.items():
        command = training("run_squad_v1", f"--spm_model_file={place}")
        yield Attempt(f"spm-is-{name}", command, "spm_model_file|SentencePiece|" + place[4:])
    yield Attempt("no-tokenizer", training("run_squad_v1", "--spm_model_file="), "spm_model_file")
