"""A model in ONNX (https://onnx.ai): the graph of an encoder and its head, with their weights.

Letters in shape comments: B batch, S sequence length, H hidden size, K starts, M ends per start.
"""

from __future__ import annotations

import os

import numpy as np

from albert.checkpoints import transformers_names as names
from albert.convert.convert import Source, begin
from albert.convert.settings import ConvertSettings
from albert.core.files import temporary_folder
from albert.onnx.graph import FLOAT, INPUTS, INT32, Graph, Output, add_encoder, save_model

MODEL = "model.onnx"
# As in `albert.tasks.squad.head`.
_OUTSIDE_SCORE = -1e30
_BEST = 5  # starts and ends per start of SQuAD 2.0, the defaults of the reference


def to_onnx(path: str, target: str, settings: ConvertSettings) -> list[str]:
    """Converts a checkpoint to a new folder with `MODEL`; returns the names of its outputs.

    Configuration, tokenizer and arguments are as in `to_transformers`. The model's inputs are
    `INPUTS`, with any batch size and any length. Its outputs by the head in the checkpoint:

      SQuAD 1.1: `start_logits` and `end_logits`, [B, S]
      SQuAD 2.0: the outputs of this project's export, see `albert.tasks.squad.head`
      classification: `logits` [B, labels]
      named entities: `logits` [B, S, tags]
      otherwise: `last_hidden_state` [B, S, H] and, if the checkpoint has a pooler, `pooler_output`

    Raises the errors of `to_transformers`, and a `UserError` if ONNX lacks the activation, or the
    model is too large.
    """
    with temporary_folder(target) as folder:
        source, _ = begin(path, folder, settings)
        graph = Graph(source.values)
        outputs = _outputs(graph, add_encoder(graph, source.config), source)
        save_model(graph.build(outputs), os.path.join(folder, MODEL))
    return list(outputs)


def _outputs(graph: Graph, states: str, source: Source) -> dict[str, Output]:
    """Adds the head of a checkpoint; returns the outputs by name."""
    token_shape: list[str | int] = ["batch", "sequence"]
    if names.SQUAD_V1 in source.parts:
        logits = graph.dense(states, "qa_outputs")
        halves = graph.add_all("Split", 2, logits, axis=2, num_outputs=2)
        starts, ends = (graph.add("Squeeze", half, graph.constant([2])) for half in halves)
        return {
            "start_logits": (starts, FLOAT, token_shape),
            "end_logits": (ends, FLOAT, token_shape),
        }
    if names.TOKENS in source.parts:
        tags = graph.dense(states, "classifier")
        return {"logits": (tags, FLOAT, [*token_shape, "label"])}
    if names.SQUAD_V2 in source.parts:
        return _squad_v2(graph, states)
    pooled = ""
    if names.POOLER in source.parts:
        pooler = "bert.pooler.dense" if source.family == "bert" else "albert.pooler"
        pooled = graph.add("Tanh", graph.dense(_first_token(graph, states), pooler))
    if names.CLASSIFIER in source.parts:
        return {"logits": (graph.dense(pooled, "classifier"), FLOAT, ["batch", "label"])}
    state_shape = [*token_shape, source.config.hidden_size]
    outputs: dict[str, Output] = {"last_hidden_state": (states, FLOAT, state_shape)}
    if pooled:
        outputs["pooler_output"] = (pooled, FLOAT, ["batch", state_shape[-1]])
    return outputs


def _first_token(graph: Graph, states: str) -> str:
    """Returns the states [B, H] of the first tokens."""
    return graph.add("Gather", states, graph.constant(0), axis=1)


