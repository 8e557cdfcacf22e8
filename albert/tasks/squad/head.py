"""The heads for SQuAD 1.1 and 2.0.

The head for 1.1 computes a start score and an end score for every token. The head for 2.0 computes
probable starts, ends conditioned on each start, and answerability. It is the reference's head,
which comes from XLNet (https://arxiv.org/abs/1906.08237). Letters in shape comments: B batch, S
sequence length, H hidden size, K starts, M ends per start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from albert import modeling
from albert.prediction.model import Encode, Head, HeadOutput

# The score of a position that cannot be in an answer, far below all others; finite in bfloat16 too.
_OUTSIDE_SCORE = -1e30


def answer_scores(states: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns start and end scores, float32 [B, S] each, from the encoder's states [B, S, H]."""
    batch_size, seq_length, hidden_size = modeling.get_shape_list(states, expected_rank=3)
    weights = tf.get_variable(
        "cls/squad/output_weights", [2, hidden_size], initializer=modeling.create_initializer(0.02)
    )
    bias = tf.get_variable("cls/squad/output_bias", [2], initializer=tf.zeros_initializer())
    scores = tf.matmul(tf.reshape(states, [-1, hidden_size]), weights, transpose_b=True)
    scores = tf.reshape(tf.nn.bias_add(scores, bias), [batch_size, seq_length, 2])
    return scores[:, :, 0], scores[:, :, 1]


def make_v1_head(
    mask_padding_in_loss: bool, num_best: int | None = 20, may_abstain: bool = False
) -> Head:
    """Returns the head for SQuAD 1.1.

    The loss is the mean cross-entropy of start and end. As in the reference, the softmax covers all
    positions, so the loss depends on the amount of padding, unless `mask_padding_in_loss` excludes
    padding. Predictions are the best starts and ends with their positions, [B, K] each; of equal
    scores, the first position comes first. K is `num_best`, or the length if that is smaller. An
    exported model outputs the scores of all positions, and so do predictions if `num_best` is None.
    With `may_abstain`, [CLS] means no answer, as in `transformers`: scores are log probabilities
    over it and the text, and predictions have its own, `null_log_prob` [B].
    """

    def head(encode: Encode, features: Mapping[str, tf.Tensor], is_training: bool) -> HeadOutput:
        start_logits, end_logits = answer_scores(encode(features).get_sequence_output())
        if mask_padding_in_loss:
            padding = 1.0 - tf.cast(features["input_mask"], tf.float32)
            start_logits += padding * _OUTSIDE_SCORE
            end_logits += padding * _OUTSIDE_SCORE
        null = {}
        if may_abstain:
            outside = tf.cast(outside_answers(features), tf.float32) * _OUTSIDE_SCORE
            start_logits, end_logits = map(
                tf.nn.log_softmax, (start_logits + outside, end_logits + outside)
            )
            null = {"null_log_prob": start_logits[:, 0] + end_logits[:, 0]}
        start_logits = tf.identity(start_logits, name="start_logits")
        end_logits = tf.identity(end_logits, name="end_logits")
        ids = _ids(features)
        scores = {"start_log_prob": start_logits, "end_log_prob": end_logits, **ids}
        if not is_training:
            best = {**_best(scores, num_best), **null, **ids} if num_best else scores
            return HeadOutput(None, best, scores)
        loss = 0.5 * (
            _cross_entropy(start_logits, features["start_positions"])
            + _cross_entropy(end_logits, features["end_positions"])
        )
        return HeadOutput(loss, scores)

    return head


