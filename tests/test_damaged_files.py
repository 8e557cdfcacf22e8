"""Damaged files of questions and labels are read as a plain reader reads them, or refused."""

import collections
import csv
import io
import itertools
import json
import pathlib
import random
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from albert.core.errors import UserError
from albert.tasks.glue.custom import TsvProcessor
from albert.tasks.glue.settings import GlueSettings
from albert.tasks.squad.examples import read_examples
from albert.tasks.squad.questions import Questions, QuestionSource

CONTEXT = 'The Tamar is 98 km long;\nit was, they say, "bridged" in 1859.'
NAMES = ("id", "context", "question", "answer", "answer_start")
# The last answer occurs twice.
ROWS = [
    dict(zip(NAMES, values, strict=True))
    for values in [
        ("x", CONTEXT, "How long?", "98 km", 13),
        ("x", CONTEXT, "How long?", "long", ""),
        ("y", CONTEXT, "Why, then?", "", ""),
        ("z", "Élan is Élan.", "Who is?", "Élan", 0),
        ("w", "Élan is Élan.", "Who?", "Élan", ""),
    ]
]
LABELS = [
    {"text_a": 'A "b", c', "text_b": "d; e", "label": "yes"},
    {"text_a": "f é", "text_b": "", "label": "no"},
    {"text_a": '"g"', "text_b": "h", "label": "yes"},
]
# Parts that mean something in one of the formats.
PARTS = [
    '"',
    *",\n\r\t\0{]}é;[",
    "null",
    "1e400",
    "-1",
    "\\ud800",
    '"data":',
    "\n\n",
    ",,,,",
    "sep=;",
]
PARTS += ['"answers":', '"is_impossible": true', "true", "13", '"qas": []', "\ufeff", "\u0301"]


def cells(rows: list[dict], delimiter: str) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, rows[0], delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def tabs(rows: list[dict]) -> str:
    """Returns rows as TSV, whose cells have no line ends."""
    lines = [list(rows[0]), *([tab_cell(str(value)) for value in r.values()] for r in rows)]
    return "".join("\t".join(line) + "\n" for line in lines)


def tab_cell(text: str) -> str:
    """Returns a cell, which has quotation marks if it would lose them."""
    text = text.replace("\n", " ")
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if text.startswith('"') else text


def lines_of(rows: list[dict]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def paragraphs() -> list[dict]:
    found = collections.defaultdict(list)
    for row in ROWS[1:]:
        start = row["context"].find(row["answer"])
        answers = [{"text": row["answer"], "answer_start": start}] if row["answer"] else []
        answers += [{"text": "the", "answer_start": 36}] * len(answers)
        about = {"id": row["id"], "question": row["question"], "is_impossible": not answers}
        found[row["context"]].append({**about, "answers": answers})
    return [{"context": context, "qas": qas} for context, qas in found.items()]


FLAT = [
    {**row, "answer": None, "answers": {"text": [row["answer"]], "answer_start": [None]}}
    for row in ROWS
    if row["answer"]
]
QUESTION_FILES = [
    cells(ROWS, ","),
    "sep=;\n" + cells(ROWS, ";"),
    tabs(ROWS),
    lines_of(ROWS),
    lines_of([{"context": CONTEXT, **p["qas"][0]} for p in paragraphs()]),
    json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs()}]}, indent=1),
    json.dumps(paragraphs(), ensure_ascii=False),
    json.dumps({"data": FLAT}),
]
LABEL_FILES = [cells(LABELS, ","), cells(LABELS, ";"), tabs(LABELS), lines_of(LABELS)]


def plain_rows(text: str, original: str) -> Iterator[dict]:
    """Yields the rows of a table that was damaged; the original tells its format."""
    if original.startswith("{"):
        yield from (json.loads(line) for line in text.split("\n") if line.strip())
        return
    lines = text.split("\n")
    if re.fullmatch('"?sep=[,;\t]"?\r?', lines[0]):
        text = text.partition("\n")[2]
    head = original.split("\n")[original.startswith("sep=")]
    delimiter = re.search("[,;\t]", head)[0]
    if delimiter == "\t":
        rows = [line.rstrip("\r").split("\t") for line in text.split("\n")]
        rows = [[plain_cell(cell) for cell in row] for row in rows if any(row)]
    else:
        rows = [row for row in csv.reader(io.StringIO(text, "\n"), delimiter=delimiter) if any(row)]
    names = [" ".join(name.split()) for name in rows[0]]
    yield from (dict(zip(names, row, strict=True)) for row in rows[1:])


def plain_cell(cell: str) -> str:
    is_quoted = re.fullmatch('"(""|[^"])*"', cell)
    return cell[1:-1].replace('""', '"') if is_quoted else cell


class Plain(NamedTuple):
    """A question with the texts and starts of its answers."""

    id: str
    context: str
    question: str
    answers: list[tuple[str, int | None]]
    is_impossible: bool

    def usable(self) -> dict[tuple[str, int], None]:
        """Returns the answers for training, with their starts."""
        usable = {}
        for text, start in self.answers * bool(self.context.strip() and self.question.strip()):
            if start is None and text.strip():
                text, ends = text.strip(), range(len(self.context) + 1)
                starts = [end - len(text) for end in ends if self.context[:end].endswith(text)]
                usable |= {(text, starts[0]): None} if len(starts) == 1 else {}
            elif text.strip() and start >= 0 and self.context[start:][: len(text)] == text:
                usable[text, start] = None
        return usable


