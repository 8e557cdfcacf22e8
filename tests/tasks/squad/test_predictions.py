"""Answers from the model's outputs: golden figures, and brute force by the documented rules."""

import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from albert import squad_utils
from albert.squad_utils import RawResult, SquadExample
from albert.tasks.squad.predictions import (
    CANDIDATE,
    answers_of,
    as_json,
    best_candidates,
    by_question,
    entries_of,
    spans_of,
)
from albert.tasks.squad.token_positions import PredictionFeature
from tests.helpers.golden import (
    GOLDEN,
    assert_answers_of_words,
    assert_answers_v1,
    assert_answers_v2,
    assert_scores,
    read_json,
    top_three,
    written_v1,
)

LETTERS = "ab cd ef  gh ij"


def best_of(result, count):
    """Returns the head's outputs for a result."""
    output = {"unique_ids": result.unique_id}
    for name, scores in (("start", result.start_log_prob), ("end", result.end_log_prob)):
        order = np.argsort(-scores, kind="stable")[:count]
        output |= {f"{name}_top_index": order, f"{name}_top_log_probs": scores[order]}
    return output


class TestGolden:
    """The reference's answers for pseudo-random outputs, described in the data's README."""

    @pytest.mark.parametrize("near", [False, True])
    def test_version_1_equals_the_reference(self, tmp_path, near):
        assert_answers_v1(GOLDEN, tmp_path, near)

    @pytest.mark.parametrize("near", [False, True])
    def test_version_2_equals_the_reference(self, tmp_path, near):
        assert_answers_v2(GOLDEN, tmp_path, near)

    def test_wordpiece_answers_are_text_of_the_paragraph(self, tmp_path):
        """Google's BERT joins words with a space instead, and searches the paragraph for them."""
        folder = GOLDEN.folder / "predictions_bert_v1"
        golden = top_three(folder)
        not_found = {key for key, entries in golden.items() if not entries[0]["projected"]}
        assert len(not_found) == 13
        nbest, differ = assert_answers_of_words(GOLDEN, tmp_path, not_found), []
        for qas_id, entries in golden.items():
            for rank, (ours, theirs) in enumerate(zip(nbest[qas_id], entries, strict=False)):
                if ours["text"] == theirs["text"]:
                    for end in ("start", "end"):
                        expected = pytest.approx(theirs[f"{end}_logit"], rel=1e-6)
                        assert ours[f"{end}_log_prob"] == expected
                elif theirs["projected"] and ours["text"].split() != theirs["text"].split():
                    differ.append((qas_id, rank))
        # Google's BERT dropped a text of whole words as one that it had seen.
        assert differ == [("sample-20260-dev-6-0-2", 1)]
        theirs = read_json(folder / "predictions.json")
        assert_scores(folder, squad_utils.evaluate_v1(GOLDEN.articles("dev-v1.1"), theirs))


def test_one_question_at_a_time_has_the_same_answers_as_all_together(tmp_path):
    """The program does not keep the spans of all questions."""
    rng = np.random.default_rng(3)
    texts = [LETTERS, "ä 😀", "", LETTERS]
    spans = [(0, 1), (3, 4), (6, 7), (10, 11)]
    features = [
        make_feature(1000 + i, index, 2, spans, [True] * 4)
        for i, index in enumerate((0, 0, 1, 3, 3))
    ]
    scores = rng.normal(size=(len(features), 2, 8)).astype(np.float32)
    case = Case(texts, features, [list(scores)])
    (results,) = case.models
    _, nbest = written_v1(case.examples, features, results, tmp_path, (3, 2), no_answer="")
    outputs = [best_of(result, 3) for result in results]
    groups = list(by_question(4, features, outputs))
    grouped = [[output for _, output in pairs] for pairs in groups]
    assert grouped == [outputs[:2], outputs[2:3], [], outputs[3:]]
    best = [answers_of(pairs, text, 2, 3) for pairs, text in zip(groups, texts, strict=True)]
    written = (tmp_path / "nbest.json").read_text()
    for (qas_id, expected), candidates, text in zip(nbest.items(), best, texts, strict=True):
        entries = entries_of(candidates, text)
        assert entries == expected and f'"{qas_id}": {as_json(entries)}' in written
        texts_of = [span.text for span in spans_of(candidates, [text])]
        assert texts_of == [e["text"] for e in expected if len(candidates)]
    # The same characters in two texts are two answers.
    best[3]["text"] = 1
    both = spans_of(best_candidates([best[0], best[3], best[0]], [LETTERS] * 2, 9), [LETTERS] * 2)
    keys = [(span.context, span.text) for span in both]
    assert len(set(keys)) == len(both) == len(best[0]) + len(best[3])
    assert all(LETTERS[span.start : span.end] == span.text for span in both)


def make_feature(unique_id, example_index, offset, spans, best):
    """Returns a feature whose window begins at `offset`; `spans` are the tokens' characters."""
    firsts, lasts = np.array(spans, np.int32).reshape(-1, 2).T
    numbers = unique_id, example_index, offset
    return PredictionFeature(*numbers, firsts, lasts, np.array(best, bool))


class Case:
    """Some questions, their features, and outputs of one or more models."""

    def __init__(self, texts, features, outputs):
        self.examples = [SquadExample(f"id{i}", "?", text) for i, text in enumerate(texts)]
        self.features = features
        self.models = [
            [RawResult(f.unique_id, *scores) for f, scores in zip(features, output, strict=True)]
            for output in outputs
        ]

    def answers(self, folder, n_best, max_length):
        spans, known = {}, (self.examples, self.features)
        for results in self.models:
            # The order does not matter.
            squad_utils.accumulate_predictions_v1(spans, *known, results[::-1], n_best, max_length)
        files = folder / "predictions.json", folder / "nbest.json"
        arguments = (*known, None, n_best, None, *map(str, files))
        squad_utils.write_predictions_v1(spans, *arguments, no_answer="-")
        return read_json(files[1])

    def written(self, folder, **options):
        return written_v1(self.examples, self.features, self.models[0], folder, (3, 5), **options)