def _ids(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {key: features[key] for key in ("unique_ids",) if key in features}


def _best(scores: Mapping[str, tf.Tensor], count: int) -> dict[str, tf.Tensor]:
    """Returns the best positions for scores [B, S], named as in the head for SQuAD 2.0."""
    outputs: dict[str, tf.Tensor] = {}
    for name in ("start", "end"):
        logits = scores[f"{name}_log_prob"]
        values, positions = tf.nn.top_k(logits, tf.minimum(count, tf.shape(logits)[1]))
        outputs |= {f"{name}_top_log_probs": values, f"{name}_top_index": positions}
    return outputs


def _cross_entropy(logits: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Returns the mean cross-entropy of scores [B, S] at true positions [B]."""
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=positions, logits=logits)
    )


class V2Options(NamedTuple):
    """Options of the head for SQuAD 2.0.

    `start_n_top` and `end_n_top` are K and M, the numbers of starts, and of ends per start, in
    predictions. `dropout` is the rate in the answerability layer in training.
    """

    start_n_top: int = 5
    end_n_top: int = 5
    dropout: float = 0.1
    initializer_range: float = 0.02


def make_v2_head(options: V2Options) -> Head:
    """Returns the head for SQuAD 2.0; see `answer_outputs`.

    The loss is half the sum of the mean cross-entropies of start, end and answerability.
    """

    def head(encode: Encode, features: Mapping[str, tf.Tensor], is_training: bool) -> HeadOutput:
        states, p_mask = encode(features).get_sequence_output(), outside_answers(features)
        if is_training:
            outputs = answer_outputs(states, p_mask, options, features["start_positions"])
            return HeadOutput(_loss(outputs, features), {})
        return HeadOutput(None, {**answer_outputs(states, p_mask, options), **_ids(features)})

    return head


def outside_answers(features: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Returns [B, S], 1 where no answer can be: question, [SEP] and padding, but not [CLS].

    This is `p_mask` if the features have it.
    """
    if "p_mask" in features:
        return features["p_mask"]
    segments = features["segment_ids"]
    # The last token of segment 1 is [SEP].
    in_text = segments[:, 1:] * tf.pad(segments[:, 2:], [[0, 0], [0, 1]])
    return tf.concat([tf.zeros_like(segments[:, :1]), 1 - in_text], axis=1)


def answer_outputs(
    states: tf.Tensor,
    p_mask: tf.Tensor,
    options: V2Options,
    start_positions: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """Builds the head on the encoder's states.

    Args:
      states: float32 [B, S, H].
      p_mask: [B, S], 1 where no answer can be.
      start_positions: int32 [B], the true starts in training, otherwise None.

    Returns:
      `cls_logits` [B], the log-odds that there is no answer. In training, also `start_log_probs`
      and `end_log_probs` [B, S], the latter conditioned on the true start. Otherwise, also the most
      probable starts, `start_top_log_probs` and `start_top_index` [B, K], and for each of them the
      most probable ends, `end_top_log_probs` and `end_top_index` [B, K * M]. K and M are at most S.
    """
    start_logits = _start_logits(states, p_mask, options)
    start_log_probs = tf.nn.log_softmax(start_logits)
    is_training = start_positions is not None
    no_answer = {"cls_logits": _no_answer_logits(states, start_logits, options, is_training)}
    if start_positions is not None:
        end_logits = _end_logits(states, p_mask, start_positions[:, tf.newaxis], options)
        end_log_probs = tf.nn.log_softmax(end_logits[:, 0])
        return {"start_log_probs": start_log_probs, "end_log_probs": end_log_probs, **no_answer}
    length = tf.shape(p_mask)[1]
    start_scores, starts = tf.nn.top_k(start_log_probs, tf.minimum(options.start_n_top, length))
    end_log_probs = tf.nn.log_softmax(_end_logits(states, p_mask, starts, options))
    end_scores, ends = tf.nn.top_k(end_log_probs, tf.minimum(options.end_n_top, length))
    pairs = [tf.shape(starts)[0], tf.size(ends[0])]
    return {
        "start_top_log_probs": start_scores,
        "start_top_index": starts,
        "end_top_log_probs": tf.reshape(end_scores, pairs),
        "end_top_index": tf.reshape(ends, pairs),
        **no_answer,
    }


def _start_logits(states: tf.Tensor, p_mask: tf.Tensor, options: V2Options) -> tf.Tensor:
    """Returns the scores of starts, [B, S]."""
    with tf.variable_scope("start_logits"):
        logits = modeling.dense(modeling.reshape_to_matrix(states), 1, options.initializer_range)
    return _inside(tf.reshape(logits, tf.shape(p_mask)), p_mask)


def _end_logits(
    states: tf.Tensor, p_mask: tf.Tensor, starts: tf.Tensor, options: V2Options
) -> tf.Tensor:
    """Returns the scores of ends for each of the starts [B, K], as [B, K, S]."""
    size = states.shape[-1]
    with tf.variable_scope("end_logits"):
        with tf.variable_scope("dense_0"):
            kernel = tf.get_variable(
                "kernel",
                [2 * size, size],
                initializer=modeling.create_initializer(options.initializer_range),
            )
            bias = tf.get_variable("bias", [size], initializer=tf.zeros_initializer())
        # A dense layer on the concatenated states of an end and a start. The products for ends and
        # for starts are computed separately, and only once instead of for every pair.
        end_products = modeling.einsum_via_matmul(states, kernel[:size], 1)
        chosen = tf.gather(states, starts, batch_dims=1)
        start_products = modeling.einsum_via_matmul(chosen, kernel[size:], 1) + bias
        hidden = tf.tanh(end_products[:, tf.newaxis] + start_products[:, :, tf.newaxis])
        hidden = modeling.layer_norm(hidden, "LayerNorm")
        logits = modeling.dense(
            modeling.reshape_to_matrix(hidden), 1, options.initializer_range, name="dense_1"
        )
    logits = tf.reshape(logits, tf.shape(hidden)[:3])
    return _inside(logits, p_mask[:, tf.newaxis])


def _no_answer_logits(
    states: tf.Tensor, start_logits: tf.Tensor, options: V2Options, is_training: bool
) -> tf.Tensor:
    """Returns the log-odds [B] that there is no answer, from [CLS] and the expected start."""
    expected = tf.matmul(tf.nn.softmax(start_logits)[:, tf.newaxis], states)[:, 0]
    with tf.variable_scope("answer_class"):
        both = tf.concat([expected, states[:, 0]], axis=-1)
        hidden = modeling.dense(both, states.shape[-1], options.initializer_range, name="dense_0")
        hidden = tf.tanh(hidden)
        if is_training:
            hidden = modeling.dropout(hidden, options.dropout, site="answer_class")
        with tf.variable_scope("dense_1"):
            kernel = tf.get_variable(
                "kernel",
                [states.shape[-1], 1],
                initializer=modeling.create_initializer(options.initializer_range),
            )
        return tf.matmul(hidden, kernel)[:, 0]


def _inside(logits: tf.Tensor, p_mask: tf.Tensor) -> tf.Tensor:
    """Returns scores with very low ones at positions where no answer can be."""
    outside = tf.cast(p_mask, tf.float32)
    return logits * (1.0 - outside) + outside * _OUTSIDE_SCORE


def _loss(outputs: Mapping[str, tf.Tensor], features: Mapping[str, tf.Tensor]) -> tf.Tensor:
    position_losses = [
        -tf.gather(outputs[f"{name}_log_probs"], features[f"{name}_positions"], batch_dims=1)
        for name in ("start", "end")
    ]
    answerability_loss = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.cast(features["is_impossible"], tf.float32), logits=outputs["cls_logits"]
    )
    return 0.5 * tf.add_n([tf.reduce_mean(loss) for loss in (*position_losses, answerability_loss)])
