"""Raw outputs of the model to answers."""

from __future__ import annotations

import collections
import contextlib
import json
import marshal
import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from runtime.errors import UserError
from runtime.files import open_atomically
from squad.examples import SquadExample
from squad.token_places import PredictionFeature

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


def answer_questions(
    examples: Sequence[SquadExample],
    features: Iterable[PredictionFeature],
    results: Iterable[RawResult],
    n_best_size: int,
    max_answer_length: int,
    nbest: NbestLists,
) -> dict[str, str]:
    """Returns the best answer of every question, "" where there is none.

    It goes a question at a time: the spans of all of them, 100 KB a feature, are never there
    together.

    Args:
      examples: the questions.
      features: their features.
      results: the model's output for each feature, start and end scores of every position.
      n_best_size: how many positions are considered, and answers kept.
      max_answer_length: in tokens.
      nbest: gets the n-best lists.

    Returns:
      Question id to answer.
    """
    results = {result.unique_id: result for result in results}
    of_examples = by_example(features)
    answers = {}
    for index, example in enumerate(examples):
        own, spans = of_examples[index], {}
        add_spans(spans, own, results, n_best_size, max_answer_length)
        entries = nbest_of(example, own, spans, n_best_size, no_answer="")
        nbest.add(example.qas_id, entries)
        answers[example.qas_id] = entries[0]["text"]
    return answers


class NbestLists:
    """The n-best lists of all questions, on disk until it is known whether they are wanted."""

    def __init__(self, folder: str):
        """Keeps them in a file without a name in that folder."""
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

    def write(self, path: str) -> None:
        """Writes them as `write_predictions_v1` does."""
        with self._writing():
            self._file.seek(0)
        with open_atomically(path) as file:
            for number in range(self._count):
                file.write("," if number else "{")
                # What is in the braces.
                file.write(json.dumps(marshal.load(self._file), indent=4)[1:-2])
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
    results: Mapping[int, RawResult],
    n_best_size: int,
    max_answer_length: int,
) -> None:
    """Adds the candidate spans of an example's features to unique id -> span -> list of scores.

    A candidate begins and ends at one of the `n_best_size` best positions, lies in the paragraph,
    begins where the feature gives its token the maximum context, and has at most
    `max_answer_length` tokens. Results of several models may be added up.
    """
    for feature in features:
        spans = of_example.setdefault(feature.unique_id, {})
        result = results[feature.unique_id]
        for span, scores in _candidates(feature, result, n_best_size, max_answer_length):
            spans.setdefault(span, []).append(scores)


def _candidates(
    feature: PredictionFeature, result: RawResult, n_best_size: int, max_answer_length: int
) -> Iterable[tuple[tuple[int, int], tuple[float, float]]]:
    """Returns spans of the window's tokens and scores, best starts first, then best ends."""
    starts, start_scores = _best(result.start_log_prob, n_best_size, feature.doc_offset)
    ends, end_scores = _best(result.end_log_prob, n_best_size, feature.doc_offset)
    count = len(feature.max_context)
    usable = (starts >= 0) & (starts < count)
    usable[usable] = feature.max_context[starts[usable]]
    lengths = ends[None, :] - starts[:, None] + 1
    valid = usable[:, None] & (ends < count) & (lengths > 0) & (lengths <= max_answer_length)
    rows, columns = np.nonzero(valid)
    spans = zip(starts[rows].tolist(), ends[columns].tolist(), strict=True)
    scores = zip(start_scores[rows].tolist(), end_scores[columns].tolist(), strict=True)
    return zip(spans, scores, strict=True)


def _best(scores: Sequence[float], count: int, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the `count` best positions, less `offset`, with their scores; of equals the first."""
    scores = np.asarray(scores)
    best = np.argsort(-scores, kind="stable")[:count]
    return best - offset, scores[best]


def nbest_of(
    example: SquadExample,
    features: Iterable[PredictionFeature],
    of_example: dict,
    n_best_size: int,
    no_answer: str,
) -> list[dict]:
    """Returns the best answers of a question with different texts, best first; at least one.

    Args:
      example: the question.
      features: its features.
      of_example: what `add_spans` has filled.
      n_best_size: how many answers are kept.
      no_answer: what stands for none.
    """
    candidates = [
        _mean_candidate(feature, span, scores)
        for feature in features
        for span, scores in of_example[feature.unique_id].items()
    ]
    candidates.sort(key=lambda c: c.score, reverse=True)
    return _entries(candidates, example.paragraph_text, n_best_size) or [
        {"text": no_answer, "probability": 1.0, "start_log_prob": 0.0, "end_log_prob": 0.0}
    ]


def _mean_candidate(
    feature: PredictionFeature, span: tuple[int, int], scores: list[tuple[float, float]]
) -> _Candidate:
    start, end = (sum(column) / len(scores) for column in zip(*scores, strict=True))
    return _Candidate(feature, *span, start, end)


def _entries(candidates: list[_Candidate], paragraph_text: str, n_best_size: int) -> list[dict]:
    """Returns the first candidates with different texts, as the n-best file has them."""
    texts = {}
    for candidate in candidates:
        if len(texts) >= n_best_size:
            break
        first = int(candidate.feature.starts[candidate.start])
        last = int(candidate.feature.ends[candidate.end])
        texts.setdefault(paragraph_text[first : last + 1].strip(), candidate)
    probabilities = _softmax([candidate.score for candidate in texts.values()])
    return [
        {
            "text": text,
            "probability": probability,
            "start_log_prob": candidate.start_log_prob,
            "end_log_prob": candidate.end_log_prob,
        }
        for (text, candidate), probability in zip(texts.items(), probabilities, strict=True)
    ]


def _softmax(scores: Sequence[float]) -> list[float]:
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
