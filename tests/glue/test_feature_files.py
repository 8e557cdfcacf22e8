"""Feature files of GLUE: their content, when they are made anew, and which of others are used.

How any cached file is found whole, damaged or foreign: `tests/runtime/data/test_cached_file.py`.
"""

import logging

import pytest
import tensorflow.compat.v1 as tf

import tokenization
from classifier_utils import ColaProcessor, file_based_convert_examples_to_features
from glue.feature_files import GlueFeatures
from runtime.errors import UserError
from tests.helpers.files import change_header, write_records


@pytest.fixture(scope="module")
def tokenizer(squad_dir):
    return tokenization.FullTokenizer(None, True, str(squad_dir / "spm.model"))


@pytest.fixture
def features(tokenizer, tmp_path):
    """The features of a training set of CoLA, written anew if `rows` are given."""

    def features(
        rows=None, length=16, lower=True, part="train", processor=ColaProcessor, own=tokenizer
    ):
        source = tmp_path / "train.tsv"
        if rows:
            lines = (f"x\t{number % 2}\t\ta bo {number}\n" for number in range(rows))
            source.write_text("".join(lines))
        paths = str(source), str(tmp_path / "features")
        return GlueFeatures(processor(True, lower), own, length, part, *paths)

    return features


def records(path):
    return list(tf.io.tf_record_iterator(str(path)))


def test_made_as_by_the_public_function(features, tokenizer, tmp_path):
    assert features(rows=7).made()[:2] == (str(tmp_path / "features"), 7)
    assert {p.name for p in tmp_path.iterdir()} == {"train.tsv", "features", "features.json"}
    processor = ColaProcessor(True, True)
    examples = processor.read_examples(str(tmp_path / "train.tsv"), "train")
    file_based_convert_examples_to_features(
        examples, processor.get_labels(), 16, tokenizer, str(tmp_path / "public"), "cola"
    )
    assert records(tmp_path / "features") == records(tmp_path / "public")


class OtherProcessor(ColaProcessor):
    pass


OTHER_LABELS = type("ColaProcessor", (ColaProcessor,), {"get_labels": lambda self: ["1", "0"]})


def test_made_anew_with_a_reason(features, squad_dir, tmp_path):
    features(rows=7).made()
    assert features().state() == "reused"
    other = tokenization.FullTokenizer(str(squad_dir / "vocab.txt"), True)
    for change, reason in (
        ({"length": 24}, "max_seq_length 16, now it is 24"),
        ({"lower": False}, "do_lower_case True, now it is False"),
        ({"part": "dev"}, "part train, now it is dev"),
        ({"processor": OtherProcessor}, "task ColaProcessor, now it is OtherProcessor"),
        ({"processor": OTHER_LABELS}, "labels ['0', '1'], now it is ['1', '0']"),
        ({"own": other}, "tokenizer_sha256"),
        ({"rows": 8}, "input_sha256"),
    ):
        assert f"to be made anew: it was made with {reason}" in features(**change).state()
    change_header(tmp_path / "features.json", "num_examples", "num_example5", with_hash=False)
    assert f"its header {tmp_path}/features.json is damaged" in features(rows=7).state()


def test_without_a_header_of_ours(features, tmp_path, log):
    """They are used with a warning, or refused if the ids are of another vocabulary."""
    path = tmp_path / "features"
    features(rows=7).made()
    (tmp_path / "features.json").unlink()
    content, (*others, record) = path.read_bytes(), records(path)
    log()
    assert features().made().num_examples == 7
    (warning,) = log(logging.WARNING)
    assert f"{path} has no header of ours: its 7 records are used as they are" in warning
    with pytest.raises(UserError, match="no file of features of length 24; .*--cached_dir"):
        features(length=24).made()
    assert path.read_bytes() == content and not path.with_suffix(".json").exists()
    for key, limit in (("input_ids", 200), ("label_ids", 2)):
        example = tf.train.Example.FromString(record)
        example.features.feature[key].int64_list.value[0] = limit
        write_records(path, [*others, example.SerializeToString()])
        message = rf"\(record 6 has {limit} in {key}, which must be below {limit}\)"
        with pytest.raises(UserError, match=message):
            features().made()
