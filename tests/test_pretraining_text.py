"""`albert pretraining-text`: every kind of input, the report, reruns, and faults."""

import bz2
import gzip
import json
import os
import resource
import sys

import pytest
from backports import zstd

from albert.core.errors import UserError
from albert.corpus import documents
from albert.corpus.conversion import Options, make_corpus
from albert.corpus.sources import find_files
from tests.helpers.files import limited
from tests.helpers.running import albert, assert_fails, run, succeed

BOB = "Bob is a man. He lives."
TEXTS = [BOB, "Ann is a woman. She\nworks.", "BOB is a  man.\nHe lives.", "Too short.", None]


def pretraining_text(folder, *flags, inputs="in"):
    return albert(
        "pretraining-text", f"--input={folder / inputs}", f"--output_dir={folder / 'out'}", *flags
    )


def text_of(folder, part="train"):
    return (folder / f"out/{part}.txt").read_text()


def report_of(folder):
    return json.loads((folder / "out/report.json").read_text())


def streams(content, size=700):
    """Returns content as several streams of bzip2 in a row."""
    parts = (content[start : start + size] for start in range(0, len(content), size))
    return b"".join(map(bz2.compress, parts))


@pytest.fixture
def mixed(tmp_path):
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    lines = [json.dumps({"text": text}) for text in TEXTS[:-1]]
    (folder / "a.jsonl.bz2").write_bytes(streams("\n".join(lines).encode(), 30))
    (folder / "b.txt").write_text(
        "\ufeffA file. Its end\nis here.\r\n\r\nA new paragraph. It ends."
    )
    (folder / "c.txt.gz").write_bytes(gzip.compress(b"Zipped text. More of it."))
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / ".hidden.txt").write_text("Hidden text. It is hidden.")
    lines = [{"text": f"Number {k} is first. It is {k}."} for k in (1, 2, 1)]
    lines += [{"text": "BOB is a  man.\nHe lives."}]
    content = "\n".join(map(json.dumps, lines)).encode()
    (folder / "sub/d.jsonl.zst").write_bytes(
        zstd.compress(content[:40]) + zstd.compress(content[40:])
    )
    return tmp_path


def test_all_kinds_of_input_make_the_same_text_for_any_number_of_workers(mixed):
    result = run(pretraining_text(mixed, "--preprocess_workers=1"))
    assert result.returncode == 0, result.stderr
    numbers = "".join(f"\nNumber {k} is first.\nIt is {k}.\n" for k in (1, 2))
    files = "\nA file.\nIts end is here.\nA new paragraph.\nIt ends.\n\nZipped text.\nMore of it.\n"
    articles = "Bob is a man.\nHe lives.\n\nAnn is a woman.\nShe works.\n"
    assert text_of(mixed) == articles + files + numbers
    report, text = report_of(mixed), (mixed / "out/train.txt").read_bytes()
    assert report["faults"] == [] and report["files"] == {"train.txt": len(text)}
    printed = "10 read, 1 too_short, 3 duplicate, 6 kept, 14 sentences, 169 characters\n"
    assert result.stdout == printed
    # Text that exists stays; another folder gets the same bytes from three workers.
    exists = "out already exists; give another name, or remove it"
    assert_fails(run(pretraining_text(mixed, "--preprocess_workers=3")), 1, exists)
    (mixed / "out").rename(mixed / "first")
    succeed(pretraining_text(mixed, "--preprocess_workers=3"))
    assert (mixed / "out/train.txt").read_bytes() == text and report_of(mixed) == report
    assert sorted(path.name for path in mixed.iterdir()) == ["first", "in", "out"]


EXTRACTED = """<doc id="4" url="https://x.example/?curid=4" title="Bob &amp; Co">
Bob &amp; Co

Bob is a man. He lives.
History.
Once &lt;ref name="x" /&gt; a < b.

</doc>
<doc id="5" url="https://x.example/?curid=5" title="Ann">
Ann

Ann is a woman. She lives here.

</doc>
"""


