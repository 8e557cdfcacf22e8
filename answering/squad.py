"""Questions on texts, answered by a model of SQuAD 1.1 or 2.0."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from answering.folders import ModelFolder
from answering.session import ModelSession
from runtime.data.sequences import TokenSequence, make_sequence
from squad.examples import SquadExample
from squad.features import Window, WindowMaker
from squad.head import make_v1_head
from squad.head_v2 import V2Options, make_v2_head
from squad.predictions import (
    Answer,
    best_answers,
    by_example,
    raw_results,
    softmax,
    spans_in,
    spans_v1,
)
from squad.predictions_v2 import no_answer_odds, raw_results_v2, spans_v2
from squad.token_places import PredictionFeature, columns_of, prediction_features

# As in the program where no scores have told a better one.
_DEFAULT_THRESHOLD = 0.0


class Found(NamedTuple):
    """An answer in one of several texts.

    Attributes:
      text: as it stands there.
      context: number of the text.
      place: number of its first character there.
      probability: its share among the best answers to the question.
    """

    text: str
    context: int
    place: int
    probability: float


class Answered(NamedTuple):
    """What the model says to a question.

    Attributes:
      answers: the best ones, with different texts in each context; none if the texts are empty.
      no_answer_odds: log-odds that the texts have no answer; None for SQuAD 1.1.
      abstains: whether they are above the model's threshold.
    """

    answers: list[Found]
    no_answer_odds: float | None = None
    abstains: bool = False

    @property
    def no_answer_probability(self) -> float | None:
        """Returns the probability that the texts have no answer; None for SQuAD 1.1."""
        if self.no_answer_odds is None:
            return None
        # That of a text without a token has no finite exponential.
        return 1.0 / (1.0 + math.exp(-max(min(self.no_answer_odds, 500.0), -500.0)))


class QuestionAnswerer:
    """A model of SQuAD.

    Attributes:
      folder: of the model.
    """

    def __init__(self, folder: ModelFolder):
        """Loads the model; raises as `ModelSession` does."""
        self.folder = folder
        self._is_v2 = folder.says("task") == "squad-2.0"
        self._n_best_size = folder.says("n_best_size")
        lengths = (folder.says(n) for n in ("max_seq_length", "doc_stride", "max_query_length"))
        self._windows = WindowMaker(folder.tokenizer, *lengths)
        longest_answer = folder.says("max_answer_length")
        trims = True
        if self._is_v2:
            head = make_v2_head(V2Options(folder.says("start_n_top"), folder.says("end_n_top")))
            self._find_spans, self._results = spans_v2(longest_answer), raw_results_v2
            known = folder.says("no_answer_threshold")
            self._threshold = _DEFAULT_THRESHOLD if known is None else known
        else:
            # Else padding has a share in the answers' scores, as it had in training.
            trims = folder.says("mask_padding_in_loss")
            head = make_v1_head(trims)
            self._find_spans = spans_v1(self._n_best_size, longest_answer)
            self._results = raw_results
        self._session = ModelSession(folder, head, trims=trims)

    def answer(self, question: str, contexts: str | Sequence[str]) -> Answered:
        """Answers a question from a text, or several, of any length.

        They are compared as the windows of one long paragraph are.
        """
        (answered,) = self.answer_all([(question, contexts)])
        return answered

    def answer_all(self, asked: Sequence[tuple[str, str | Sequence[str]]]) -> list[Answered]:
        """Answers questions, each from texts of its own, in batches of all their windows."""
        asked = [(question, [of] if isinstance(of, str) else of) for question, of in asked]
        examples = [
            SquadExample(str(number), question, context)
            for number, (question, contexts) in enumerate(asked)
            for context in contexts
        ]
        windows = list(self._windows.windows(examples))
        features = list(prediction_features(columns_of(windows)))
        outputs = self._session.outputs([[self._sequence(window)] for window in windows])
        for feature, output in zip(features, outputs, strict=True):
            output["unique_ids"] = feature.unique_id
        results = self._results(outputs)
        best = self._best(examples, features, results)
        odds = no_answer_odds(len(examples), features, results) if self._is_v2 else []
        ends = list(itertools.accumulate(len(contexts) for _, contexts in asked))
        return [
            self._answered(best[start:end], odds[start:end])
            for start, end in zip([0, *ends], ends, strict=False)
        ]

    def _sequence(self, window: Window) -> TokenSequence:
        tokenizer = self.folder.tokenizer
        ids = window.paragraph.ids[window.begin : window.end].tolist()
        return make_sequence(window.question, ids, tokenizer.cls_id, tokenizer.sep_id)

    def _best(
        self, examples: Sequence[SquadExample], features: list[PredictionFeature], results: dict
    ) -> list[list[Answer]]:
        """Returns the best answers of each example."""
        of_examples, best = by_example(features), []
        for index, example in enumerate(examples):
            found = spans_in(of_examples[index], results, self._find_spans)
            best.append(best_answers(example, found, self._n_best_size))
        return best

    def _answered(self, best: list[list[Answer]], odds: list[float]) -> Answered:
        """Merges what was found in the texts of a question."""
        found = [(answer, number) for number, answers in enumerate(best) for answer in answers]
        found.sort(key=lambda pair: pair[0].score, reverse=True)
        found = found[: self._n_best_size]
        shares = softmax([answer.score for answer, _ in found])
        answers = [
            Found(answer.text, number, answer.place, share)
            for (answer, number), share in zip(found, shares, strict=True)
        ]
        if not odds:
            return Answered(answers)
        return Answered(answers, min(odds), min(odds) > self._threshold)
