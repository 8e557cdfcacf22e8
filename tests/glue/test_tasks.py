"""The processors: columns and labels of every task, and faults in its files."""

import logging

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from classification.metrics import compute_metrics
from classification.predictions import write_predictions
from glue.tasks import PROCESSORS, ColaProcessor, MrpcProcessor, QqpProcessor
from runtime.errors import UserError
from tests.helpers.glue import LABELS, ROWS, write_all

# Task: the first training example's id; the first development and test example's label.
TASKS = {
    "cola": ("train-0", "0", "0"),
    "mnli": ("0", "contradiction", "contradiction"),
    "mismnli": ("0", "contradiction", "contradiction"),
    "mrpc": ("train-1", "0", "0"),
    "rte": ("0", "entailment", "entailment"),
    "sst-2": ("train-1", "0", "0"),
    "sts-b": ("0", 0.0, 0.0),
    "qqp": ("0", "0", "0"),
    "qnli": ("0", "entailment", "entailment"),
    "wnli": ("0", "0", "0"),
}
SINGLE = ("cola", "sst-2")
# The first tells which checkpoint is best.
SCORES = {
    "cola": ("matthew_corr", "eval_accuracy"),
    "mrpc": ("eval_accuracy", "f1"),
    "qqp": ("eval_accuracy", "f1"),
    "sts-b": ("pearson", "spearman", "MSE"),
}


@pytest.fixture(scope="module")
def glue_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glue")
    write_all(folder, ["Alpha", "beta", '"gamma"', "δέλτα"])
    return folder


