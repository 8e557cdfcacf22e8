"""Tables: formats told apart by their content, cells, the position of a fault, and memory."""

import bz2
import gzip
import json
import os
import pickle
import tracemalloc

import pytest

from albert.core.errors import UserError
from albert.tables.tables import find_table, open_table, read_json_lines, read_tsv


def rows_of(path: str) -> list[tuple[int, dict]]:
    return [(location.line, dict(row)) for location, row in open_table(path).rows()]


ROWS = [{"a": 'x, "y"; z', "b": " é "}, {"a": "", "b": "1"}]


class TestFormats:
    @pytest.mark.parametrize("mark", ["", "\ufeff"])
    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    @pytest.mark.parametrize(
        ("name", "lines"),
        [
            ("CSV", ["a,b", '"x, ""y""; z", é ', ",1"]),
            ("CSV with semicolons", ['"a";b', '"x, ""y""; z"; é ', ";1"]),
            ("CSV with |", ["a|b", '"x, ""y""; z"| é ', "|1"]),
            ("TSV", ["a\tb", 'x, "y"; z\t é ', "\t1"]),
            # As spreadsheets write it.
            ("TSV", ["a \tb", '"x, ""y""; z"\t é ', "\t1"]),
            ("JSON Lines", [json.dumps(row) for row in ROWS]),
            ("JSON Lines", [json.dumps(row, ensure_ascii=False) for row in ROWS]),
            ("JSON", [f"[{json.dumps(ROWS[0])},", f"{json.dumps(ROWS[1])}]"]),
        ],
    )
    def test_all_formats_give_the_same_rows(self, write, name, lines, mark, end):
        for last in ("", end):
            path = write(content := mark + end.join(lines) + last)
            if last and name != "JSON":
                path = write(gzip.compress(content.encode()), "file.gz")
            table = open_table(path)
            assert (table.format, [*table.columns]) == (name, ["a", "b"])
            first = 1 if name.startswith("JSON") else 2
            assert rows_of(path) == [(first, ROWS[0]), (first + 1, ROWS[1])]

    @pytest.mark.parametrize(
        "content",
        [
            *('{"data": []}', '{"version": "1.1", "data": []}', '\ufeff\n {\n"data": [{}]}', "{}"),
            *("[]", "[1]", '[{"paragraphs": []}]', '{"a": 1,\n"b": 2}', '{"a": "x'),
            '{"version": 1,"data":[{"a":',
        ],
    )
    def test_a_json_document_is_no_table(self, write, content):
        path = write(content)
        assert find_table(path).format == "JSON"
        with pytest.raises(UserError, match="is neither CSV, TSV, JSON Lines, Parquet nor a JSON"):
            open_table(path)

    def test_a_text_or_a_row_with_a_list_of_data_is_a_row(self, write):
        for text in ('"data": [1]', "x" * 200_000):
            path = write(json.dumps({"a": text, "b": 1}) + "\n")
            assert rows_of(path) == [(1, {"a": text, "b": 1})]
        row = {"a": "x", "data": [1]}
        text = json.dumps(row)
        assert rows_of(write(f"{text}\n\n{text}\n".replace("\n\n", "\r\n"))) == [(1, row), (2, row)]
        assert find_table(write(f"{text}\n")).format == "JSON"

    def test_the_name_of_a_file_tells_the_format_of_a_single_column(self, write):
        for path in (write("a\nx, y\n", "file.tsv"), write('a\n"x, y"\n')):
            assert rows_of(path) == [(2, {"a": "x, y"})]

    def test_empty_files_and_empty_columns_at_the_side_are_accepted(self, write):
        """As pandas and spreadsheets write them."""
        for content in ("", "\n\r\n", "\ufeff"):
            path = write(content)
            assert [*find_table(path).columns] == [] and rows_of(path) == []
        assert rows_of(write(",a,,\n0,x,,\n")) == [(2, {"": "", "a": "x"})]

    def test_tables_of_arrow_are_read_in_all_forms(self, write, tmp_path, pyarrow):
        from pyarrow import feather, ipc, parquet

        table, path = pyarrow.Table.from_pylist(ROWS * 5000), str(tmp_path / "file")
        with ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table)
        for save in (None, feather.write_feather, parquet.write_table):
            if save:
                save(table, path)
            found = rows_of(path)
            assert len(found) == 10_000 and found[-1] == (10_000, ROWS[1])
        path = write(b"ARROW1\0\0 and no more", "bad.arrow")
        with pytest.raises(UserError, match=f"^{path} cannot be read as Arrow: [^\n]*$"):
            open_table(path)


class TestCells:
    def test_quotation_marks_within_tsv_are_text(self, write):
        """Only a cell that is quoted as a whole loses them."""
        cells = ['"an open one', '"a" and "b"', 'a "b"', '""', '"', '"""x"""', "'x'", '"x\0"']
        rows = rows_of(write("a\tb\n" + "".join(f"{cell}\t1\n" for cell in cells)))
        texts = ['"an open one', '"a" and "b"', 'a "b"', "", '"', '"x"', "'x'", "x\0"]
        assert [row["a"] for _, row in rows] == texts

    @pytest.mark.parametrize("row", ['"{}",1\n', "{},1\n"])
    def test_a_cell_may_have_a_million_characters(self, write, row):
        text = "é" * 1_000_000
        assert rows_of(write("a,b\n" + row.format(text))) == [(2, {"a": text, "b": "1"})]