def test_what_wikiextractor_writes_is_read(tmp_path):
    """Articles are documents, and their lines are paragraphs; titles, tags and ids are no text."""
    folder = tmp_path / "in/AA"
    folder.mkdir(parents=True)
    (folder / "wiki_00").write_text(EXTRACTED)
    (folder / "wiki_01.bz2").write_bytes(bz2.compress(EXTRACTED.replace("is a", "was a").encode()))
    article = {"id": "6", "title": "Wye", "text": "Wye\nThe Wye is long.\nIt winds"}
    (folder / "wiki_02").write_text(json.dumps(article))
    (folder / "x.txt").write_text(EXTRACTED.replace("is a", "has been a"))
    succeed(pretraining_text(tmp_path))
    bob, ann = (
        "Bob {}a man.\nHe lives.\nHistory.\nOnce a < b.\n",
        "Ann {}a woman.\nShe lives here.\n",
    )
    texts = [one.format(verb) for verb in ("is ", "was ", "has been ") for one in (bob, ann)]
    texts.insert(4, "The Wye is long.\nIt winds\n")
    assert text_of(tmp_path) == "\n".join(texts)


def test_a_column_of_parquet_is_read(tmp_path, pyarrow):
    from pyarrow import parquet

    (tmp_path / "in").mkdir()
    columns = {"id": list("12345"), "text": TEXTS}
    parquet.write_table(pyarrow.table(columns), tmp_path / "in/train-00000-of-00041.parquet")
    succeed(pretraining_text(tmp_path))
    assert text_of(tmp_path) == "Bob is a man.\nHe lives.\n\nAnn is a woman.\nShe works.\n"
    totals = report_of(tmp_path)["totals"]
    assert (totals["read"], totals["unreadable"], totals["duplicate"]) == (5, 1, 1)
    (tmp_path / "in/html.parquet").write_text("<html></html>")
    (tmp_path / "out").rename(tmp_path / "first")
    with pytest.raises(UserError, match="0 read.*html.parquet cannot be read"):
        make(tmp_path, "in", text_field="body")
    with pytest.raises(UserError, match="has no column 'body'; see --text_field"):
        make(tmp_path, "in/train*", text_field="body")


def make(folder, inputs, **options):
    files = find_files(str(folder / inputs), str(folder / "out"))
    return make_corpus(files, str(folder / "out"), Options(**options), workers=1)


def corpus(folder, texts, **options):
    (folder / "in.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    return make(folder, "in.jsonl", **options)


def test_whole_documents_are_held_out_by_their_content(tmp_path):
    texts = [f"Text {k} begins. Text {k} ends." for k in range(2000)]
    report = corpus(tmp_path, texts, dev_fraction=0.1)
    held_out = {*text_of(tmp_path, "dev").split("\n\n")}
    kept = {*text_of(tmp_path).split("\n\n")}
    assert 150 < report["totals"]["dev"] == len(held_out) < 250
    assert len(kept) == 2000 - len(held_out) and not kept & held_out
    (tmp_path / "out").rename(tmp_path / "first")
    corpus(tmp_path, texts[::-1], dev_fraction=0.1)
    again = text_of(tmp_path, "dev").split("\n\n")
    assert {*map(str.strip, again)} == {*map(str.strip, held_out)}


def test_filters(tmp_path):
    texts = ["A b.", "One is. Two is.", "Alone, but long.", "x. " * 3, *["Same size. It is."] * 2]
    report = corpus(tmp_path, texts, min_chars=10)
    assert report["totals"].items() >= {"too_short": 3, "duplicate": 1, "kept": 2}.items()
    (tmp_path / "out").rename(tmp_path / "first")
    words = [f"{k} " + "word " * 100_000 for k in range(3)]
    report = corpus(tmp_path, words)
    assert {*report["files"]} == {"train.txt"} and report["totals"]["cut_sentences"] > 300


def test_a_blank_line_can_end_a_document_and_a_long_one_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "LONGEST_DOCUMENT", 1000)
    monkeypatch.setattr(documents, "_PIECE", 4)
    (tmp_path / "in").mkdir()
    text = (
        "\n\nOne is. Two is.\r\n \r\nThree is.         Four is.\n\n\n"
        + "A long one. It goes on. " * 100
    )
    (tmp_path / "in/a.txt").write_text(text)
    report = make(tmp_path, "in", blank_line_ends_document=True)
    assert report["totals"]["cut_documents"] == 2
    assert report["totals"]["read"] == report["totals"]["kept"] == 5
    assert "".join(text_of(tmp_path).split()) == "".join(text.split())


