"""Data and vocabularies of the programs that train: SQuAD, RACE, GLUE, one's own texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tests.faults.inputs.attempt import Attempt, of_contents, of_values
from tests.faults.inputs.good import BAD, Content, training
from tests.helpers.race import passage
from tests.helpers.squad import make_squad

_SQUAD: dict[str, Content] = {
    **BAD,
    **{"half": '{"data": [{"paragraphs": [{"con', "html": "<html>404 Not Found</html>"},
    **{"gzip": b"\x1f\x8b\x08\0" + bytes(20), "csv": "id,question\n1,Who?\n"},
    **{"no-articles": '{"data": []}', "two-objects": '{"data": []}{"data": []}'},
    "infinite": '{"data": Infinity}',
}
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
_RACE_PARTS = {
    "article": (None, 3, ["a"]),
    "questions": (None, "Which?", ["one"], [1, 2], [None, None]),
    "options": (None, "abcd", [["a"] * 3] * 2, [["a"] * 5] * 2, [[1] * 4] * 2, [[], []]),
    "answers": (None, "AB", ["E", "A"], ["a", "b"], [0, 1], ["", ""], ["A"], ["AB", "A"]),
}
_RACE = {
    **{"list": "[]\n", "latin-1": b'{"article": "\xe9"}', "a-number": "3\n", "no-keys": "{}\n"},
    **{"binary": BAD["binary"], "on-lines": json.dumps(passage(1, ["a"]), indent=1)},
}
_HEADER, _ROW = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n", "1\t1\t2\tn r l\ts c m\n"
_MRPC: dict[str, Content] = {
    **BAD,
    **{"header-alone": _HEADER, "few-columns": _HEADER + _ROW[:-7], "one-column": _HEADER + "1\n"},
    "commas": (_HEADER + _ROW).replace("\t", ","),
    "latin-1": (_HEADER + _ROW).replace("n", "é").encode("latin-1"),
}
# A test set has no labels.
_MRPC_LABELS = {label: f"{_HEADER}{label}{_ROW[1:]}" for label in ("2", "", "yes")}
_OWN = {
    **{"one-label": "sentence\tlabel\na\tx\nb\tx\n", "ragged": "sentence\tlabel\na\tx\nb\n"},
    **{"no-label": "sentence\na\nb\n", "no-text": "label\nx\ny\n", "empty": "", "blank": "\n\n\n"},
    "three-texts": "text_a\ttext_b\ttext_c\tlabel\na\tb\tc\tx\n",
    "twice-a-column": "sentence\tsentence\tlabel\na\tb\tx\n",
}
_SPECIAL = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
_VOCABULARIES: dict[str, Content] = {
    **BAD,
    **{"one-line": "[PAD]", "special-pieces-alone": _SPECIAL.replace("[CLS]\n", "")},
    "no-unk": _SPECIAL.replace("[UNK]\n", "") + "a\nb\n",
    "no-sep": _SPECIAL.replace("[SEP]\n", "") + "a\nb\n",
    "twice-a-piece": _SPECIAL + "a\nb\na\n",
    "too-many": _SPECIAL + "".join(f"word{n}\n" for n in range(1000)),
    "json": '{"[PAD]": 0, "[UNK]": 1}',
}
_VOCABULARIES.pop("zeros")


def attempts() -> Iterator[Attempt]:
    """All of the group."""
    yield from _squad()
    yield from _race()
    yield from _glue()
    yield from _own_texts()
    bert = ("--bert_config_file={w}/bert.json", "--spm_model_file=", "--vocab_file={t}/vocab.txt")
    command = training("run_squad_v1", *bert)
    yield from of_contents("vocabulary", command, "vocab", "vocab.txt", _VOCABULARIES)
    models = ("{w}/vocab.txt", "{w}/albert.json", "{t}/none", "{w}", "")
    yield from of_values("spm", training("run_squad_v1"), {"spm_model_file": models})


def _squad() -> Iterator[Attempt]:
    for version in ("v1", "v2"):
        for flag in ("train_file", "predict_file"):
            command = training(f"run_squad_{version}", f"--{flag}={{t}}/bad")
            name = f"squad-{version}-{flag}"
            yield from of_contents(name, command, "/bad|question", "bad", _SQUAD)
        for key, values in _SQUAD_PARTS.items():
            table = {f"{key}-{number}": _squad_with(key, v) for number, v in enumerate(values)}
            if (version, key) == ("v2", "answers"):
                # They may be null: there are none.
                del table["answers-0"]
            command = training(f"run_squad_{version}", "--train_file={t}/bad.json")
            yield from of_contents(f"squad-{version}", command, "bad.json", "bad.json", table)


def _squad_with(key: str, value: object) -> str:
    """A SQuAD file where every value of a key is another."""

    def change(part: dict) -> dict:
        return {**part, key: value} if key in part else part

    return json.dumps(json.loads(json.dumps(make_squad(1, 2)), object_hook=change))


def _race() -> Iterator[Attempt]:
    table = {
        f"{key}-{number}": json.dumps({**passage(1, ["a", "b"]), key: value}) + "\n"
        for key, values in _RACE_PARTS.items()
        for number, value in enumerate(values)
    }
    command, says = training("run_race", "--data_dir={t}"), "all.txt|middle1.txt"
    place = "RACE/train/high/all.txt"
    yield from of_contents("race", command, says, place, {**table, **_RACE}, "RACE")
    places = ("{t}/none", "{w}/text.txt", "{w}/RACE")
    yield from of_values("race", training("run_race"), {"data_dir": places})
    yield Attempt("race-both", training("run_race", "--high_only", "--middle_only"), "only")


def _glue() -> Iterator[Attempt]:
    command = training("run_classifier", "--data_dir={t}")
    for part in ("train", "dev", "test"):
        table = _MRPC | (_MRPC_LABELS if part != "test" else {})
        yield from of_contents(f"mrpc-{part}", command, part, f"MRPC/{part}.tsv", table, "MRPC")

    def with_score(score: str) -> Content:
        return lambda data: re.sub(r"\t[\d.]+$", f"\t{score}", data.decode(), flags=re.M)

    table = {score: with_score(score) for score in ("nan", "inf", "x", "", "1,5", "0x1")}
    command, says = (*command, "--task_name=sts-b"), "train.tsv|example|label"
    yield from of_contents("sts-b-score", command, says, "STS-B/train.tsv", table, "STS-B")
    for name in ("MRPC2", "", "mrpc,cola", "../mrpc", "tsv"):
        command = training("run_classifier", f"--task_name={name}")
        yield Attempt(f"task-{name}", command, "task_name|train|tsv")


def _own_texts() -> Iterator[Attempt]:
    """Of --task_name=tsv."""
    command = training("run_classifier", "--task_name=tsv", "--data_dir={t}")
    files, says = "train.tsv dev.tsv test.tsv", r"\.tsv|example"
    yield from of_contents("tsv", command, says, files, _OWN)
    numbers = {name: f"sentence\tlabel\na\t1\nb\t{name}\n" for name in ("x", "nan", "inf", "")}
    yield from of_contents("tsv-number", (*command, "--tsv_regression"), says, files, numbers)
