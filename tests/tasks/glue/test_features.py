"""Examples to features and their files; cached files: tests/records/test_cached_file.py."""

import itertools

import pytest
import tensorflow.compat.v1 as tf

from albert import classifier_utils
from albert.classifier_utils import InputExample
from albert.core.errors import UserError
from albert.records.sequences import SEQUENCE_KEYS
from albert.tasks.glue.features import make_records
from albert.tasks.glue.settings import GlueSettings
from albert.tasks.glue.task import GlueTask
from tests.helpers.files import write_records
from tests.helpers.golden import GOLDEN, assert_mrpc_features, fields, fields_of

CLS, SEP = 2, 3


class Letters:
    def tokenize(self, text):
        return list(text)

    def convert_tokens_to_ids(self, tokens):
        special = {"[CLS]": CLS, "[SEP]": SEP}
        return [special.get(token) or ord(token) for token in tokens]


def convert(text_a, text_b=None, label="0", labels=("0", "1"), length=16):
    example = InputExample("id", text_a, text_b, label)
    return classifier_utils.convert_single_example(0, example, labels, length, Letters(), "task")


def letters(feature):
    names = {0: ".", CLS: "<", SEP: ">"}
    return "".join(names.get(i) or chr(i) for i in feature.input_ids)


def test_features_equal_the_references(tmp_path):
    assert_mrpc_features(GOLDEN, "mrpc-features-train-seq128", tmp_path)


class TestLayout:
    def test_special_tokens_enclose_texts_and_labels_are_known(self):
        assert letters(convert("", "ab")) == "<>ab>..........."
        assert letters(convert("a" * 13 + "bcd")) == "<aaaaaaaaaaaaab>"
        for nothing in (None, ""):
            feature = convert("abc", nothing)
            assert letters(feature) == "<abc>..........."
            assert feature.segment_ids == [0] * 16
            assert feature.input_mask == [1] * 5 + [0] * 11
        assert isinstance(convert("a", label=0, labels=[None]).label_id, float)
        with pytest.raises(UserError, match="example id: the label is 'x', not one of 0, 1"):
            convert("a", label="x")

    @pytest.mark.parametrize("room", [2, 3, 7, 10])
    def test_truncation_removes_one_token_at_a_time(self, room):
        """The longer text loses its last token until both fit; of equals, the second one."""
        for a, b in itertools.product(range(1, 14), repeat=2):
            kept = [a, b]
            while sum(kept) > room:
                kept[kept[0] <= kept[1]] -= 1
            if kept[1]:
                expected = f"<{'a' * kept[0]}>{'b' * kept[1]}>"
                assert letters(convert("a" * a, "b" * b, length=room + 3)).strip(".") == expected


@pytest.mark.parametrize(("labels", "given"), [(["0", "1"], "1010"), ([None], [0.5, 0, 2.5, 5.0])])
def test_fast_records_equal_the_public_ones(tokenizer, tmp_path, labels, given):
    texts = ("what comes after this, 1995, there?", "a bo ri"), ("ünïcode ½ text", None)
    texts += ("a " * 60, "b " * 60), ("", None)
    pairs = zip(texts, given, strict=True)
    examples = [InputExample("id", *text, label) for text, label in pairs]
    path, options = str(tmp_path / "features"), (labels, 32, tokenizer)
    filled_up = [*examples, classifier_utils.PaddingInputExample()]
    classifier_utils.file_based_convert_examples_to_features(filled_up, *options, path, "task")
    *records, filling = tf.io.tf_record_iterator(path)
    assert make_records(examples, tokenizer, labels, 32) == records
    features = classifier_utils.convert_examples_to_features(examples, *options, "task")
    rows = list(map(fields, records))
    assert rows == list(map(fields_of, features))
    assert [row["label_ids"] for row in rows] == [[float(label)] for label in given]
    assert [row["input_ids"].count(SEP) for row in rows] == [2, 1, 2, 1]
    nothing = dict.fromkeys(SEQUENCE_KEYS, [0] * 32)
    assert fields(filling) == nothing | {"label_ids": [0], "is_real_example": [0]}
    kind = float if labels == [None] else int
    assert {type(row["label_ids"][0]) for row in (*rows, fields(filling))} == {kind}


def test_other_rows_are_a_reason_to_rebuild_and_ids_of_others_must_be_in_range(
    make_task, tmp_path, monkeypatch
):
    (tmp_path / "CoLA").mkdir()
    table, path = tmp_path / "CoLA/train.tsv", tmp_path / "features"
    table.write_text("".join(f"x\t{number % 2}\t\ta bo {number}\n" for number in range(7)))

    def features(length=16):
        flags = "--task_name=CoLA", f"--data_dir={tmp_path}", f"--max_seq_length={length}"
        task = make_task(GlueTask, GlueSettings, *flags, "--do_train")
        monkeypatch.setattr(task, "feature_path", lambda split: str(path))
        return task.split("train")

    features().prepared()
    assert features().state() == "reused"
    content = table.read_bytes()
    table.write_bytes(content[:-2] + b"9\n")
    assert "input_sha256" in features().state()
    table.write_bytes(content)
    (tmp_path / "features.json").unlink()
    *others, record = tf.io.tf_record_iterator(str(path))
    assert features().prepared().num_examples == 7
    with pytest.raises(UserError, match="not a file of features of length 24; .*--cached_dir"):
        features(24).prepared()
    for key, limit in (("input_ids", 200), ("label_ids", 2)):
        example = tf.train.Example.FromString(record)
        example.features.feature[key].int64_list.value[0] = limit
        write_records(path, [*others, example.SerializeToString()])
        message = rf"\(record 6 has {limit} in {key}, which must be below {limit}\)"
        with pytest.raises(UserError, match=message):
            features().prepared()
