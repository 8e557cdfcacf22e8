"""Examples to features: the reference's, special tokens, truncation, labels, and records."""

import gzip
import itertools
import json

import pytest
import tensorflow.compat.v1 as tf

import tokenization
from classifier_utils import (
    InputExample,
    MrpcProcessor,
    PaddingInputExample,
    convert_examples_to_features,
    convert_single_example,
    file_based_convert_examples_to_features,
)
from glue.features import FeatureMaker
from runtime.errors import UserError

CLS, SEP = 2, 3


@pytest.fixture(scope="module")
def tokenizer(squad_dir):
    return tokenization.FullTokenizer(None, True, str(squad_dir / "spm.model"))


class Letters:
    """A tokenizer whose tokens are letters."""

    def tokenize(self, text):
        return list(text)

    def convert_tokens_to_ids(self, tokens):
        special = {"[CLS]": CLS, "[SEP]": SEP}
        return [special.get(token) or ord(token) for token in tokens]


def convert(text_a, text_b=None, label="0", labels=("0", "1"), length=16):
    example = InputExample("id", text_a, text_b, label)
    return convert_single_example(0, example, labels, length, Letters(), "task")


def letters(feature):
    names = {0: ".", CLS: "<", SEP: ">"}
    return "".join(names.get(i) or chr(i) for i in feature.input_ids)


def fields(record):
    """Values of a serialized example."""
    return {
        key: list(getattr(feature, feature.WhichOneof("kind")).value)
        for key, feature in tf.train.Example.FromString(record).features.feature.items()
    }


class TestGolden:
    def test_mrpc(self, shared, tmp_path):
        """All 600 of the reference, by both ways of converting."""
        path = shared / "golden" / "mrpc-features-train-first600-seq128.jsonl.gz"
        golden = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        (tmp_path / "MRPC").mkdir()
        raw = (shared / "data" / "mrpc" / "msr_paraphrase_train.txt").read_bytes()
        (tmp_path / "MRPC" / "train.tsv").write_bytes(raw)
        tokenizer = tokenization.FullTokenizer(None, True, str(shared / "data/spm/en8k.model"))
        processor = MrpcProcessor(use_spm=True, do_lower_case=True)
        examples = processor.get_train_examples(str(tmp_path))[: len(golden)]
        labels = processor.get_labels()
        records = FeatureMaker(tokenizer, labels, 128).records(examples)
        features = convert_examples_to_features(examples, labels, 128, tokenizer, "mrpc")
        assert len(golden) == 600
        for row, example, feature, record in zip(golden, examples, features, records, strict=True):
            used, first = len(row["input_ids"]), row["n_segment0"]
            expected = {
                "input_ids": row["input_ids"] + [0] * (128 - used),
                "input_mask": [1] * used + [0] * (128 - used),
                "segment_ids": [0] * first + [1] * (used - first) + [0] * (128 - used),
            }
            assert example.guid == row["guid"]
            assert {key: getattr(feature, key) for key in expected} == expected
            assert feature.label_id == row["label_id"]
            expected |= {"label_ids": [row["label_id"]], "is_real_example": [1]}
            assert fields(record) == expected


class TestLayout:
    def test_a_pair(self):
        feature = convert("abc", "de")
        assert letters(feature) == "<abc>de>........"
        assert feature.segment_ids == [0] * 5 + [1] * 3 + [0] * 8
        assert feature.input_mask == [1] * 8 + [0] * 8

    @pytest.mark.parametrize("text_b", [None, ""])
    def test_a_single_text(self, text_b):
        feature = convert("abc", text_b)
        assert letters(feature) == "<abc>..........."
        assert feature.segment_ids == [0] * 16
        assert feature.input_mask == [1] * 5 + [0] * 11

    def test_an_empty_text(self):
        assert letters(convert("")) == "<>.............."
        assert letters(convert("", "ab")) == "<>ab>..........."

    def test_the_end_of_a_long_text_is_cut_off(self):
        assert letters(convert("a" * 13 + "bcd")) == "<aaaaaaaaaaaaab>"

    def test_of_a_pair_the_longer_text_is_cut(self):
        assert letters(convert("a" * 20, "bcd")) == "<aaaaaaaaaa>bcd>"
        assert letters(convert("bcd", "a" * 20)) == "<bcd>aaaaaaaaaa>"
        assert letters(convert("a" * 20, "b" * 20)) == "<aaaaaaa>bbbbbb>"

    @pytest.mark.parametrize("room", [2, 3, 7, 10])
    def test_truncation_is_one_token_after_the_other(self, room):
        """The longer text loses its last token until both fit; the second one if equally long."""
        for a, b in itertools.product(range(1, 14), repeat=2):
            kept_a, kept_b = a, b
            while kept_a + kept_b > room:
                if kept_a > kept_b:
                    kept_a -= 1
                else:
                    kept_b -= 1
            if kept_b:
                expected = f"<{'a' * kept_a}>{'b' * kept_b}>"
                assert letters(convert("a" * a, "b" * b, length=room + 3)).strip(".") == expected

    def test_padding_example(self):
        feature = convert_single_example(0, PaddingInputExample(), ["0"], 4, Letters(), "task")
        assert (feature.input_ids, feature.input_mask, feature.label_id) == ([0] * 4, [0] * 4, 0)
        assert not feature.is_real_example
        feature = convert_single_example(0, PaddingInputExample(), [None], 4, Letters(), "sts-b")
        assert feature.label_id == 0.0 and isinstance(feature.label_id, float)


