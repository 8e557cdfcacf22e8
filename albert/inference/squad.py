"""Question answering with a model trained on SQuAD 1.1 or 2.0."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert.inference.base import (
    ModelSession,
    SentenceEncoder,
    checked_text,
    checked_texts,
    checked_tuples,
    grouped,
)
from albert.inference.folders import OpenModel
from albert.report.spans import Span
from albert.tables.rows import texts_of
from albert.tasks.squad.features import SquadExample, WindowMaker, columns_of, prediction_features
from albert.tasks.squad.head import V2Options, make_v1_head, make_v2_head
from albert.tasks.squad.predictions import (
    answers_of,
    best_candidates,
    by_question,
    no_answer_odds,
    spans_of,
)

# Whether a head of SQuAD 1.1 was trained on SQuAD 2.0, in the description of a model.
ABSTAINS = "handle_impossible_answer"
# The threshold of run_squad_v2.py when no scores have given a better one.
_DEFAULT_THRESHOLD = 0.0
# The threshold of a run is the log-odds of a question that it answered. They may differ by this in
# other batches, or by the other engine.
_ROUNDING = 1e-4
# Characters that are tokenized, answered and compared at a time. The limit keeps memory use and the
# time between two pauses independent of the length of the texts.
_MOST_CHARACTERS = 1 << 15
# Longer texts are split after one of these, in order of preference.
_ENDS = ("\n\n", ". ", ".\n", "。", "\n", " ")


class _Part(NamedTuple):
    """A part of a text, or all of it; `question` and `context` are indices, `begin` an offset."""

    question: int
    context: int
    begin: int
    text: str


class QuestionAnswer(NamedTuple):
    """The answer to a question.

    Attributes:
      answers: the best answers, with different texts in each context; empty if the texts are empty.
        Probabilities are relative to these answers.
      no_answer_odds: log-odds that the texts have no answer; None if the model never abstains.
      abstains: whether the log-odds are above the model's threshold.
    """

    answers: list[Span]
    no_answer_odds: float | None = None
    abstains: bool = False

    @property
    def no_answer_probability(self) -> float | None:
        """Returns the probability that the texts have no answer; None as for the log-odds."""
        if self.no_answer_odds is None:
            return None
        # The logistic function, which does not overflow for a text without tokens.
        return float(np.exp(-np.logaddexp(0.0, -self.no_answer_odds)))


class QuestionAnswerer(SentenceEncoder):
    """A model trained on SQuAD."""

    def __init__(self, folder: OpenModel):
        """Loads the model; raises the errors of `ModelSession`."""
        self.folder = folder
        self._is_v2 = folder.value("task") == "squad-2.0"
        self._may_abstain = self._is_v2 or folder.description.get(ABSTAINS, False)
        self._n_best_size = folder.value("n_best_size")
        lengths = (folder.value(n) for n in ("max_seq_length", "doc_stride", "max_query_length"))
        self._windows = WindowMaker(folder.tokenizer, *lengths)
        self._longest_answer = folder.value("max_answer_length")
        trims = True
        if self._is_v2:
            head = make_v2_head(V2Options(folder.value("start_n_top"), folder.value("end_n_top")))
            self._threshold = folder.description.get("no_answer_threshold") or _DEFAULT_THRESHOLD
            self._threshold += _ROUNDING
        else:
            # If padding was not masked in training, it has a share in the answers' scores.
            trims = folder.value("mask_padding_in_loss")
            head = make_v1_head(trims, self._n_best_size, self._may_abstain)
            self._threshold = _DEFAULT_THRESHOLD
        self._session = ModelSession(folder, head, trims=trims)

    def answer(self, question: str, contexts: str | Iterable[str]) -> QuestionAnswer:
        """Answers a question from texts of any length; they compete like windows of one text."""
        (answered,) = self.answer_all([(question, contexts)])
        return answered

    def count_windows(self, question: str, contexts: Iterable[str]) -> int:
        """Returns the number of windows of texts with a question; keeps the texts' tokens for all
        questions to come."""
        self._windows.remember_all()
        examples = [SquadExample("", question, p.text) for p in _parts([(question, [*contexts])])]
        return sum(1 for _ in self._windows.windows(examples))

    def answer_all(
        self,
        questions: Iterable[tuple[str, str | Iterable[str]]],
        pause: Callable[[], None] | None = None,
    ) -> list[QuestionAnswer]:
        """Answers questions, each from its own text or texts, in batches of all their windows.

        `pause` is called before each window; it may raise. Without it, windows run in batches.
        Raises a `UserError` if an element is not a question with its text or texts.
        """
        checked = [
            (
                checked_text(question, "the question"),
                checked_texts([texts] if isinstance(texts, str) else texts),
            )
            for question, texts in checked_tuples(questions, "question", "text or texts")
        ]
        candidates: list[list[np.ndarray]] = [[] for _ in checked]
        odds: list[list[float]] = [[] for _ in checked]
        for parts in grouped(_parts(checked), lambda part: len(part.text), _MOST_CHARACTERS):
            examples = [
                SquadExample(str(number), checked[part.question][0], part.text)
                for number, part in enumerate(parts)
            ]
            for part, (best, odd) in zip(parts, self._best(examples, pause), strict=True):
                best["text"] = part.context
                best["start"] += part.begin
                best["end"] += part.begin
                candidates[part.question].append(best)
                odds[part.question].append(odd)
        return list(map(self._answered, (texts for _, texts in checked), candidates, odds))

    def predict(self, data: object) -> list[str]:
        """Returns the answer of each row, "" for none; raises a `UserError`.

        Rows are pairs, or have the columns `question` and `context`; see `rows_of`.
        """
        answered = self.answer_all(texts_of(data, "question", "context"))
        return [one.answers[0].text if one.answers and not one.abstains else "" for one in answered]

    def _best(
        self, examples: Sequence[SquadExample], pause: Callable[[], None] | None
    ) -> Iterator[tuple[np.ndarray, float]]:
        """Yields the best candidates of each example, and its log-odds of having no answer."""
        windows = list(self._windows.windows(examples))
        features = prediction_features(columns_of(windows))
        sequences = [[window.sequence(self.folder.tokenizer)] for window in windows]
        outputs = self._session.outputs(sequences, pause)
        groups = by_question(len(examples), features, outputs)
        for example, pairs in zip(examples, groups, strict=True):
            text, size = example.paragraph_text, self._n_best_size
            name = "cls_logits" if self._is_v2 else "null_log_prob"
            odds = no_answer_odds((o for _, o in pairs), name) if self._may_abstain else 0.0
            yield answers_of(pairs, text, self._longest_answer, size), odds

    def _answered(
        self, texts: Sequence[str], candidates: Sequence[np.ndarray], odds: Sequence[float]
    ) -> QuestionAnswer:
        """Merges the candidates in all parts of a question's texts."""
        best = best_candidates(candidates, texts, self._n_best_size)
        answers = spans_of(best, texts)
        if not self._may_abstain or not odds:
            return QuestionAnswer(answers)
        lowest = min(odds)
        if not self._is_v2 and answers:
            # Relative to the best answer, as with handle_impossible_answer in transformers.
            lowest -= float(best["start_log_prob"][0]) + float(best["end_log_prob"][0])
        return QuestionAnswer(answers, lowest, lowest > self._threshold)


def _parts(questions: Sequence[tuple[str, Sequence[str]]]) -> Iterator[_Part]:
    """Yields the texts of all questions, with long texts split into parts."""
    for question, (_, contexts) in enumerate(questions):
        for context, text in enumerate(contexts):
            begin = 0
            while len(text) - begin > _MOST_CHARACTERS:
                end = _end_of_part(text, begin)
                yield _Part(question, context, begin, text[begin:end])
                begin = end
            yield _Part(question, context, begin, text[begin:])


def _end_of_part(text: str, begin: int) -> int:
    """Returns the end of a part of a longer text, where an answer is unlikely."""
    end = begin + _MOST_CHARACTERS
    breaks = ((text.rfind(sign, begin + _MOST_CHARACTERS // 2, end), sign) for sign in _ENDS)
    return next((start + len(sign) for start, sign in breaks if start >= 0), end)
