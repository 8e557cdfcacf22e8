"""The tasks of GLUE (https://gluebenchmark.com): their files, columns, labels and scores."""

from __future__ import annotations

from albert.records import DEV, TEST, TRAIN
from albert.tasks.glue.examples import Columns, DataProcessor

_BINARY = ("0", "1")
_ENTAILMENT = ("contradiction", "entailment", "neutral")


def _files(labeled: Columns, test: Columns, suffix: str = "") -> dict[str, Columns]:
    """Returns the columns of train.tsv, dev.tsv and test.tsv; the last two may have a suffix."""
    return {
        TRAIN: labeled._replace(file="train.tsv"),
        DEV: labeled._replace(file=f"dev{suffix}.tsv"),
        TEST: test._replace(file=f"test{suffix}.tsv"),
    }


class MnliProcessor(DataProcessor):
    """MultiNLI: whether a premise entails a hypothesis; matched development and test sets."""

    folder = "MNLI"
    submission = "MNLI-m.tsv"
    labels = _ENTAILMENT
    files = _files(Columns(8, 9, label=-1, guid=0), Columns(8, 9, guid=0), "_matched")


class MisMnliProcessor(MnliProcessor):
    """MultiNLI with mismatched development and test sets, of other genres than the training set."""

    submission = "MNLI-mm.tsv"
    files = _files(Columns(8, 9, label=-1, guid=0), Columns(8, 9, guid=0), "_mismatched")


class MrpcProcessor(DataProcessor):
    """Microsoft Research Paraphrase Corpus: whether two sentences are paraphrases."""

    folder = "MRPC"
    labels = _BINARY
    metrics = ("eval_accuracy", "f1")
    files = _files(Columns(3, 4, label=0), Columns(3, 4, guid=0))


class ColaProcessor(DataProcessor):
    """Corpus of Linguistic Acceptability: whether a sentence is grammatical."""

    folder = "CoLA"
    labels = _BINARY
    metrics = ("matthew_corr", "eval_accuracy")
    files = _files(Columns(3, label=1, has_header=False), Columns(1, guid=0))


class Sst2Processor(DataProcessor):
    """Stanford Sentiment Treebank: whether a phrase of a film review is positive."""

    folder = "SST-2"
    labels = _BINARY
    files = _files(Columns(0, label=1), Columns(1, guid=0))


class StsbProcessor(DataProcessor):
    """Semantic Textual Similarity Benchmark: how similar two sentences are, from 0 to 5."""

    folder = "STS-B"
    limits = (0.0, 5.0)
    metrics = ("pearson", "spearman", "MSE")
    files = _files(Columns(7, 8, label=-1, guid=0), Columns(7, 8, guid=0))


class QqpProcessor(DataProcessor):
    """Quora Question Pairs: whether two questions are duplicates."""

    folder = "QQP"
    labels = _BINARY
    metrics = ("eval_accuracy", "f1")
    files = _files(Columns(3, 4, label=5, guid=0), Columns(1, 2, guid=0))
    # The published files have such rows, because some questions contain line ends.
    skips_short_rows = True


class QnliProcessor(DataProcessor):
    """Question NLI, from SQuAD: whether a sentence contains the answer to a question."""

    folder = "QNLI"
    labels = ("entailment", "not_entailment")
    files = _files(Columns(1, 2, label=-1, guid=0), Columns(1, 2, guid=0))


class RteProcessor(QnliProcessor):
    """Recognizing Textual Entailment: whether a text entails a hypothesis."""

    folder = "RTE"


class WnliProcessor(QnliProcessor):
    """Winograd NLI: whether a sentence entails another one with its pronoun replaced."""

    folder = "WNLI"
    labels = _BINARY


class AXProcessor(DataProcessor):
    """GLUE's diagnostic set, which tests a model of MultiNLI."""

    folder = "diagnostic"
    submission = "AX.tsv"
    labels = _ENTAILMENT
    files = {TEST: Columns(1, 2, guid=0, file="diagnostic.tsv")}


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