def _squad_v2(graph: Graph, states: str) -> dict[str, Output]:
    """Adds the head of SQuAD 2.0 for prediction, see `albert.tasks.squad.head.answer_outputs`."""
    outside = _outside_answers(graph)
    starts = graph.add("Squeeze", graph.dense(states, "start_logits.dense"), graph.constant([2]))
    starts = _inside(graph, starts, outside)
    # The log-odds that there is no answer, from the expected start and [CLS].
    weights = graph.add("Unsqueeze", graph.add("Softmax", starts, axis=-1), graph.constant([1]))
    expected = graph.add("Squeeze", graph.add("MatMul", weights, states), graph.constant([1]))
    both = graph.add("Concat", expected, _first_token(graph, states), axis=-1)
    no_answer = graph.add("Tanh", graph.dense(both, "answer_class.dense_0"))
    no_answer = graph.add("MatMul", no_answer, graph.weight("answer_class.dense_1.weight"))
    no_answer = graph.add("Squeeze", no_answer, graph.constant([1]))
    # The best starts, and for each of them the scores of ends, [B, K, S].
    length = graph.add("Shape", INPUTS[0], start=1, end=2)
    count = graph.add("Min", graph.constant([_BEST]), length)
    log_probs = graph.add("LogSoftmax", starts, axis=-1)
    start_scores, start_index = graph.add_all("TopK", 2, log_probs, count)
    indices = graph.add("Unsqueeze", start_index, graph.constant([2]))
    chosen = graph.add("GatherND", states, indices, batch_dims=1)
    # As in TensorFlow, the halves of the kernel for ends and for starts are multiplied separately.
    kernel = graph.weight("end_logits.dense_0.weight")
    halves = graph.add_all("Split", 2, kernel, axis=0, num_outputs=2)
    end_part, start_part = (
        graph.add("MatMul", x, half) for x, half in zip((states, chosen), halves, strict=True)
    )
    start_part = graph.add("Add", start_part, graph.weight("end_logits.dense_0.bias"))
    axes = ((end_part, 1), (start_part, 2))
    pairs = [graph.add("Unsqueeze", x, graph.constant([axis])) for x, axis in axes]
    ends = graph.norm(graph.add("Tanh", graph.add("Add", *pairs)), "end_logits.LayerNorm")
    ends = graph.add("Squeeze", graph.dense(ends, "end_logits.dense_1"), graph.constant([3]))
    ends = _inside(graph, ends, graph.add("Unsqueeze", outside, graph.constant([1])))
    best_ends = graph.add_all("TopK", 2, graph.add("LogSoftmax", ends, axis=-1), count)
    # A 0 keeps the batch, -1 is K * M.
    end_scores, end_index = (graph.add("Reshape", x, graph.constant([0, -1])) for x in best_ends)
    integers = {
        name: graph.add("Cast", x, to=INT32)
        for name, x in (("start_top_index", start_index), ("end_top_index", end_index))
    }
    scores = {"start_top_log_probs": start_scores, "end_top_log_probs": end_scores}
    outputs: dict[str, Output] = {"cls_logits": (no_answer, FLOAT, ["batch"])}
    for kind, tensors in ((FLOAT, scores), (INT32, integers)):
        for name, tensor in tensors.items():
            last = "starts" if name.startswith("start") else "ends"
            outputs[name] = (tensor, kind, ["batch", last])
    return outputs


def _outside_answers(graph: Graph) -> str:
    """Returns [B, S], 1 where no answer can be, see `albert.tasks.squad.head.outside_answers`."""
    segments = graph.add("Cast", INPUTS[2], to=FLOAT)
    zero, to_end = graph.constant(0, np.float32), ([1], [np.iinfo(np.int64).max], [1])
    # Without the first token, and with a zero at the end.
    shifted = graph.add("Slice", segments, *map(graph.constant, to_end))
    shifted = graph.add("Pad", shifted, graph.constant([0, 0, 0, 1]), zero)
    # The last token of segment 1 is [SEP]. The first token of a text is after the question.
    in_text = graph.add("Mul", segments, shifted)
    first = graph.add("Slice", segments, *(graph.constant([n]) for n in (0, 1, 1)))
    rest = graph.add("Slice", in_text, *map(graph.constant, to_end))
    outside = graph.add("Sub", graph.constant(1, np.float32), rest)
    return graph.add("Concat", graph.add("Mul", first, zero), outside, axis=1)


def _inside(graph: Graph, logits: str, outside: str) -> str:
    """Returns scores with very low ones at positions where no answer can be."""
    inside = graph.add("Sub", graph.constant(1, np.float32), outside)
    low = graph.add("Mul", outside, graph.constant(_OUTSIDE_SCORE, np.float32))
    return graph.add("Add", graph.add("Mul", logits, inside), low)
