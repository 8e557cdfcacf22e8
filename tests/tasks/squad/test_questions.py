"""Questions that are read for every pass: the file's, and the parts of --dev_fraction."""

import copy
import itertools
import json

import hypothesis
import pytest
from hypothesis import strategies as st

from albert.core import json_reader
from albert.core.errors import UserError
from albert.tables.dev_split import DevSplit
from albert.tasks.squad.questions import Questions, QuestionSource, articles_of
from tests.helpers.squad import make_squad


def objects_in(value: object) -> list[dict]:
    """Returns all objects in a JSON value, itself included."""
    if isinstance(value, dict):
        return [value, *(o for item in value.values() for o in objects_in(item))]
    return [o for item in value for o in objects_in(item)] if isinstance(value, list) else []


@st.composite
def documents(draw) -> tuple[str, bool]:
    """Returns a SQuAD file whose members have any order, and whether something may be wrong."""
    content = copy.deepcopy({"extra": [{"a": [1e5]}], **make_squad(3, 2)})
    for members in objects_in(content):
        shuffled = draw(st.permutations(list(members.items())))
        members.clear()
        members.update(shuffled)
    changes = draw(st.integers(0, 2))
    for _ in range(changes):
        owner = draw(st.sampled_from([o for o in objects_in(content) if o] or [{"": ""}]))
        key = draw(st.sampled_from(list(owner)))
        change = draw(st.sampled_from(["remove", "replace", "same id"]))
        if change == "remove":
            del owner[key]
        elif change == "replace":
            owner[key] = draw(st.sampled_from([None, 1.5, "text", [], {}, [7], True]))
        elif "id" in owner:
            owner["id"] = "3-0-0-1"
    text = json.dumps(content, indent=draw(st.sampled_from([None, 1])))
    # Also cuts, and text at the end.
    cut = draw(st.sampled_from([None, None, None, draw(st.integers(0, len(text) - 1))]))
    end = draw(st.sampled_from(["", "", "", "x"]))
    return text[:cut] + end, bool(changes or cut is not None or end)


@hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(documents())
def test_every_pass_has_the_questions_of_the_file(tmp_path, document):
    """Or the first one ends with an error; tests/tasks/squad/test_examples.py has the messages."""
    text, may_be_wrong = document
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_reader, "CHUNK", 50)
        try:
            questions = Questions(QuestionSource(str(path)))
            count = len(questions)
        except UserError as e:
            assert may_be_wrong and str(path) in str(e) and "\n" not in str(e)
            return
        articles = json.loads(text)["data"]
        expected = [(p["context"], q) for a in articles for p in a["paragraphs"] for q in p["qas"]]
        assert count == len(expected) and list(questions) == list(questions) == expected
        written = list(articles_of(questions.kept()))
    # An article keeps the order of its members, unless it has no paragraphs.
    assert json.dumps(written) == json.dumps([a for a in articles if a["paragraphs"]])


def test_a_bad_row_is_reported_once(write, log):
    path = write("context,question\nx,?\n,?\n")
    questions = Questions(QuestionSource(path, "skip"))
    assert len(questions) == len(list(questions)) == len(list(questions)) == 1
    (line,) = (line for line in log() if "skipped" in line)
    assert line == f"{path}: skipped 1 row: the context is empty: line 3"
    with pytest.raises(UserError, match="1 row: the context is empty: line 3; correct them"):
        len(Questions(QuestionSource(path)))


def test_a_file_may_change_after_it_was_read(squad_dir, tmp_path):
    path = tmp_path / "file.json"
    path.write_bytes((squad_dir / "dev-v1.1.json").read_bytes())
    questions = Questions(QuestionSource(str(path)))
    before = list(questions)
    path.write_text("{}")
    assert list(questions) == before and len(questions) == len(before)


CONTEXTS = [p["context"] for article in make_squad(1, 20)["data"] for p in article["paragraphs"]]


def dev_contexts(contexts: list[str], fraction: float, seed: int = 1) -> list[str]:
    split = DevSplit(fraction, seed)
    dev = split.chosen([(context, "") for context in contexts], "file")
    return [context for context in contexts if split.rank(context) in dev]


class TestParts:
    def test_no_context_is_in_both_parts(self, tmp_path):
        contexts, path = CONTEXTS * 2, tmp_path / "train.json"
        articles = [
            {"title": str(n // 2), "paragraphs": [{"context": c, "qas": []} for c in pair]}
            for n, pair in enumerate(itertools.pairwise(contexts))
        ]
        path.write_text(json.dumps({"data": articles}))
        source = QuestionSource(str(path), split=DevSplit(0.3, 1))
        sources = source, source._replace(is_dev=True)
        parts = [list(articles_of(Questions(part).paragraphs())) for part in sources]
        train, dev = ([p["context"] for a in part for p in a["paragraphs"]] for part in parts)
        assert not set(train) & set(dev) and (len(set(train)), len(set(dev))) == (28, 12)
        everything = [c for pair in itertools.pairwise(contexts) for c in pair]
        assert dev == [c for c in everything if c in dev] and len(train + dev) == len(everything)
        assert all(article["paragraphs"] and article["title"] for part in parts for article in part)

    def test_the_split_is_a_function_of_seed_and_contexts(self):
        """Neither their order nor other contexts matter much; it is that of earlier versions."""
        dev = dev_contexts(CONTEXTS, 0.3)
        assert [*map(CONTEXTS.index, dev)] == [3, 5, 8, 15, 16, 18, 30, 32, 33, 34, 35, 39]
        assert dev != dev_contexts(CONTEXTS, 0.3, seed=2)
        assert set(dev) == set(dev_contexts(CONTEXTS[::-1], 0.3))
        assert len(set(dev_contexts(CONTEXTS[2:], 0.3)) - set(dev)) <= 2

    @pytest.mark.parametrize(("fraction", "count"), [(0.01, 1), (0.9, 3)])
    def test_both_parts_have_a_context(self, fraction, count):
        assert len(dev_contexts(CONTEXTS[:4], fraction)) == count
        with pytest.raises(UserError, match="file has 1 different texts; --dev_fraction needs"):
            dev_contexts(CONTEXTS[:1] * 2, fraction)

    def test_bad_rows_do_not_change_the_split(self, tmp_path):
        rows = [{"context": f"x {n}", "question": "?", "answer": "x"} for n in range(40)]
        for row in rows[::3]:
            row["answer"] = "y"
        path = tmp_path / "train.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        source = QuestionSource(str(path), "skip", DevSplit(0.4, 1))
        train, dev = (
            [p.context for p in Questions(source._replace(is_dev=is_dev)).paragraphs(not is_dev)]
            for is_dev in (False, True)
        )
        assert (len(train), len(dev)) == (16, 10) and not set(train) & set(dev)

    def test_features_depend_on_the_split_and_the_bad_rows(self):
        pairs = (0.1, 1), (0.2, 1), (0.1, 2)
        sources = [QuestionSource("file", action) for action in ("error", "skip", "first")]
        sources += [QuestionSource("file", "error", DevSplit(*pair)) for pair in pairs]
        for first, second in itertools.combinations(sources, 2):
            assert first.made_from() != second.made_from()
