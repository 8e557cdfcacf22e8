"""The SQuAD tasks: answering questions on paragraphs.

In 1.1 every question has an answer. In 2.0 questions may be unanswerable, and the model may
abstain.

`questions.py` reads files of questions, `features.py` makes windows of tokens, and
`feature_files.py` keeps them. `head.py` scores each token as the first and the last of the answer,
`predictions.py` chooses answers by these scores, and `scoring.py` compares them with those of the
file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np

from albert.checkpoints.model_folder import trained_threshold
from albert.core.errors import FlagError
from albert.core.files import content_of, write_json, write_members
from albert.prediction.model import Head
from albert.prediction.session import Output
from albert.records import DEV, TRAIN
from albert.records.batches import Data
from albert.report.predictions import Sample, View, writing_samples
from albert.settings.run_settings import RunSettings
from albert.tables.dev_split import DevSplit
from albert.tasks.squad import DEV_SPLIT, NBEST, ODDS, PREDICTIONS
from albert.tasks.squad.feature_files import FeatureOptions, ScoringData, SquadFeatures
from albert.tasks.squad.features import SPECIAL_TOKENS, feature_spec
from albert.tasks.squad.head import V2Options, make_v1_head, make_v2_head
from albert.tasks.squad.predictions import (
    NO_ANSWER,
    NO_ANSWER_V2,
    answers_of,
    as_json,
    by_question,
    entries_of,
    no_answer_odds,
)
from albert.tasks.squad.questions import Questions, QuestionSource, articles_of
from albert.tasks.squad.scoring import Scorer, ScorerV2
from albert.tasks.squad.settings import SquadSettings, SquadV1Settings, SquadV2Settings
from albert.tasks.squad.view import sample_of
from albert.training.evaluation import CheckpointScores
from albert.training.task import TextTask, check_room


class SquadTask(TextTask):
    """The base class of the SQuAD tasks.

    `unanswerable` is whether questions may have no answer.
    """

    done_by = {TRAIN: "do_train", DEV: "do_predict"}
    outputs: Sequence[str] = (PREDICTIONS, NBEST, *TextTask.outputs)
    unanswerable: ClassVar[bool] = False
    version: ClassVar[str]
    settings: SquadSettings

    def __init__(self, settings: SquadSettings):
        super().__init__(settings)
        self._paths = _feature_paths(settings)
        self.apply_recipe()
        # The recipe may have shortened the features.
        _check_lengths(self.settings)
        if settings.dev_fraction:
            self.outputs = (*self.outputs, DEV_SPLIT)

    @classmethod
    def input_flags(cls, settings: RunSettings) -> Mapping[str, str]:
        return {TRAIN: "train_file", DEV: cast(SquadSettings, settings).dev_flag()}

    def split(self, name: str) -> SquadFeatures:
        settings = self.settings
        options = FeatureOptions(
            settings.max_seq_length, settings.doc_stride, settings.max_query_length
        )
        source, paths = self._source(name), self._paths[name]
        own = settings.preprocess_workers, self.trims, settings.exact_answers, self.unanswerable
        return SquadFeatures(source, paths, self.tokenizer, options, *own)

    def _source(self, split: str) -> QuestionSource:
        """Returns the questions of a split."""
        settings, path = self.settings, self.input_path(split)
        bad, answers = settings.on_bad_row, settings.answers
        return QuestionSource(path, bad, DevSplit.of(settings), split == DEV, answers)

    def model_inputs(self) -> Mapping[str, Any]:
        return feature_spec(self.settings.max_seq_length, is_training=True, with_p_mask=False)

    def is_known(self, question: Mapping[str, Any]) -> bool:
        """Returns whether the true answer of a question is known."""
        if self.unanswerable:
            # An empty list of answers means that the texts have no answer.
            return bool({"answers", "is_impossible"} & question.keys())
        return bool(question.get("answers"))

    def _scored(
        self, data: ScoringData, outputs: Sequence[Output]
    ) -> tuple[Scorer, list[np.ndarray]]:
        """Returns the scores of the answers, and the best candidates for each."""
        settings, nbest = self.settings, list[np.ndarray]()
        scorer = ScorerV2() if self.unanswerable else Scorer()
        groups = by_question(len(data.questions), data.features, outputs)
        for (context, question), pairs in zip(data.questions, groups, strict=True):
            best = answers_of(pairs, context, settings.max_answer_length, settings.n_best_size)
            nbest.append(best)
            answer = context[best["start"][0] : best["end"][0]] if len(best) else ""
            odds = no_answer_odds(output for _, output in pairs) if self.unanswerable else None
            scorer.update(question, answer, odds)
        if isinstance(scorer, ScorerV2):
            scorer.abstain(cast(SquadV2Settings, settings).null_score_diff_threshold)
        return scorer, nbest

    def score(self, data: Data, outputs: Sequence[Output]) -> CheckpointScores:
        folder, source = self.settings.output_dir, self._source(DEV)
        questions: Questions = data.source.questions
        scorer, nbest = self._scored(data.source, outputs)
        scores = scorer.totals() if any(self.is_known(one) for _, one in questions) else {}
        suffix = ", development part" * bool(source.split)
        view = View(f"SQuAD {self.version}: {os.path.basename(source.path)}{suffix}", scores)

        def answers(add: Callable[[Sample], object]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
            """Yields each question's id and n-best list after passing its sample to `add`."""
            no_answer = NO_ANSWER_V2 if self.unanswerable else NO_ANSWER
            rows = zip(questions, nbest, scorer.answers, strict=True)
            for (context, question), best, answer in rows:
                entries = entries_of(best, context, no_answer)
                add(sample_of(context, question, answer, entries, bool(scores)))
                yield question["id"], entries

        def write_outputs() -> None:
            names = {PREDICTIONS: "answer"} | ({ODDS: "odds"} if self.unanswerable else {})
            for file, name in names.items():
                pairs = ((one.qas_id, getattr(one, name)) for one in scorer.answers)
                write_members(os.path.join(folder, file), pairs)
            if source.split:
                articles = list(articles_of(questions.kept()))
                content = {"train_file": content_of(source.path), "data": articles}
                split = {**source.made_from(), **content}
                write_json(os.path.join(folder, DEV_SPLIT), split, indent=4)
            with writing_samples(folder, view) as add:
                write_members(os.path.join(folder, NBEST), answers(add), as_json)

        return CheckpointScores(scores, write_outputs)


