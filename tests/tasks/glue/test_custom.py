"""A user's own task: equal from CSV, TSV and JSONL, labels of the training file, and faults."""

import ast
import json
import pathlib
import time

import pytest

from albert.core.errors import UserError
from albert.core.files import sha256_of
from albert.tables.dev_split import DevSplit
from albert.tables.tables import open_table
from albert.tasks.glue.custom import TsvProcessor
from albert.tasks.glue.label_tables import find_columns, labels_of
from albert.tasks.glue.settings import GlueSettings


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
    if split:
        options |= {"dev_fraction": split.fraction, "dev_seed": split.seed}
    settings = GlueSettings(data_dir=folder, tsv_regression=is_regression, **options)
    return TsvProcessor(True, lower, settings)


TRAIN = "label\ttext_a\nyes\tx\nno\ty\n"


class TestFormats:
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
        assert len({str(one.made_from()) for one in (processor(folder), own, other)}) == 3
        with pytest.raises(UserError, match="has no table for dev: it must have one of dev.csv"):
            processor(folder).get_dev_examples(folder)
        write(dev_csv="label,text_a\n1,x\n")
        with pytest.raises(UserError, match="--dev_fraction replaces .*dev.csv: remove"):
            own.get_dev_examples(folder)

    def test_one_pass_over_a_table_gives_both_parts(self, write, log):
        """So a file that changes meanwhile mixes no rows, and bad rows are logged once."""
        rows = [{"label": "yn"[n % 2], "text_a": f"Text {n}"} for n in range(20)]
        folder = write(train_jsonl=[*rows, {"label": "y"}])
        path = f"{folder}/train.jsonl"
        own = processor(folder, split=DevSplit(0.25, 1), on_bad_row="skip")
        assert own.get_labels() == ["n", "y"]
        write(train_jsonl=rows[:12])
        train, dev = own.get_train_examples(folder), own.get_dev_examples(folder)
        assert (len(train), len(dev), len(log())) == (16, 4, 1)
        assert own.sha256_of(path) != sha256_of(path), "the hash is that of the rows"
        # They are not kept.
        assert len(own.get_train_examples(folder)) == 8

    def test_labels_are_sorted_text_and_keep_their_case(self, write):
        folder = write(train_tsv="label\ttext_a\nb\tx\nA\tx\nc d\tx\nb\tx\n")
        assert processor(folder).get_labels() == ["A", "b", "c d"]
        (pathlib.Path(folder) / "train.tsv").unlink()
        write(train_jsonl=[{"label": v, "text_a": "x"} for v in (1, 0, True, 1)])
        own = processor(folder)
        assert own.get_labels() == ["0", "1"]
        assert [e.label for e in own.get_train_examples(folder)] == ["1", "0", "1", "1"]

    def test_columns_may_have_other_names(self, write):
        rows = "topic,first,second\nyes,x,y\nno,z,\n"
        names = {"text_column": "first", "text_b_column": "second", "label_column": "topic"}
        folder = write(train_csv=rows, dev_csv="topic,first\nyes,x\n")
        own = processor(folder, **names)
        examples = own.get_train_examples(folder)
        found = [(e.guid, e.text_a, e.text_b, e.label) for e in examples]
        assert found == [("train-0", "x", "y", "yes"), ("train-1", "z", None, "no")]
        with pytest.raises(UserError, match=r"dev.csv, line 1: second is missing; found topic, f"):
            own.get_dev_examples(folder)
        assert own.made_from() != processor(folder).made_from()

    def test_a_text_may_have_several_labels_or_none(self, write):
        cells = 'label;text_a\n"b, a";x\n;y\n"[""c, d"", 7]";z\n(e);w\n'
        values = ["b,a", [], ["c, d", 7], "(e)"]
        records = [{"label": v, "text_a": t} for v, t in zip(values, "xyzw", strict=True)]
        for file in ({"train_csv": cells}, {"train_jsonl": records}):
            folder = write(**file)
            own = processor(folder, multi_label=True)
            assert own.get_labels() == ["(e)", "7", "a", "b", "c, d"]
            labels = [example.label for example in own.get_train_examples(folder)]
            assert labels == [("b", "a"), (), ("c, d", "7"), ("(e)",)]
            (pathlib.Path(folder) / next(iter(file)).replace("_", ".")).unlink()
        folder = write(train_csv="label;text_a\na|b,c;x\n")
        own = processor(folder, multi_label=True, label_separator="|")
        assert own.get_labels() == ["a", "b,c"] and own.metrics == ("micro_f1", "macro_f1")

    def test_labels_of_a_regression_are_numbers(self, write):
        numbers = [{"label": v, "text_a": "x"} for v in (1, "2.5", -3e2)]
        folder = write(train_jsonl=numbers)
        task = processor(folder, is_regression=True)
        assert task.is_regression and task.get_labels() == [None]
        assert [e.label for e in task.get_train_examples(folder)] == [1.0, 2.5, -300.0]
        assert task.metrics[0] == "pearson"
        assert not processor(folder).is_regression