def test_damaged_files_lose_only_what_is_behind_the_damage(mixed):
    many = [{"text": f"Town {k} is old. It has {os.urandom(3000).hex()}."} for k in range(40)]
    content = "\n".join(map(json.dumps, many)).encode()
    (mixed / "in/cut.jsonl.bz2").write_bytes(streams(content, 20_000)[:-30_000])
    (mixed / "in/cut.jsonl.zst").write_bytes(zstd.compress(b'{"text": "No."}\n' * 9)[:-6])
    (mixed / "in/latin.txt").write_bytes("Ein schöner Tag. Ja.".encode("latin-1"))
    (mixed / "in/zero.txt").write_bytes(b"Bin\0ary. It is.")
    (mixed / "in/wiki_00").write_text(EXTRACTED[:-8])
    (mixed / "in/lines.jsonl").write_bytes(b'{"text": "First is. Last is."}\nno\n[1]\n\xff\n')
    result = run(pretraining_text(mixed))
    assert_fails(result, 1, "cut.jsonl.bz2", "report.json has 5 more", f"is in {mixed / 'out'}")
    faults = " | ".join(report_of(mixed)["faults"])
    for part in (
        *("cut.jsonl.bz2 is damaged or incomplete", "cut.jsonl.zst is damaged"),
        *("latin.txt, line 1 is not UTF-8", "zero.txt, line 1 is not t"),
        *("lines.jsonl, line 2: the line is not JSON", "wiki_00 is incomplete: its last <doc>"),
    ):
        assert part in faults
    text = text_of(mixed)
    assert "Town 0 is old." in text and "Town 39" not in text and "First is." in text
    assert "Zipped text." in text and "Ein sch" not in text
    # Lines that are no documents.
    assert report_of(mixed)["totals"]["unreadable"] == 3


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("none", "none matches no file"),
        ("empty", "empty contains no file"),
        ("a.png", "does not end in .txt"),
        ("a.xml.bz2", "extract the text of a dump with WikiExtractor"),
        (".", "is inside the input"),
        ("a.txt", r"no document to keep \(1 read, 1 too_short\)"),
    ],
)
def test_wrong_input_writes_nothing(tmp_path, inputs, message):
    (tmp_path / "empty").mkdir()
    for name in ("a.png", "a.txt", "a.xml.bz2"):
        (tmp_path / name).write_text("Alone.")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=message):
        make(tmp_path, inputs)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("module", "name"),
    [("pyarrow", "a.parquet"), ("sentencex", "a.txt"), ("backports.zstd", "a.txt.zst")],
)
def test_a_missing_package_is_named_before_any_work(tmp_path, monkeypatch, module, name):
    (tmp_path / name).write_text("Text.")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=rf"{module}.* is missing: run `pip install {module}"):
        make(tmp_path, name)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_folder_may_be_a_link(tmp_path):
    (tmp_path / "in.txt").write_text("One is. Two is.")
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to("real")
    succeed(pretraining_text(tmp_path, inputs="in.txt"))
    assert (tmp_path / "real/train.txt").read_text() == "One is.\nTwo is.\n"


def test_a_full_disk_leaves_nothing(tmp_path):
    text = "".join(f"Text {k} begins. Text {k} ends.\n\n" for k in range(2000))
    (tmp_path / "in.txt").write_text(text)
    full = pytest.raises(UserError, match="out cannot be written: ")
    with full, limited(resource.RLIMIT_FSIZE, 50_000):
        make(tmp_path, "in.txt", blank_line_ends_document=True)
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]
    # The next run removes what a killed one left.
    (tmp_path / ".out.abcdefgh").mkdir()
    (tmp_path / ".out.abcdefgh/train.txt").write_text("half")
    corpus(tmp_path, ["One is. Two is."])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "in.txt", "out"]
    assert text_of(tmp_path) == "One is.\nTwo is.\n"
