"""Classification of texts with a model trained on GLUE, on your own task, or on RACE."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from albert.core.errors import UserError
from albert.inference.base import ModelSession, SentenceEncoder, checked_texts, checked_tuples
from albert.inference.folders import OpenModel
from albert.prediction.model import Head
from albert.prediction.session import Output
from albert.records.sequences import TokenSequence, sequences_of
from albert.tables.rows import texts_of
from albert.tasks.classification.head import make_choice_head, make_head
from albert.tasks.classification.metrics import chosen
from albert.tasks.glue.windows import pooled, windows_of
from albert.tasks.race.examples import InputExample, fill_blank, make_sequences


class LabelPrediction(NamedTuple):
    """The prediction for a text, a pair of texts, or a question with options.

    Attributes:
      label: the most probable label; None for regression.
      probabilities: by label; empty for regression.
      number: for regression, the prediction within the task's limits.
    """

    label: str | None
    probabilities: dict[str, float]
    number: float | None = None


class LabelSetPrediction(NamedTuple):
    """The prediction for a text that may have several labels.

    Attributes:
      labels: the predicted labels, in the order of their ids; may be empty.
      probabilities: probability of every label.
    """

    labels: list[str]
    probabilities: dict[str, float]


class TextClassifier(SentenceEncoder):
    """A model trained on GLUE or on your own task.

    Its `labels` are in the order of their ids; `[None]` for regression. Its `stride` is that of the
    windows on long texts, which are truncated if it is None.
    """

    def __init__(self, folder: OpenModel):
        """Loads the model; raises the errors of `ModelSession`."""
        self.folder, self.labels = folder, folder.value("labels")
        has_windows = "long_texts" in folder.description
        self.stride = folder.value("doc_stride") if has_windows else None
        self.is_multi_label = folder.description.get("multi_label", False)
        self._threshold = folder.value("label_threshold") if self.is_multi_label else None
        self._session = ModelSession(folder, self.head())

    def head(self) -> Head:
        """Returns the head, which other tasks on one or two texts override."""
        return make_head(len(self.labels), 0.0, label_threshold=self._threshold)

    def classify(self, text_a: str, text_b: str = "") -> LabelPrediction | LabelSetPrediction:
        """Labels a text or a pair of texts."""
        (labelled,) = self.classify_all([(text_a, text_b)])
        return labelled

    def classify_all(
        self, pairs: Iterable[tuple[str, str]], pause: Callable[[], None] | None = None
    ) -> list[LabelPrediction | LabelSetPrediction]:
        """Labels pairs of texts; the second may be empty. Raises a `UserError` for other values.

        `pause` is called before each text, or each window of a long one; it may raise. Without it,
        they run in batches.
        """
        checked = [checked_texts(pair) for pair in checked_tuples(pairs, "text_a", "text_b")]
        tokenizer, longest = self.folder.tokenizer, self.folder.value("max_seq_length")
        if self.stride is None:
            sequences = sequences_of(checked, tokenizer, longest)
            outputs = self._session.outputs([[sequence] for sequence in sequences], pause)
            return list(map(self._labelled, outputs))
        special_ids, pieces = (tokenizer.cls_id, tokenizer.sep_id), map(tokenizer.encode, checked)
        texts = [windows_of(a, b, special_ids, longest, self.stride) for a, b in pieces]
        rest = iter(self._session.outputs([[window] for one in texts for window in one], pause))
        windows = (list(itertools.islice(rest, len(one))) for one in texts)
        outputs = pooled(windows, self.folder.value("long_texts"), self._threshold)
        return list(map(self._labelled, outputs))

    def predict(self, data: object) -> list[str] | list[float] | list[list[str]]:
        """Returns the label of each row, its labels or its number; raises a `UserError`.

        Rows are texts, pairs, or have the columns of the training; see `rows_of`.
        """
        first, second = (
            self.folder.description.get(f"{name}_column", default)
            for name, default in (("text", "text_a"), ("text_b", "text_b"))
        )
        predicted: list[Any] = self.classify_all(texts_of(data, first, optional=second))
        if self.is_multi_label:
            return [one.labels for one in predicted]
        return [one.number if one.label is None else one.label for one in predicted]

    def _labelled(self, output: Output) -> LabelPrediction | LabelSetPrediction:
        if self.is_multi_label:
            probabilities = zip(self.labels, map(float, output["probabilities"]), strict=True)
            return LabelSetPrediction(
                chosen(self.labels, output["predictions"]), dict(probabilities)
            )
        if self.labels != [None]:
            return _likeliest(self.labels, output)
        number = float(output["predictions"])
        low, high = self.folder.description.get("limits") or (number, number)
        return LabelPrediction(None, {}, min(max(number, low), high))


class OptionChooser(SentenceEncoder):
    """A model trained on RACE; its `labels` are the names of the options, such as A to D."""

    def __init__(self, folder: OpenModel):
        """Loads the model; raises the errors of `ModelSession`."""
        self.folder, self.labels = folder, folder.value("labels")
        count = len(self.labels)
        self._session = ModelSession(folder, make_choice_head(0.0, count), count)

    def choose(self, passage: str, question: str, options: Sequence[str]) -> LabelPrediction:
        """Chooses one of the options; raises a `UserError` unless there is one for each label."""
        (chosen,) = self.choose_all([(passage, question, options)])
        return chosen

    def choose_all(
        self,
        examples: Iterable[tuple[str, str, Sequence[str]]],
        pause: Callable[[], None] | None = None,
    ) -> list[LabelPrediction]:
        """Chooses one of the options for each passage and question; see `choose`.

        `pause` is called before each; it may raise. Without it, they run in batches.
        """
        checked = checked_tuples(examples, "passage", "question", "options")
        outputs = self._session.outputs([self._sequences(*one) for one in checked], pause)
        return [_likeliest(self.labels, output) for output in outputs]

    def _sequences(
        self, passage: str, question: str, options: Sequence[str]
    ) -> list[TokenSequence]:
        checked_texts((passage, question))
        options = checked_texts(options)
        if len(options) != len(self.labels):
            raise UserError(
                f"a list of {len(self.labels)} options is needed, not of {len(options)}"
            )
        tokenizer = self.folder.tokenizer
        texts = map(tokenizer.normalize, (question, *options))
        example = InputExample("", tokenizer.normalize(passage), None, fill_blank(*texts))
        lengths = self.folder.value("max_seq_length"), self.folder.value("max_qa_length")
        return make_sequences(example, tokenizer, *lengths)


def _likeliest(labels: Sequence[str], output: Output) -> LabelPrediction:
    probabilities = map(float, output["probabilities"])
    return LabelPrediction(
        labels[int(output["predictions"])], dict(zip(labels, probabilities, strict=True))
    )
