r"""Fine-tunes ALBERT on SQuAD 1.1, answers a file of questions, and scores the answers.

  python run_squad_v1.py --albert_config_file=albert_base_v2/albert_config.json \
    --spm_model_file=albert_base_v2/30k-clean.model --init_checkpoint=albert_base_v2 \
    --train_file=data/squad/train-v1.1.json --predict_file=data/squad/dev-v1.1.json \
    --output_dir=out

The same command resumes a run that was stopped, and ends at once if there is nothing left to do.
Without --train_file it scores the checkpoints of --output_dir, or else --init_checkpoint.
"""

from __future__ import annotations

import os

import numpy as np

import runtime  # noqa: F401  First: it silences what TensorFlow prints when it is imported.
from runtime import app, distributed
from runtime.files import write_json
from runtime.flags import (
    FLAGS,
    check_run_flags,
    define_ignored_flags,
    define_run_flags,
    require,
)
from runtime.training.evaluation import Scored
from runtime.training.run import connect
from squad.examples import SquadExample
from squad.flags import check_is_v1, define_squad_flags, wanted_tasks
from squad.left import PredictionFeature
from squad.predictions import NbestLists, RawResult, answer_questions
from squad.run import SquadRun, make_v1_model_fn
from squad.scoring import evaluate_v1

define_run_flags()
define_squad_flags()
define_ignored_flags()


def main(argv: list[str]) -> None:
    """The whole run: checks, training, prediction, export."""
    del argv
    check_run_flags()
    require("albert_config_file", "spm_model_file", "output_dir")
    do_train, do_predict = wanted_tasks()
    check_is_v1(do_train, do_predict)
    run = SquadRun(make_v1_model_fn, is_v2=False, outputs=output_files())
    training = run.prepare_training() if do_train else None
    prediction = run.prepare_prediction() if do_predict else None
    connect(run.facts)
    if training:
        run.train(training)
    if prediction:
        run.predict(prediction, score, key="f1")
    if FLAGS.export_dir and distributed.is_chief():
        run.export()


def score(
    articles: list[dict],
    examples: list[SquadExample],
    features: list[PredictionFeature],
    outputs: list[dict[str, np.ndarray]],
) -> Scored:
    """Answers and their scores from what the model gave for each feature."""
    results = [
        RawResult(int(o["unique_ids"]), o["start_log_prob"], o["end_log_prob"]) for o in outputs
    ]
    nbest = NbestLists(FLAGS.output_dir)
    answers = answer_questions(
        examples, features, results, FLAGS.n_best_size, FLAGS.max_answer_length, nbest
    )

    def write_outputs() -> None:
        answer_file, nbest_file = output_files()
        write_json(answer_file, answers, indent=4)
        nbest.write(nbest_file)

    return Scored(evaluate_v1(articles, answers), write_outputs)


def output_files() -> tuple[str, str]:
    """Where the answers and the n-best lists go."""
    return (
        os.path.join(FLAGS.output_dir, "predictions.json"),
        os.path.join(FLAGS.output_dir, "nbest_predictions.json"),
    )


if __name__ == "__main__":
    app.run(main)
