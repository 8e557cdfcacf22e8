"""Shared parts of the reference's task modules: unused arguments, encoder, and batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from albert import modeling, tokenization
from albert.optimization import OptimizerOptions
from albert.prediction.model import Head, ModelOptions
from albert.records.batches import Data
from albert.training.model_fn import make_model_fn

# Of the order of training data.
_SEED = 12345
_REASONS = {
    "use_tpu": "this project does not run on TPU",
    "hub_module": "hub modules are not supported; pass init_checkpoint instead",
}


def refuse(**arguments: Any) -> None:
    """Raises a `ValueError` for the first unsupported argument that has a true value."""
    for name, value in arguments.items():
        if value:
            raise ValueError(f"{name}={value!r}: {_REASONS[name]}")


def input_fn_of(
    input_file: str | Sequence[str],
    spec: Mapping[str, Any],
    batch_size: int,
    is_training: bool,
    drop_remainder: bool,
) -> Callable[[dict], tf.data.Dataset]:
    """Returns an `input_fn` for record files; `spec` is a specification for `tf.io.parse_example`.

    In training, it shuffles and repeats the records endlessly. Otherwise, it makes one pass in the
    file's order; `drop_remainder` drops a last batch that is not full.
    """
    files = [input_file] if isinstance(input_file, str) else list(input_file)
    seed = _SEED if is_training else None
    make = Data(files, spec, 0, 0).input_fn(batch_size, seed, drop_remainder=drop_remainder)
    return lambda params: make()


def model_fn_of(
    config: modeling.EncoderConfig,
    head: Head,
    init_checkpoint: str | None,
    schedule: tuple[float, int, int],
    flags: tuple[bool, str | None, bool, bool],
    optimizer: str = "adamw",
) -> Callable:
    """Returns the `model_fn` of an `Estimator`: encoder, head and, for training, optimizer.

    `schedule` has a builder's `learning_rate`, `num_train_steps` and `num_warmup_steps`. `flags`
    are its `use_tpu` and `hub_module`, which must be false and None, or a `ValueError` is raised,
    and its `use_one_hot_embeddings` and `use_einsum`, see `modeling.Encoder`.
    """
    use_tpu, hub_module, use_one_hot_embeddings, use_einsum = flags
    refuse(use_tpu=use_tpu, hub_module=hub_module)
    options = ModelOptions(
        OptimizerOptions(*schedule, optimizer),
        init_checkpoint,
        use_one_hot_embeddings=use_one_hot_embeddings,
        use_einsum=use_einsum,
    )
    return make_model_fn(config, head, options)


def create_albert(
    albert_config,
    is_training,
    input_ids,
    input_mask,
    segment_ids,
    use_one_hot_embeddings,
    use_einsum,
    hub_module,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the pooled output [B, H] and the sequence output [B, S, H] of an encoder.

    The ids, mask and segments are int32 [B, S]; for the others, see `modeling.Encoder`. A
    `hub_module` raises a `ValueError`.
    """
    refuse(hub_module=hub_module)
    inputs, flags = (input_ids, input_mask, segment_ids), (use_one_hot_embeddings, use_einsum)
    model = modeling.Encoder(albert_config, is_training, *inputs, *flags)
    return model.get_pooled_output(), model.get_sequence_output()


def create_vocab(
    vocab_file, do_lower_case, spm_model_file, hub_module
) -> tokenization.FullTokenizer:
    """Returns the tokenizer of a vocabulary or a SentencePiece model; `hub_module` must be None."""
    refuse(hub_module=hub_module)
    return tokenization.FullTokenizer.from_scratch(vocab_file, do_lower_case, spm_model_file)
