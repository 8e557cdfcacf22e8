"""Flags that tasks on the encoder have in common, without TensorFlow: `--help` needs none."""

from __future__ import annotations

import os

from albert.settings.flags import FEATURES, LONGEST_SEQUENCE, MODEL, TRAINING, Shapes, define

# As in `optimization`, which cannot be imported without TensorFlow.
OPTIMIZERS = ["adamw", "lamb", "radam"]
EPSILON, WEIGHT_DECAY = 1e-6, 0.01


def define_text_flags(max_seq_length: int, shortest: int = 1) -> None:
    """Defines how text becomes features; the length's default and least value are the task's."""
    define(MODEL, Shapes.FEATURES, True).path(
        "spm_model_file",
        None,
        "SentencePiece model of the pretrained ALBERT. Required: it or --vocab_file.",
    )
    define(MODEL, Shapes.FEATURES, True).path(
        "vocab_file",
        None,
        "WordPiece vocabulary of the pretrained model; does not count with --spm_model_file, "
        "and is required without it.",
    )
    define(MODEL, Shapes.FEATURES, True).switch(
        "do_lower_case",
        True,
        "Lower-case the text, and take its accents away; true for all published models but those "
        "called cased.",
    )
    define(FEATURES, Shapes.FEATURES, True).integer(
        "max_seq_length",
        max_seq_length,
        "Tokens of a feature.",
        lower_bound=shortest,
        upper_bound=LONGEST_SEQUENCE,
    )
    define(TRAINING, Shapes.WEIGHTS).lengths(
        "length_buckets",
        "Lengths that batches are cut to, such as 128,192,256,384, the last of them "
        "--max_seq_length. A training step is of features that fit into the same one: few shapes, "
        "each known beforehand. Other examples meet in a batch than without.",
    )
    define(FEATURES, Shapes.NOTHING).integer(
        "preprocess_workers",
        len(os.sched_getaffinity(0)),
        "Processes that make features; the files are the same for any number. Default: the cores.",
        lower_bound=1,
    )


def define_optimizer(default: str) -> None:
    """Defines which optimizer updates the weights, and its constants."""
    define(TRAINING, Shapes.WEIGHTS).choice(
        "optimizer", default, OPTIMIZERS, "What updates the weights."
    )
    define(TRAINING, Shapes.WEIGHTS).number(
        "adam_epsilon",
        EPSILON,
        "What every optimizer adds to the root of its second moment.",
        # With 0, weights without a gradient would become NaN.
        lower_bound=1e-20,
    )
    define(TRAINING, Shapes.WEIGHTS).number(
        "weight_decay",
        WEIGHT_DECAY,
        "Decay of all weights but biases and layer norms, as a part of the learning rate.",
        lower_bound=0.0,
    )
