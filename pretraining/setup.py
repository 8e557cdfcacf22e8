"""What `check_setup.py` says of a pretraining job's model and data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from model_flags import load_config
from pretraining.flags import check_pretraining_flags, record_options
from pretraining.input_pipeline import check_files
from pretraining.run import (
    evaluation_files,
    make_model_fn,
    num_train_steps,
    num_warmup_steps,
    pretraining_settings,
    training_files,
)
from runtime.checkpoints.initialization import Initialized, compare_with_checkpoint
from runtime.data.records import RecordFile
from runtime.flags import FLAGS, global_batch_size
from runtime.preflight.report import Report


class PretrainingJob:
    """A job of run_pretraining.py under the flags, see `runtime.preflight.checks.Job`."""

    def __init__(self, report: Report):
        """Loads the configuration.

        Raises:
          UserError: it does not fit the flags.
        """
        self._config = load_config()
        check_pretraining_flags()
        self._options = record_options(self._config)
        report.add("vocabulary", f"{self._config.vocab_size} pieces")

    def model_fn(self) -> Callable:
        return make_model_fn(self._config, *(self.steps() or (1, 0)))

    def compare(self, variables: Sequence[tf.Variable]) -> Initialized:
        num_groups = self._config.num_hidden_groups if FLAGS.init_from_group0 else 0
        return compare_with_checkpoint(variables, FLAGS.init_checkpoint, num_groups)[0]

    def batch(self, as_read: bool) -> dict[str, tf.TensorSpec]:
        del as_read
        size, length = FLAGS.train_batch_size, FLAGS.max_seq_length
        sequence = tf.TensorSpec([size, length], tf.int32)
        places = [size, FLAGS.max_predictions_per_seq]
        return {
            **dict.fromkeys(("input_ids", "input_mask", "segment_ids"), sequence),
            "masked_lm_positions": tf.TensorSpec(places, tf.int32),
            "masked_lm_ids": tf.TensorSpec(places, tf.int32),
            "masked_lm_weights": tf.TensorSpec(places, tf.float32),
            "next_sentence_labels": tf.TensorSpec([size, 1], tf.int32),
        }

    def describe_data(self, report: Report) -> None:
        if FLAGS.do_train:
            files = training_files()
            check_files(files, self._options)
            num_records = len(RecordFile(files))
            epochs = num_train_steps() * global_batch_size() / num_records
            report.add("training records", f"{num_records} in {len(files)} files")
            report.add("epochs", f"{epochs:.2f}")
        if FLAGS.do_eval:
            files = evaluation_files()
            if FLAGS.eval_file or not FLAGS.do_train:
                check_files(files, self._options)
            report.add("evaluation records", f"{len(RecordFile(files))} in {len(files)} files")

    def steps(self) -> tuple[int, int] | None:
        return (num_train_steps(), num_warmup_steps()) if FLAGS.do_train else None

    def training_settings(self) -> dict:
        return pretraining_settings(self._config, training_files())