class TestLabels:
    def test_number_of_the_label(self):
        labels = ["contradiction", "entailment", "neutral"]
        assert [convert("a", label=label, labels=labels).label_id for label in labels] == [0, 1, 2]

    def test_regression(self):
        assert convert("a", label=2.5, labels=[None]).label_id == 2.5
        feature = convert("a", label=0, labels=[None])
        assert feature.label_id == 0.0 and isinstance(feature.label_id, float)

    def test_a_label_that_is_not_in_the_list(self):
        with pytest.raises(UserError, match="example id: the label is 'x', not one of 0, 1"):
            convert("a", label="x")


class TestRecords:
    EXAMPLES = [
        InputExample("0", "what comes after this, 1995, there?", "a bo ri", "1"),
        InputExample("1", "ünïcode ½ text", None, "0"),
        InputExample("2", "a " * 60, "b " * 60, "1"),
        InputExample("3", "", None, "0"),
    ]

    def test_the_fast_way_is_the_public_one(self, tokenizer, tmp_path):
        """And its values are those of the lists."""
        for labels, examples in (
            (["0", "1"], self.EXAMPLES),
            ([None], [InputExample(e.guid, e.text_a, e.text_b, 0.5) for e in self.EXAMPLES]),
        ):
            records = FeatureMaker(tokenizer, labels, 32).records(examples)
            path = str(tmp_path / "features")
            file_based_convert_examples_to_features(examples, labels, 32, tokenizer, path, "task")
            assert list(tf.python_io.tf_record_iterator(path)) == records
            features = convert_examples_to_features(examples, labels, 32, tokenizer, "task")
            assert [fields(record) for record in records] == [
                {
                    "input_ids": feature.input_ids,
                    "input_mask": feature.input_mask,
                    "segment_ids": feature.segment_ids,
                    "label_ids": [feature.label_id],
                    "is_real_example": [1],
                }
                for feature in features
            ]

    @pytest.mark.parametrize("labels", [["0", "1"], [None]], ids=["classes", "numbers"])
    def test_file_of_the_public_function(self, tokenizer, tmp_path, labels):
        path = str(tmp_path / "features")
        file_based_convert_examples_to_features(
            [*self.EXAMPLES, PaddingInputExample()], labels, 32, tokenizer, path, "task"
        )
        rows = [fields(record) for record in tf.python_io.tf_record_iterator(path)]
        assert [row["label_ids"] for row in rows] == [[1], [0], [1], [0], [0]]
        assert [row["is_real_example"] for row in rows] == [[1], [1], [1], [1], [0]]
        assert set(rows[0]) == {
            *("input_ids", "input_mask", "segment_ids", "label_ids", "is_real_example")
        }
        assert rows[0]["input_ids"].count(SEP) == 2
        assert rows[1]["input_ids"].count(SEP) == 1
        assert rows[4]["input_ids"] == rows[4]["input_mask"] == [0] * 32

    def test_wordpiece(self, tmp_path):
        """Without a SentencePiece model, through the public function."""
        (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nhel\n##lo\nyou\n")
        tokenizer = tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))
        example = InputExample("id", "Hello", "you there", "1")
        feature = convert_single_example(0, example, ["0", "1"], 8, tokenizer, "task")
        assert feature.input_ids == [2, 4, 5, 3, 6, 1, 3, 0]
