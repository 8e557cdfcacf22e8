"""SQuAD 1.1 as a task: an answer in a paragraph to every question."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from encoder_task import Head, TextTask, check_room, steps_of_epochs
from runtime.data.batches import Data
from runtime.errors import FlagError
from runtime.files import content_of, write_json
from runtime.flags import Settings
from runtime.training.evaluation import Scored
from runtime.training.prediction import Output
from runtime.training.task import DEV, TRAIN, is_wanted
from squad.examples import check_all_answerable
from squad.feature_files import FeatureOptions, SquadFeatures
from squad.features import SPECIAL_TOKENS
from squad.flags import define_squad_flags
from squad.head import make_v1_head
from squad.predictions import NbestLists, RawResult, answer_questions
from squad.records import feature_spec
from squad.scoring import evaluate_v1, questions_of


class SquadTask(TextTask):
    """SQuAD 1.1 under the flags."""

    outputs = ("predictions.json", "nbest_predictions.json")
    define_flags = staticmethod(define_squad_flags)

    def __init__(self, settings: Settings):
        self._wanted = _wanted(settings)
        self.check_files(settings)
        super().__init__(settings)
        self._paths = _feature_paths(settings)
        _check_lengths(settings)
        self.trims = settings.trim_batches and settings.mask_padding_in_loss

    def check_files(self, settings: Settings) -> None:
        """Raises a `UserError` if a file that is to be used is of SQuAD 2.0."""
        for part, name in ((TRAIN, "train_file"), (DEV, "predict_file")):
            if part in self._wanted:
                check_all_answerable(getattr(settings, name), f"--{name}")

    def wanted(self) -> Sequence[str]:
        return self._wanted

    def part(self, name: str) -> SquadFeatures:
        settings = self.settings
        options = FeatureOptions(
            settings.max_seq_length, settings.doc_stride, settings.max_query_length
        )
        input_file = settings.train_file if name == TRAIN else settings.predict_file
        paths, workers = self._paths[name], settings.preprocess_workers
        return SquadFeatures(input_file, paths, self.tokenizer, options, workers, self.trims)

    def contents(self, part: str) -> dict[str, Any]:
        name = "train_file" if part == TRAIN else "predict_file"
        return {**super().contents(part), name: content_of(getattr(self.settings, name))}

    def steps(self, num_examples: int) -> tuple[int, int]:
        settings, num_steps = self.settings, self.settings.train_steps
        if num_steps < 1:
            num_steps = steps_of_epochs(settings, num_examples, settings.train_file)
        return num_steps, int(num_steps * settings.warmup_proportion)

    def head(self) -> Head:
        return make_v1_head(self.settings.mask_padding_in_loss)

    def model_inputs(self) -> Mapping[str, Any]:
        return feature_spec(self.settings.max_seq_length, is_training=True, with_p_mask=False)

    def score_key(self, data: Data) -> str | None:
        has_answers = any(
            question.get("answers") for question in questions_of(data.source.articles)
        )
        return "f1" if has_answers else None

    def score(self, data: Data, outputs: list[Output]) -> Scored:
        settings, (articles, examples, features) = self.settings, data.source
        results = [
            RawResult(int(o["unique_ids"]), o["start_log_prob"], o["end_log_prob"]) for o in outputs
        ]
        nbest = NbestLists(settings.output_dir)
        answers = answer_questions(
            examples, features, results, settings.n_best_size, settings.max_answer_length, nbest
        )

        def write_outputs() -> None:
            answer_file, nbest_file = (os.path.join(settings.output_dir, n) for n in self.outputs)
            write_json(answer_file, answers, indent=4)
            nbest.write(nbest_file)

        return Scored(evaluate_v1(articles, answers), write_outputs)


def _wanted(settings: Settings) -> list[str]:
    """Returns the parts that the flags ask for, see `is_wanted`.

    Raises:
      FlagError: there is nothing to do, or a file is missing for what was asked for.
    """
    wanted = [
        part
        for part, do, file in (
            (TRAIN, "do_train", "train_file"),
            (DEV, "do_predict", "predict_file"),
        )
        if is_wanted(settings, do, file)
    ]
    if not wanted and not settings.export_dir:
        raise FlagError("nothing to do: give --train_file, --predict_file or --export_dir")
    return wanted


def _feature_paths(settings: Settings) -> dict[str, list[str]]:
    """Returns where features are or will be, and in prediction also where the token places are.

    Raises:
      FlagError: a path is given twice.
    """
    folder = settings.output_dir
    ready = os.path.join(settings.input_file or "", "train.tf_record")
    training = settings.train_feature_file or os.path.join(folder, "train.tf_record")
    if settings.input_file and os.path.exists(ready):
        training = ready
    paths = {
        TRAIN: [training],
        DEV: [
            settings.predict_feature_file or os.path.join(folder, "eval.tf_record"),
            settings.predict_feature_left_file or os.path.join(folder, "eval_left.npz"),
        ],
    }
    together = [*paths[TRAIN], *paths[DEV]]
    if len(set(map(os.path.abspath, together))) < len(together):
        raise FlagError(
            "--train_feature_file, --predict_feature_file and --predict_feature_left_file must be "
            f"different files: {', '.join(together)}"
        )
    return paths


def _check_lengths(settings: Settings) -> None:
    """Raises a `FlagError` if lengths do not fit each other."""
    room = check_room(settings, "max_query_length", SPECIAL_TOKENS)
    if settings.doc_stride > room:
        raise FlagError(
            f"--doc_stride {settings.doc_stride} is more than the {room} tokens of a window beside "
            "the longest question: text would be skipped"
        )
