"""Times answers next to the forward pass of ONNX Runtime on a sequence of the same length."""

from __future__ import annotations

import contextlib
import http.client
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert.checkpoints.checkpoint_files import BEST
from albert.checkpoints.model_folder import ASSETS, CONFIG, SPM_MODEL
from albert.convert.convert import MODEL, ConversionOptions, to_onnx
from albert.inference import load_model
from albert.inference.squad import QuestionAnswerer
from benchmarks.parts import onnx_runtime
from benchmarks.parts.program import SEQUENCES
from benchmarks.parts.server import ask, served

# The bound, as a multiple, and the ways for which it holds.
MOST = 1.1
_ANSWER, _ENGINE = "answer", "answer, --engine=onnxruntime"
_REQUEST = "request, --engine=onnxruntime"
_BOUND = (_ENGINE, _REQUEST)
_PEER = "ONNX Runtime, "
# Timed calls of a way in a round, after one that does not count: the way before it was another.
_CALLS = 3
# A way of answering a text, which takes the number of the call.
Way = Callable[[int], object]


class Times(NamedTuple):
    """Medians of the rounds: seconds, and their ratio to the fastest setting of ONNX Runtime on
    all cores; and whether this is within the bound, if any."""

    seconds: float
    times: float
    holds: bool


class Answers:
    """Ways to answer a question: of this project, and the forward pass of ONNX Runtime."""

    def __init__(self, folder: str, model: QuestionAnswerer, port: int, question: str):
        """Converts and loads the model.

        Args:
          folder: of the model.
          model: the loaded model.
          port: of a server of the model.
          question: the question to ask.
        """
        target = os.path.join(folder, "onnx")
        files = (os.path.join(folder, ASSETS, n) for n in (CONFIG, SPM_MODEL))
        to_onnx(os.path.join(folder, BEST), target, ConversionOptions(*files))
        path, cores = os.path.join(target, MODEL), len(os.sched_getaffinity(0))
        settings = {
            f"threads: {cores}": {"threads": cores},
            f"threads: {cores}, no spinning": {"threads": cores, "spins": False},
            "threads: 1": {"threads": 1},
        }
        self._sessions = {
            f"{_PEER}{name}": onnx_runtime.open_session(path, options)
            for name, options in settings.items()
        }
        self._bases = [*self._sessions][:2]
        self._models = {_ANSWER: model, _ENGINE: load_model(folder, "onnxruntime")}
        self._question, self._port = question, port

    def compare(self, text: str, length: int, rounds: int) -> dict[str, Times]:
        """Times all ways in rounds.

        Args:
          text: a text that makes one window of this length.
          length: tokens of the window.
          rounds: number of rounds.
        """
        with self._ways(text, length) as ways:
            timed = [
                {name: median_seconds(way, number) for name, way in ways.items()}
                for number in range(rounds)
            ]
        return summary(timed, self._bases)

    @contextlib.contextmanager
    def _ways(self, text: str, length: int) -> Iterator[dict[str, Way]]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        batch = {name: np.zeros([1, length], np.int32) for name in SEQUENCES}
        batch["input_mask"] += 1

        def direct(model: QuestionAnswerer) -> Way:
            return lambda n: model.answer(self._question, [f"{n} {text}"])

        def forward(session: object) -> Way:
            return lambda _: onnx_runtime.predict(session, batch)

        with contextlib.closing(connection):
            yield {
                **{name: direct(model) for name, model in self._models.items()},
                _REQUEST: lambda n: ask(connection, self._question, f"{n} {text}"),
                **{name: forward(session) for name, session in self._sessions.items()},
            }


def compare(
    folder: str, model: QuestionAnswerer, question: str, texts: Mapping[int, str], rounds: int
) -> dict[int, dict[str, Times]]:
    """Returns the times of all ways, for texts by their number of tokens."""
    with served(folder, "--max_batch=8", "--engine=onnxruntime") as port:
        answers = Answers(folder, model, port, question)
        return {length: answers.compare(text, length, rounds) for length, text in texts.items()}


def median_seconds(way: Way, round_number: int) -> float:
    """Returns the seconds of a call, the median of several with different numbers."""
    seconds = []
    for call in range(_CALLS + 1):
        began = time.perf_counter()
        way(10 * round_number + call)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:])


def summary(rounds: list[dict[str, float]], bases: Sequence[str]) -> dict[str, Times]:
    """Returns medians of the rounds.

    Args:
      rounds: for each round, the seconds of all ways.
      bases: ways to compare with, of which the fastest one counts.
    """
    seconds = {name: statistics.median(timed[name] for timed in rounds) for name in rounds[0]}
    base = min(bases, key=seconds.__getitem__)
    found = {}
    for name in seconds:
        times = statistics.median(timed[name] / timed[base] for timed in rounds)
        found[name] = Times(seconds[name], times, times <= MOST or name not in _BOUND)
    return found
