"""A search for the products of a model that can be in int8 without losing its score.

Products in int8 have weights of one scale per output and activations of one scale per tensor, which
NNCF (https://github.com/openvinotoolkit/nncf) calibrates on real inputs.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from albert import api
from albert.checkpoints.checkpoint_files import BEST, copy_checkpoint, resolve_checkpoint
from albert.checkpoints.model_folder import ASSETS, QUANTIZED, Assets, ModelFolder, write_assets
from albert.core.errors import UserError, reporting
from albert.core.log import LOG
from albert.devices import machine
from albert.onnx.graph import INPUTS
from albert.openvino.encoder import Recording, compile_model, read_quantized, recording, write_model
from albert.records import DEV
from albert.settings.engines import OPENVINO
from albert.tasks import TASKS, completed
from albert.training import metrics

_SECONDS = 3.0  # of a measurement of speed
# Sequences that calibrate the scales of activations, and the seed of their choice.
_SEQUENCES, _SEED = 200, 1
# Patterns of the names of operations, which end with the names of their weights, see `Graph.add`.
GROUPS = {
    "attention scores and contexts": r"MatMul_\d+",
    "query, key and value": r".*(query|key|value)\.weight",
    "attention output": r".*attention(\.output)?\.dense\.weight",
    "feed-forward input": r".*(intermediate\.dense|ffn)\.weight",
    "feed-forward output": r".*(ffn_output|layer\.\d+\.output\.dense)\.weight",
}


class Scored(NamedTuple):
    """A row of the table: the encoder's products, the score in points, and sequences per second."""

    products: str
    score: float
    speed: float


class Trial:
    """A copy of a model, whose encoder in int8 changes until the score is good enough.

    Attributes:
      folder: that of the copy.
      score_name: the name of the score that counts.
    """

    def __init__(self, path: str, work: str, data: str, max_loss: float):
        """Copies a model to a folder; raises a `UserError` if it cannot be quantized.

        `data` is what it is scored on, and `max_loss` what it may lose, in points.
        """
        model = completed(ModelFolder.find(path))
        about = model.description
        if "task" not in about:
            raise UserError(f"{path} has a pretrained model without a head; fine-tune it first")
        entry = next(entry for entry in TASKS if entry.kind == about["task"])
        flags = entry.load("task").input_flags(entry.load("settings")())
        self._data = {flags[DEV]: os.path.abspath(data)}
        self._scale = 1.0 if entry.command == "squad" else 100.0
        self._work, self._max_loss, self.score_name = work, max_loss, "score"
        self._recording = Recording()
        self.folder = os.path.join(work, "model")
        self._encoder = os.path.join(self.folder, ASSETS, QUANTIZED)
        write_assets(self.folder, Assets(about, model.files))
        checkpoint = resolve_checkpoint(model.files["init_checkpoint"])
        with reporting(f"{self.folder} cannot be written"):
            copy_checkpoint(checkpoint, os.path.join(self.folder, BEST))

    def search(self) -> list[Scored]:
        """Scores the model in floating point, then in int8 with more and more products in floating
        point, until the loss is small enough; the encoder of the last row is in the folder."""
        with recording() as self._recording:
            exact = self._score("float32", "float32")
        # Batches are computed two at a time, so their order varies.
        self._recording.batches.sort(key=lambda batch: batch["input_ids"].tobytes())
        rows = [exact]
        if machine.find_processor().bfloat16()[0]:
            rows.append(self._score("bfloat16", "bfloat16"))
        rows.append(self._quantized([]))
        if self.is_enough(exact, rows[-1]):
            return rows
        gains = {group: self._quantized([group]) for group in GROUPS}
        best = sorted(GROUPS, key=lambda group: -gains[group].score)
        for kept in itertools.accumulate([group] for group in best):
            rows.append(self._quantized(kept))
            if self.is_enough(exact, rows[-1]):
                break
        return rows

    def is_enough(self, exact: Scored, scored: Scored) -> bool:
        """Returns whether a score is close enough to the exact one."""
        return exact.score - scored.score <= self._max_loss

    def _quantized(self, kept: list[str]) -> Scored:
        """Writes and scores an encoder in int8, except for some groups of products."""
        write_quantized(self._encoder, self._recording, kept)
        return self._score(" except ".join(["int8", *filter(None, [", ".join(kept)])]), "float32")

    def _score(self, products: str, precision: str) -> Scored:
        output = tempfile.mkdtemp(dir=self._work)
        chosen: dict[str, Any] = {"engine": OPENVINO, "precision": precision, **self._data}
        api.evaluate(self.folder, output, verbose=False, **chosen)
        if (best := metrics.deciding_score(output)) is None:
            (data,) = self._data.values()
            raise UserError(f"{data} has no labels to score the model with")
        self.score_name, value = best
        scored = Scored(products, self._scale * value, self._speed(precision))
        LOG.info("%s: %s %.2f", products, self.score_name, scored.score)
        return scored

    def _speed(self, precision: str) -> float:
        """Returns the sequences per second of the encoder on recorded inputs."""
        encoder = self._encoder
        model = read_quantized(encoder) if os.path.exists(encoder) else self._recording.model
        (request,), count = compile_model(model, precision), 0
        # Batches of all lengths, each of which is slower the first time.
        batches = self._recording.batches[:: len(self._recording.batches) // 8 + 1]
        for batch in batches:
            request.infer(batch)
        began = time.perf_counter()
        for batch in itertools.cycle(batches):
            request.infer(batch)
            count += len(batch["input_ids"])
            if (seconds := time.perf_counter() - began) > _SECONDS:
                break
        return count / seconds


def write_quantized(path: str, recording: Recording, kept: Iterable[str] = ()) -> None:
    """Writes an encoder in int8, for `path` see `write_model`; `kept` `GROUPS` are in float32.

    `recording` has the encoder in float32, and batches of inputs.
    """
    # An optional package, which takes long to import.
    import nncf

    logging.getLogger("nncf").setLevel(logging.ERROR)
    calibration = nncf.Dataset(_sequences(recording))
    ignored = nncf.IgnoredScope(patterns=[GROUPS[name] for name in kept], validate=False)
    # NNCF shows its progress on standard output.
    with contextlib.redirect_stdout(sys.stderr):
        quantized = nncf.quantize(
            recording.model,
            calibration,
            subset_size=_SEQUENCES,
            model_type=nncf.ModelType.TRANSFORMER,
            # Activations of both signs need an offset.
            preset=nncf.QuantizationPreset.MIXED,
            ignored_scope=ignored,
        )
    write_model(quantized, path)


def _sequences(recording: Recording) -> list[dict[str, np.ndarray]]:
    """Returns single sequences without padding, chosen at random."""
    rows = [(batch, row) for batch in recording.batches for row in range(len(batch[INPUTS[0]]))]
    chosen = np.random.default_rng(_SEED).permutation(len(rows))[:_SEQUENCES]
    sequences = []
    for batch, row in (rows[number] for number in chosen):
        length = int(batch[INPUTS[1]][row].sum())
        sequences.append({name: values[row : row + 1, :length] for name, values in batch.items()})
    return sequences
