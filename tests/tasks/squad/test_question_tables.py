"""Questions from tables: the same as from SQuAD's JSON, rows that cannot be used, and memory."""

import contextlib
import csv
import io
import json
import logging
import re
import tracemalloc

import pytest

from albert.core.errors import UserError
from albert.squad_utils import read_squad_examples
from albert.tables.bad_rows import BadRows
from albert.tables.tables import find_table
from albert.tasks.squad.feature_files import read_examples
from albert.tasks.squad.features import SquadExample
from albert.tasks.squad.question_tables import read_questions
from albert.tasks.squad.questions import Questions, QuestionSource, articles_of


@pytest.fixture
def write(tmp_path):
    """Writes rows as a table and returns its path: CSV, or JSON Lines with `as_json`."""

    def write(*rows: dict, delimiter: str = ",", as_json: bool = False) -> str:
        file = io.StringIO()
        if as_json:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            writer = csv.DictWriter(file, rows[0], delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
        path = tmp_path / "table"
        path.write_bytes(file.getvalue().encode())
        return str(path)

    return write


CONTEXT = "The Tamar is 98 km long. It is a river of 98 km."


def row(answer="long", **more) -> dict:
    return {"context": CONTEXT, "question": "How long is it?", "answer": answer, **more}


def questions_of(path: str, is_training: bool = True, action: str = "error") -> list[dict]:
    questions = Questions(QuestionSource(path, action))
    return [q for p in questions.paragraphs(is_training) for q in p.questions]


def examples_of(path: str, action: str) -> list[SquadExample]:
    return read_examples(Questions(QuestionSource(path, action)), is_training=True)[0]


KM, NONE = {"text": ["98 km"], "answer_start": [13]}, {"text": [], "answer_start": []}
EMPTY = ("", " ", None, [])


class TestSameAsJson:
    def test_several_answers_are_rows_or_a_list(self, write):
        texts, starts = ["98 km", "98 km long", "km"], [None, None, 16]
        answers = [{"text": text} for text in texts[:2]] + [{"text": "km", "answer_start": 16}]
        as_rows = [row(t, id="x", answer_start=s) for t, s in zip(texts, starts, strict=True)]
        last, expected = row(id="y"), {"x": answers, "y": [{"text": "long"}]}
        as_list = row(texts, id="x", answer_start=starts)
        for path in (write(*as_rows, last), write(as_list, last, as_json=True)):
            assert {q["id"]: q["answers"] for q in questions_of(path, False)} == expected
            with pytest.raises(UserError):
                examples_of(path, action="first")

    @pytest.mark.parametrize("later", ["answer", "answers"])
    def test_each_line_of_json_lines_has_its_answers(self, write, later):
        first = {"context": CONTEXT, "question": "How long?"}
        values = {"answer": "98 km", "answers": KM}
        path = write(first, {**first, later: values[later]}, as_json=True)
        assert [question.get("answers") for question in questions_of(path, False)] == [
            None,
            [{"text": "98 km"} | ({"answer_start": 13} if later == "answers" else {})],
        ]
        with pytest.raises(UserError, match="1 row: there is no answer: line 1; "):
            read_squad_examples(path, is_training=True)
        assert [question["id"] for question in questions_of(path, action="first")] == ["2"]

    def test_rows_are_numbered_without_ids_and_need_no_answers_in_a_test_set(self, write):
        first = row(title="Tamar")
        other = {**first, "context": "Another is long."}
        path = write(first, first, other, first)
        articles = list(articles_of(Questions(QuestionSource(path)).paragraphs()))
        assert {a["title"] for a in articles} == {"Tamar"}
        ids = [[q["id"] for q in p["qas"]] for a in articles for p in a["paragraphs"]]
        assert ids == [["1", "2"], ["3"], ["4"]]
        path = write({"context": CONTEXT, "question": "?"})
        assert questions_of(path, is_training=False) == [{"id": "1", "question": "?"}]
        with pytest.raises(UserError, match="table, line 1: answer is missing; found context, que"):
            read_squad_examples(path, is_training=True)

    @pytest.mark.parametrize(
        ("rows", "answers", "marks"),
        [
            # As `datasets.Dataset.to_json` writes SQuAD; in 2.0 the lists may be empty.
            ([{"title": "t", "answers": KM}, {"title": "t", "answers": NONE}], [[13], []], [0, 1]),
            # With an empty cell in the column, pandas writes a fraction.
            *(([row(answer_start=n)], [[19]], [0]) for n in ("19", "19.0", 19, 19.0)),
            *(([row(), row(empty)], [[19], []], [0, 1]) for empty in EMPTY),
            *(([row(empty, answers=KM)], [[13]], [0]) for empty in EMPTY),
            *(([row(is_impossible=mark)], [[19]], [mark is True]) for mark in (True, "False")),
            *(([row("", is_impossible=mark)], [[]], [mark != 0]) for mark in (True, False, None)),
            # JSON can contain half of a surrogate pair, also in SQuAD's.
            ([{"id": "\ud800", "context": "x \ud800 y", "answer": "\ud800"}], [[2]], [0]),
        ],
    )
    def test_answers_and_marks_have_many_forms(self, write, rows, answers, marks):
        path = write(*({"context": CONTEXT, "question": "?", **one} for one in rows), as_json=True)
        questions = questions_of(path)
        assert [[a["answer_start"] for a in q["answers"]] for q in questions] == answers
        assert [q.get("is_impossible", False) for q in questions] == marks
        assert all(q["id"] in ("1", "2", "\ud800") for q in questions)


# The first and the last can be used.
ROWS = [
    *(row(answer, answer_start="") for answer in (" long ", "98 km", "99 km")),
    *(row("98 km", answer_start=start) for start in (14, -5)),
    {**row(answer_start=""), "context": " "},
    {**row(answer_start=""), "question": ""},
    row("98 km", answer_start=42.0),
]


class TestBadRows:
    def test_an_error_counts_them_by_reason_and_names_their_lines(self, write):
        path = write(*ROWS, *[row("x", answer_start="")] * 3)
        with pytest.raises(UserError) as caught:
            questions_of(path)
        assert str(caught.value) == (
            f"{path}: 1 row: the answer occurs several times in the context: line 3 ('98 km', 2 "
            "times); 4 rows: the answer does not occur in the context: line 4 ('99 km'), line 10 "
            "('x'), line 11 ('x'), ...; 2 rows: the answer is not at its answer_start: line 5, "
            "line 6; 1 row: the context is empty: line 7; 1 row: the question is empty: line 8; "
            "correct them, or pass --on_bad_row=skip or first or lenient"
        )

    @pytest.mark.parametrize(
        ("action", "used", "line"),
        [
            ("skip", [("1", 19), ("8", 42)], "skipped 1 row: the answer occurs several times"),
            ("first", [("1", 19), ("2", 13), ("8", 42)], "used 1 row: the answer occurs several"),
        ],
    )
    def test_they_are_skipped_or_used_with_a_warning(self, write, log, action, used, line):
        path = write(*ROWS)
        assert [(e.qas_id, e.start_position) for e in examples_of(path, action=action)] == used
        lines = log(logging.WARNING)
        assert len(lines) == 5 and f"{path}: {line}" in lines[0]

    @pytest.mark.parametrize(
        ("answer", "detail"),
        [
            ("SÉV\u2009ERN", r"'SÉV\u2009ERN'; the context has 'Sév \x20ern')"),
            ("Se\u0301v  ern", r"'Se\u0301v \x20ern'; the context has 'Sév \x20ern')"),
            ("sév  ern", "'sév \\x20ern'; the context has 'Sév \\x20ern')"),
            ("Sev ern", "'Sev ern'); correct"),
            ("e\u0301", "'e\\u0301'; the context has 'é')"),
            # It ends inside of a letter that is two in capitals; it occurs twice, with an overlap.
            ("MAS", "'MAS'); correct"),
            ("xx", "'xx'; the context has 'XX')"),
        ],
    )
    def test_an_answer_that_looks_equal_is_shown_and_used_if_it_occurs_once(
        self, write, log, answer, detail
    ):
        """Its text is that of the context."""
        context = "The Sév  ern is é, Maß XXX."
        path = write({**row(answer), "context": context}, {**row("is"), "context": context})
        message = f"the answer does not occur in the context: line 2 ({detail}"
        with pytest.raises(UserError, match=re.escape(message)):
            questions_of(path)
        used = [question["answers"][0] for question in questions_of(path, action="lenient")]
        texts = [] if answer in ("Sev ern", "e\u0301", "MAS", "xx") else ["Sév  ern"]
        assert [one["text"] for one in used] == [*texts, "is"]
        assert all(context.index(one["text"]) == one["answer_start"] for one in used)
        assert f"{'used' if texts else 'skipped'} 1 row: the answer does not occur" in log()[-1]

    def test_several_answers_are_trained_on_if_requested(self, write):
        """Bad ones are not counted, and an answer that two annotators gave is one."""
        rows = [row(answer, id="x") for answer in ("missing", "long", "Tamar", "long")]
        source = QuestionSource(write(*rows, row("long", id="y")), "skip")
        with pytest.raises(UserError, match="x has 3 answers; .*, pass --answers=first or all$"):
            read_examples(Questions(source), True)
        for which, expected in (("first", ["long"]), ("all", ["long", "Tamar"])):
            examples, _ = read_examples(Questions(source._replace(answers=which)), True)
            texts = [(e.qas_id, e.orig_answer_text) for e in examples]
            assert texts == [*(("x", text) for text in expected), ("y", "long")]
            assert source._replace(answers=which).made_from() != source.made_from()

    def test_an_answer_of_mrqa_may_differ_only_in_case_and_spaces(self, write):
        for text, reason in (("98KM", None), ("99 km", "the answer is not at its answer_start")):
            detected = {"text": text, "char_spans": [[13, 17]]}
            qas = [{"qid": "q", "question": "?", "answers": [], "detected_answers": [detected]}]
            path = write({"context": CONTEXT, "qas": qas}, as_json=True)
            with pytest.raises(UserError, match=reason) if reason else contextlib.nullcontext():
                assert [q["answers"][0]["text"] for q in questions_of(path)] == ["98 km"]

    def test_prediction_needs_no_offsets(self, write):
        """Scores compare texts."""
        usable = [r for r in ROWS if r["context"].strip() and r["question"]]
        assert len(questions_of(write(*usable), is_training=False)) == len(usable)

    @pytest.mark.parametrize(
        ("column", "value", "message"),
        [
            ("answer", 98, "answer must be a text, a list of texts or null, not 98"),
            ("answer", ["a", None], "answer must be a text, a list"),
            ("answer", {"texts": "a"}, "answer must be a text, a list"),
            *(
                ("answer_start", value, f"answer_start must be a whole number, not {value!r:.4}")
                for value in ("x", 1.5, True, 10**400, "nan")
            ),
            ("answer_start", 3, "answer_start must be a list with a number for each answer"),
            ("answer_start", [1], "answer_start must be a list with"),
            ("question", ["x"], "question must be a text, not"),
            ("context", 7, "context must be a text, not 7"),
            ("id", 1.5, "id must be a text, not 1.5"),
            ("is_impossible", 7, "is_impossible must be true or false, not 7"),
        ],
    )
    def test_a_value_of_another_type_is_an_error(self, write, column, value, message):
        answer = ["a", "b"] if "must be a list" in message else "long"
        path = write(row(), row(**{"answer": answer, column: value}), as_json=True)
        with pytest.raises(UserError, match=f"^{path}, line 2: {message}"):
            questions_of(path, action="skip")

    @pytest.mark.parametrize("as_json", [True, False])
    def test_a_repeated_id_is_an_error(self, write, as_json):
        path = write(row(id="x"), row(id="y"), row(id="z"), row(id="x"), as_json=as_json)
        first, last = (1, 4) if as_json else (2, 5)
        message = f"line {last}: question id x occurs twice, first in line {first}"
        with pytest.raises(UserError, match=message):
            questions_of(path)
        path = write(row(id="x"), {**row(id="x"), "question": "?"}, as_json=as_json)
        with pytest.raises(UserError, match=f"question id x belongs to another .* line {first}"):
            questions_of(path)


@pytest.mark.slow
def test_only_the_ids_of_a_table_are_kept_in_memory(tmp_path):
    peaks = []
    for count in (10_000, 100_000):
        path = tmp_path / str(count)
        with path.open("w") as file:
            file.write("context,question,answer,id\n")
            file.writelines(f"The Tamar has {i} m.,How long?,{i} m,q{i}\n" for i in range(count))
        tracemalloc.start()
        bad = BadRows(str(path), "error")
        assert sum(1 for _ in read_questions(find_table(str(path)), True, bad)) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / 90_000 < 256
