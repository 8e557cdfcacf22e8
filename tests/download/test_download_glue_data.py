"""The command download_glue_data.py, run as a user runs it, against a local server."""

import pytest

from albert.download.download_glue_data import main
from tests.helpers.download import zip_of
from tests.helpers.running import assert_fails

HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
TRAIN = [f'{n % 2}\t{100 + n}\t{200 + n}\tThe "first , {n}\tsecond é {n}' for n in range(20)]
TEST = [f"{n % 2}\t{300 + n}\t{400 + n}\ttest {n}\tpair {n}" for n in range(3)]
DEV_IDS = "103\t203\n117\t217\n999\t999\n"


def packed(folder, names=("train.tsv", "dev.tsv", "test.tsv", "original/raw/in_domain.tsv")):
    return zip_of({f"{folder}/{name}": f"{folder} {name}" for name in names})


def distributed(rows):
    """Returns a file of MRPC as Microsoft has it: a byte order mark, and carriage returns."""
    return ("\ufeff" + "".join(row + "\r\n" for row in [HEADER, *rows])).encode()


FILES = {
    "CoLA.zip": packed("CoLA"),
    "SST-2.zip": packed("SST-2"),
    "AX.tsv": b"index\tsentence1\tsentence2\n",
    "msr_paraphrase_train.txt": distributed(TRAIN),
    "msr_paraphrase_test.txt": distributed(TEST),
    "mrpc_dev_ids.tsv": DEV_IDS.encode(),
}


@pytest.fixture
def glue(tmp_path):
    return tmp_path / "glue"


@pytest.fixture
def download(command, publish, server, glue):
    server.files |= {f"mirror/{name}": content for name, content in FILES.items()}

    def download(tasks, *more, files=FILES):
        publish(files)
        usual = ["--data_dir", glue, "--base_url", f"{server.url}mirror"]
        return command(main, *usual, "--tasks", tasks, *more)

    return download


