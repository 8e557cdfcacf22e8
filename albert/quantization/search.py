"""A search for the products of a model that can be in int8 without losing its score."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from typing import Any, NamedTuple, Protocol

from albert import api
from albert.checkpoints.checkpoint_files import (
    BEST,
    as_files,
    copy_checkpoint,
    resolve_checkpoint,
)
from albert.checkpoints.model_folder import (
    ASSETS,
    CONFIG,
    QUANTIZED,
    TOKENIZERS,
    Assets,
    ModelFolder,
    write_assets,
)
from albert.core.errors import UserError
from albert.core.log import LOG
from albert.devices import machine
from albert.openvino.encoder import Recording, compile_model, read_quantized, recording
from albert.openvino.quantization import GROUPS, write_quantized
from albert.records import DEV
from albert.settings.engines import OPENVINO
from albert.tasks import TASKS
from albert.training import metrics

_SECONDS = 3.0  # of a measurement of speed
# Sequences that calibrate the scales of activations, and the seed of their choice.
_SEQUENCES, _SEED = 200, 1


class Options(Protocol):
    """The settings of `albert quantize`."""

    data: str
    max_loss: float


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

    def __init__(self, path: str, work: str, options: Options):
        """Copies a model to a folder; raises a `UserError` if it cannot be quantized."""
        model = ModelFolder.find(path)
        about = model.description
        if "task" not in about:
            raise UserError(f"{path} has a pretrained model without a head; fine-tune it first")
        entry = next(entry for entry in TASKS if entry.kind == about["task"])
        flags = entry.load("task").input_flags(entry.load("settings")())
        self._data = {flags[DEV]: os.path.abspath(options.data)}
        self._scale = 1.0 if entry.command == "squad" else 100.0
        self._work, self._options, self.score_name = work, options, "score"
        self._recording = Recording()
        self.folder = os.path.join(work, "model")
        names = {"albert_config_file": CONFIG, **TOKENIZERS}
        files = {names[flag]: file for flag, file in model.files.items() if flag in names}
        write_assets(self.folder, Assets(about, files))
        with as_files(resolve_checkpoint(model.files["init_checkpoint"])) as prefix:
            copy_checkpoint(prefix, os.path.join(self.folder, BEST))

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
        return exact.score - scored.score <= self._options.max_loss

    def _quantized(self, kept: list[str]) -> Scored:
        """Writes and scores an encoder in int8, except for some groups of products."""
        path = os.path.join(self.folder, ASSETS, QUANTIZED)
        write_quantized(path, self._recording, _SEQUENCES, _SEED, kept)
        return self._score(" except ".join(["int8", *filter(None, [", ".join(kept)])]), "float32")

    def _score(self, products: str, precision: str) -> Scored:
        output = tempfile.mkdtemp(dir=self._work)
        chosen: dict[str, Any] = {"engine": OPENVINO, "precision": precision, **self._data}
        api.evaluate(self.folder, output, verbose=False, **chosen)
        if (best := metrics.deciding_score(output)) is None:
            raise UserError(f"{self._options.data} has no labels to score the model with")
        self.score_name, value = best
        scored = Scored(products, self._scale * value, self._speed(precision))
        LOG.info("%s: %s %.2f", products, self.score_name, scored.score)
        return scored

    def _speed(self, precision: str) -> float:
        """Returns the sequences per second of the encoder on recorded inputs."""
        path = os.path.join(self.folder, ASSETS, QUANTIZED)
        model = read_quantized(path) if os.path.exists(path) else self._recording.model
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
