"""Conversion of a model's outputs to answers and, for SQuAD 2.0, abstentions."""

from __future__ import annotations

import array
import collections
import contextlib
import itertools
import json
import marshal
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from albert.core.errors import reporting
from albert.core.files import write_members
from albert.tasks.squad.examples import SquadExample
from albert.tasks.squad.token_places import PredictionFeature

# The only entry of an n-best list without candidates.
NO_ANSWER = {"text": "", "probability": 1.0, "start_log_prob": 0.0, "end_log_prob": 0.0}


class BestPositions(NamedTuple):
    """The most probable starts and ends in a feature: positions and scores, [K] each."""

    starts: tuple[np.ndarray, np.ndarray]
    ends: tuple[np.ndarray, np.ndarray]


class Spans(NamedTuple):
    """Candidate spans in a window, ordered by the score of the start; arrays [N].

    Attributes:
      first, last: numbers of the first and the last token in the window.
      start_scores, end_scores: the spans' scores.
    """

    first: np.ndarray
    last: np.ndarray
    start_scores: np.ndarray
    end_scores: np.ndarray


# What the model returns for a feature.
R = TypeVar("R")
_NO_GROUP: tuple[int, Iterator] = -1, iter(())

# Returns the candidates in a feature, from the model's output for it.
FindSpans = Callable[[PredictionFeature, Any], Spans]


class Answer(NamedTuple):
    """A possible answer to a question.

    Attributes:
      text: the answer as it is written in the paragraph.
      place: offset of its first character in the paragraph.
      start_log_prob, end_log_prob: scores of its start and end.
    """

    text: str
    place: int
    start_log_prob: float
    end_log_prob: float

    @property
    def score(self) -> float:
        """Returns the sum of both scores, for comparing the answers to a question."""
        return self.start_log_prob + self.end_log_prob


def best_positions(output: Mapping[str, Any]) -> BestPositions:
    """Returns the output of the head for SQuAD 1.1 for a feature."""
    return BestPositions(
        (output["start_top_index"], output["start_top_log_probs"]),
        (output["end_top_index"], output["end_top_log_probs"]),
    )


def by_question(
    examples: Iterable[SquadExample], features: Iterable[PredictionFeature], results: Iterable[R]
) -> Iterator[tuple[SquadExample, list[tuple[PredictionFeature, R]]]]:
    """Yields each example with its features and their results; some have none.

    Args:
      examples: the examples.
      features: their features, in the order of the examples.
      results: a result for each feature.
    """
    pairs = zip(features, results, strict=True)
    groups = itertools.groupby(pairs, key=lambda pair: pair[0].example_index)
    of_index, group = next(groups, _NO_GROUP)
    for index, example in enumerate(examples):
        found = []
        if index == of_index:
            found = list(group)
            of_index, group = next(groups, _NO_GROUP)
        yield example, found


def answer_questions(
    examples: Iterable[SquadExample],
    features: Iterable[PredictionFeature],
    results: Iterable[R],
    find_spans: FindSpans,
    nbest: NbestLists,
    no_answer: dict = NO_ANSWER,
) -> Iterator[tuple[str, list[R]]]:
    """Yields the best answer to every question, "" for no answer, and the results for it.

    Questions are processed one at a time, because the spans of all questions take much memory
    (100 KB per feature).

    Args:
      examples, features, results: see `by_question`; a result is the model's output.
      find_spans: function that finds candidates in an output.
      nbest: receives the n-best lists.
      no_answer: the only entry of a list without candidates.
    """
    for example, found in by_question(examples, features, results):
        spans = spans_in(found, find_spans)
        entries = nbest_of(example, spans, nbest.size, no_answer)
        nbest.add(example.qas_id, entries)
        yield entries[0]["text"], [result for _, result in found]


def _as_json(entries: Sequence[Mapping[str, str | float]]) -> str:
    """Returns entries as `json.dumps` writes them with an indent, but faster."""
    names = [f"            {json.dumps(name)}: " for name in entries[0]]
    values = [value for entry in entries for value in entry.values()]
    # One value per line: JSON values contain no line breaks.
    lines = iter(json.dumps(values, separators=("\n", ":"))[1:-1].split("\n"))
    texts = [",\n".join(name + next(lines) for name in names) for _ in entries]
    return ",\n".join(f"        {{\n{text}\n        }}" for text in texts)


class NbestLists:
    """The n-best lists of all questions, on disk until they are needed.

    Attributes:
      size: maximum number of answers per question.
    """

    def __init__(self, folder: str, size: int):
        """Creates a temporary file in a folder."""
        self.size = size
        self._folder = folder
        self._lengths = array.array("I")
        with self._storing():
            # The file disappears with this object.
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115

    def add(self, qas_id: str, entries: list[dict]) -> None:
        """Adds the list of a question.

        Raises:
          UserError: the disk is full.
        """
        with self._storing():
            # Writing JSON would take as long as finding the answers.
            self._lengths.append(self._file.write(marshal.dumps((qas_id, entries))))

    def __iter__(self) -> Iterator[tuple[str, list[dict]]]:
        """Yields the id and the list of each question."""
        with self._storing():
            self._file.seek(0)
        for length in self._lengths:
            # `marshal` would read byte by byte if it read from the file.
            yield marshal.loads(self._file.read(length))

    def write(self, path: str) -> None:
        """Writes the lists in the format of `write_predictions_v1`."""
        write_members(path, self, lambda entries: f"[\n{_as_json(entries)}\n    ]")

    def _storing(self) -> contextlib.AbstractContextManager[None]:
        return reporting(f"n-best lists cannot be stored in {self._folder}")


