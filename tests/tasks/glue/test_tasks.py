"""The processors: columns and labels of every task, and faults in its files."""

import logging

import pytest

from albert.core.errors import UserError
from albert.tasks.glue.tasks import PROCESSORS
from tests.helpers.glue import LABELS, ROWS, write_all

# Task: the first training example's id, the label of the first development and test examples, and
# the scores, of which the first selects the best checkpoint.
TASKS = {
    "cola": ("train-0", "0", ("matthew_corr", "eval_accuracy")),
    "mnli": ("0", "contradiction", ("eval_accuracy",)),
    "mismnli": ("0", "contradiction", ("eval_accuracy",)),
    "mrpc": ("train-1", "0", ("eval_accuracy", "f1")),
    "rte": ("0", "entailment", ("eval_accuracy",)),
    "sst-2": ("train-1", "0", ("eval_accuracy",)),
    "sts-b": ("0", 0.0, ("pearson", "spearman", "MSE")),
    "qqp": ("0", "0", ("eval_accuracy", "f1")),
    "qnli": ("0", "entailment", ("eval_accuracy",)),
    "wnli": ("0", "0", ("eval_accuracy",)),
}
# The columns of texts in published files, unless they are sentence1 and sentence2.
TEXTS = {
    **dict.fromkeys(("CoLA", "SST-2"), ["sentence"]),
    **{"MRPC": ["#1 String", "#2 String"], "QQP": ["question1", "question2"]},
    "QNLI": ["question", "sentence"],
}


@pytest.fixture(scope="module")
def glue_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glue")
    write_all(folder, ["Alpha", "beta", '"gamma"', "δέλτα"])
    return folder


def processor_of(task, use_spm=True, do_lower_case=True):
    return PROCESSORS[task](use_spm, do_lower_case)


class TestFiles:
    @pytest.mark.parametrize("task", TASKS)
    def test_every_split_is_read(self, glue_dir, task):
        processor = processor_of(task, use_spm=False)
        first_id, label, scores = TASKS[task]
        assert processor.metrics == scores
        train = processor.get_train_examples(str(glue_dir))
        dev = processor.get_dev_examples(str(glue_dir))
        test = processor.get_test_examples(str(glue_dir))
        assert [len(part) for part in (train, dev, test)] == [ROWS] * 3
        assert (train[0].guid, dev[0].label) == (first_id, label)
        assert {example.label for example in test} == {label}
        assert [example.guid for example in test] == [str(n) for n in range(ROWS)]
        labels = [float(x) if task == "sts-b" else x for x in LABELS[processor.folder]]
        assert [e.label for e in train] == [labels[n % len(labels)] for n in range(ROWS)]
        assert processor.get_labels() == ([None] if task == "sts-b" else labels)

    @pytest.mark.parametrize("task", PROCESSORS)
    def test_texts_come_from_the_columns_with_their_names(self, glue_dir, task):
        processor = processor_of(task, use_spm=False, do_lower_case=False)
        names = TEXTS.get(processor.folder, ["sentence1", "sentence2"])
        for split, columns in processor.files.items():
            lines = (glue_dir / processor.folder / columns.file).read_text().splitlines()
            rows = [line.split("\t") for line in lines]
            # Only files of CoLA lack a header.
            header = rows.pop(0) if columns.has_header else ["", "", "", *names]
            expected = [[row[header.index(name)] for name in names] for row in rows]
            examples = processor.read_files(processor.files_of(str(glue_dir), split), split)
            assert [processor.display_parts(e)["texts"] for e in examples] == expected

    def test_texts_are_normalized_for_sentencepiece(self, tmp_path):
        (tmp_path / "CoLA").mkdir()
        (tmp_path / "CoLA" / "dev.tsv").write_text("x\t1\t\tÀ  la\u00a0Carte\n")
        texts = []
        for use_spm, lower in ((True, True), (True, False), (False, True)):
            (example,) = processor_of("cola", use_spm, lower).get_dev_examples(str(tmp_path))
            texts.append(example.text_a)
        assert texts == ["a la carte", "A la Carte", "À  la\u00a0Carte"]


SCORES = "\t".join("abcdefghi")  # of STS-B, without the score
SST2 = "sentence\tlabel\n"


class TestFaults:
    @pytest.fixture
    def read(self, tmp_path):
        def read(task, content, part="train"):
            processor = processor_of(task)
            (tmp_path / processor.folder).mkdir(exist_ok=True)
            path = tmp_path / processor.folder / f"{part}.tsv"
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            return getattr(processor, f"get_{part}_examples")(str(tmp_path))

        return read

    @pytest.mark.parametrize(
        ("task", "content", "fault"),
        [
            ("cola", "a\t1\t\ttext\na\t1\t\n", r", line 2: 3 columns, but 4 are"),
            ("sst-2", f"{SST2}fine\t1\n\nbad\t0\n", r", line 3: \d+ columns, but \d+ are"),
            ("qnli", "index\tq\ts\tlabel\n0\tq\ts\tentailment\n1\tq\ts\n", r", line 3: \d+ col"),
            ("mnli", "\t".join("abcdefghijkl") + f"\n{SCORES}\tj\tk\n", r", line 2: \d+ columns"),
            ("sst-2", f"{SST2}fine\t2\n", ", line 2: the label is '2', not one of 0, 1"),
            ("sts-b", f"{SCORES}\tscore\n{SCORES}\thigh\n", ", line 2: the label is not .*: high$"),
            ("sts-b", f"{SCORES}\tscore\n{SCORES}\tnan\n", ", line 2: the label is not .*: nan$"),
            *(("sst-2", nothing, " has no examples") for nothing in ("", "\n\n", SST2)),
            ("sst-2", f"{SST2}f\udcfcr\t1\n".encode(errors="surrogateescape"), ", line 2: byte 2 "),
        ],
    )
    def test_a_malformed_file_is_named_by_line(self, read, task, content, fault):
        with pytest.raises(UserError, match=rf"train\.tsv{fault}"):
            read(task, content)

    def test_short_rows_of_quora_are_skipped_in_training_only_and_columns_ignored(self, read, log):
        """The published training file has some; every test example must be in a submission."""
        rows = "0\t1\t2\ta\tb\t1\n1\t3\t4\tbroken\nline\t0\n2\t5\t6\tc\td\t0\n"
        examples = read("qqp", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n" + rows)
        assert [e.text_a for e in examples] == ["a", "c"]
        (warning,) = log(logging.WARNING)
        assert "skipped 2 rows with too few columns" in warning and "line 3" in warning
        with pytest.raises(UserError, match=r"test\.tsv, line 3: 2 columns, but 3 are needed"):
            read("qqp", "id\tquestion1\tquestion2\n0\ta\tb\n1\tc\n", part="test")
        (example,) = read("mrpc", "Quality\t1\t2\t3\t4\n1\ta\tb\tc\td\te\n")
        assert (example.label, example.text_a, example.text_b) == ("1", "c", "d")