SEVERAL = {"multi_label": True}


class TestFaults:
    @pytest.mark.parametrize(
        ("row", "reason", "options"),
        [
            ({"label": "maybe", "text_a": "x"}, "the label is not one of no, yes", {}),
            ({"label": "yes"}, "text_a is missing", {}),
            ({"label": "yes", "text_a": 3}, "text_a is missing or not a text", {}),
            ({"label": "yes", "text_a": "x", "text_b": 3}, "text_b is missing or not a text", {}),
            ({"label": "yes", "text_a": " "}, "text_a is empty", {}),
            ({"text_a": "x"}, "label is missing", {}),
            ({"label": " ", "text_a": "x"}, "label is missing", {}),
            ({"label": ["yes", "no"], "text_a": "x"}, "one label is needed; pass --multi_", {}),
            ({"label": [], "text_a": "x"}, "one label is needed; pass --multi_label", {}),
            *(
                ({"label": "yes", "text_a": "x", "text_b": b}, "text_b is missing or not", {})
                for b in (0, [], False)
            ),
            ({"label": "y\ud800", "text_a": "x"}, r"the label 'y.ud800' has", {}),
            ({"label": "y\nz", "text_a": "x"}, "the label 'y.nz' has", {}),
            ({"label": "y\tz", "text_a": "x"}, "the label 'y.tz' has", {}),
            ({"label": ["no", "a"], "text_a": "x"}, "the label is not one of no, yes", SEVERAL),
            ({"label": ["no", ""], "text_a": "x"}, "label is missing", SEVERAL),
            ({"label": [["no"]], "text_a": "x"}, "the cell is no label; write several", SEVERAL),
            ({"label": None, "text_a": "x"}, "label is missing", SEVERAL),
        ],
    )
    def test_a_bad_row_is_named_by_file_and_line(self, write, row, reason, options):
        folder = write(train_tsv=TRAIN, dev_jsonl=[{"label": "yes", "text_a": "x"}, row])
        message = rf"dev\.jsonl: 1 row: {reason}[^\n]*: line 2[^:;]*; correct them, or pass --on_"
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
        with pytest.raises(UserError, match=r"not a finite number; .*: line 2 \('yes'\), line 3"):
            processor(folder, is_regression=True).get_train_examples(folder)
        folder = write(train_tsv="label\ttext_a\nyes\tx\nyes\ty\n")
        with pytest.raises(UserError, match="two different labels, found in label: 'yes'; .*regr"):
            processor(folder).get_labels()
        # Both files, or neither.
        folder = write(train_jsonl=[])
        with pytest.raises(UserError, match=r" has train.jsonl and train.tsv; keep one of them$"):
            processor(folder).get_labels()


