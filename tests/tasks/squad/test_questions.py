"""Questions that are read for every pass: the file's, and the parts of --dev_fraction."""

import itertools
import json

import pytest

from albert.core.errors import UserError
from albert.tables.dev_split import DevSplit
from albert.tasks.squad.questions import Questions, QuestionSource, articles_of
from tests.helpers.squad import make_squad


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
