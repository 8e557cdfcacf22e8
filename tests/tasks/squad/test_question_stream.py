"""Questions that are read for every pass: the same as all at once, and the same errors."""

from __future__ import annotations

import copy
import json
import os

import hypothesis
import pytest
from hypothesis import strategies as st

from albert.core import json_reader
from albert.core.errors import UserError
from albert.tasks.squad import question_stream
from albert.tasks.squad.examples import checked_questions, load_squad
from albert.tasks.squad.question_source import DevSplit, QuestionSource
from albert.tasks.squad.question_stream import Questions, check_all_answerable
from tests.helpers.squad import make_squad, write_table


def all_at_once(path: str) -> list | str:
    """Returns the questions of a file with their contexts, or the error."""
    try:
        return list(checked_questions(load_squad(path), path, is_training=False))
    except UserError as e:
        return str(e)


def streamed(path: str) -> list | str:
    try:
        questions = Questions(QuestionSource(path))
    except UserError as e:
        return str(e)
    found = list(questions)
    assert len(questions) == len(found) and list(questions) == found
    return found


def objects_in(value: object) -> list[dict]:
    """Returns all objects in a JSON value, itself included."""
    if isinstance(value, dict):
        return [value, *(o for item in value.values() for o in objects_in(item))]
    return [o for item in value for o in objects_in(item)] if isinstance(value, list) else []


WRONG = [None, 1.5, "text", [], {}, [7], True]


@st.composite
def documents(draw) -> str:
    """Returns a SQuAD file whose members have any order, perhaps with something wrong."""
    content = copy.deepcopy({"extra": [{"a": [1e5]}], **make_squad(3, 2)})
    for found in objects_in(content):
        members = draw(st.permutations(list(found.items())))
        found.clear()
        found.update(members)
    for _ in range(draw(st.integers(0, 2))):
        found = draw(st.sampled_from([o for o in objects_in(content) if o] or [{"": ""}]))
        key = draw(st.sampled_from(list(found)))
        change = draw(st.sampled_from(["remove", "replace", "same id"]))
        if change == "remove":
            del found[key]
        elif change == "replace":
            found[key] = draw(st.sampled_from(WRONG))
        elif "id" in found:
            found["id"] = "3-0-0-1"
    text = json.dumps(content, indent=draw(st.sampled_from([None, 1])))
    place = draw(st.integers(0, len(text) - 1))
    # Also cuts, repeated keys, and text at the end.
    return draw(
        st.sampled_from(
            [text, text, text, text[:place], text + "x", text.replace('"extra"', '"data"')]
            + [text.replace('"context"', '"context": "twice", "context"', 1)]
        )
    )


@hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(documents())
def test_questions_and_errors_are_those_of_the_whole_file(tmp_path, text):
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_reader, "_CHUNK", 50)
        assert streamed(str(path)) == all_at_once(str(path))


def test_tables_and_parts_have_paragraphs_too(squad_dir, tmp_path):
    source, table = squad_dir / "dev-v1.1.json", tmp_path / "dev.csv"
    write_table(source, table)
    assert streamed(str(table)) == all_at_once(str(table))
    part = QuestionSource(str(source), split=DevSplit(0.5, 1), is_dev=True)
    questions = Questions(part)
    assert questions.articles == part.articles(False)
    for found in (
        questions,
        Questions(QuestionSource(str(table))),
        Questions(part._replace(split=None)),
    ):
        contexts = [context for context, _ in found.paragraphs()]
        assert contexts == list(dict.fromkeys(context for context, _ in found))


def test_a_bad_row_is_reported_once(tmp_path, log):
    path = tmp_path / "table.csv"
    path.write_text("context,question\nx,?\n,?\n")
    questions = Questions(QuestionSource(str(path), "skip"))
    assert len(list(questions)) == len(list(questions)) == 1
    assert [line for line in log() if "skipped" in line] == [
        f"{path}: skipped 1 row: the context is empty: line 3"
    ]
    with pytest.raises(UserError, match="1 row: the context is empty: line 3; correct them"):
        Questions(QuestionSource(str(path)))


def test_a_file_may_be_replaced_but_not_changed(squad_dir, tmp_path):
    path = tmp_path / "file.json"
    path.write_bytes((squad_dir / "dev-v1.1.json").read_bytes())
    questions = Questions(QuestionSource(str(path)))
    before = list(questions)
    (tmp_path / "other").write_text("{}")
    os.replace(tmp_path / "other", path)
    assert list(questions) == before
    path.write_bytes((squad_dir / "dev-v1.1.json").read_bytes())
    questions = Questions(QuestionSource(str(path)))
    with path.open("ab") as file:
        file.write(b" ")
    message = f"^{path} was changed while this job ran; start the job again$"
    with pytest.raises(UserError, match=message):
        list(questions)


@pytest.mark.parametrize("before", [0, 1, 40, 63, 64, 65, 99])
def test_only_a_file_that_may_be_2_0_is_parsed(tmp_path, monkeypatch, before):
    """Wherever the mark is in the parts in which the file is read."""
    parsed = []
    monkeypatch.setattr(question_stream, "_CHUNK", 100)
    monkeypatch.setattr(question_stream, "Questions", lambda source: parsed.append(source) or [])
    path = tmp_path / "dev.json"
    for value, is_parsed in (("false", 0), (" \n false", 0), ("true", 1), ("null", 1)):
        text = f'{" " * before}"is_impossible": {value}{" " * 300}'
        path.write_text(f'{{"data": [\n{{{text}}}]}}')
        check_all_answerable(str(path), "--predict_file")
        assert len(parsed) == is_parsed
        parsed.clear()
