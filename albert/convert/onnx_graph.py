"""A model in ONNX (https://onnx.ai): the graph of an encoder and its head, with their weights.

Letters in shape comments: B batch, S sequence length, H hidden size.
"""

from __future__ import annotations

import os

from albert.checkpoints import transformers_names as names
from albert.convert.convert import Source, begin
from albert.convert.settings import ConvertSettings
from albert.core.errors import UserError
from albert.core.files import temporary_folder
from albert.onnx.graph import FLOAT, Graph, Output, add_encoder, save_model

MODEL = "model.onnx"


def to_onnx(path: str, target: str, settings: ConvertSettings) -> list[str]:
    """Converts a checkpoint to a new folder with `MODEL`; returns the names of its outputs.

    Configuration, tokenizer and arguments are as in `to_transformers`. The model's inputs are
    `albert.onnx.graph.INPUTS`, with any batch size and any length. Its outputs by the head:

      SQuAD 1.1: `start_logits` and `end_logits`, [B, S]
      classification: `logits` [B, labels]
      named entities: `logits` [B, S, tags]
      otherwise: `last_hidden_state` [B, S, H] and, if the checkpoint has a pooler, `pooler_output`

    Raises the errors of `to_transformers`, and a `UserError` for a head of SQuAD 2.0, for an
    activation that ONNX lacks, and for a model that is too large.
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
        raise UserError(
            f"{source.checkpoint} has a head for SQuAD 2.0, which cannot be written to ONNX; for a "
            "SavedModel, repeat the command of its training with --export_dir"
        )
    pooled = ""
    if names.POOLER in source.parts:
        pooler = "bert.pooler.dense" if source.family == "bert" else "albert.pooler"
        first = graph.add("Gather", states, graph.constant(0), axis=1)
        pooled = graph.add("Tanh", graph.dense(first, pooler))
    if names.CLASSIFIER in source.parts:
        return {"logits": (graph.dense(pooled, "classifier"), FLOAT, ["batch", "label"])}
    state_shape = [*token_shape, source.config.hidden_size]
    outputs: dict[str, Output] = {"last_hidden_state": (states, FLOAT, state_shape)}
    if pooled:
        outputs["pooler_output"] = (pooled, FLOAT, ["batch", state_shape[-1]])
    return outputs