def brute_force(case, n_best, max_length):
    """Returns the n-best lists by the rules of the docstrings, one span at a time."""
    return {
        example.qas_id: ranked(case, index, example.paragraph_text, n_best, max_length)
        or [("-", 1.0, 0.0, 0.0)]
        for index, example in enumerate(case.examples)
    }


def ranked(case, index, text, n_best, max_length):
    spans = []
    for number, feature in enumerate(case.features):
        if feature.example_index == index:
            scored = {}
            for results in case.models:
                for first, last, scores in candidates(feature, results[number], n_best, max_length):
                    scored.setdefault((first, last), []).append(scores)
            spans += [(feature, span, np.mean(s, axis=0)) for span, s in scored.items()]
    entries = []
    # Among equal ones the first wins; Python's sort keeps their order.
    for feature, (first, last), scores in sorted(spans, key=lambda s: -s[2].sum()):
        answer = text[feature.starts[first] : feature.ends[last] + 1].strip()
        if len(entries) < n_best and answer not in [e[0] for e in entries]:
            entries.append((answer, *scores))
    weights = [math.exp(start + end) for _, start, end in entries]
    return [(e[0], w / sum(weights), e[1], e[2]) for e, w in zip(entries, weights, strict=True)]


def candidates(feature, result, n_best, max_length):
    """Returns the allowed spans, ordered by the scores of their starts and then of their ends."""
    for start in likeliest(result.start_log_prob, n_best):
        for end in likeliest(result.end_log_prob, n_best):
            first, last = start - feature.doc_offset, end - feature.doc_offset
            inside = 0 <= first <= last < len(feature.starts)
            if inside and feature.max_context[first] and last - first + 1 <= max_length:
                yield first, last, (result.start_log_prob[start], result.end_log_prob[end])


def likeliest(scores, count):
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:count]


@st.composite
def cases(draw):
    """Draws a few questions on short texts; scores are multiples of 1/4, so that many are equal."""
    number = draw(st.integers(1, 3))
    length = draw(st.integers(4, 12))
    features = []
    for index in range(number):
        for _ in range(draw(st.integers(0, 2))):
            offset = draw(st.integers(2, length - 2))
            count = draw(st.integers(1, length - offset))
            firsts = sorted(draw(st.integers(0, len(LETTERS) - 1)) for _ in range(count))
            spans = [(f, min(f + draw(st.integers(-1, 2)), len(LETTERS) - 1)) for f in firsts]
            best = draw(st.lists(st.booleans(), min_size=count, max_size=count))
            features.append(make_feature(1000 + len(features), index, offset, spans, best))
    score = st.integers(-4, 4).map(lambda n: n / 4)
    scores = st.lists(score, min_size=length, max_size=length).map(np.array)
    pairs = st.tuples(scores, scores)
    output = st.lists(pairs, min_size=len(features), max_size=len(features))
    return Case([LETTERS] * number, features, draw(st.lists(output, min_size=1, max_size=3)))


@hypothesis.given(case=cases(), n_best=st.integers(1, 8), max_length=st.integers(1, 6))
@hypothesis.settings(max_examples=100)
def test_answers_equal_brute_force(tmp_path_factory, case, n_best, max_length):
    got = case.answers(tmp_path_factory.getbasetemp(), n_best, max_length)
    expected = brute_force(case, n_best, max_length)
    assert got.keys() == expected.keys()
    keys = ("text", "probability", "start_log_prob", "end_log_prob")
    for qas_id, entries in expected.items():
        assert [entry["text"] for entry in got[qas_id]] == [entry[0] for entry in entries]
        for entry, values in zip(got[qas_id], entries, strict=True):
            assert [entry[key] for key in keys[1:]] == pytest.approx(values[1:], abs=1e-12)


def test_extreme_scores_give_finite_probabilities():
    candidates = np.zeros(2, CANDIDATE)
    candidates["start_log_prob"] = 1e30, -1e30
    assert [entry["probability"] for entry in entries_of(candidates, "text")] == [1.0, 0.0]


def test_spans_are_stored_by_example_and_feature():
    feature = make_feature(7, 0, 1, [(0, 1), (3, 4)], [True] * 2)
    case, spans = Case(["ab cd"], [feature], [[([-9, 2.0, -9], [-9, -9, 1.5])]]), {}
    arguments = (case.examples, case.features, case.models[0], 1, 5)
    squad_utils.accumulate_predictions_v1(spans, *arguments)
    assert spans == {0: {7: {(0, 1): [(2.0, 1.5)]}}}


@pytest.mark.parametrize(("options", "answer"), [({}, "empty"), ({"no_answer": ""}, "")])
def test_a_question_without_candidates_gets_an_empty_answer(tmp_path, options, answer):
    """One has no feature; in the other's, no token has its maximum context."""
    feature = make_feature(1, 1, 3, [(0, 1)], [False])
    case = Case(["", "ab"], [feature], [[(np.ones(9), np.ones(9))]])
    predictions, nbest = case.written(tmp_path, **options)
    assert predictions == {"id0": answer, "id1": answer}
    entry = {"text": answer, "probability": 1.0, "start_log_prob": 0.0, "end_log_prob": 0.0}
    assert nbest == {"id0": [entry], "id1": [entry]}