# Cells, and their labels: those of Python, NumPy, JSON, Label Studio and spaCy.
CELLS = {
    "['a']": ["a"],
    "('a',)": ["a"],
    "{'a'}": ["a"],
    '["a"]': ["a"],
    "{'a': 1.0, 'b': 0.0}": ["a"],
    '{"choices": ["a"]}': ["a"],
    "['a', 'b']": ["a", "b"],
    "('a', \"it's\")": ["a", "it's"],
    "['a' 'b, c'\n \"it's\"]": ["a", "b, c", "it's"],
    '{"choices": ["a", "b"]}': ["a", "b"],
    "{'a': True, 'b': 1}": ["a", "b"],
    "[]": [],
    "()": [],
    "set()": [],
}


class TestCells:
    """Labels in the forms of other programs."""

    @pytest.mark.parametrize("cell", CELLS)
    def test_lists_and_objects_of_other_programs_are_read(self, cell):
        value = ast.literal_eval(cell) if "\n" not in cell else CELLS[cell]
        for form in (cell, f" {cell} ", value):
            row = {"label": form}
            assert labels_of(row, GlueSettings(multi_label=True)) == CELLS[cell]
            if len(CELLS[cell]) == 1:
                assert labels_of(row, GlueSettings()) == ["a"]
                continue
            with pytest.raises(ValueError, match="one label is needed; pass --multi_label"):
                labels_of(row, GlueSettings())

    @pytest.mark.parametrize(
        "cell",
        [
            *("[a, b]", "['a", "{a,b}", "('a' b)", "array(['a', 'b'], dtype=object)", "[nan]"),
            *('{"a": 0.3}', '{"a": "b"}', '[["a"]]', "[" * 100_000, "{[1]}", "['a', None]"),
        ],
    )
    def test_other_lists_are_shown_and_are_no_labels(self, write, cell):
        rows = [{"text_a": "x", "label": label} for label in ("yes", "no", cell)]
        folder = write(train_jsonl=rows)
        for several in (False, True):
            with pytest.raises(UserError, match="1 row: (the cell is no|label is miss)") as caught:
                processor(folder, multi_label=several).get_labels()
            assert repr(cell)[:60] in str(caught.value) or "None" in cell

    @pytest.mark.parametrize(
        "cells", [("[0, 1, 0]",), ("0,1,0",), ("[0. 1. 1.]",), ("1 0 0",), ("[1, 0]", "[0, 1]")]
    )
    def test_a_vector_has_no_names_of_labels(self, write, cells):
        folder = write(train_jsonl=[{"text_a": "x", "label": cell} for cell in cells])
        with pytest.raises(UserError, match="pass --label_columns|or --label_columns"):
            processor(folder, multi_label=True).get_labels()

    def test_each_label_can_have_a_column(self, write):
        table = "text_a,wet,old,new\nx,1,0,0\ny,TRUE,1.0,0\nz,false,0,0.0\n"
        folder = write(train_csv=table, dev_csv=table.replace("x,1", "x,-1"))
        own = processor(folder, multi_label=True, label_columns=("wet", "old", "new"))
        assert own.get_labels() == ["new", "old", "wet"]
        labels = [example.label for example in own.get_train_examples(folder)]
        assert labels == [("wet",), ("wet", "old"), ()]
        assert own.columns["label_columns"] == ("wet", "old", "new")
        with pytest.raises(UserError, match=r"1 row: wet is neither 0 nor 1: line 2 \('-1'\)"):
            own.get_dev_examples(folder)

    def test_rejected_annotations_are_skipped_and_counted_once(self, write, log):
        answers = "accept", "reject", "ignore", "accept", "reject"
        rows = [{"text_a": a, "label": a[0], "answer": a} for a in answers]
        folder = write(train_jsonl=[*rows, {"text_a": "x", "label": "b"}])
        own = processor(folder)
        assert [e.label for e in own.get_train_examples(folder)] == ["a", "a", "b"]
        assert [line.partition(": ")[2] for line in log()] == [
            "rows skipped with the answer reject: 2",
            "rows skipped with the answer ignore: 1",
        ]
        # It may also be the label.
        own = processor(folder, label_column="answer", on_bad_row="skip")
        assert own.get_labels() == ["accept", "ignore", "reject"]

    def test_choices_of_label_studio_have_the_names_of_their_fields(self, write, log):
        def task(text, *annotations):
            own = [
                {
                    "was_cancelled": name == "skip",
                    "result": [{"from_name": "kind", "value": {"choices": [name]}}],
                }
                for name in annotations
            ]
            return {"id": 1, "data": {"text": text}, "annotations": own}

        tasks = [task("A text.", "a"), task("Two.", "b", "b", "skip"), task("No.", "skip")]
        folder = write(train_jsonl=[*tasks, task("None.")])
        settings = GlueSettings(data_dir=folder, label_column="kind")
        settings = find_columns(open_table(f"{folder}/train.jsonl"), settings, ())
        own = TsvProcessor(True, False, settings)
        examples = own.get_train_examples(folder)
        assert [(e.text_a, e.label) for e in examples] == [("A text.", "a"), ("Two.", "b")]
        assert log()[-1].endswith("rows skipped with the answer none: 2")
        folder = write(train_jsonl=[*tasks, task("Both.", "a", "b")])
        with pytest.raises(UserError, match=r"the cell is no label.* line 4 \(\[\['a'\], \['b'\]"):
            TsvProcessor(True, False, settings).get_labels()

    def test_spellings_of_a_value_are_one_label(self, write, log):
        """In training and in development; other labels stay apart, and the log says so."""
        pairs = {"0": "0", "0.0": "0", "False": "0", "FALSE": "0", "1.0": "1", "true": "1"}
        pairs |= {"1": "1", "01": "01", "1.1": "1.1", "1.10": "1.10", "2": "2", "2a": "2a"}
        pairs |= {"Éa": "Éa", "éa": "éa", "E\u0301a": "E\u0301a"}
        rows = [{"text_a": "x", "label": label} for label in pairs]
        dev = [{"text_a": "x", "label": label} for label in ("0.", "1", "2.0")]
        folder = write(train_jsonl=rows, dev_jsonl=dev)
        own = processor(folder)
        assert own.get_labels() == sorted({*pairs.values()})
        assert [e.label for e in own.get_train_examples(folder)] == [*pairs.values()]
        said = "\n".join(log())
        assert "train.jsonl: labels 0.0 read as 0: 1" in said and said.count("read as 1:") == 2
        assert r"such as 'E\u0301a' and '\xc9a' and '\xe9a': 3" in said
        assert [e.label for e in own.get_dev_examples(folder)] == ["0", "1", "2"]
        assert "dev.jsonl: labels 2.0 read as 2: 1" in "\n".join(log())

    def test_names_with_brackets_are_labels(self, write):
        names = ["[OTHER]", "Cause(e1,e2)", "(a, b)", "{x}", "[A] first", "0 1", "f()"]
        folder = write(train_jsonl=[{"text_a": "x", "label": name} for name in names])
        assert processor(folder).get_labels() == sorted(names)

    @pytest.mark.parametrize(
        ("cell", "advice"),
        [
            *((cell, "write 4.5 for 4,5") for cell in ("4,5", "1,250", "1.250,5")),
            *(
                (cell, "write it as in 4.5")
                for cell in ("85%", "1_2", "٣", "1 250", "nan", "1e999")
            ),
        ],
    )
    def test_a_number_in_another_form_is_shown(self, write, cell, advice):
        rows = [{"text_a": "x", "label": cell} for cell in ("+1.5e1", cell, ".5", f"{cell} ")]
        folder = write(train_jsonl=rows)
        shown = rf"2 rows: the label .*; {advice}.*: line 2 \('{cell}'\), line 4 \("
        with pytest.raises(UserError, match=shown):
            processor(folder, is_regression=True).get_train_examples(folder)


@pytest.mark.slow
def test_100_000_rows_with_many_labels_are_read_in_seconds(write):
    rows = (f'label {n % 5000},"A text, with number {n}"\n' for n in range(100_000))
    folder = write(train_csv="label,text_a\n" + "".join(rows))
    started = time.process_time()
    own = processor(folder)
    assert len(own.get_train_examples(folder)) == 100_000 and len(own.get_labels()) == 5000
    assert time.process_time() - started < 30
