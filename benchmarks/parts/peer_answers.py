"""Times answers next to the forward pass of OpenVINO on a sequence of the same length."""

import contextlib
import http.client
import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from albert.checkpoints.checkpoint_files import BEST
from albert.checkpoints.model_folder import ASSETS, CONFIG, SPM_MODEL
from albert.convert.onnx_graph import MODEL, to_onnx
from albert.convert.settings import ConvertSettings
from albert.devices import machine
from albert.inference import load_model
from albert.inference.squad import QuestionAnswerer
from albert.settings.engines import OPENVINO
from benchmarks.parts import onnx_runtime, openvino_runtime
from benchmarks.parts.harness import seconds_of
from benchmarks.parts.models import QUESTION
from benchmarks.parts.program import SEQUENCES
from benchmarks.parts.server import HOST, ask, served

_ENGINE, _PEER = f"--engine={OPENVINO}", "OpenVINO"
# Timed calls of a way in a round, after one that does not count: the way before it was another.
_CALLS = 3
# A way of answering a text, which takes the number of the call.
Way = Callable[[int], object]


class Times(NamedTuple):
    """Medians of the rounds: seconds, and their ratio to OpenVINO in the same precision."""

    seconds: float
    times: float


def compare(
    folder: str, texts: Mapping[int, str], rounds: int
) -> dict[tuple[int, str], dict[str, Times]]:
    """Returns the times of all ways, for texts that make one window, by its number of tokens and
    the precision; `folder` has the model."""
    target = os.path.join(folder, "onnx")
    config, pieces = (os.path.join(folder, ASSETS, name) for name in (CONFIG, SPM_MODEL))
    files = ConvertSettings(albert_config_file=config, spm_model_file=pieces)
    to_onnx(os.path.join(folder, BEST), target, files)
    types = ["float32", *(["bfloat16"] if machine.find_processor().bfloat16()[0] else [])]
    return {
        (length, dtype): times
        for dtype in types
        for length, times in _compare(folder, os.path.join(target, MODEL), dtype, texts, rounds)
    }


def _compare(
    folder: str, onnx: str, dtype: str, texts: Mapping[int, str], rounds: int
) -> Iterator[tuple[int, dict[str, Times]]]:
    """Yields the times of all ways for each text, with its number of tokens."""
    models = {
        "answer": load_model(folder, precision=dtype),
        f"answer, {_ENGINE}": load_model(folder, OPENVINO, dtype),
    }
    request = openvino_runtime.compile_model(onnx, dtype).create_infer_request()
    session = onnx_runtime.open_session(onnx, len(os.sched_getaffinity(0)))
    flags = "--max_batch=8", _ENGINE, f"--precision={dtype}", "--max_seconds=3600"
    with (
        served(folder, *flags) as port,
        contextlib.closing(http.client.HTTPConnection(HOST, port)) as connection,
    ):
        for length, text in texts.items():
            batch = {name: np.zeros([1, length], np.int32) for name in SEQUENCES}
            batch["input_mask"] += 1
            ways = {name: _direct(loaded, text) for name, loaded in models.items()}
            ways[f"request, {_ENGINE}"] = _request(connection, text)
            ways[_PEER] = lambda _, batch=batch: openvino_runtime.predict(request, batch)
            if dtype == "float32":
                ways["ONNX Runtime"] = lambda _, batch=batch: onnx_runtime.predict(session, batch)
            timed = [
                {name: median_seconds(way, number) for name, way in ways.items()}
                for number in range(rounds)
            ]
            yield length, summary(timed, _PEER)


def _direct(model: QuestionAnswerer, text: str) -> Way:
    return lambda n: model.answer(QUESTION, [f"{n} {text}"])


def _request(connection: http.client.HTTPConnection, text: str) -> Way:
    return lambda n: ask(connection, f"{n} {text}")


def median_seconds(way: Way, round_number: int) -> float:
    """Returns the seconds of a call, the median of several with different numbers."""
    numbers = range(10 * round_number, 10 * round_number + _CALLS + 1)
    return statistics.median([seconds_of(lambda n=n: way(n)) for n in numbers][1:])


def summary(rounds: list[dict[str, float]], base: str) -> dict[str, Times]:
    """Returns medians of the rounds, which have the seconds of all ways; `base` is that of the
    ratios."""
    seconds = {name: statistics.median(timed[name] for timed in rounds) for name in rounds[0]}
    return {
        name: Times(median, statistics.median(timed[name] / timed[base] for timed in rounds))
        for name, median in seconds.items()
    }
