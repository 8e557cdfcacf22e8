"""Conversion of a model's outputs to the candidates for answers, and of these to spans and JSON.

Candidates are arrays with a row of the type `CANDIDATE` for each span of a text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert.report.spans import Span
from albert.tasks.squad.features import PredictionFeature


def candidate_type(score: type) -> np.dtype:
    """Returns the type of a span: number of the text, first character, that after its last."""
    offsets = [(name, np.int32) for name in ("text", "start", "end")]
    return np.dtype([*offsets, ("start_log_prob", score), ("end_log_prob", score)])


CANDIDATE = candidate_type(np.float32)
# The only entry of an n-best list without candidates, and that with the reference's scores for
# SQuAD 2.0.
NO_ANSWER = {"text": "", "probability": 1.0, "start_log_prob": 0.0, "end_log_prob": 0.0}
NO_ANSWER_V2 = {"text": "", "probability": 1.0, "start_log_prob": -1e6, "end_log_prob": -1e6}
# The log-odds of no answer for a question without features, an integer as in the reference.
NO_FEATURES = 1000000

# The outputs of a head for a feature.
Output = Mapping[str, Any]


def by_question(
    count: int, features: Iterable[PredictionFeature], outputs: Iterable[Output]
) -> Iterator[list[tuple[PredictionFeature, Output]]]:
    """Yields the features of each of `count` questions, in order, with their outputs, if any."""
    pairs = zip(features, outputs, strict=True)
    pending = next(pairs, None)
    for index in range(count):
        group = []
        while pending and pending[0].example_index == index:
            group.append(pending)
            pending = next(pairs, None)
        yield group


def spans_in(
    feature: PredictionFeature, output: Output, max_answer_length: int, kind: np.dtype = CANDIDATE
) -> np.ndarray:
    """Returns the pairs of a probable start and a probable end that can be answers.

    They are candidates in text 0 whose `start` and `end` are the first and the last token in the
    window. Such a pair is in the paragraph, begins where no other feature gives the token more
    context, and has at most `max_answer_length` tokens. In the outputs of SQuAD 2.0's head, which
    have `cls_logits`, each start has its own ends; in those of 1.1, all starts share them.
    """
    first, first_scores, last, last_scores = (
        np.asarray(output[f"{side}_top_{what}"])
        for side in ("start", "end")
        for what in ("index", "log_probs")
    )
    rows = len(first) if "cls_logits" in output else 1
    last, last_scores = last.reshape(rows, -1), last_scores.reshape(rows, -1)
    first, last = first - feature.doc_offset, last - feature.doc_offset
    count = len(feature.max_context)
    usable = (first >= 0) & (first < count)
    usable[usable] = feature.max_context[first[usable]]
    lengths = last - first[:, None] + 1
    valid = usable[:, None] & (last < count) & (lengths > 0) & (lengths <= max_answer_length)
    chosen, columns = np.nonzero(valid)
    end = (chosen if rows > 1 else 0), columns
    spans = np.zeros(len(chosen), kind)
    spans["start"], spans["end"] = first[chosen], last[end]
    spans["start_log_prob"], spans["end_log_prob"] = first_scores[chosen], last_scores[end]
    return spans


def at_characters(feature: PredictionFeature, spans: np.ndarray) -> np.ndarray:
    """Changes candidates from tokens of a window to characters of its text, and returns them."""
    starts, lasts = feature.starts[spans["start"]], feature.ends[spans["end"]]
    spans["start"], spans["end"] = starts, lasts + 1
    return spans


def answers_of(
    pairs: Iterable[tuple[PredictionFeature, Output]], text: str, max_answer_length: int, count: int
) -> np.ndarray:
    """Returns the best candidates in a question's features; see `best_candidates`."""
    candidates = [at_characters(pair[0], spans_in(*pair, max_answer_length)) for pair in pairs]
    return best_candidates(candidates, [text], count)


def best_candidates(groups: Sequence[np.ndarray], texts: Sequence[str], count: int) -> np.ndarray:
    """Returns the candidates with the highest sums of scores, best first, without white space.

    Of equal sums, the first ones win. Candidates with the same characters in the same text count
    once.
    """
    if not groups:
        return np.zeros(0, CANDIDATE)
    candidates = np.concatenate(groups)
    order = np.argsort(-_sums(candidates), kind="stable")
    columns = (candidates[name][order].tolist() for name in ("text", "start", "end"))
    kept = dict[tuple[int, str], tuple[int, int]]()
    for index, number, start, end in zip(order.tolist(), *columns, strict=True):
        written = texts[number][start:end]
        answer = written.strip()
        if (number, answer) not in kept:
            kept[number, answer] = index, start + len(written) - len(written.lstrip())
            if len(kept) == count:
                break
    best = candidates[[index for index, _ in kept.values()]]
    best["start"] = [start for _, start in kept.values()]
    best["end"] = best["start"] + [len(answer) for _, answer in kept]
    return best


def _sums(candidates: np.ndarray) -> np.ndarray:
    # As written to files: sums in float32 would have other ties.
    return candidates["start_log_prob"].astype(np.float64) + candidates["end_log_prob"]


def spans_of(candidates: np.ndarray, texts: Sequence[str]) -> list[Span]:
    """Returns candidates as spans; their probabilities are the softmax of the sums of scores."""
    shares = _softmax(_sums(candidates).tolist())
    return [
        Span(start, end, texts[number][start:end], None, share, number)
        for (number, start, end, *_), share in zip(candidates.tolist(), shares, strict=True)
    ]


def _softmax(scores: Sequence[float]) -> list[float]:
    highest = max(scores, default=0.0)
    exponentials = [math.exp(score - highest) for score in scores]
    total = sum(exponentials)
    return [e / total for e in exponentials]


def entries_of(
    candidates: np.ndarray, text: str, no_answer: dict[str, Any] = NO_ANSWER
) -> list[dict[str, Any]]:
    """Returns the n-best list of candidates in a text; without any, its only entry is given."""
    rows = candidates.tolist()
    shares = _softmax([first + last for *_, first, last in rows])
    return [
        {"text": text[start:end], "probability": share, "start_log_prob": a, "end_log_prob": b}
        for (_, start, end, a, b), share in zip(rows, shares, strict=True)
    ] or [dict(no_answer)]


def as_json(entries: Sequence[Mapping[str, str | float]]) -> str:
    """Returns an n-best list as `json.dumps` indents it in an object, but faster."""
    members = ",\n".join(f"            {json.dumps(name)}: %s" for name in entries[0])
    objects = ",\n".join([f"        {{\n{members}\n        }}"] * len(entries))
    values = [value for entry in entries for value in entry.values()]
    # One value per line: JSON values contain no line breaks.
    texts = json.dumps(values, separators=("\n", ":"))[1:-1].split("\n")
    return f"[\n{objects}\n    ]" % tuple(texts)


def no_answer_odds(outputs: Iterable[Output], name: str = "cls_logits") -> float:
    """Returns a question's log-odds of no answer, the minimum over its features."""
    return min([NO_FEATURES, *(float(output[name]) for output in outputs)])
