"""What `check_setup.py` says of a classification job's model and data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from glue.examples import DEV, TEST, TRAIN
from glue.feature_files import FeatureFiles
from glue.features import SEQUENCE_KEYS
from glue.flags import feature_path, num_train_steps, num_warmup_steps
from glue.run import check_results, glue_training_settings, load_processor, make_model_fn
from model_flags import load_config, load_tokenizer
from runtime import distributed
from runtime.checkpoints.initialization import Initialized, compare_with_checkpoint
from runtime.devices import device
from runtime.flags import FLAGS
from runtime.preflight.report import Report


class GlueJob:
    """A job of run_classifier.py under the flags, see `runtime.preflight.checks.Job`."""

    def __init__(self, report: Report):
        """Loads the configuration, the tokenizer and the labels.

        Raises:
          UserError: they do not fit each other or the flags.
        """
        self._config = load_config()
        self._processor = load_processor()
        tokenizer = load_tokenizer(self._config)
        report.add("vocabulary", f"{len(tokenizer.vocab)} pieces, as in the configuration")
        self._labels = self._processor.get_labels()
        numbers = "none: a number is predicted"
        report.add("labels", numbers if self._labels == [None] else ", ".join(self._labels))
        self._files = FeatureFiles(self._processor, tokenizer, FLAGS.max_seq_length, workers=1)
        self._num_examples = 0

    def model_fn(self) -> Callable:
        return make_model_fn(self._config, len(self._labels), *(self.steps() or (1, 0)))

    def compare(self, variables: Sequence[tf.Variable]) -> Initialized:
        return compare_with_checkpoint(variables, FLAGS.init_checkpoint)[0]

    def batch(self, as_read: bool) -> dict[str, tf.TensorSpec]:
        size = FLAGS.train_batch_size
        # Batches are trimmed, but for the HPU.
        length = None if as_read and not device.is_hpu() else FLAGS.max_seq_length
        label = tf.float32 if self._processor.is_regression else tf.int32
        return {
            **dict.fromkeys(SEQUENCE_KEYS, tf.TensorSpec([size, length], tf.int32)),
            "label_ids": tf.TensorSpec([size], label),
        }

    def describe_data(self, report: Report) -> None:
        for wanted, part in (
            (FLAGS.do_train, TRAIN),
            (FLAGS.do_eval, DEV),
            (FLAGS.do_predict, TEST),
        ):
            if not wanted:
                continue
            path = self._processor.path(FLAGS.data_dir, part)
            num_examples = len(self._processor.read_examples(path, part))
            report.add(f"{part} examples", num_examples)
            report.add(f"{part} features", self._files.state(part, path, feature_path(part)))
            if part == TRAIN:
                self._num_examples = num_examples
        if FLAGS.do_predict and distributed.is_chief():
            check_results()

    def steps(self) -> tuple[int, int] | None:
        if not FLAGS.do_train:
            return None
        path = self._processor.path(FLAGS.data_dir, TRAIN)
        num_steps = num_train_steps(self._num_examples, path)
        return num_steps, num_warmup_steps(num_steps)

    def training_settings(self) -> dict:
        return glue_training_settings(self._config, self._processor)
