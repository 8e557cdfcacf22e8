"""Times answers next to the forward pass of ONNX Runtime on a sequence of the same length."""

import contextlib
import http.client
import os
import statistics
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from albert.checkpoints.checkpoint_files import BEST
from albert.checkpoints.model_folder import ASSETS, CONFIG, SPM_MODEL
from albert.convert.convert import MODEL, to_onnx
from albert.convert.settings import ConvertSettings
from albert.inference import load_model
from albert.inference.squad import QuestionAnswerer
from benchmarks.parts import onnx_runtime
from benchmarks.parts.harness import seconds_of
from benchmarks.parts.models import QUESTION
from benchmarks.parts.program import SEQUENCES
from benchmarks.parts.server import HOST, ask, served

# Timed calls of a way in a round, after one that does not count: the way before it was another.
_CALLS = 3
# A way of answering a text, which takes the number of the call.
Way = Callable[[int], object]


class Times(NamedTuple):
    """Medians of the rounds: seconds, and their ratio to the fastest setting of ONNX Runtime on
    all cores."""

    seconds: float
    times: float


def compare(
    folder: str, model: QuestionAnswerer, texts: Mapping[int, str], rounds: int
) -> dict[int, dict[str, Times]]:
    """Returns the times of all ways, for texts that make one window, by its number of tokens.

    The model is in the folder.
    """
    target, cores = os.path.join(folder, "onnx"), len(os.sched_getaffinity(0))
    config, pieces = (os.path.join(folder, ASSETS, name) for name in (CONFIG, SPM_MODEL))
    files = ConvertSettings(albert_config_file=config, spm_model_file=pieces)
    to_onnx(os.path.join(folder, BEST), target, files)
    settings = {
        f"threads: {cores}": {"threads": cores},
        f"threads: {cores}, no spinning": {"threads": cores, "spins": False},
        "threads: 1": {"threads": 1},
    }
    sessions = {
        f"ONNX Runtime, {name}": onnx_runtime.open_session(os.path.join(target, MODEL), options)
        for name, options in settings.items()
    }
    models = {"answer": model, "answer, --engine=onnxruntime": load_model(folder, "onnxruntime")}
    compared = {}
    flags = "--max_batch=8", "--engine=onnxruntime", "--max_seconds=3600"
    with (
        served(folder, *flags) as server,
        contextlib.closing(http.client.HTTPConnection(HOST, server.port)) as connection,
    ):
        for length, text in texts.items():
            ways = {name: _direct(loaded, text) for name, loaded in models.items()}
            ways["request, --engine=onnxruntime"] = _request(connection, text)
            ways |= {name: _forward(session, length) for name, session in sessions.items()}
            timed = [
                {name: median_seconds(way, number) for name, way in ways.items()}
                for number in range(rounds)
            ]
            compared[length] = summary(timed, [*sessions][:2])
    return compared


def _direct(model: QuestionAnswerer, text: str) -> Way:
    return lambda n: model.answer(QUESTION, [f"{n} {text}"])


def _request(connection: http.client.HTTPConnection, text: str) -> Way:
    return lambda n: ask(connection, f"{n} {text}")


def _forward(session: object, length: int) -> Way:
    batch = {name: np.zeros([1, length], np.int32) for name in SEQUENCES}
    batch["input_mask"] += 1
    return lambda _: onnx_runtime.predict(session, batch)


def median_seconds(way: Way, round_number: int) -> float:
    """Returns the seconds of a call, the median of several with different numbers."""
    numbers = range(10 * round_number, 10 * round_number + _CALLS + 1)
    return statistics.median([seconds_of(lambda n=n: way(n)) for n in numbers][1:])


def summary(rounds: list[dict[str, float]], bases: list[str]) -> dict[str, Times]:
    """Returns medians of the rounds, which have the seconds of all ways; the fastest of `bases`
    counts for the ratios."""
    seconds = {name: statistics.median(timed[name] for timed in rounds) for name in rounds[0]}
    base = min(bases, key=seconds.__getitem__)
    return {
        name: Times(median, statistics.median(timed[name] / timed[base] for timed in rounds))
        for name, median in seconds.items()
    }
