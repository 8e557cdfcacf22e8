"""RACE's files: both layouts, levels, blanks, and faults; and their features."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert import race_utils
from albert.core.errors import UserError
from albert.tasks.classification.records import feature_spec
from albert.tasks.race.examples import (
    InputExample,
    RaceProcessor,
    fill_blank,
    make_records,
    make_sequences,
)
from tests.helpers.golden import GOLDEN, assert_race_features
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
    assert fill_blank("_ and _?", "x", "y") == ["x and x?", "y and y?"]


def test_both_layouts_and_levels_are_read_in_order(tmp_path):
    """Middle schools come first; a combined file counts even next to the single ones."""
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


EMPTY = {"questions": [], "options": [], "answers": []}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"article": None}, "article is missing or not a text"),
        ({"questions": "Where?"}, "questions is missing or not a list"),
        ({"id": "a\tb"}, "the id 'a\\tb' has a character that is not printable"),
        ({"answers": ["A"]}, "questions, options and answers must have the same length"),
        ({"answers": ["A", "E"]}, "the answer to question 2 is 'E', not A, B, C or D"),
        ({"answers": ["A", ["B"]]}, r"the answer to question 2 is ['B']"),
        ({"options": [["a", "b", "c"], list("abcd")]}, "question 1 is not a text with 4 options"),
        ({"options": [list("abcd"), None]}, "question 2 is not a text with 4 options"),
        ({"questions": ["a", 1]}, "question 2 is not a text with 4 options"),
        *(("{", "line 1 is not JSON"), ("[]", "line 1: not a JSON object")),
        *((content, "have no questions") for content in ("", json.dumps({**PASSAGE, **EMPTY}))),
    ],
)
def test_a_malformed_passage_or_file_is_an_error(read, tmp_path, change, words):
    path = f"{tmp_path}/RACE/train/middle/all.txt"
    content, begin = change, f"{path} " if "no questions" in words else f"{path}, "
    if isinstance(change, dict):
        begin, content = f"{path}, line 2: ", f"{json.dumps(PASSAGE)}\n"
        content += json.dumps({**PASSAGE, **change})
    with pytest.raises(UserError) as caught:
        read(content)
    assert str(caught.value).startswith(begin) and words in str(caught.value)


# Words of one piece each.
EXAMPLE = InputExample("id", "n r l s c m", None, ["n", "r l", "s c m e", ""], 2)


def words_of(example, tokenizer, *lengths):
    sequences = make_sequences(example, tokenizer, *lengths)
    pieces = [tokenizer.convert_ids_to_tokens(sequence.ids) for sequence in sequences]
    return [" ".join(tokens).replace("▁", "") for tokens in pieces]


def test_truncation_removes_passage_end_and_question_start(tokenizer):
    assert words_of(EXAMPLE, tokenizer, 8, 3) == [
        "[CLS] n r l s [SEP] n [SEP]",
        "[CLS] n r l [SEP] r l [SEP]",
        "[CLS] n r [SEP] c m e [SEP]",
        "[CLS] n r l s c [SEP]",
    ]
    # The same words may precede every ending.
    first, *_ = words_of(EXAMPLE._replace(start_ending="e"), tokenizer, 12, 5)
    assert first == "[CLS] n r l s c m [SEP] e n [SEP]"


def test_records_have_the_sequences_end_to_end(tokenizer, tmp_path):
    path, lengths = str(tmp_path / "features"), (8, tokenizer)
    race_utils.file_based_convert_examples_to_features(
        [EXAMPLE] * 3, list("ABCD"), *lengths, path, 3
    )
    records = list(tf.io.tf_record_iterator(path))
    assert records == make_records([EXAMPLE], tokenizer, (8, 3)) * 3
    arguments = {"task_name": "race", "use_tpu": False, "bsz": 2, "multiple": 4}
    input_fn = race_utils.file_based_input_fn_builder(path, 8, False, False, **arguments)
    with tf.Graph().as_default(), tf.Session() as session:
        batch = session.run(tf.data.make_one_shot_iterator(input_fn({})).get_next())
        values = session.run(tf.io.parse_single_example(records[0], feature_spec([4, 8])))
    assert batch["input_ids"].shape == (2, 32)
    feature = race_utils.convert_single_example(0, EXAMPLE, 4, *lengths, 3)
    for key in ("input_ids", "input_mask", "segment_ids"):
        np.testing.assert_array_equal(values[key], getattr(feature, key))
    assert values["label_ids"] == feature.label_id == 2
    assert values["is_real_example"] == feature.is_real_example
    assert feature.example_id == "id"


def test_features_equal_the_references():
    assert_race_features(GOLDEN)