@pytest.fixture
def warnings(caplog, monkeypatch):
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    caplog.set_level(logging.INFO, tf.get_logger().name)
    return lambda: [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def column(path, number):
    """A column of a file as it stands, header included."""
    return [line.split("\t")[number] for line in path.read_text().splitlines()]


class TestFiles:
    @pytest.mark.parametrize("task", TASKS)
    def test_every_part_is_read(self, glue_dir, task):
        processor = PROCESSORS[task](use_spm=False, do_lower_case=True)
        first_id, dev_label, test_label = TASKS[task]
        train = processor.get_train_examples(str(glue_dir))
        dev = processor.get_dev_examples(str(glue_dir))
        test = processor.get_test_examples(str(glue_dir))
        assert [len(part) for part in (train, dev, test)] == [ROWS] * 3
        assert train[0].guid == first_id
        assert dev[0].label == dev_label
        assert {example.label for example in test} == {test_label}
        assert [example.guid for example in test] == [str(n) for n in range(ROWS)]
        for example in (*train, *dev, *test):
            assert 3 <= len(example.text_a.split()) <= 8
            if task in SINGLE:
                assert example.text_b is None
            else:
                assert 3 <= len(example.text_b.split()) <= 8

    @pytest.mark.parametrize("task", TASKS)
    def test_labels_are_those_of_the_rows(self, glue_dir, task):
        processor = PROCESSORS[task](use_spm=True, do_lower_case=True)
        labels = [e.label for e in processor.get_train_examples(str(glue_dir))]
        given = LABELS[processor.folder]
        given = [float(label) for label in given] if task == "sts-b" else list(given)
        assert labels == [given[n % len(given)] for n in range(ROWS)]
        assert processor.get_labels() == ([None] if task == "sts-b" else given)

    @pytest.mark.parametrize("task", TASKS)
    def test_scores(self, task):
        metrics = PROCESSORS[task](use_spm=True, do_lower_case=True).metrics
        assert metrics == SCORES.get(task, ("eval_accuracy",))
        labels, logits = np.array([0, 1, 1]), np.array([[0.5, 0], [0, 1], [0, 1]])
        scores = compute_metrics(metrics, labels, logits[:, 1] if task == "sts-b" else logits)
        assert {name for name, value in scores.items() if np.isfinite(value)} == {
            *metrics,
            "eval_loss",
        }

    @pytest.mark.parametrize("task", sorted(PROCESSORS.keys() - {"tsv"}))
    def test_submission(self, glue_dir, tmp_path, task):
        """Every row of the test set under its number, with the label of the greatest output."""
        processor = PROCESSORS[task](use_spm=True, do_lower_case=True)
        labels = processor.get_labels()
        rows = np.random.default_rng(1).random([ROWS, len(labels)]).astype(np.float32)
        outputs = [
            {"probabilities": row, "predictions": row[0] if labels == [None] else row.argmax()}
            for row in rows
        ]
        results, submission = (str(tmp_path / name) for name in ("results", "submission"))
        ids = [example.guid for example in processor.get_test_examples(str(glue_dir))]
        write_predictions(results, submission, ids, outputs, labels, processor.limits)
        np.testing.assert_array_equal(np.loadtxt(results, np.float32, ndmin=2), rows)
        header, *lines = (tmp_path / "submission").read_text().splitlines()
        assert header == "index\tprediction"
        found = [str(row[0]) if labels == [None] else labels[row.argmax()] for row in rows]
        assert lines == [f"{number}\t{label}" for number, label in enumerate(found)]

    def test_texts_are_the_right_columns(self, glue_dir):
        def texts(task, part):
            processor = PROCESSORS[task](use_spm=False, do_lower_case=False)
            examples = getattr(processor, f"get_{part}_examples")(str(glue_dir))
            return [e.text_a for e in examples], [e.text_b for e in examples]

        for task, part, file, a, b, header in (
            ("cola", "train", "CoLA/train.tsv", 3, None, 0),
            ("cola", "test", "CoLA/test.tsv", 1, None, 1),
            ("sst-2", "dev", "SST-2/dev.tsv", 0, None, 1),
            ("sst-2", "test", "SST-2/test.tsv", 1, None, 1),
            ("mrpc", "test", "MRPC/test.tsv", 3, 4, 1),
            ("sts-b", "test", "STS-B/test.tsv", 7, 8, 1),
            ("qqp", "train", "QQP/train.tsv", 3, 4, 1),
            ("qqp", "test", "QQP/test.tsv", 1, 2, 1),
            ("mnli", "dev", "MNLI/dev_matched.tsv", 8, 9, 1),
            ("mismnli", "dev", "MNLI/dev_mismatched.tsv", 8, 9, 1),
            ("mnli", "test", "MNLI/test_matched.tsv", 8, 9, 1),
            ("mismnli", "test", "MNLI/test_mismatched.tsv", 8, 9, 1),
            ("qnli", "dev", "QNLI/dev.tsv", 1, 2, 1),
            ("ax", "test", "diagnostic/diagnostic.tsv", 1, 2, 1),
        ):
            text_a, text_b = texts(task, part)
            assert text_a == column(glue_dir / file, a)[header:], (task, part)
            if b is not None:
                assert text_b == column(glue_dir / file, b)[header:], (task, part)

    def test_ax_has_a_test_set_only(self, glue_dir):
        processor = PROCESSORS["ax"](use_spm=True, do_lower_case=True)
        assert len(processor.get_test_examples(str(glue_dir))) == ROWS
        assert processor.get_labels() == PROCESSORS["mnli"](True, True).get_labels()
        for read in (processor.get_train_examples, processor.get_dev_examples):
            with pytest.raises(UserError, match="has no (train|dev) set, only test"):
                read(str(glue_dir))

    def test_texts_are_normalized_for_sentencepiece(self, tmp_path):
        (tmp_path / "CoLA").mkdir()
        (tmp_path / "CoLA" / "dev.tsv").write_text("x\t1\t\tÀ  la\u00a0Carte\n")
        for use_spm, lower, expected in (
            (True, True, "a la carte"),
            (True, False, "A la Carte"),
            (False, True, "À  la\u00a0Carte"),
        ):
            (example,) = ColaProcessor(use_spm, lower).get_dev_examples(str(tmp_path))
            assert example.text_a == expected

    def test_mrpc_as_distributed(self, shared, tmp_path):
        """BOM, CRLF and quotation marks that do not pair up."""
        (tmp_path / "MRPC").mkdir()
        path = tmp_path / "MRPC" / "train.tsv"
        path.write_bytes((shared / "data" / "mrpc" / "msr_paraphrase_train.txt").read_bytes())
        examples = MrpcProcessor(False, False).get_train_examples(str(tmp_path))
        lines = path.read_bytes().decode("utf-8-sig").split("\r\n")[1:-1]
        assert len(examples) == len(lines) == 4045
        for example, line in zip(examples, lines, strict=True):
            assert [example.label, example.text_a, example.text_b] == [
                line.split("\t")[n] for n in (0, 3, 4)
            ]


class TestFaults:
    @pytest.fixture
    def read(self, tmp_path):
        """Reads the training set of a task from a file with this content."""

        def read(task, content):
            processor = PROCESSORS[task](use_spm=True, do_lower_case=True)
            (tmp_path / processor.folder).mkdir(exist_ok=True)
            path = tmp_path / processor.folder / "train.tsv"
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            return processor.get_train_examples(str(tmp_path))

        return read

    @pytest.mark.parametrize(
        ("task", "content", "line"),
        [
            ("cola", "a\t1\t\ttext\na\t1\t\n", 2),
            ("mrpc", "Quality\t1\t2\t3\t4\n1\ta\tb\tc\n", 2),
            ("sst-2", "sentence\tlabel\nfine\t1\n\nbad\t0\n", 3),
            ("qnli", "index\tquestion\tsentence\tlabel\n0\tq\ts\tentailment\n1\tq\ts\n", 3),
            ("sts-b", "\t".join("abcdefghij") + "\n" + "\t".join("abcdefghi") + "\n", 2),
            ("mnli", "\t".join("abcdefghijkl") + "\n" + "\t".join("abcdefghijk") + "\n", 2),
        ],
    )
    def test_a_short_row(self, read, task, content, line):
        with pytest.raises(UserError, match=rf"train\.tsv, line {line}: \d+ columns, \d+ are"):
            read(task, content)

    def test_short_rows_of_quora_are_left_out(self, read, warnings):
        """The published training file has some; the reference leaves them out silently."""
        header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
        examples = read(
            "qqp", header + "0\t1\t2\ta\tb\t1\n1\t3\t4\tbroken\nline\t0\n2\t5\t6\tc\td\t0\n"
        )
        assert [e.text_a for e in examples] == ["a", "c"]
        assert any("2 rows with too few columns" in w and "line 3" in w for w in warnings())

    def test_short_rows_of_quoras_test_set_are_not(self, tmp_path):
        """Every test example must be in a submission."""
        (tmp_path / "QQP").mkdir()
        (tmp_path / "QQP" / "test.tsv").write_text("id\tquestion1\tquestion2\n0\ta\tb\n1\tc\n")
        with pytest.raises(UserError, match=r"test\.tsv, line 3: 2 columns, 3 are needed"):
            QqpProcessor(True, True).get_test_examples(str(tmp_path))

    @pytest.mark.parametrize("label", ["2", "", "yes"])
    def test_a_label_not_of_the_task(self, read, label):
        with pytest.raises(UserError, match=rf"line 2: the label is '{label}', not one of 0, 1"):
            read("sst-2", f"sentence\tlabel\nfine\t{label}\n")

    @pytest.mark.parametrize("label", ["high", "nan", "inf", ""])
    def test_a_score_that_is_no_number(self, read, label):
        row = "\t".join("abcdefghi")
        with pytest.raises(UserError, match=rf"line 2: the label is '{label}'"):
            read("sts-b", f"{row}\tscore\n{row}\t{label}\n")

    @pytest.mark.parametrize("content", ["", "\n\n", "sentence\tlabel\n"])
    def test_no_examples(self, read, content):
        with pytest.raises(UserError, match=r"train\.tsv has no examples"):
            read("sst-2", content)

    def test_not_utf8(self, read):
        with pytest.raises(UserError, match=r"train\.tsv, line 2: byte 2 .*UTF-8"):
            read("sst-2", b"sentence\tlabel\nf\xfcr\t1\n")

    def test_a_missing_file(self, tmp_path):
        with pytest.raises(UserError, match=r"MRPC/train\.tsv cannot be read: No such file"):
            MrpcProcessor(True, True).get_train_examples(str(tmp_path))

    def test_more_columns_than_needed(self, read):
        """A text that holds a tab; the first columns count, as in the reference."""
        (example,) = read("mrpc", "Quality\t1\t2\t3\t4\n1\ta\tb\tc\td\te\n")
        assert (example.label, example.text_a, example.text_b) == ("1", "c", "d")
