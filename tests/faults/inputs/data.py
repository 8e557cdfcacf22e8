"""Data and vocabularies of the programs that train: SQuAD, RACE and GLUE."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.faults.inputs.attempt import Attempt, of_contents, of_values
from tests.faults.inputs.good import BAD, Content, training
from tests.helpers.race import passage

_SQUAD: dict[str, Content] = {
    **BAD,
    **{"half": '{"data": [{"paragraphs": [{"con', "html": "<html>404 Not Found</html>"},
    **{"gzip": b"\x1f\x8b\x08\0" + bytes(20), "csv": "id,question\n1,Who?\n"},
    **{"no-articles": '{"data": []}', "two-objects": '{"data": []}{"data": []}'},
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


def attempts() -> Iterator[Attempt]:
    """All of the group."""
    for program in ("run_squad_v1", "run_squad_v2"):
        for flag in ("train_file", "predict_file"):
            command = training(program, f"--{flag}={{t}}/bad")
            name = f"{program}-{flag}"
            yield from of_contents(name, command, "/bad|question", "bad", _SQUAD)
    parts = {
        f"{key}-{number}": json.dumps({**passage(1, ["a", "b"]), key: value}) + "\n"
        for key, values in _RACE_PARTS.items()
        for number, value in enumerate(values)
    }
    command, says = training("run_race", "--data_dir={t}"), "all.txt|middle1.txt"
    place = "RACE/train/high/all.txt"
    yield from of_contents("race", command, says, place, {**parts, **_RACE}, "RACE")
    places = ("{t}/none", "{w}/text.txt", "{w}/RACE")
    yield from of_values("race", training("run_race"), {"data_dir": places})
    command = training("run_classifier", "--data_dir={t}")
    for part in ("train", "dev", "test"):
        yield from of_contents(f"mrpc-{part}", command, part, f"MRPC/{part}.tsv", _MRPC, "MRPC")
    for name in ("MRPC2", "", "mrpc,cola", "../mrpc", "tsv"):
        command = training("run_classifier", f"--task_name={name}")
        yield Attempt(f"task-{name}", command, "task_name|train|tsv")
    bert = ("--bert_config_file={w}/bert.json", "--spm_model_file=", "--vocab_file={t}/vocab.txt")
    command = training("run_squad_v1", *bert)
    vocabularies = {**BAD, "one-line": "[PAD]", "json": '{"[PAD]": 0, "[UNK]": 1}'}
    # A line of zero bytes is a piece.
    del vocabularies["zeros"]
    yield from of_contents("vocabulary", command, "vocab", "vocab.txt", vocabularies)
