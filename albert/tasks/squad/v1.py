"""SQuAD 1.1 as a task: every question has an answer."""

from __future__ import annotations

from typing import Any

from albert.settings.flags import Settings
from albert.tasks.squad import PREDICTIONS
from albert.tasks.squad.examples import check_all_answerable
from albert.tasks.squad.feature_files import Questions
from albert.tasks.squad.head import make_v1_head
from albert.tasks.squad.predictions import (
    NbestLists,
    answer_questions,
    best_positions,
    spans_of_best,
)
from albert.tasks.squad.scoring import evaluate_v1, get_raw_scores_v1
from albert.tasks.squad.task import SquadTask
from albert.training.assets import Assets
from albert.training.encoder_task import Head
from albert.training.prediction import Output
from albert.training.task import DEV, TRAIN


class SquadV1Task(SquadTask):
    """SQuAD 1.1 under the flags."""

    version = "1.1"
    raw_scores = staticmethod(get_raw_scores_v1)
    kind = "squad-1.1"

    def __init__(self, settings: Settings):
        super().__init__(settings)
        self.trims = settings.trim_batches and settings.mask_padding_in_loss

    def check_files(self, settings: Settings) -> None:
        for part, name in ((TRAIN, "train_file"), (DEV, "predict_file")):
            if part in self.wanted():
                check_all_answerable(getattr(settings, name), f"--{name}")

    def head(self) -> Head:
        settings = self.settings
        return make_v1_head(settings.mask_padding_in_loss, settings.n_best_size)

    def assets(self) -> Assets:
        description, files = super().assets()
        masks = {"mask_padding_in_loss": self.settings.mask_padding_in_loss}
        return Assets({**description, **masks}, files)

    def best_by(self, questions: list[dict]) -> str | None:
        return "f1" if any(question.get("answers") for question in questions) else None

    def answer(
        self, questions: Questions, outputs: list[Output], nbest: NbestLists
    ) -> tuple[dict[str, float], dict[str, Any]]:
        articles, examples, features = questions
        find_spans = spans_of_best(self.settings.max_answer_length)
        answers = answer_questions(examples, features, best_positions(outputs), find_spans, nbest)
        return evaluate_v1(articles, answers), {PREDICTIONS: answers}
