"""The encoder and its tokenizer, with the reference's arguments."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from albert import modeling, tokenization
from albert.reference_api.common import refuse


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

    Args:
      albert_config: an `AlbertConfig` or a `BertConfig`.
      is_training: whether to apply dropout.
      input_ids, input_mask, segment_ids: int32 [B, S].
      use_one_hot_embeddings, use_einsum: see `modeling.Encoder`.
      hub_module: must be None; anything else raises a `ValueError`.
    """
    refuse(hub_module=hub_module)
    inputs = input_ids, input_mask, segment_ids
    model = modeling.Encoder(
        albert_config, is_training, *inputs, use_one_hot_embeddings, use_einsum
    )
    return model.get_pooled_output(), model.get_sequence_output()


def create_vocab(
    vocab_file, do_lower_case, spm_model_file, hub_module
) -> tokenization.FullTokenizer:
    """Returns the tokenizer for a vocabulary or a SentencePiece model.

    `hub_module` must be None; anything else raises a `ValueError`.
    """
    refuse(hub_module=hub_module)
    return tokenization.FullTokenizer.from_scratch(vocab_file, do_lower_case, spm_model_file)
