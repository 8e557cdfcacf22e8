r"""Fine-tunes ALBERT on a GLUE task or on one's own, scores it, and labels the test set.

  python run_classifier.py --task_name=MRPC --data_dir=data/glue --do_train --do_eval --do_predict \
    --albert_config_file=albert_base_v2/albert_config.json \
    --spm_model_file=albert_base_v2/30k-clean.model --init_checkpoint=albert_base_v2 \
    --train_step=800 --warmup_step=200 --learning_rate=2e-5 --max_seq_length=128 --output_dir=out

The same command resumes a run that was stopped, and ends at once if there is nothing left to do.
"""

from __future__ import annotations

import runtime  # noqa: F401  First: it silences what TensorFlow prints when it is imported.
from glue.flags import define_glue_flags
from glue.run import GlueRun
from runtime import app, distributed
from runtime.flags import FLAGS, check_run_flags, define_ignored_flags, define_run_flags, require
from runtime.training.run import connect

define_run_flags()
define_glue_flags()
define_ignored_flags()


def main(argv: list[str]) -> None:
    """The whole run: checks, training, evaluation, prediction, export."""
    del argv
    check_run_flags()
    require("data_dir", "task_name", "albert_config_file", "spm_model_file", "output_dir")
    run = GlueRun()
    training = run.prepare_training() if FLAGS.do_train else None
    development = run.prepare_evaluation() if FLAGS.do_eval else None
    test = run.prepare_prediction() if FLAGS.do_predict else None
    connect(run.facts)
    if training:
        run.train(training)
    if development:
        run.evaluate(development)
    if test:
        run.predict(test)
    if FLAGS.export_dir and distributed.is_chief():
        run.export()


if __name__ == "__main__":
    app.run(main)
