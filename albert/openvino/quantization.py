"""Quantization of an encoder to int8, with NNCF (https://github.com/openvinotoolkit/nncf).

Products have weights of one scale per output and activations of one scale per tensor, which are
calibrated on real inputs. `GROUPS` of products can stay in floating point.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterable

import numpy as np

from albert.onnx.graph import INPUTS
from albert.openvino.encoder import Recording, write_model

# Patterns of the names of operations, which end with the names of their weights, see `Graph.add`.
GROUPS = {
    "attention scores and contexts": r"MatMul_\d+",
    "query, key and value": r".*(query|key|value)\.weight",
    "attention output": r".*attention(\.output)?\.dense\.weight",
    "feed-forward input": r".*(intermediate\.dense|ffn)\.weight",
    "feed-forward output": r".*(ffn_output|layer\.\d+\.output\.dense)\.weight",
}


def write_quantized(
    path: str, recording: Recording, count: int, seed: int, kept: Iterable[str] = ()
) -> None:
    """Writes an encoder in int8.

    Args:
      path: of the new file, which ends with ".xml"; its weights go to a file next to it.
      recording: the encoder in float32, and batches of inputs.
      count: the number of sequences for the calibration, chosen at random with `seed`.
      kept: names of `GROUPS` that stay in floating point.
    """
    # An optional package, which takes long to import.
    import nncf

    logging.getLogger("nncf").setLevel(logging.ERROR)
    calibration = nncf.Dataset(_sequences(recording, count, seed))
    ignored = nncf.IgnoredScope(patterns=[GROUPS[name] for name in kept], validate=False)
    # NNCF shows its progress on standard output.
    with contextlib.redirect_stdout(sys.stderr):
        quantized = nncf.quantize(
            recording.model,
            calibration,
            subset_size=count,
            model_type=nncf.ModelType.TRANSFORMER,
            # Activations of both signs need an offset.
            preset=nncf.QuantizationPreset.MIXED,
            ignored_scope=ignored,
        )
    write_model(quantized, path)


def _sequences(recording: Recording, count: int, seed: int) -> list[dict[str, np.ndarray]]:
    """Returns single sequences without padding."""
    rows = [(batch, row) for batch in recording.batches for row in range(len(batch[INPUTS[0]]))]
    chosen = np.random.default_rng(seed).permutation(len(rows))[:count]
    sequences = []
    for batch, row in (rows[number] for number in chosen):
        length = int(batch[INPUTS[1]][row].sum())
        sequences.append({name: values[row : row + 1, :length] for name, values in batch.items()})
    return sequences