class TestFaults:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ('a,b\nx,1\n"y\nz', "line 3: a quotation mark is not closed"),
            ('a,b\nx,1\n"y,1\n"z",1\n', "line 3: text after a closing quotation mark"),
            ('"a,b\n', "line 1: a quotation mark is not closed"),
            ("a,b\nx,1\n\ny\n", "line 4: 1 columns, but the header has 2; put cells"),
            ("a;b\nx;1;2\n", "line 2: 3 columns, but the header has 2; put cells that contain ';'"),
            ('a\tb\n"x\ny"\t1\n', "line 2: 1 columns, .* save the table as CSV"),
            ("a,b,a \nx,1,2\n", "line 1: the column a occurs twice"),
            ("a,b\nx\ry,1\n", "line 2: a carriage return in a cell without quotation marks"),
            ("a,b\nx\0,1\n", "line 2: a NUL character"),
            ("\0a,b\nx,1\n", "line 1: a NUL character"),
            ("a,b\nx,ü\n".encode("latin-1"), "line 2: byte 3 of the line is not UTF-8"),
            ('a,b\n"x\né",1\n'.encode("cp1252"), "line 3: byte 1 of the line is not UTF-8"),
            ("a,b\nx,1\n".encode("utf-16-le"), "line 1: a NUL character"),
            ('{"a": 1}\n{"a": \n', "line 2 is not JSON"),
            ('{"a": 1}\n[1]\n', "line 2: not a JSON object"),
            (gzip.compress(b"a,b\nx,\xfc\n"), "line 2: byte 3 of the line is not UTF-8"),
        ],
    )
    def test_a_bad_row_is_named_by_file_and_line(self, write, content, message):
        path = write(content)
        with pytest.raises(UserError, match=rf"^{path}, {message}.*\Z"):
            rows_of(path)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"PK\x03\x04", "is a workbook of Excel or another archive; save it as CSV"),
            (b"\xd0\xcf\x11\xe0", "is an old workbook of Excel; save it as CSV"),
            (pickle.dumps([{"a": 1}]), "is a pickle of Python; save its rows as JSON Lines, with"),
            (bz2.compress(b"a,b"), "is a compressed file; unpack it"),
            ("a,b\nx,1\n".encode("utf-16"), "is UTF-16; save it as UTF-8: in Excel as CSV UTF-8"),
            (gzip.compress(b'[{"a": 1}]'), "is a compressed JSON document; unpack it"),
            (gzip.compress(b"a,b\n" * 99)[:-9], "cannot be unpacked: Compressed file ended before"),
            (gzip.compress(b"a,b")[:-4] + b"1234", "cannot be read: Incorrect length of data"),
            (gzip.compress(b"a,b")[:10] + b"\xff" * 9, "cannot be unpacked: Error -3 while"),
        ],
    )
    def test_other_files_are_named_with_the_way_to_read_them(self, write, content, message):
        path = write(content)
        with pytest.raises(UserError, match=rf"^{path} {message}"):
            rows_of(path)

    def test_a_forgotten_quotation_mark_does_not_read_the_whole_file(self, write):
        path = write('a,b\n"x,1\n' + f"{'y' * 99},1\n" * 1_000_000)
        tracemalloc.start()
        with pytest.raises(UserError, match="line 2: a quotation mark is not closed"):
            rows_of(path)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # The text of the file takes 102 MB.
        assert peak < 50e6

    @pytest.mark.parametrize(
        ("content", "line"), [("a,b\n", 1), ("a\tb\nx\t1\n", 1), ('{"c": 1}\n{"a": 1}', 2)]
    )
    def test_a_missing_column_is_named_with_those_that_exist(self, write, content, line):
        with pytest.raises(UserError, match=f"file, line {line}: c is missing; found a"):
            list(find_table(write(content)).rows(["c"]))


SEPARATORS = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\rh"


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        # Quotation marks are characters.
        ('1\t"an open one\t""two"" \'\n', [["1", '"an open one', '""two"" \'']]),
        # Line ends and a byte order mark; Python's splitlines() splits at many more characters.
        ("\ufeffé\tb\r\nc\td", [["é", "b"], ["c", "d"]]),
        *((f"é\tb{end}c\td{end}{end}", [["é", "b"], ["c", "d"]]) for end in ("\n", "\r\n")),
        (f"{SEPARATORS}\t1\n", [[SEPARATORS, "1"]]),
        ("a\t\t\tb\n\tc\t\n", [["a", "", "", "b"], ["", "c", ""]]),
        *((text, []) for text in ("", "\n\r\n", "\ufeff")),
        ("a\n\nb\n", [["a"], [""], ["b"]]),
    ],
)
def test_tsv_is_split_at_tabs_and_line_ends_only(write, content, rows):
    """Empty lines count, except at the end."""
    lines = [(location.line, row) for location, row in read_tsv(write(content))]
    assert lines == list(enumerate(rows, start=1))


@pytest.mark.parametrize("reader", [read_tsv, read_json_lines, find_table])
def test_an_unreadable_file_is_one_line(tmp_path, reader):
    os.mkfifo(tmp_path / "pipe")
    for name, message in (
        ("missing", "missing cannot be read: No such file"),
        ("", "cannot be read: Is a directory"),
        ("pipe", "pipe is not a regular file"),
    ):
        with pytest.raises(UserError, match=message):
            list(reader(str(tmp_path / name)))
