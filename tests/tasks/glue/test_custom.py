"""A user's own task: equal from TSV and JSONL, labels of the training file, and faults."""

import json
import pathlib

import pytest

from albert.core.errors import UserError
from albert.tasks.glue.custom import TsvProcessor


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


RECORDS = [
    {"label": "yes", "text_a": 'A "b"', "text_b": "c"},
    {"label": "no", "text_a": "d", "text_b": ""},
]
TRAIN = "label\ttext_a\nyes\tx\nno\ty\n"


class TestFormats:
    def test_tsv_and_jsonl_give_the_same_examples(self, write):
        rows = 'text_b\tlabel\tnote\ttext_a\nc\tyes\t?\tA "b"\n\tno\t\td\n'
        expected = [("train-0", 'a "b"', "c", "yes"), ("train-1", "d", None, "no")]
        for file in ({"train_tsv": rows}, {"train_jsonl": RECORDS}):
            folder = write(**file)
            assert contents(processor(folder).get_train_examples(folder)) == expected
            (pathlib.Path(folder) / next(iter(file)).replace("_", ".")).unlink()

    def test_splits_may_differ_in_form_and_test_needs_no_label(self, write):
        dev, test = "label\ttext_a\nno\tx\n", "text_a\nx\ny\n"
        folder = write(train_jsonl=RECORDS, dev_tsv=dev, test_tsv=test)
        own = processor(folder)
        assert contents(own.get_dev_examples(folder)) == [("dev-0", "x", None, "no")]
        expected = [("0", "x", None, "no"), ("1", "y", None, "no")]
        assert contents(own.get_test_examples(folder)) == expected

    def test_labels_are_sorted_text_and_keep_their_case(self, write):
        """In JSON, labels may be other types than text."""
        folder = write(train_tsv="label\ttext_a\nb\tx\nA\tx\nc d\tx\nb\tx\n")
        assert processor(folder).get_labels() == ["A", "b", "c d"]
        (pathlib.Path(folder) / "train.tsv").unlink()
        write(train_jsonl=[{"label": v, "text_a": "x"} for v in (1, 0, True, 1)])
        own = processor(folder)
        assert own.get_labels() == ["0", "1", "true"]
        assert [e.label for e in own.get_train_examples(folder)] == ["1", "0", "true", "1"]

    def test_labels_of_a_regression_are_numbers(self, write):
        numbers = [{"label": v, "text_a": "x"} for v in (1, "2.5", -3e2)]
        folder = write(train_jsonl=numbers, test_tsv="text_a\nx\n")
        task = processor(folder, is_regression=True)
        assert task.is_regression and task.get_labels() == [None]
        assert [e.label for e in task.get_train_examples(folder)] == [1.0, 2.5, -300.0]
        assert [e.label for e in task.get_test_examples(folder)] == [0.0]
        assert task.metrics[0] == "pearson"
        assert not processor(folder).is_regression


class TestFaults:
    @pytest.mark.parametrize(
        ("row", "reason"),
        [
            ({"label": "maybe", "text_a": "x"}, "the label is 'maybe', not one of no"),
            ({"label": "yes"}, "text_a is missing"),
            ({"label": "yes", "text_a": 3}, "text_a is missing or not a text"),
            ({"label": "yes", "text_a": "x", "text_b": ["y"]}, "text_b is missing or not a text"),
            ({"text_a": "x"}, "label is missing"),
            ({"label": " ", "text_a": "x"}, "label is missing"),
            ({"label": ["yes"], "text_a": "x"}, "label is missing"),
            ({"label": "y\ud800", "text_a": "x"}, r"the label 'y.ud800' has"),
            *(
                ({"label": f"y{char}z", "text_a": "x"}, rf"the label 'y.{name}z' has")
                for char, name in (("\n", "n"), ("\t", "t"), ("\r", "r"))
            ),
        ],
    )
    def test_a_bad_row_is_named_by_file_and_line(self, write, row, reason):
        folder = write(train_tsv=TRAIN, dev_jsonl=[{"label": "yes", "text_a": "x"}, row])
        with pytest.raises(UserError, match=rf"dev\.jsonl, line 2: {reason}"):
            processor(folder).get_dev_examples(folder)

    def test_a_file_without_texts_or_examples_is_an_error(self, write):
        for content, reason in (
            ("sentence\tlabel\nx\tyes\n", r", line 2: text_a is missing"),
            ("", " has no examples"),
            ("label\ttext_a\n", " has no examples"),
        ):
            folder = write(train_tsv=TRAIN, dev_tsv=content)
            with pytest.raises(UserError, match=rf"dev\.tsv{reason}"):
                processor(folder).get_dev_examples(folder)

    def test_bad_labels_and_ambiguous_files_are_errors(self, write):
        folder = write(train_tsv=TRAIN)
        with pytest.raises(UserError, match=r"line 2: the label is 'yes', not a number"):
            processor(folder, is_regression=True).get_train_examples(folder)
        folder = write(train_tsv="label\ttext_a\nyes\tx\nyes\ty\n")
        with pytest.raises(UserError, match="two different labels, found: 'yes'; .*regression"):
            processor(folder).get_labels()
        # Both files, or neither.
        folder = write(train_jsonl=[])
        with pytest.raises(UserError, match=r"must have one of .*, not train.tsv and train.jsonl$"):
            processor(folder).get_labels()
        with pytest.raises(UserError, match=r"must have one of dev.csv, dev.*dev.jsonl, not none"):
            processor(folder).get_dev_examples(folder)
