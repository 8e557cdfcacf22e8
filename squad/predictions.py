"""Raw outputs of the model to answers."""

from __future__ import annotations

import collections
import contextlib
import json
import marshal
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from runtime.errors import UserError
from runtime.files import open_atomically
from squad.examples import SquadExample
from squad.token_places import PredictionFeature

# A candidate span of a window, by its first and last token, and its start and end score.
Span = tuple[tuple[int, int], tuple[float, float]]
# From a feature and the model's output for it to the candidates, likelier starts first.
FindSpans = Callable[[PredictionFeature, Any], Iterable[Span]]
# What stands in an n-best list without candidates.
NO_ANSWER = {"text": "", "probability": 1.0, "start_log_prob": 0.0, "end_log_prob": 0.0}

RawResult = collections.namedtuple("RawResult", ["unique_id", "start_log_prob", "end_log_prob"])


class _Candidate(NamedTuple):
    """A span of tokens of one feature, by its scores."""

    feature: PredictionFeature
    start: int
    end: int
    start_log_prob: float
    end_log_prob: float

    @property
    def score(self) -> float:
        return self.start_log_prob + self.end_log_prob


class Answer(NamedTuple):
    """A possible answer to a question.

    Attributes:
      text: as it stands in the paragraph.
      place: number of its first character there.
      start_log_prob, end_log_prob: its scores.
    """

    text: str
    place: int
    start_log_prob: float
    end_log_prob: float

    @property
    def score(self) -> float:
        """Returns by what answers to a question are compared."""
        return self.start_log_prob + self.end_log_prob


def raw_results(outputs: Iterable[Mapping[str, Any]]) -> dict[int, RawResult]:
    """Returns the model's outputs for features, by their unique id."""
    results = (
        RawResult(int(o["unique_ids"]), o["start_log_prob"], o["end_log_prob"]) for o in outputs
    )
    return {result.unique_id: result for result in results}


def answer_questions(
    examples: Sequence[SquadExample],
    features: Iterable[PredictionFeature],
    results: Mapping[int, Any],
    find_spans: FindSpans,
    nbest: NbestLists,
    no_answer: dict = NO_ANSWER,
) -> dict[str, str]:
    """Returns the best answer of every question, "" where there is none.

    It goes a question at a time: the spans of all of them, 100 KB a feature, are never there
    together.

    Args:
      examples: the questions.
      features: their features.
      results: unique id to the model's output for the feature.
      find_spans: what finds candidates in it.
      nbest: gets the n-best lists.
      no_answer: the only entry of a list without candidates.

    Returns:
      Question id to answer.
    """
    of_examples = by_example(features)
    answers = {}
    for index, example in enumerate(examples):
        own, spans = of_examples[index], {}
        add_spans(spans, own, results, find_spans)
        entries = nbest_of(example, own, spans, nbest.size, no_answer)
        nbest.add(example.qas_id, entries)
        answers[example.qas_id] = entries[0]["text"]
    return answers


class NbestLists:
    """The n-best lists of all questions, on disk until it is known whether they are wanted.

    Attributes:
      size: how many answers are kept of a question.
    """

    def __init__(self, folder: str, size: int):
        """Keeps them in a file without a name in that folder."""
        self.size = size
        self._folder = folder
        self._count = 0
        with self._writing():
            # Gone with this object.
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115

    def add(self, qas_id: str, entries: list[dict]) -> None:
        """Adds a question.

        Raises:
          UserError: the disk is full.
        """
        with self._writing():
            # JSON would take as long as finding the answers.
            marshal.dump({qas_id: entries}, self._file)
        self._count += 1

    def __iter__(self) -> Iterator[tuple[str, list[dict]]]:
        """Yields the id and the list of each question."""
        with self._writing():
            self._file.seek(0)
        for _ in range(self._count):
            yield from marshal.load(self._file).items()

    def write(self, path: str) -> None:
        """Writes them as `write_predictions_v1` does."""
        with open_atomically(path) as file:
            for number, (qas_id, entries) in enumerate(self):
                file.write("," if number else "{")
                # What is in the braces.
                file.write(json.dumps({qas_id: entries}, indent=4)[1:-2])
            file.write("\n}\n")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as e:
            raise UserError(f"n-best lists cannot be kept in {self._folder}: {e.strerror}") from e


def add_spans(
    of_example: dict,
    features: Iterable[PredictionFeature],
    results: Mapping[int, Any],
    find_spans: FindSpans,
) -> None:
    """Adds the candidate spans of an example's features to unique id -> span -> list of scores.

    Results of several models may be added up.
    """
    for feature in features:
        spans = of_example.setdefault(feature.unique_id, {})
        for span, scores in find_spans(feature, results[feature.unique_id]):
            spans.setdefault(span, []).append(scores)


