"""The tasks of GLUE (https://gluebenchmark.com): their files, columns, labels and scores."""

from __future__ import annotations

from albert.data import DEV, TEST, TRAIN
from albert.tasks.glue.examples import Columns, DataProcessor

_ENTAILMENT = ("contradiction", "entailment", "neutral")


class MnliProcessor(DataProcessor):
    """MultiNLI: whether a premise entails a hypothesis; matched development and test sets."""

    folder = "MNLI"
    submission = "MNLI-m.tsv"
    labels = _ENTAILMENT
    files = {
        TRAIN: Columns("train.tsv", text_a=8, text_b=9, label=-1, guid=0),
        DEV: Columns("dev_matched.tsv", text_a=8, text_b=9, label=-1, guid=0),
        TEST: Columns("test_matched.tsv", text_a=8, text_b=9, guid=0),
    }


class MisMnliProcessor(MnliProcessor):
    """MultiNLI with mismatched development and test sets, of other genres than the training set."""

    submission = "MNLI-mm.tsv"
    files = {
        **MnliProcessor.files,
        DEV: Columns("dev_mismatched.tsv", text_a=8, text_b=9, label=-1, guid=0),
        TEST: Columns("test_mismatched.tsv", text_a=8, text_b=9, guid=0),
    }


class MrpcProcessor(DataProcessor):
    """Microsoft Research Paraphrase Corpus: whether two sentences are paraphrases."""

    folder = "MRPC"
    labels = ("0", "1")
    metrics = ("eval_accuracy", "f1")
    files = {
        TRAIN: Columns("train.tsv", text_a=3, text_b=4, label=0),
        DEV: Columns("dev.tsv", text_a=3, text_b=4, label=0),
        TEST: Columns("test.tsv", text_a=3, text_b=4, guid=0),
    }


class ColaProcessor(DataProcessor):
    """Corpus of Linguistic Acceptability: whether a sentence is grammatical."""

    folder = "CoLA"
    labels = ("0", "1")
    metrics = ("matthew_corr", "eval_accuracy")
    files = {
        TRAIN: Columns("train.tsv", text_a=3, label=1, has_header=False),
        DEV: Columns("dev.tsv", text_a=3, label=1, has_header=False),
        TEST: Columns("test.tsv", text_a=1, guid=0),
    }


class Sst2Processor(DataProcessor):
    """Stanford Sentiment Treebank: whether a phrase of a film review is positive."""

    folder = "SST-2"
    labels = ("0", "1")
    files = {
        TRAIN: Columns("train.tsv", text_a=0, label=1),
        DEV: Columns("dev.tsv", text_a=0, label=1),
        TEST: Columns("test.tsv", text_a=1, guid=0),
    }


class StsbProcessor(DataProcessor):
    """Semantic Textual Similarity Benchmark: how similar two sentences are, from 0 to 5."""

    folder = "STS-B"
    limits = (0.0, 5.0)
    metrics = ("pearson", "spearman", "MSE")
    files = {
        TRAIN: Columns("train.tsv", text_a=7, text_b=8, label=-1, guid=0),
        DEV: Columns("dev.tsv", text_a=7, text_b=8, label=-1, guid=0),
        TEST: Columns("test.tsv", text_a=7, text_b=8, guid=0),
    }


class QqpProcessor(DataProcessor):
    """Quora Question Pairs: whether two questions are duplicates."""

    folder = "QQP"
    labels = ("0", "1")
    metrics = ("eval_accuracy", "f1")
    files = {
        TRAIN: Columns("train.tsv", text_a=3, text_b=4, label=5, guid=0),
        DEV: Columns("dev.tsv", text_a=3, text_b=4, label=5, guid=0),
        TEST: Columns("test.tsv", text_a=1, text_b=2, guid=0),
    }
    # The published files have such rows, because some questions contain line ends.
    skips_short_rows = True


class QnliProcessor(DataProcessor):
    """Question NLI, from SQuAD: whether a sentence contains the answer to a question."""

    folder = "QNLI"
    labels = ("entailment", "not_entailment")
    files = {
        TRAIN: Columns("train.tsv", text_a=1, text_b=2, label=-1, guid=0),
        DEV: Columns("dev.tsv", text_a=1, text_b=2, label=-1, guid=0),
        TEST: Columns("test.tsv", text_a=1, text_b=2, guid=0),
    }


class RteProcessor(QnliProcessor):
    """Recognizing Textual Entailment: whether a text entails a hypothesis."""

    folder = "RTE"


class WnliProcessor(QnliProcessor):
    """Winograd NLI: whether a sentence entails another one with its pronoun replaced."""

    folder = "WNLI"
    labels = ("0", "1")


class AXProcessor(DataProcessor):
    """GLUE's diagnostic set, which tests a model of MultiNLI."""

    folder = "diagnostic"
    submission = "AX.tsv"
    labels = _ENTAILMENT
    files = {TEST: Columns("diagnostic.tsv", text_a=1, text_b=2, guid=0)}


PROCESSORS: dict[str, type[DataProcessor]] = {
    "cola": ColaProcessor,
    "mnli": MnliProcessor,
    "mismnli": MisMnliProcessor,
    "mrpc": MrpcProcessor,
    "rte": RteProcessor,
    "sst-2": Sst2Processor,
    "sts-b": StsbProcessor,
    "qqp": QqpProcessor,
    "qnli": QnliProcessor,
    "wnli": WnliProcessor,
    "ax": AXProcessor,
}
