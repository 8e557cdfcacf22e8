"""Answers from the model's outputs: golden figures, and cases by hand."""

import math

import numpy as np
import pytest

from albert import squad_utils
from albert.squad_utils import RawResult, SquadExample
from albert.tasks.squad.features import PredictionFeature
from albert.tasks.squad.predictions import (
    CANDIDATE,
    NO_ANSWER,
    answers_of,
    as_json,
    best_candidates,
    by_question,
    entries_of,
    spans_of,
)
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
    output = {"unique_ids": result.unique_id}
    for name, scores in (("start", result.start_log_prob), ("end", result.end_log_prob)):
        order = np.argsort(-scores, kind="stable")[:count]
        output |= {f"{name}_top_index": order, f"{name}_top_log_probs": scores[order]}
    return output


class TestGolden:
    @pytest.mark.parametrize("near", [False, True])
    @pytest.mark.parametrize("check", [assert_answers_v1, assert_answers_v2])
    def test_answers_equal_the_references(self, tmp_path, check, near):
        check(GOLDEN, tmp_path, near)

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
    _, nbest = written_v1(case.examples, features, results, tmp_path, (3, 2))
    outputs = [best_of(result, 3) for result in results]
    groups = list(by_question(4, features, outputs))
    grouped = [[output for _, output in pairs] for pairs in groups]
    assert grouped == [outputs[:2], outputs[2:3], [], outputs[3:]]
    best = [answers_of(pairs, text, 2, 3) for pairs, text in zip(groups, texts, strict=True)]
    written = (tmp_path / "nbest.json").read_text()
    for (qas_id, expected), candidates, text in zip(nbest.items(), best, texts, strict=True):
        entries = entries_of(candidates, text, {**NO_ANSWER, "text": "empty"})
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
        squad_utils.write_predictions_v1(spans, *arguments)
        return read_json(files[1])


def test_equal_scores_keep_their_order_and_models_are_averaged(tmp_path):
    spans = [(0, 1), (3, 4), (6, 7)]
    features = [make_feature(7, 0, 1, spans, [True] * 3), make_feature(8, 0, 1, spans, [False] * 3)]
    equal, higher = np.array([-9.0, 1, 1, 0]), np.array([-9.0, 3, 1, 0])
    case = Case(["ab cd ef"], features, [[(equal, equal)] * 2, [(higher, equal)] * 2])
    for max_length, expected in (
        (3, [("ab", 2, 1), ("ab cd", 2, 1)]),
        (1, [("ab", 2, 1), ("cd", 1, 1)]),
    ):
        entries = case.answers(tmp_path, 2, max_length)["id0"]
        assert [entry["text"] for entry in entries] == [text for text, *_ in expected]
        keys = "start_log_prob", "end_log_prob"
        assert [[e[key] for key in keys] for e in entries] == [[*scores] for _, *scores in expected]
        weights = [math.exp(sum(scores)) for _, *scores in expected]
        shares = [weight / sum(weights) for weight in weights]
        assert [entry["probability"] for entry in entries] == pytest.approx(shares, abs=1e-12)


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


def test_a_question_without_candidates_gets_the_answer_empty(tmp_path):
    """One has no feature; in the other's, no token has its maximum context."""
    feature = make_feature(1, 1, 3, [(0, 1)], [False])
    case = Case(["", "ab"], [feature], [[(np.ones(9), np.ones(9))]])
    predictions, nbest = written_v1(case.examples, [feature], case.models[0], tmp_path, (3, 5))
    assert predictions == {"id0": "empty", "id1": "empty"}
    entry = {"text": "empty", "probability": 1.0, "start_log_prob": 0.0, "end_log_prob": 0.0}
    assert nbest == {"id0": [entry], "id1": [entry]}