def spans_v1(n_best_size: int, max_answer_length: int) -> FindSpans:
    """Returns what finds candidates in a `RawResult`: of the `n_best_size` best starts and ends."""

    def find_spans(feature: PredictionFeature, result: RawResult) -> Iterable[Span]:
        starts, start_scores = _best(result.start_log_prob, n_best_size)
        ends, end_scores = _best(result.end_log_prob, n_best_size)
        return likely_spans(
            feature, (starts, start_scores), (ends[None], end_scores[None]), max_answer_length
        )

    return find_spans


def likely_spans(
    feature: PredictionFeature,
    starts: tuple[np.ndarray, np.ndarray],
    ends: tuple[np.ndarray, np.ndarray],
    max_answer_length: int,
) -> Iterable[Span]:
    """Returns the pairs of a start and an end that may be answers.

    Such a pair lies in the paragraph, begins where the feature gives its token the maximum
    context, and has at most `max_answer_length` tokens.

    Args:
      feature: the feature.
      starts: positions in it and their scores, [K] each.
      ends: positions and scores, [K, M] each, for every start, or [1, M], the same for all.
      max_answer_length: in tokens.
    """
    (first, first_scores), (last, last_scores) = starts, ends
    first, last, count = (
        first - feature.doc_offset,
        last - feature.doc_offset,
        len(feature.max_context),
    )
    usable = (first >= 0) & (first < count)
    usable[usable] = feature.max_context[first[usable]]
    lengths = last - first[:, None] + 1
    valid = usable[:, None] & (last < count) & (lengths > 0) & (lengths <= max_answer_length)
    rows, columns = np.nonzero(valid)
    of_end = (rows if len(last) > 1 else np.zeros_like(rows)), columns
    spans = zip(first[rows].tolist(), last[of_end].tolist(), strict=True)
    scores = zip(first_scores[rows].tolist(), last_scores[of_end].tolist(), strict=True)
    return zip(spans, scores, strict=True)


def _best(scores: Sequence[float], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the `count` best positions with their scores; of equals the first."""
    scores = np.asarray(scores)
    best = np.argsort(-scores, kind="stable")[:count]
    return best, scores[best]


def nbest_of(
    example: SquadExample,
    features: Iterable[PredictionFeature],
    of_example: dict,
    n_best_size: int,
    no_answer: dict,
) -> list[dict]:
    """Returns the best answers of a question with different texts, best first; at least one.

    Args:
      example: the question.
      features: its features.
      of_example: what `add_spans` has filled.
      n_best_size: how many answers are kept.
      no_answer: the entry that stands for none.
    """
    answers = best_answers(example, features, of_example, n_best_size)
    shares = softmax([answer.score for answer in answers])
    return [
        {
            "text": answer.text,
            "probability": probability,
            "start_log_prob": answer.start_log_prob,
            "end_log_prob": answer.end_log_prob,
        }
        for answer, probability in zip(answers, shares, strict=True)
    ] or [dict(no_answer)]


def best_answers(
    example: SquadExample,
    features: Iterable[PredictionFeature],
    of_example: dict,
    n_best_size: int,
) -> list[Answer]:
    """Returns the best answers of a question with different texts, best first; maybe none.

    Arguments are as in `nbest_of`.
    """
    candidates = [
        _mean_candidate(feature, span, scores)
        for feature in features
        for span, scores in of_example[feature.unique_id].items()
    ]
    candidates.sort(key=lambda c: c.score, reverse=True)
    return _different(candidates, example.paragraph_text, n_best_size)


def _mean_candidate(
    feature: PredictionFeature, span: tuple[int, int], scores: list[tuple[float, float]]
) -> _Candidate:
    start, end = (sum(column) / len(scores) for column in zip(*scores, strict=True))
    return _Candidate(feature, *span, start, end)


def _different(candidates: list[_Candidate], paragraph_text: str, n_best_size: int) -> list[Answer]:
    """Returns the first candidates with different texts."""
    texts = {}
    for candidate in candidates:
        if len(texts) >= n_best_size:
            break
        first = int(candidate.feature.starts[candidate.start])
        last = int(candidate.feature.ends[candidate.end])
        text = paragraph_text[first : last + 1]
        place = first + len(text) - len(text.lstrip())
        if (text := text.strip()) not in texts:
            scores = candidate.start_log_prob, candidate.end_log_prob
            texts[text] = Answer(text, place, *scores)
    return list(texts.values())


def softmax(scores: Sequence[float]) -> list[float]:
    """Returns the probabilities that scores come to."""
    highest = max(scores, default=0.0)
    exponentials = [math.exp(score - highest) for score in scores]
    total = sum(exponentials)
    return [e / total for e in exponentials]


def by_example(features: Iterable[PredictionFeature]) -> dict[int, list[PredictionFeature]]:
    """Returns the features of each example, by its number; none where it has none."""
    found = collections.defaultdict(list)
    for feature in features:
        found[feature.example_index].append(feature)
    return found
