"""A user's own task: equal from CSV, TSV and JSONL, labels of the training file, and faults."""

import json
import pathlib
import time

import pytest

from albert.core.errors import UserError
from albert.data.dev_split import DevSplit
from albert.tasks.glue.custom import TsvProcessor
from albert.tasks.glue.label_tables import TableOptions


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


def processor(folder, is_regression=False, lower=True, split=None, **options):
    options = TableOptions(is_regression=is_regression, **options)
    return TsvProcessor(True, lower, folder, options, split)


def contents(examples):
    return [(e.guid, e.text_a, e.text_b, e.label) for e in examples]


RECORDS = [
    {"label": "yes", "text_a": 'A "b"', "text_b": "c"},
    {"label": "no", "text_a": "d", "text_b": ""},
]
TRAIN = "label\ttext_a\nyes\tx\nno\ty\n"


class TestFormats:
    def test_all_formats_give_the_same_examples(self, write):
        rows = 'text_b\tlabel\tnote\ttext_a\nc\tyes\t?\tA "b"\n\tno\t\td\n'
        cells = 'text_b;label;note;text_a\nc;yes;?;"A ""b"""\n;no;;d\n'
        expected = [("train-0", 'a "b"', "c", "yes"), ("train-1", "d", None, "no")]
        forms = {"train_tsv": rows}, {"train_csv": cells}, {"train_jsonl": RECORDS}
        for file in forms:
            folder = write(**file)
            assert contents(processor(folder).get_train_examples(folder)) == expected
            (pathlib.Path(folder) / next(iter(file)).replace("_", ".")).unlink()

    def test_splits_may_differ_in_form(self, write):
        folder = write(train_jsonl=RECORDS, dev_tsv="label\ttext_a\nno\tx\n")
        own = processor(folder)
        assert contents(own.get_dev_examples(folder)) == [("dev-0", "x", None, "no")]

    def test_a_part_of_the_training_table_can_be_the_development_set(self, write):
        """Of each label, a quarter of the different texts; a text whose label is rare stays."""
        rows = [{"label": "yn"[n % 40 > 7], "text_a": f"Text {n % 40}"} for n in range(60)]
        rows += [{"label": "rare", "text_a": "Rare"}]
        folder = write(train_jsonl=rows)
        own = processor(folder, split=DevSplit(0.25, 1))
        train, dev = own.get_train_examples(folder), own.get_dev_examples(folder)
        train_texts, dev_texts = ({e.text_a for e in part} for part in (train, dev))
        assert (len(train_texts), len(dev_texts), len(train + dev)) == (31, 10, 61)
        assert not train_texts & dev_texts and "rare" not in dev_texts
        labels = {e.text_a: e.label for e in dev}
        assert sorted(labels.values()) == ["n"] * 8 + ["y"] * 2
        path = next(pathlib.Path(folder).glob("train*"))
        path.write_text("".join(reversed(path.read_text().splitlines(True))))
        again = processor(folder, split=DevSplit(0.25, 1)).get_dev_examples(folder)
        assert {e.text_a for e in again} == dev_texts, "whatever the order of the rows"
        other = processor(folder, split=DevSplit(0.25, 2))
        assert {e.text_a for e in other.get_dev_examples(folder)} != dev_texts
        made = [processor(folder), own, other]
        assert len({str(one.made_from()) for one in made}) == 3
        assert not any(made[0].made_from().values()), "files of earlier versions are reused"
        with pytest.raises(UserError, match="has no table for dev: it must have one of dev.csv"):
            processor(folder).get_dev_examples(folder)
        write(dev_csv="label,text_a\n1,x\n")
        with pytest.raises(UserError, match="--dev_fraction replaces .*dev.csv: remove"):
            own.get_dev_examples(folder)

    def test_labels_are_sorted_text_and_keep_their_case(self, write):
        folder = write(train_tsv="label\ttext_a\nb\tx\nA\tx\nc d\tx\nb\tx\n")
        assert processor(folder).get_labels() == ["A", "b", "c d"]
        (pathlib.Path(folder) / "train.tsv").unlink()
        write(train_jsonl=[{"label": v, "text_a": "x"} for v in (1, 0, True, 1)])
        own = processor(folder)
        assert own.get_labels() == ["0", "1", "true"]
        assert [e.label for e in own.get_train_examples(folder)] == ["1", "0", "true", "1"]

    def test_columns_may_have_other_names(self, write):
        rows = "topic,first,second\nyes,x,y\nno,z,\n"
        names = {"text_column": "first", "text_b_column": "second", "label_column": "topic"}
        folder = write(train_csv=rows, dev_csv="topic,first\nyes,x\n")
        own = processor(folder, **names)
        expected = [("train-0", "x", "y", "yes"), ("train-1", "z", None, "no")]
        assert contents(own.get_train_examples(folder)) == expected
        with pytest.raises(UserError, match=r"dev.csv, line 1: second is missing; found topic, f"):
            own.get_dev_examples(folder)
        assert own.made_from() != processor(folder).made_from()

    def test_a_text_may_have_several_labels_or_none(self, write):
        cells = 'label;text_a\n"b, a";x\n;y\n"[""c, d"", 7]";z\n[e;w\n'
        values = ["b,a", [], ["c, d", 7], "[e"]
        records = [{"label": v, "text_a": t} for v, t in zip(values, "xyzw", strict=True)]
        for file in ({"train_csv": cells}, {"train_jsonl": records}):
            folder = write(**file)
            own = processor(folder, is_multi_label=True)
            assert own.get_labels() == ["7", "[e", "a", "b", "c, d"]
            labels = [example.label for example in own.get_train_examples(folder)]
            assert labels == [("b", "a"), (), ("c, d", "7"), ("[e",)]
            (pathlib.Path(folder) / next(iter(file)).replace("_", ".")).unlink()
        folder = write(train_csv=f"label;text_a\na;x\n{'[' * 100_000};y\n")
        assert processor(folder, is_multi_label=True).get_labels() == ["[" * 100_000, "a"]
        folder = write(train_csv="label;text_a\na|b,c;x\n")
        own = processor(folder, is_multi_label=True, separator="|")
        assert own.get_labels() == ["a", "b,c"] and own.metrics == ("micro_f1", "macro_f1")

    def test_labels_of_a_regression_are_numbers(self, write):
        numbers = [{"label": v, "text_a": "x"} for v in (1, "2.5", -3e2)]
        folder = write(train_jsonl=numbers)
        task = processor(folder, is_regression=True)
        assert task.is_regression and task.get_labels() == [None]
        assert [e.label for e in task.get_train_examples(folder)] == [1.0, 2.5, -300.0]
        assert task.metrics[0] == "pearson"
        assert not processor(folder).is_regression


