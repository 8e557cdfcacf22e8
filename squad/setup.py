"""What `check_setup.py` says of a SQuAD job's model and data."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from model_flags import load_config, load_tokenizer
from modeling import AlbertConfig
from runtime.environment import Report
from runtime.flags import FLAGS, global_batch_size, optimizer_options
from runtime.initialization import initialize_from_checkpoint
from squad.examples import load_squad, read_examples
from squad.feature_files import FeatureMaker
from squad.flags import (
    check_squad_flags,
    feature_options,
    prediction_feature_paths,
    training_feature_path,
)
from squad.model import create_v1_model, v1_model_fn_builder
from squad.records import ANSWER_KEYS, SEQUENCE_KEYS
from squad.run import num_train_steps
from tokenization import FullTokenizer


def describe_model(report: Report) -> tuple[AlbertConfig, FullTokenizer]:
    """The tokenizer against the configuration against the checkpoint.

    Raises:
      UserError: they do not fit.
    """
    config = load_config()
    check_squad_flags()
    tokenizer = load_tokenizer(config)
    report.add("vocabulary", f"{len(tokenizer.vocab)} pieces, as in the configuration")
    with tf.Graph().as_default():
        ids = tf.zeros([1, FLAGS.max_seq_length], tf.int32)
        create_v1_model(config, False, ids, ids, ids, False, FLAGS.use_einsum, None)
        variables = tf.trainable_variables()
        count = sum(variable.shape.num_elements() for variable in variables)
        report.add("parameters", f"{count / 1e6:.1f} million in {len(variables)} variables")
        if not FLAGS.init_checkpoint:
            report.add("checkpoint", "none: training starts from random weights")
            return config, tokenizer
        found = initialize_from_checkpoint(variables, FLAGS.init_checkpoint)
    report.add("checkpoint", found.checkpoint)
    report.add("variables taken", len(found.taken))
    report.add("variables that are new", ", ".join(found.new) or "none")
    report.add("variables not used", ", ".join(found.unused) or "none")
    return config, tokenizer


def describe_data(report: Report, tokenizer: FullTokenizer) -> None:
    """The input files, their feature files, and the steps they make.

    Raises:
      UserError: a file cannot be used.
    """
    maker = FeatureMaker(tokenizer, feature_options())
    if FLAGS.train_file and FLAGS.do_train:
        articles = load_squad(FLAGS.train_file)
        examples, left_out = read_examples(articles, FLAGS.train_file, is_training=True)
        report.add("training examples", len(examples))
        for reason, count in left_out.counts.items():
            report.add("left out", f"{count}: {reason}")
        state = maker.training_state(FLAGS.train_file, training_feature_path())
        report.add("training features", state)
        steps = num_train_steps(len(examples))
        warmup = int(steps * FLAGS.warmup_proportion)
        report.add(
            "steps", f"{steps}, {warmup} of them warmup, {global_batch_size()} examples each"
        )
    if FLAGS.predict_file and FLAGS.do_predict:
        articles = load_squad(FLAGS.predict_file)
        examples, _ = read_examples(articles, FLAGS.predict_file, is_training=False)
        report.add("examples to predict", len(examples))
        state = maker.prediction_state(FLAGS.predict_file, *prediction_feature_paths())
        report.add("prediction features", state)


def training_graph(config: AlbertConfig) -> tf.Graph:
    """The graph of a training step of one worker, with batches of full length."""
    size, length = FLAGS.train_batch_size, FLAGS.max_seq_length
    model_fn = v1_model_fn_builder(
        albert_config=config,
        init_checkpoint=None,
        learning_rate=FLAGS.learning_rate,
        num_train_steps=1000,
        num_warmup_steps=100,
        use_tpu=False,
        use_one_hot_embeddings=False,
        use_einsum=FLAGS.use_einsum,
        hub_module=None,
        mask_padding_in_loss=FLAGS.mask_padding_in_loss,
        optimizer_options=optimizer_options(),
    )
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(FLAGS.seed)
        shapes = {
            **dict.fromkeys(SEQUENCE_KEYS, [size, length]),
            **dict.fromkeys(ANSWER_KEYS, [size]),
        }
        features = {name: tf.placeholder(tf.int32, shape) for name, shape in shapes.items()}
        model_fn(features=features, labels=None, mode=tf.estimator.ModeKeys.TRAIN, params={})
    return graph
