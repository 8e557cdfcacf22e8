"""Rows from Python: equal from all forms of data, and a line for each fault."""

import datetime
import importlib
import importlib.util
import json
import os

import numpy as np
import pytest

from albert.core.errors import UserError
from albert.tables.rows import rows_of, texts_of, write_splits

NAMES = ("text", "label"), ("text_a", "text_b", "label")
EXPECTED = [{"text": "a", "label": 1}, {"text": None, "label": None}]


# The missing value of pandas has a type of this name.
NAType = type("NAType", (), {})
# Objects with the interface of a DataFrame of polars, whose `to_dict` has other arguments, and with
# that of a table of Arrow.
POLARS = type("Polars", (), {"to_dicts": lambda _: EXPECTED, "to_dict": None})()
ARROW = type("Arrow", (), {"to_pylist": lambda _: EXPECTED})()


class Frame:
    """Has the interface of a DataFrame of pandas."""

    def to_dict(self, orient="dict"):
        assert orient == "records"
        return [{"text": "a", "label": np.int64(1)}, {"text": float("nan"), "label": NAType()}]


def test_tables_of_real_packages_are_rows(pyarrow):
    """Those of polars, too, if it is installed."""
    columns = {"text": ["a", None], "label": [1, None]}
    real = ("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "table")
    for package, make in real:
        if importlib.util.find_spec(package):
            module = importlib.import_module(package)
            data = getattr(module, make)(columns)
            assert rows_of(data, NAMES) == EXPECTED, data
            if make == "DataFrame":
                assert texts_of(module.Series(["a", "b"]), "text") == [("a",), ("b",)]


def test_all_forms_give_the_same_rows():
    forms = [EXPECTED, tuple(EXPECTED), [("a", 1), [None, None]], Frame(), POLARS, ARROW]
    forms.append(np.array([["a", 1], [np.nan, None]], object))
    for data in forms:
        assert rows_of(data, NAMES) == EXPECTED, data


def test_values_are_those_of_json():
    values = [np.float32(0.5), np.bool_(True), np.str_("x"), np.array([1, 2]), [np.nan, (1, "y")]]
    values += [datetime.date(2020, 1, 2), {"a": np.int8(3)}, 7, float("nan"), {"b", "a"}]
    (row,) = rows_of([{0: values}], NAMES)
    expected = [0.5, True, "x", [1, 2], [None, [1, "y"]], "2020-01-02", {"a": 3}, 7, None]
    expected.append(["a", "b"])
    assert json.loads(json.dumps(row)) == {"0": expected}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a text", "data must be a list, a DataFrame or a table, not a str"),
        ((text for text in "ab"), "data must be .*, not a generator"),
        ({"text": ["a"]}, "data must be .*, not a dict"),
        (np.array(3), "data must be .*, not a ndarray"),
        ([("a", 1), ("b",)], r"data, row 2: a dict or \(text, label\) or .* is needed, not \('b"),
        (["a"], "data, row 1: a dict or .* is needed, not 'a'"),
        ([("a", 1), ("b", b"1")], "data, row 2: b'1' is neither a text nor a number"),
    ],
)
def test_other_data_are_refused(data, message):
    with pytest.raises(UserError, match=message) as caught:
        rows_of(data, NAMES)
    assert "\n" not in str(caught.value)


def test_texts_come_from_values_tuples_and_columns():
    rows = ["a", ("b", "c"), {"text": "d", "other": None, "note": 3}, {"text": "e", "other": "f"}]
    expected = [("a", ""), ("b", "c"), ("d", ""), ("e", "f")]
    assert texts_of(rows, "text", optional="other") == expected
    assert texts_of([], "text") == []
    for row, reason in (
        ({"note": 1}, "text is None, not a text; it has note"),
        (3, "text is 3, not a text"),
    ):
        with pytest.raises(UserError, match=f"data, row 2: {reason}"):
            texts_of(["a", row], "text", optional="other")
    with pytest.raises(UserError, match="X, row 1: other is 3, not a text"):
        texts_of([("a", 3)], "text", optional="other", what="X")


def test_files_are_written_only_if_they_change(tmp_path):
    folder, rows = tmp_path / "data", [{"text": "\ud800é", "label": 1}]
    write_splits(folder, {"train": rows, "dev": rows})
    (line,) = (folder / "train.jsonl").read_text().splitlines()
    assert json.loads(line) == rows[0]
    before = os.stat(folder / "train.jsonl")
    (folder / ".train.jsonl.abcdefgh").write_text("of a killed process")
    write_splits(folder, {"train": rows, "dev": None})
    assert os.stat(folder / "train.jsonl") == before
    assert sorted(os.listdir(folder)) == ["README.txt", "train.jsonl"]
    write_splits(folder, {"train": rows * 2, "dev": None})
    assert len((folder / "train.jsonl").read_text().splitlines()) == 2
    with pytest.raises(UserError, match="there are no rows for train"):
        write_splits(folder, {"train": []})


def test_files_of_the_user_stay(tmp_path):
    (tmp_path / "dev.jsonl").write_text("mine")
    with pytest.raises(UserError, match="has your own files; pass another output_dir"):
        write_splits(tmp_path, {"train": EXPECTED, "dev": None})
    (tmp_path / "README.txt").write_text("Mine, too.")
    with pytest.raises(UserError, match="has your own files; pass another output_dir"):
        write_splits(tmp_path, {"train": EXPECTED, "dev": None})
    assert sorted(os.listdir(tmp_path)) == ["README.txt", "dev.jsonl"]