SEVERAL = {"is_multi_label": True}


class TestFaults:
    @pytest.mark.parametrize(
        ("row", "reason", "options"),
        [
            ({"label": "maybe", "text_a": "x"}, "the label is 'maybe', not one of no", {}),
            ({"label": "yes"}, "text_a is missing", {}),
            ({"label": "yes", "text_a": 3}, "text_a is missing or not a text", {}),
            ({"label": "yes", "text_a": "x", "text_b": 3}, "text_b is missing or not a text", {}),
            ({"label": "yes", "text_a": " "}, "text_a is empty", {}),
            ({"text_a": "x"}, "label is missing", {}),
            ({"label": " ", "text_a": "x"}, "label is missing", {}),
            ({"label": ["yes"], "text_a": "x"}, "label is missing", {}),
            ({"label": "y\ud800", "text_a": "x"}, r"the label 'y.ud800' has", {}),
            ({"label": "y\nz", "text_a": "x"}, "the label 'y.nz' has", {}),
            ({"label": "y\tz", "text_a": "x"}, "the label 'y.tz' has", {}),
            ({"label": ["no", "a"], "text_a": "x"}, "the label is 'a', not one of no, y", SEVERAL),
            ({"label": ["no", ""], "text_a": "x"}, "label is missing", SEVERAL),
            ({"label": [["no"]], "text_a": "x"}, "label is missing", SEVERAL),
            *(
                ({"label": label, "text_a": "x"}, "label is missing, or not a text or a", SEVERAL)
                for label in (7, None)
            ),
        ],
    )
    def test_a_bad_row_is_named_by_file_and_line(self, write, row, reason, options):
        folder = write(train_tsv=TRAIN, dev_jsonl=[{"label": "yes", "text_a": "x"}, row])
        message = (
            rf"dev\.jsonl: 1 row: {reason}[^\n]*: line 2; correct them, or pass --on_bad_row=skip$"
        )
        with pytest.raises(UserError, match=message):
            processor(folder, **options).get_dev_examples(folder)
        own = processor(folder, on_bad_row="skip", **options)
        assert [example.text_a for example in own.get_dev_examples(folder)] == ["x"]
        assert own.made_from() != processor(folder, **options).made_from()

    def test_rows_that_are_skipped_have_no_labels_and_are_logged_once(self, write, log):
        rows = "label\ttext_a\nyes\tx\nno\ty\nother\t\n\tz\n\t\nno\tw\n"
        folder = write(train_tsv=rows)
        own = processor(folder, on_bad_row="skip")
        assert own.get_labels() == ["no", "yes"]
        assert [example.text_a for example in own.get_train_examples(folder)] == ["x", "y", "w"]
        assert [line.partition(": ")[2] for line in log()] == [
            "skipped 1 row: text_a is empty: line 4",
            "skipped 1 row: label is missing: line 5",
        ]

    def test_a_file_without_texts_or_examples_is_an_error(self, write):
        for content, reason in (
            ("sentence\tlabel\nx\tyes\n", r", line 1: text_a is missing; found sentence, label"),
            ("", " has no examples"),
            ("label\ttext_a\n", " has no examples"),
        ):
            folder = write(train_tsv=TRAIN, dev_tsv=content)
            with pytest.raises(UserError, match=rf"dev\.tsv{reason}"):
                processor(folder).get_dev_examples(folder)

    def test_bad_labels_and_ambiguous_files_are_errors(self, write):
        folder = write(train_tsv=TRAIN)
        with pytest.raises(UserError, match=r"1 row: the label is 'yes', not a number: line 2"):
            processor(folder, is_regression=True).get_train_examples(folder)
        folder = write(train_tsv="label\ttext_a\nyes\tx\nyes\ty\n")
        with pytest.raises(
            UserError, match="two different labels, found in label: 'yes'; .*regression"
        ):
            processor(folder).get_labels()
        # Both files, or neither.
        folder = write(train_jsonl=[])
        with pytest.raises(UserError, match=r" has train.jsonl and train.tsv; keep one of them$"):
            processor(folder).get_labels()


@pytest.mark.slow
def test_100_000_rows_with_many_labels_are_read_in_seconds(write):
    rows = (f'label {n % 5000},"A text, with number {n}"\n' for n in range(100_000))
    folder = write(train_csv="label,text_a\n" + "".join(rows))
    started = time.process_time()
    own = processor(folder)
    assert len(own.get_train_examples(folder)) == 100_000 and len(own.get_labels()) == 5000
    assert time.process_time() - started < 30
