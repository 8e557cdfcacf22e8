"""Random weights for a benchmark: for this project, and converted for its peers."""

from __future__ import annotations

import argparse
import os

import tensorflow.compat.v1 as tf

from albert.convert.convert import ConversionOptions, to_onnx, to_transformers
from albert.modeling import read_config
from albert.tasks.glue.head import make_head
from albert.tasks.squad.head import make_v1_head
from benchmarks.ask import tokenizer_of_size, write_random_weights
from benchmarks.parts.program import BEST, ONNX, TRANSFORMERS


def write_models(flags: argparse.Namespace) -> None:
    """Writes random weights, for this project, `transformers` and, if wanted, ONNX Runtime."""
    tf.logging.set_verbosity(tf.logging.ERROR)
    os.makedirs(flags.model)
    config = config_of(flags)
    write_random_weights(flags.model, config, head_of(flags))
    # It is not read, but a model without a tokenizer cannot be converted.
    tokenizer = os.path.join(flags.model, "spm.model")
    with open(tokenizer, "wb") as file:
        file.write(tokenizer_of_size(config.vocab_size))
    options = ConversionOptions(config_file=flags.config, spm_model_file=tokenizer)
    checkpoint = os.path.join(flags.model, BEST)
    to_transformers(checkpoint, os.path.join(flags.model, TRANSFORMERS), options)
    if flags.onnx:
        from benchmarks.parts.onnx_models import write_variants

        to_onnx(checkpoint, os.path.join(flags.model, ONNX), options)
        write_variants(flags.model, flags.onnx.split(","))


def config_of(flags: argparse.Namespace):
    """Returns the configuration, without dropout."""
    config = read_config(flags.config)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    return config


def head_of(flags: argparse.Namespace):
    """Returns the head for the data, without dropout."""
    return make_head(2, 0.0) if flags.data == "mrpc" else make_v1_head(mask_padding_in_loss=True)
