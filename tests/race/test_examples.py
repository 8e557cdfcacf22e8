"""RACE's files: both layouts, levels, blanks, and what is wrong with a file."""

import json

import pytest

from race.examples import InputExample, RaceProcessor, filled_in
from runtime.errors import UserError
from tests.helpers.race import write_race

PASSAGE = {
    "id": "high1.txt",
    "article": "Rivers  run to\nthe SEA.",
    "questions": ["Where do they run?", "They run to _ ."],
    "options": [["the sea", "a lake", "a hill", "no place"], ["it", "you", "me", "us"]],
    "answers": ["A", "C"],
}


def processor(high_only=False, middle_only=False, use_spm=True):
    return RaceProcessor(use_spm, True, high_only, middle_only)


@pytest.fixture
def read(tmp_path):
    """Reads the training set with this content of the middle schools' all.txt."""

    def read(content, **options):
        folder = tmp_path / "RACE" / "train" / "middle"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "all.txt").write_text(content)
        return processor(middle_only=True, **options).get_train_examples(str(tmp_path))

    return read


def test_a_question_is_joined_with_each_option(read):
    first, second = read(json.dumps(PASSAGE))
    behind = [f"where do they run? {option}" for option in PASSAGE["options"][0]]
    assert first == InputExample("high1.txt", "rivers run to the sea.", None, behind, 0)
    filled = [f"they run to {option} ." for option in ("it", "you", "me", "us")]
    assert second == InputExample("high1.txt", "rivers run to the sea.", None, filled, 2)
    first, _ = read(json.dumps(PASSAGE), use_spm=False)
    assert first.context_sentence == PASSAGE["article"]


def test_both_layouts_and_levels(tmp_path):
    """Middle schools come first; files of a passage each come by name. Whoever has put all of a
    level together may have left the files beside it."""
    folder = tmp_path / "a*[1]"
    folder.mkdir()
    write_race(folder, "abc", count=3)
    data_dir = str(folder)
    ids = [e.example_id for e in processor().get_test_examples(data_dir)]
    assert ids == [f"middle{2000 + n}.txt" for n in (0, 0, 1, 1, 2, 2)] * 2
    for part in ("dev", "test"):
        (folder / "RACE" / part / "high" / "all.txt").write_text(json.dumps(PASSAGE))
        for options, count in (({"high_only": True}, 2), ({"middle_only": True}, 6), ({}, 8)):
            read = getattr(processor(**options), f"get_{part}_examples")
            assert len(read(data_dir)) == count


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"article": None}, "article is missing, or no text"),
        ({"questions": "Where?"}, "questions is missing, or no list"),
        ({"id": "a\tb"}, "the id 'a\\tb' has a character that is not printable"),
        ({"answers": ["A"]}, "questions, options and answers must be as many of each"),
        ({"answers": ["A", "E"]}, "the answer to question 2 is 'E', not A, B, C or D"),
        ({"answers": ["A", ["B"]]}, r"the answer to question 2 is ['B']"),
        ({"options": [["a", "b", "c"], list("abcd")]}, "question 1 is no text with 4 options"),
        ({"options": [list("abcd"), [1, 2, 3, 4]]}, "question 2 is no text with 4 options"),
        ({"options": [list("abcd"), None]}, "question 2 is no text with 4 options"),
        ({"questions": ["a", 1]}, "question 2 is no text with 4 options"),
    ],
)
def test_a_passage_that_is_none(read, tmp_path, change, words):
    with pytest.raises(UserError) as caught:
        read(json.dumps(PASSAGE) + "\n" + json.dumps({**PASSAGE, **change}))
    path = tmp_path / "RACE" / "train" / "middle" / "all.txt"
    assert str(caught.value).startswith(f"{path}, line 2: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "line 1 is not JSON"),
        ("[]", "line 1: no JSON object"),
        ("", "have no questions"),
        (json.dumps({**PASSAGE, "questions": [], "options": [], "answers": []}), "no questions"),
    ],
)
def test_a_file_that_is_none(read, content, words):
    with pytest.raises(UserError, match=words):
        read(content)


def test_a_level_that_is_missing(read, tmp_path):
    read(json.dumps(PASSAGE))
    with pytest.raises(UserError, match=r"RACE/train/high has no \.txt file of RACE"):
        processor().get_train_examples(str(tmp_path))


def test_every_blank_is_filled_in():
    assert filled_in("_ and _?", "x", "y") == ["x and x?", "y and y?"]