def _feature_paths(settings: SquadSettings) -> dict[str, list[str]]:
    """Returns the paths of the feature files and, for prediction, of the token positions."""
    ready = os.path.join(settings.input_file or "", "train.tf_record")
    training = settings.feature_path("train_feature_file")
    if settings.input_file and os.path.exists(ready):
        training = ready
    names = "predict_feature_file", "predict_feature_left_file"
    paths = {TRAIN: [training], DEV: list(map(settings.feature_path, names))}
    together = [*paths[TRAIN], *paths[DEV]]
    if len(set(map(os.path.abspath, together))) < len(together):
        raise FlagError(
            "--train_feature_file, --predict_feature_file and --predict_feature_left_file must be "
            f"different files: {', '.join(together)}"
        )
    return paths


def _check_lengths(settings: SquadSettings) -> None:
    """Raises a `FlagError` if lengths, or flags that change them, contradict each other."""
    # Only version 1.1 has the second flag.
    if settings.length_buckets and not getattr(settings, "mask_padding_in_loss", True):
        raise FlagError(
            "--length_buckets shortens batches, and --mask_padding_in_loss=false keeps their full "
            "length; remove one of them"
        )
    room = check_room(settings, "max_query_length", SPECIAL_TOKENS)
    if settings.doc_stride > room:
        raise FlagError(
            f"--doc_stride {settings.doc_stride} is more than the {room} tokens of a window with "
            "the longest question, so text would be skipped; lower it"
        )


class SquadV1Task(SquadTask):
    """The SQuAD 1.1 task."""

    settings: SquadV1Settings
    version = "1.1"
    kind, best_by = "squad-1.1", "f1"

    def __init__(self, settings: SquadV1Settings):
        super().__init__(settings)
        self.trims = settings.mask_padding_in_loss

    def head(self) -> Head:
        settings = self.settings
        return make_v1_head(settings.mask_padding_in_loss, settings.n_best_size)


class SquadV2Task(SquadTask):
    """The SQuAD 2.0 task."""

    settings: SquadV2Settings
    outputs = (*SquadTask.outputs, ODDS)
    version = "2.0"
    kind, best_by = "squad-2.0", "best_f1"
    unanswerable = True

    def head(self) -> Head:
        tops = self.settings.start_n_top, self.settings.end_n_top
        return make_v2_head(V2Options(*tops, self.dropout, self.config.initializer_range))

    def description(self) -> dict[str, Any]:
        flag, folder = self.settings.null_score_diff_threshold, self.settings.output_dir
        threshold = trained_threshold(flag, folder, "best_f1_thresh")
        return {"no_answer_threshold": threshold}
