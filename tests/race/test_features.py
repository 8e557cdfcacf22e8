"""Sequences of RACE: what is cut off, records, and the reference's features."""

import gzip
import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from classification.features import feature_spec
from race.examples import InputExample
from race.features import make_records, make_sequences
from race_utils import (
    RaceProcessor,
    convert_single_example,
    file_based_convert_examples_to_features,
    file_based_input_fn_builder,
)
from tokenization import FullTokenizer


@pytest.fixture(scope="module")
def tokenizer(squad_dir):
    return FullTokenizer(None, True, str(squad_dir / "spm.model"))


# Words of one piece each.
EXAMPLE = InputExample("id", "n r l s c m", None, ["n", "r l", "s c m e", ""], 2)


def words_of(example, tokenizer, *lengths):
    sequences = make_sequences(example, tokenizer, *lengths)
    pieces = [tokenizer.convert_ids_to_tokens(sequence.ids) for sequence in sequences]
    return [" ".join(tokens).replace("▁", "") for tokens in pieces]


def test_the_end_of_the_passage_and_the_beginning_of_the_question_are_cut_off(tokenizer):
    assert words_of(EXAMPLE, tokenizer, 8, 3) == [
        "[CLS] n r l s [SEP] n [SEP]",
        "[CLS] n r l [SEP] r l [SEP]",
        "[CLS] n r [SEP] c m e [SEP]",
        "[CLS] n r l s c [SEP]",
    ]
    # Before every ending there may stand the same.
    first, *_ = words_of(EXAMPLE._replace(start_ending="e"), tokenizer, 12, 5)
    assert first == "[CLS] n r l s c m [SEP] e n [SEP]"


def test_records(tokenizer, tmp_path):
    """They have the sequences end to end."""
    path, lengths = str(tmp_path / "features"), (8, tokenizer)
    file_based_convert_examples_to_features([EXAMPLE] * 3, list("ABCD"), *lengths, path, 3)
    records = list(tf.io.tf_record_iterator(path))
    assert records == make_records([EXAMPLE], tokenizer, (8, 3)) * 3
    arguments = {"task_name": "race", "use_tpu": False, "bsz": 2, "multiple": 4}
    input_fn = file_based_input_fn_builder(path, 8, False, False, **arguments)
    with tf.Graph().as_default(), tf.Session() as session:
        batch = session.run(tf.data.make_one_shot_iterator(input_fn({})).get_next())
        values = session.run(tf.io.parse_single_example(records[0], feature_spec([4, 8])))
    assert batch["input_ids"].shape == (2, 32)
    feature = convert_single_example(0, EXAMPLE, 4, *lengths, 3)
    for key in ("input_ids", "input_mask", "segment_ids"):
        np.testing.assert_array_equal(values[key], getattr(feature, key))
    assert values["label_ids"] == feature.label_id == 2
    assert values["is_real_example"] == feature.is_real_example
    assert feature.example_id == "id"


def test_golden(shared):
    """What the reference makes of the training set."""
    tokenizer = FullTokenizer(None, True, str(shared / "data/spm/en8k.model"))
    examples = RaceProcessor(True, True, False, False).get_train_examples(
        str(shared / "data" / "race")
    )
    with gzip.open(shared / "golden" / "features-race-train-seq256.jsonl.gz", "rt") as file:
        golden = [json.loads(line) for line in file]
    assert len(examples) == len(golden) > 300
    for example, expected in zip(examples, golden, strict=True):
        sequences = make_sequences(example, tokenizer, 256, 64)
        assert [list(sequence.ids) for sequence in sequences] == expected["input_ids"]
        assert [sequence.first for sequence in sequences] == expected["n_segment0"]
        assert example.label == expected["label"]
