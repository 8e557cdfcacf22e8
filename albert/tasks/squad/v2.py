"""SQuAD 2.0 as a task: a question may have no answer, and the model may abstain."""

from __future__ import annotations

import os
from typing import Any

from albert.core.errors import FlagError
from albert.core.json_input import read_json
from albert.settings.flags import Settings
from albert.tasks.squad import ODDS, PREDICTIONS
from albert.tasks.squad.feature_files import Questions, SquadV2Features
from albert.tasks.squad.head_v2 import V2Options, make_v2_head
from albert.tasks.squad.predictions import NbestLists, answer_questions
from albert.tasks.squad.predictions_v2 import NO_ANSWER_V2, no_answer_odds, raw_results_v2, spans_v2
from albert.tasks.squad.scoring import (
    evaluate_v2,
    find_best_thresh,
    get_raw_scores,
    make_qid_to_has_ans,
)
from albert.tasks.squad.task import SquadTask
from albert.training.assets import Assets
from albert.training.encoder_task import Head
from albert.training.prediction import Output


class SquadV2Task(SquadTask):
    """SQuAD 2.0 under the flags."""

    outputs = (*SquadTask.outputs, ODDS)
    version = "2.0"
    raw_scores = staticmethod(get_raw_scores)
    kind = "squad-2.0"
    features = SquadV2Features

    def __init__(self, settings: Settings):
        super().__init__(settings)
        for name in ("start_n_top", "end_n_top"):
            if getattr(settings, name) > settings.max_seq_length:
                raise FlagError(
                    f"--{name} {getattr(settings, name)} is more than the --max_seq_length "
                    f"{settings.max_seq_length} tokens of a feature"
                )
        self._options = V2Options(
            settings.start_n_top,
            settings.end_n_top,
            0.0 if settings.deterministic_run else settings.dropout_prob,
            self.config.initializer_range,
        )

    def has_dropout(self) -> bool:
        return bool(self._options.dropout) or super().has_dropout()

    def head(self) -> Head:
        return make_v2_head(self._options)

    def assets(self) -> Assets:
        description, files = super().assets()
        names = "start_n_top", "end_n_top"
        values = {name: getattr(self.settings, name) for name in names}
        return Assets({**description, **values, "no_answer_threshold": self._threshold()}, files)

    def _threshold(self) -> float | None:
        """Returns the log-odds above which to abstain, as far as they are known by now."""
        path = os.path.join(self.settings.output_dir, "eval_results.json")
        if self.settings.null_score_diff_threshold is not None or not os.path.exists(path):
            return self.settings.null_score_diff_threshold
        return read_json(path, "the record of scores").get("best_f1_thresh")

    def best_by(self, questions: list[dict]) -> str | None:
        # Where there are no answers they may be unknown; an empty list says that there are none.
        known = any({"answers", "is_impossible"} & question.keys() for question in questions)
        return "best_f1" if known else None

    def answer(
        self, questions: Questions, outputs: list[Output], nbest: NbestLists
    ) -> tuple[dict[str, float], dict[str, Any]]:
        articles, examples, features = questions
        results = raw_results_v2(outputs)
        find_spans = spans_v2(self.settings.max_answer_length)
        answers = answer_questions(examples, features, results, find_spans, nbest, NO_ANSWER_V2)
        ids = [example.qas_id for example in examples]
        odds = dict(zip(ids, no_answer_odds(len(examples), features, results), strict=True))
        threshold = self.settings.null_score_diff_threshold
        if threshold is None:
            threshold = _best_threshold(articles, answers, odds)
        answers = {i: "" if odds[i] > threshold else answer for i, answer in answers.items()}
        return evaluate_v2(articles, answers, odds), {PREDICTIONS: answers, ODDS: odds}


def _best_threshold(articles: list[dict], answers: dict[str, str], odds: dict[str, float]) -> float:
    """Returns the log-odds above which to abstain for the best F1; 0 where answers are unknown."""
    _, f1 = get_raw_scores(articles, answers)
    return find_best_thresh(answers, f1, odds, make_qid_to_has_ans(articles))[1]
