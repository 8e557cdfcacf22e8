"""--dev_fraction: parts of a file that share no context, and what features depend on."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from albert.core.errors import UserError
from albert.tasks.squad.question_source import DevSplit, QuestionSource
from tests.helpers.squad import make_squad


def contexts_of(articles: list[dict]) -> list[str]:
    return [p["context"] for article in articles for p in article["paragraphs"]]


def parts_of(articles: list[dict], fraction: float, seed: int = 1) -> list[list[dict]]:
    """Returns the training and the development part."""
    split = DevSplit(fraction, seed)
    return [split.part(articles, is_dev, "file") for is_dev in (False, True)]


class TestParts:
    def test_no_context_is_in_both_parts(self):
        """Although it is in several articles; the order is that of the file."""
        articles = make_squad(1, 20)["data"]
        articles += [{**article, "title": "again"} for article in articles]
        train, dev = parts_of(articles, 0.3)
        assert not set(contexts_of(train)) & set(contexts_of(dev))
        assert len(set(contexts_of(dev))) == 12 and len(set(contexts_of(train))) == 28
        for part in (train, dev):
            chosen = set(contexts_of(part))
            assert contexts_of(part) == [c for c in contexts_of(articles) if c in chosen]
            assert all(article["paragraphs"] for article in part)

    def test_the_split_is_a_function_of_seed_and_contexts(self):
        """Neither their order nor other contexts matter much."""
        articles = make_squad(1, 20)["data"]
        (_, dev), (_, other) = parts_of(articles, 0.3), parts_of(articles, 0.3, seed=2)
        assert dev != other
        shuffled = random.Random(1).sample(articles, len(articles))
        assert set(contexts_of(parts_of(shuffled, 0.3)[1])) == set(contexts_of(dev))
        fewer = set(contexts_of(parts_of(articles[1:], 0.3)[1]))
        assert len(fewer - set(contexts_of(dev))) <= 2

    @pytest.mark.parametrize(("fraction", "count"), [(0.01, 1), (0.9, 3)])
    def test_both_parts_have_a_context(self, fraction, count):
        articles = make_squad(1, 2)["data"]
        train, dev = parts_of(articles, fraction)
        assert (len(contexts_of(train)), len(contexts_of(dev))) == (4 - count, count)
        one = [{"title": "", "paragraphs": articles[0]["paragraphs"][:1] * 2}]
        with pytest.raises(UserError, match="file has 1 different contexts; --dev_fraction needs"):
            parts_of(one, fraction)


def test_bad_rows_do_not_change_the_split(tmp_path):
    """Of the two parts, prediction could also use rows whose answer has no place."""
    rows = [{"context": f"x {n}", "question": "?", "answer": "x"} for n in range(40)]
    for row in rows[::3]:
        row["answer"] = "y"
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    split = DevSplit(0.4, 1)
    train, dev = (
        contexts_of(QuestionSource(str(path), "skip", split, is_dev).articles(not is_dev))
        for is_dev in (False, True)
    )
    assert (len(train), len(dev)) == (16, 10) and not set(train) & set(dev)


def test_features_depend_on_the_split_and_the_bad_rows():
    sources = [
        QuestionSource("file"),
        QuestionSource("file", "skip"),
        QuestionSource("file", "first"),
        *(
            QuestionSource("file", "error", DevSplit(*pair))
            for pair in ((0.1, 1), (0.2, 1), (0.1, 2))
        ),
    ]
    for first, second in itertools.combinations(sources, 2):
        assert first.made_from() != second.made_from()
    assert not any(sources[0].made_from().values()), "files of earlier versions are reused"
