"""MRPC in GLUE's layout, made from the files as Microsoft distributes them."""

import pytest

from albert.core.errors import UserError
from albert.download.mrpc import make_mrpc

HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
TRAIN = [f'{n % 2}\t{100 + n}\t{200 + n}\tThe "first , {n}\tsecond é {n}' for n in range(20)]
TEST = [f"{n % 2}\t{300 + n}\t{400 + n}\ttest {n}\tpair {n}" for n in range(3)]
DEV_IDS = "103\t203\n117\t217\n999\t999\n"


def distributed(rows):
    """Returns a file of MRPC as Microsoft has it: a byte order mark, and carriage returns."""
    return ("\ufeff" + "".join(row + "\r\n" for row in [HEADER, *rows])).encode()


FILES = {
    "msr_paraphrase_train.txt": distributed(TRAIN),
    "msr_paraphrase_test.txt": distributed(TEST),
    "mrpc_dev_ids.tsv": DEV_IDS.encode(),
}
DEV = [TRAIN[3], TRAIN[17]]


@pytest.fixture
def make(publish, server, tmp_path):
    """Makes MRPC's folder, from the server or from a folder of the user; returns its path."""
    server.files |= FILES
    publish(FILES)
    (tmp_path / "MRPC").mkdir()

    def make(raw=None):
        make_mrpc(tmp_path / "MRPC", None, raw)
        return tmp_path / "MRPC"

    return make


@pytest.fixture
def raw(tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    for name in ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt"):
        (folder / name).write_bytes(FILES[name])
    return folder


def lines(path):
    content = path.read_bytes().decode()
    assert content.endswith("\n") and "\r" not in content and "\ufeff" not in content
    return content[:-1].split("\n")


def check(folder, dev):
    assert lines(folder / "dev.tsv") == [HEADER, *dev]
    assert lines(folder / "train.tsv") == [HEADER, *(r for r in TRAIN if r not in dev)]
    test = [f"{n}{row[1:]}" for n, row in enumerate(TEST)]
    assert lines(folder / "test.tsv") == [HEADER.replace("Quality", "index"), *test]


def test_all_files_are_fetched(make):
    folder = make()
    check(folder, DEV)
    assert (folder / "dev_ids.tsv").read_text() == DEV_IDS


@pytest.mark.parametrize("name", ["", "dev_ids.tsv", "mrpc_dev_ids.tsv"])
def test_a_users_files_are_split_by_a_list(make, raw, server, name):
    if name:
        (raw / name).write_text("105\t205\r\n100\t200\r\n")
    check(make(raw), [TRAIN[0], TRAIN[5]] if name else DEV)
    assert [r.path for r in server.requests] == ([] if name else ["mrpc_dev_ids.tsv"])


def test_without_a_list_the_test_file_is_for_development(make, raw, server, log):
    """If no files were given, there is a network, and another split would be a mistake."""
    del server.files["mrpc_dev_ids.tsv"]
    with pytest.raises(UserError, match="mrpc_dev_ids.tsv: HTTP 404"):
        make()
    log()
    folder = make(raw)
    assert lines(folder / "train.tsv") == [HEADER, *TRAIN]
    assert lines(folder / "dev.tsv") == [HEADER, *TEST]
    assert "not comparable with GLUE's" in "".join(log())


def test_texts_split_at_commas_are_joined(make, raw, log):
    row = '1\t1\t2\t"One \t said "" he \t"" is two ."\tplain \'s\n'
    (raw / "msr_paraphrase_test.txt").write_text(f"{HEADER}\n{row}")
    expected = '0\t1\t2\tOne , said " he ," is two .\tplain \'s'
    assert lines(make(raw) / "test.tsv")[1] == expected
    assert "has tabs instead of commas" in "".join(log())


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("train", f"{HEADER}\n1\t2\t3\ta\tb\tc\n", "line 2: has 6 columns instead of 5"),
        ("train", f"{HEADER}\n", "has no pairs"),
        ("test", "", "line 1: has 0 columns instead of 5"),
        ("test", f"{HEADER}\n1\t2\t3\tfür\tb\n".encode("latin-1"), "line 2: not UTF-8"),
    ],
)
def test_a_damaged_file_is_named_with_the_line(make, raw, name, content, reason):
    file = raw / f"msr_paraphrase_{name}.txt"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=f"^{file}.* ?{reason}"):
        make(raw)


def test_a_list_without_a_pair_of_the_file_is_an_error(make, raw):
    (raw / "dev_ids.tsv").write_text("999\t999\n")
    with pytest.raises(UserError, match="no pair of MRPC's training file remains for dev.tsv"):
        make(raw)
