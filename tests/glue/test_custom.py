"""One's own task: the same from TSV and JSONL, labels of the training file, and faults."""

import json

import pytest

from glue.custom import TsvProcessor
from runtime.errors import UserError


@pytest.fixture
def write(tmp_path):
    def write(**files):
        """Writes files by name, "_" for the dot; lists as JSON lines, other values as text."""
        for name, content in files.items():
            if not isinstance(content, str):
                content = "".join(json.dumps(record) + "\n" for record in content)
            (tmp_path / name.replace("_", ".")).write_text(content, encoding="utf-8")
        return str(tmp_path)

    return write


def processor(folder, is_regression=False, lower=True):
    return TsvProcessor(True, lower, folder, is_regression)


def contents(examples):
    return [(e.guid, e.text_a, e.text_b, e.label) for e in examples]


class TestFormats:
    RECORDS = [
        {"label": "yes", "text_a": 'A "b"', "text_b": "c"},
        {"label": "no", "text_a": "d", "text_b": ""},
    ]
    EXPECTED = [("train-0", 'a "b"', "c", "yes"), ("train-1", "d", None, "no")]

    def test_tsv(self, write):
        folder = write(train_tsv='text_b\tlabel\tnote\ttext_a\nc\tyes\t?\tA "b"\n\tno\t\td\n')
        assert contents(processor(folder).get_train_examples(folder)) == self.EXPECTED

    def test_jsonl(self, write):
        folder = write(train_jsonl=self.RECORDS)
        assert contents(processor(folder).get_train_examples(folder)) == self.EXPECTED

    def test_parts_may_differ_in_form(self, write):
        folder = write(train_jsonl=self.RECORDS, dev_tsv="label\ttext_a\nno\tx\n")
        assert contents(processor(folder).get_dev_examples(folder)) == [("dev-0", "x", None, "no")]

    def test_a_test_set_needs_no_label(self, write):
        folder = write(train_jsonl=self.RECORDS, test_tsv="text_a\nx\ny\n")
        expected = [("0", "x", None, "no"), ("1", "y", None, "no")]
        assert contents(processor(folder).get_test_examples(folder)) == expected

    def test_labels_are_sorted_and_keep_their_case(self, write):
        folder = write(train_tsv="label\ttext_a\nb\tx\nA\tx\nc d\tx\nb\tx\n")
        assert processor(folder).get_labels() == ["A", "b", "c d"]

    def test_json_labels_that_are_no_text(self, write):
        folder = write(train_jsonl=[{"label": v, "text_a": "x"} for v in (1, 0, True, 1)])
        assert processor(folder).get_labels() == ["0", "1", "true"]
        labels = [e.label for e in processor(folder).get_train_examples(folder)]
        assert labels == ["1", "0", "true", "1"]

    def test_regression(self, write):
        folder = write(
            train_jsonl=[{"label": v, "text_a": "x"} for v in (1, "2.5", -3e2)],
            test_tsv="text_a\nx\n",
        )
        task = processor(folder, is_regression=True)
        assert task.get_labels() == [None]
        assert task.is_regression
        assert [e.label for e in task.get_train_examples(folder)] == [1.0, 2.5, -300.0]
        assert [e.label for e in task.get_test_examples(folder)] == [0.0]
        assert task.metrics[0] == "pearson"
        assert not processor(folder).is_regression


class TestFaults:
    TRAIN = "label\ttext_a\nyes\tx\nno\ty\n"

    def test_a_label_that_the_training_file_has_not(self, write):
        folder = write(train_tsv=self.TRAIN, dev_tsv="label\ttext_a\nyes\tx\nmaybe\ty\n")
        with pytest.raises(
            UserError, match=r"dev\.tsv, line 3: the label is 'maybe', not one of no"
        ):
            processor(folder).get_dev_examples(folder)

    @pytest.mark.parametrize(
        ("row", "reason"),
        [
            ({"label": "yes"}, "text_a is missing"),
            ({"label": "yes", "text_a": 3}, "text_a is missing, or no text"),
            ({"label": "yes", "text_a": "x", "text_b": ["y"]}, "text_b is missing, or no text"),
            ({"text_a": "x"}, "label is missing"),
            ({"label": " ", "text_a": "x"}, "label is missing"),
            ({"label": ["yes"], "text_a": "x"}, "label is missing"),
            ({"label": "y\ud800", "text_a": "x"}, r"the label 'y.ud800' has"),
            ({"label": "y\nz", "text_a": "x"}, r"the label 'y.nz' has"),
            ({"label": "y\tz", "text_a": "x"}, r"the label 'y.tz' has"),
            ({"label": "y\rz", "text_a": "x"}, r"the label 'y.rz' has"),
        ],
    )
    def test_what_a_row_lacks(self, write, row, reason):
        folder = write(train_tsv=self.TRAIN, dev_jsonl=[{"label": "yes", "text_a": "x"}, row])
        with pytest.raises(UserError, match=rf"dev\.jsonl, line 2: {reason}"):
            processor(folder).get_dev_examples(folder)

    def test_a_header_without_the_names(self, write):
        folder = write(train_tsv=self.TRAIN, dev_tsv="sentence\tlabel\nx\tyes\n")
        with pytest.raises(UserError, match=r"dev\.tsv, line 2: text_a is missing"):
            processor(folder).get_dev_examples(folder)

    def test_no_number_in_regression(self, write):
        folder = write(train_tsv=self.TRAIN)
        with pytest.raises(UserError, match=r"line 2: the label is 'yes', not a number"):
            processor(folder, is_regression=True).get_train_examples(folder)

    def test_one_label_is_no_classification(self, write):
        folder = write(train_tsv="label\ttext_a\nyes\tx\nyes\ty\n")
        with pytest.raises(UserError, match="two different labels .* found: 'yes'; .*regression"):
            processor(folder).get_labels()

    def test_neither_file_or_both(self, write):
        folder = write(train_tsv=self.TRAIN, train_jsonl=[])
        with pytest.raises(UserError, match=r"train\.tsv and .*train\.jsonl .*both are there"):
            processor(folder).get_labels()
        with pytest.raises(UserError, match=r"dev\.tsv and .*dev\.jsonl .*neither is there"):
            processor(folder).get_dev_examples(folder)

    @pytest.mark.parametrize("content", ["", "label\ttext_a\n"])
    def test_an_empty_file(self, write, content):
        folder = write(train_tsv=self.TRAIN, dev_tsv=content)
        with pytest.raises(UserError, match=r"dev\.tsv has no examples"):
            processor(folder).get_dev_examples(folder)