@pytest.fixture
def raw(tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    for name in ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt"):
        (folder / name).write_bytes(FILES[name])
    return folder


def names(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def lines(path):
    content = path.read_bytes().decode()
    assert content.endswith("\n") and "\r" not in content and "\ufeff" not in content
    return content[:-1].split("\n")


class TestTasks:
    def test_folders_are_those_that_the_processors_read(self, download, glue):
        assert download("COLA, sst-2 ,SST,diagnostic").returncode == 0
        splits = ("dev", "test", "train")
        folders = [f"{task}/{split}.tsv" for task in ("CoLA", "SST-2") for split in splits]
        assert names(glue) == [*folders, "diagnostic/diagnostic.tsv"]
        assert (glue / "SST-2" / "dev.tsv").read_text() == "SST-2 dev.tsv"

    def test_existing_files_are_kept(self, download, glue, server):
        download("CoLA")
        (glue / "CoLA" / "dev.tsv").write_text("mine")
        assert "which already exists" in download("CoLA").stderr
        assert (glue / "CoLA" / "dev.tsv").read_text() == "mine"
        (glue / "CoLA" / "dev.tsv").unlink()
        assert_fails(download("CoLA"), 1, "has no dev.tsv; move it away")
        assert names(glue) == ["CoLA/test.tsv", "CoLA/train.tsv"] and len(server.requests) == 1

    def test_a_wrong_archive_or_an_unknown_task_makes_no_folder(self, download, glue, server):
        other = FILES["CoLA.zip"][:-1] + b"\1"
        assert_fails(download("CoLA", files=FILES | {"CoLA.zip": other}), 1, "SHA-256")
        content = packed("CoLA", names=["train.tsv", "dev.tsv", "original/test.tsv"])
        server.files["mirror/CoLA.zip"] = content
        done = download("CoLA", files=FILES | {"CoLA.zip": content})
        assert_fails(done, 1, "lacks CoLA/test.tsv")
        assert [path for path in glue.iterdir() if path.is_dir()] == []
        done = download("CoLA,SNLI")
        assert done.returncode == 2
        assert "unknown task 'snli'; use all, or some of CoLA, SST-2, QQP" in done.stderr


class TestMrpc:
    DEV = [TRAIN[3], TRAIN[17]]

    def check(self, folder, dev):
        assert lines(folder / "dev.tsv") == [HEADER, *dev]
        assert lines(folder / "train.tsv") == [HEADER, *(r for r in TRAIN if r not in dev)]
        test = [f"{n}{row[1:]}" for n, row in enumerate(TEST)]
        assert lines(folder / "test.tsv") == [HEADER.replace("Quality", "index"), *test]

    def test_all_files_are_fetched(self, download, glue):
        assert download("MRPC").returncode == 0
        self.check(glue / "MRPC", self.DEV)
        assert (glue / "MRPC" / "dev_ids.tsv").read_text() == DEV_IDS

    @pytest.mark.parametrize("name", ["", "dev_ids.tsv", "mrpc_dev_ids.tsv"])
    def test_a_users_files_are_split_by_a_list(self, download, raw, glue, server, name):
        if name:
            (raw / name).write_text("105\t205\r\n100\t200\r\n")
        assert download("MRPC", "--path_to_mrpc", raw).returncode == 0
        assert [r.path for r in server.requests] == ([] if name else ["mirror/mrpc_dev_ids.tsv"])
        self.check(glue / "MRPC", [TRAIN[0], TRAIN[5]] if name else self.DEV)

    def test_without_a_list_every_tenth_pair_is_for_development(self, download, raw, glue, server):
        """If no files were given, there is a network, and another split would be a mistake."""
        del server.files["mirror/mrpc_dev_ids.tsv"]
        assert_fails(download("MRPC"), 1, "mrpc_dev_ids.tsv")
        assert not (glue / "MRPC").exists()
        done = download("MRPC", "--path_to_mrpc", raw)
        assert done.returncode == 0, done.stderr
        assert "not comparable with published ones" in done.stderr
        self.check(glue / "MRPC", [TRAIN[9], TRAIN[19]])

    def test_the_labeled_test_file_may_be_for_development(self, download, raw, glue, server):
        done = download("MRPC", "--path_to_mrpc", raw, "--mrpc_dev=test")
        assert done.returncode == 0 and server.requests == []
        for name, source in (("train", "train"), ("dev", "test")):
            text = (raw / f"msr_paraphrase_{source}.txt").read_text("utf-8-sig")
            assert (glue / "MRPC" / f"{name}.tsv").read_text("utf-8") == text.rstrip() + "\n"

    def test_texts_split_at_commas_are_joined(self, download, raw, glue):
        row = '1\t1\t2\t"One \t said "" he \t"" is two ."\tplain \'s\n'
        (raw / "msr_paraphrase_test.txt").write_text(f"{HEADER}\n{row}")
        done = download("MRPC", "--path_to_mrpc", raw)
        assert "1 rows had tabs instead of commas" in done.stderr
        expected = '0\t1\t2\tOne , said " he ," is two .\tplain \'s'
        assert lines(glue / "MRPC" / "test.tsv")[1] == expected

    def test_another_list_or_a_missing_file_is_an_error(self, download, raw, glue, server):
        (raw / "dev_ids.tsv").write_text("999\t999\n")
        done = download("MRPC", "--path_to_mrpc", raw)
        assert_fails(done, 1, "no pair of MRPC's training file remains for dev.tsv")
        done = download("MRPC", "--path_to_mrpc", raw / "no")
        assert_fails(done, 1, "no/msr_paraphrase_train.txt: No such file")
        assert names(glue) == [] and server.requests == []

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (f"{HEADER}\n1\t2\t3\ta\tb\n1\t2\t3\ta\n", "line 3: has 4 columns instead of 5"),
            (f"{HEADER}\n1\t2\t3\ta\tb\tc\n", "line 2: has 6 columns instead of 5"),
            (f"{HEADER}\n", "has no pairs"),
            ("", "line 1: has 1 columns instead of 5"),
            (f"{HEADER}\n1\t2\t3\tfür\tb\n".encode("latin-1"), "line 2: not UTF-8"),
        ],
    )
    def test_a_damaged_file_makes_no_folder(self, download, raw, glue, content, reason):
        content = content if isinstance(content, bytes) else content.encode()
        (raw / "msr_paraphrase_train.txt").write_bytes(content)
        done = download("MRPC", "--path_to_mrpc", raw)
        assert_fails(done, 1, f"{raw / 'msr_paraphrase_train.txt'}", reason)
        assert names(glue) == []
