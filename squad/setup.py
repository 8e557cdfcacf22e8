"""What `check_setup.py` says of a SQuAD job's model and data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from model_flags import load_config, load_tokenizer
from runtime.checkpoints.initialization import Initialized, compare_with_checkpoint
from runtime.flags import FLAGS
from runtime.preflight.report import Report
from squad.examples import load_squad, read_examples
from squad.feature_files import FeatureMaker
from squad.flags import (
    check_is_v1,
    check_squad_flags,
    feature_options,
    prediction_feature_paths,
    training_feature_path,
    wanted_tasks,
)
from squad.records import ANSWER_KEYS, SEQUENCE_KEYS
from squad.run import (
    make_v1_model_fn,
    num_train_steps,
    num_warmup_steps,
    squad_training_settings,
    trims_batches,
)


class SquadJob:
    """A job of run_squad_v1.py under the flags, see `runtime.preflight.checks.Job`."""

    def __init__(self, report: Report):
        """Loads the configuration and the tokenizer.

        Raises:
          UserError: they do not fit each other or the flags.
        """
        self._do_train, self._do_predict = wanted_tasks()
        self._config = load_config()
        check_squad_flags()
        tokenizer = load_tokenizer(self._config)
        report.add("vocabulary", f"{len(tokenizer.vocab)} pieces, as in the configuration")
        self._maker = FeatureMaker(tokenizer, feature_options())
        self._num_examples = 0

    def model_fn(self) -> Callable:
        return make_v1_model_fn(self._config, *(self.steps() or (1, 0)))

    def compare(self, variables: Sequence[tf.Variable]) -> Initialized:
        return compare_with_checkpoint(variables, FLAGS.init_checkpoint)[0]

    def batch(self, as_read: bool) -> dict[str, tf.TensorSpec]:
        size = FLAGS.train_batch_size
        length = None if as_read and trims_batches() else FLAGS.max_seq_length
        return {
            **dict.fromkeys(SEQUENCE_KEYS, tf.TensorSpec([size, length], tf.int32)),
            **dict.fromkeys(ANSWER_KEYS, tf.TensorSpec([size], tf.int32)),
        }

    def describe_data(self, report: Report) -> None:
        check_is_v1(self._do_train, self._do_predict)
        if self._do_train:
            articles = load_squad(FLAGS.train_file)
            examples, left_out = read_examples(articles, FLAGS.train_file, is_training=True)
            self._num_examples = len(examples)
            report.add("training examples", len(examples))
            for reason, count in left_out.counts.items():
                report.add("left out", f"{count}: {reason}")
            state = self._maker.training_state(FLAGS.train_file, training_feature_path())
            report.add("training features", state)
        if self._do_predict:
            articles = load_squad(FLAGS.predict_file)
            examples, _ = read_examples(articles, FLAGS.predict_file, is_training=False)
            report.add("examples to predict", len(examples))
            state = self._maker.prediction_state(
                FLAGS.predict_file, lambda: examples, *prediction_feature_paths()
            )
            report.add("prediction features", state)

    def steps(self) -> tuple[int, int] | None:
        if not self._do_train:
            return None
        num_steps = num_train_steps(self._num_examples)
        return num_steps, num_warmup_steps(num_steps)

    def training_settings(self) -> dict:
        return squad_training_settings(self._config)