def plain_questions(text: str, original: str) -> Iterator[Plain]:
    rows = None
    if original.startswith(("{\n", "[", '{"data"')):
        document = json.loads(text)
        rows = document if isinstance(document, list) else document["data"]
        for item in rows:
            for paragraph in item.get("paragraphs", [item] if "qas" in item else []):
                for qa in paragraph["qas"]:
                    found = [(a["text"], a.get("answer_start")) for a in qa.get("answers") or []]
                    about = str(qa["id"]), paragraph["context"], qa["question"]
                    yield Plain(*about, found, bool(qa.get("is_impossible")))
    rows = plain_rows(text, original) if rows is None else rows
    rows = [row for row in rows if not {"paragraphs", "qas"} & row.keys()]
    ids = (str(row.get("id") or f" {number}") for number, row in enumerate(rows))
    pairs = itertools.groupby(zip(ids, rows, strict=True), lambda pair: pair[0])
    for number, (qas_id, group) in enumerate(pairs, start=1):
        group = [row for _, row in group]
        found = [pair for row in group for pair in plain_answers(row) if pair[0].strip()]
        context, question = group[0]["context"], group[0]["question"]
        if context.strip() and question.strip():
            impossible = any(str(row.get("is_impossible")).lower() in "true1" for row in group)
            qas_id = str(number) if qas_id[0] == " " else qas_id
            yield Plain(qas_id, context, question, found, impossible)


def plain_answers(row: dict) -> list[tuple[str, int | None]]:
    answer, starts = row.get("answer") or "", row.get("answer_start")
    if not answer or (isinstance(answer, str) and not answer.strip()):
        answer = row.get("answers") or []
    if isinstance(answer, dict):
        answer, starts = answer["text"], answer["answer_start"]
    answer = answer if isinstance(answer, list) else [answer]
    if answer and isinstance(answer[0], dict):
        answer, starts = ([one.get(key) for one in answer] for key in ("text", "answer_start"))
    starts = starts if isinstance(starts, list) and starts else [starts] * len(answer)
    numbers = [None if start in ("", None, []) else int(float(start)) for start in starts]
    return list(zip(answer, numbers, strict=True))


def damaged(original: str, rng: random.Random) -> bytes:
    encoding = rng.choice(["utf-8", "utf-8", "utf-16"])
    content = bytearray(original.encode(encoding))
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        start, part = rng.randrange(2, len(content)), rng.choice(PARTS).encode(encoding)
        change = rng.choice([part.removeprefix(b"\xff\xfe"), b"", bytes([rng.randrange(256)])])
        content[start : start + 2 * rng.randint(0, 5)] = change
    return bytes(content)


def decoded(content: bytes) -> str:
    return content.decode("utf-16" if content[:2] == b"\xff\xfe" else "utf-8-sig")


def read_or_refuse(read, path: pathlib.Path, content: bytes):
    """Returns what is read; None if it is refused in one line with the path."""
    path.write_bytes(content)
    try:
        return read()
    except UserError as e:
        assert "\n" not in str(e) and str(path) in str(e), (content, e)
    return None


@pytest.mark.parametrize("number", range(len(QUESTION_FILES)))
def test_damaged_questions_are_read_as_written_or_refused(tmp_path, number):
    rng, path, original = random.Random(number), tmp_path / "questions", QUESTION_FILES[number]
    outcomes = collections.Counter()

    def read() -> list[tuple[str, str, str, list[str]]]:
        questions = Questions(QuestionSource(str(path)))
        list(questions.checked())
        return [
            (q["id"], context, q["question"], [a["text"] for a in q.get("answers") or []])
            for context, q in questions
        ]

    def train() -> list[tuple[str, str, str, str, int]]:
        questions = Questions(QuestionSource(str(path), "skip", answers="all"))
        return [
            (e.qas_id, e.paragraph_text, e.question_text, e.orig_answer_text, e.start_position)
            for e in read_examples(questions, is_training=True, unanswerable=True)[0]
            if not e.is_impossible
        ]

    for _ in range(90):
        content = damaged(original, rng)
        questions, trained = (read_or_refuse(f, path, content) for f in (read, train))
        outcomes[trained is not None] += 1
        if questions is None and trained is None:
            continue
        plain = list(plain_questions(decoded(content), original))
        if questions is not None:
            texts = [(*one[:3], [text for text, _ in one.answers]) for one in plain]
            assert questions == texts, content
        if trained is not None:
            usable = [(*p[:3], *a) for p in plain if not p.is_impossible for a in p.usable()]
            assert trained == usable, content
    assert outcomes[True] > 9 and outcomes[False] > 9, outcomes


@pytest.mark.parametrize("number", range(len(LABEL_FILES)))
def test_damaged_labels_are_read_as_written_or_refused(tmp_path, number):
    rng, original = random.Random(number), LABEL_FILES[number]
    path = tmp_path / ("train.tsv" if number == 2 else "train.csv")
    outcomes = collections.Counter()

    def read() -> list[tuple[str, str, str]]:
        processor = TsvProcessor(False, False, GlueSettings(data_dir=str(tmp_path)))
        examples = processor.get_train_examples(str(tmp_path))
        return [(e.text_a, e.text_b or "", e.label) for e in examples]

    for _ in range(90):
        content = damaged(original, rng)
        examples = read_or_refuse(read, path, content)
        outcomes[examples is not None] += 1
        if examples is not None:
            rows = plain_rows(decoded(content), original)
            expected = [
                (
                    row["text_a"],
                    row.get("text_b") or "",
                    json.dumps(label)
                    if label is True or isinstance(label, int | float)
                    else label.strip(),
                )
                for row in rows
                for label in (row["label"],)
            ]
            assert examples == expected, content
    assert outcomes[True] > 9 and outcomes[False] > 9, outcomes