def spans_in(
    found: Iterable[tuple[PredictionFeature, R]], find_spans: FindSpans
) -> list[tuple[PredictionFeature, Spans]]:
    """Returns a question's features with the candidates in them; see `by_question`."""
    return [(feature, find_spans(feature, result)) for feature, result in found]


def spans_of_best(max_answer_length: int) -> FindSpans:
    """Returns a function that finds pairs of a start and an end in `BestPositions`."""

    def find_spans(feature: PredictionFeature, result: BestPositions) -> Spans:
        ends, end_scores = result.ends
        of_every_start = ends[None], end_scores[None]
        return likely_spans(feature, result.starts, of_every_start, max_answer_length)

    return find_spans


def likely_spans(
    feature: PredictionFeature,
    starts: tuple[np.ndarray, np.ndarray],
    ends: tuple[np.ndarray, np.ndarray],
    max_answer_length: int,
) -> Spans:
    """Returns the pairs of a start and an end that can be answers.

    Such a pair is in the paragraph, begins where no other feature gives the token more context, and
    has at most `max_answer_length` tokens.

    Args:
      feature: the feature.
      starts: positions of starts in the feature and their scores, [K] each.
      ends: positions of ends and their scores, [K, M] each, or [1, M] if they are the same for all
        starts.
      max_answer_length: maximum number of tokens.
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
    of_end = (rows if len(last) > 1 else 0), columns
    return Spans(first[rows], last[of_end], first_scores[rows], last_scores[of_end])


def nbest_of(
    example: SquadExample,
    found: Sequence[tuple[PredictionFeature, Spans]],
    n_best_size: int,
    no_answer: dict,
) -> list[dict]:
    """Returns the best answers to a question with different texts, best first; at least one.

    Args:
      example: the question.
      found: its features and the candidates in them.
      n_best_size: maximum number of answers.
      no_answer: the entry to use if there are no answers.
    """
    answers = best_answers(example, found, n_best_size)
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
    example: SquadExample, found: Sequence[tuple[PredictionFeature, Spans]], n_best_size: int
) -> list[Answer]:
    """Returns the best answers to a question with different texts, best first; possibly none.

    For the arguments, see `nbest_of`.
    """
    if not found:
        return []
    columns = [
        (feature.starts[spans.first], feature.ends[spans.last], *spans[2:])
        for feature, spans in found
    ]
    first, last, starts, ends = map(np.concatenate, zip(*columns, strict=True))
    # float64, as written to files: sums in float32 would have other ties.
    starts, ends = starts.astype(np.float64), ends.astype(np.float64)
    order = np.argsort(-(starts + ends), kind="stable")
    ranked = (column[order].tolist() for column in (first, last, starts, ends))
    return _different(zip(*ranked, strict=True), example.paragraph_text, n_best_size)


def _different(
    candidates: Iterable[tuple[int, int, float, float]], paragraph_text: str, n_best_size: int
) -> list[Answer]:
    """Returns the first answers with different texts; candidates have characters and scores."""
    answers = {}
    for first, last, *scores in candidates:
        text = paragraph_text[first : last + 1]
        place = first + len(text) - len(text.lstrip())
        if (text := text.strip()) not in answers:
            answers[text] = Answer(text, place, *scores)
            if len(answers) == n_best_size:
                break
    return list(answers.values())


def softmax(scores: Sequence[float]) -> list[float]:
    """Returns the softmax of scores."""
    highest = max(scores, default=0.0)
    exponentials = [math.exp(score - highest) for score in scores]
    total = sum(exponentials)
    return [e / total for e in exponentials]


# `NO_ANSWER` with the reference's scores for SQuAD 2.0.
NO_ANSWER_V2 = {"text": "", "probability": 1.0, "start_log_prob": -1e6, "end_log_prob": -1e6}
# The log-odds of no answer for a question without features, an integer as in the reference.
NO_FEATURES = 1000000

RawResultV2 = collections.namedtuple(
    "RawResultV2",
    "unique_id start_top_log_probs start_top_index end_top_log_probs end_top_index cls_logits",
)


def raw_result_v2(output: Mapping[str, Any]) -> RawResultV2:
    """Returns the output of the head for SQuAD 2.0 for a feature."""
    fields = RawResultV2._fields[1:]
    return RawResultV2(output.get("unique_ids"), **{key: output[key] for key in fields})


def spans_v2(max_answer_length: int) -> FindSpans:
    """Returns a function that finds pairs of starts and their ends in a `RawResultV2`."""

    def find_spans(feature: PredictionFeature, result: RawResultV2) -> Spans:
        starts = np.asarray(result.start_top_index), np.asarray(result.start_top_log_probs)
        ends, end_scores = (
            np.asarray(of_pairs).reshape(len(starts[0]), -1)
            for of_pairs in (result.end_top_index, result.end_top_log_probs)
        )
        return likely_spans(feature, starts, (ends, end_scores), max_answer_length)

    return find_spans


def no_answer_odds(results: Iterable[Any]) -> float:
    """Returns a question's log-odds of no answer, the minimum over its features."""
    return min([NO_FEATURES, *(float(result.cls_logits) for result in results)])
