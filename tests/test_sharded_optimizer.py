"""Two workers' steps with and without a sharded optimizer: their results and traffic."""

import json
import sys
from typing import NamedTuple

import numpy as np
import pytest

from tests.helpers.forking import ROOT
from tests.helpers.running import run_as_workers
from tests.programs.sharded_steps import LAYERS, WAYS, Found, Way

pytestmark = pytest.mark.usefixtures("mpirun")
WORKERS = 2
SMALL = [way for way in WAYS if not way.scaled]


class Trained(NamedTuple):
    """Final weights and observations, by way."""

    weights: dict[Way, dict[str, np.ndarray]]
    observed: dict[Way, Found]


@pytest.fixture(scope="module")
def ways(tmp_path_factory) -> Trained:
    folder = tmp_path_factory.mktemp("ways")
    program = str(ROOT / "tests/programs/sharded_steps.py")
    result = run_as_workers(WORKERS, [sys.executable, program, str(folder)])
    assert result.returncode == 0, result.stderr
    observed = json.loads((folder / "found.json").read_text())
    weights = {way: dict(np.load(folder / f"{way}.npz")) for way in WAYS}
    return Trained(weights, {way: Found(*observed[str(way)]) for way in WAYS})


def assert_same_weights(weights: dict[Way, dict[str, np.ndarray]], way: Way) -> None:
    expected = weights[way._replace(shard="none")]
    assert weights[way].keys() == expected.keys()
    for name, value in weights[way].items():
        message = f"{way} {name}"
        # Shards are not updated by the same operation, and Adam magnifies what it rounds
        # differently where gradients are nearly 0: up to a thousandth of a step.
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=5e-6, err_msg=message)


@pytest.mark.each_python
def test_weights_equal_those_of_an_unsharded_optimizer(ways):
    """The gradients are so large that they are clipped, by their norm over all shards."""
    weights = ways.weights
    for way in (way for way in SMALL if way.wire == "float32"):
        assert_same_weights(weights, way)


def test_an_overflow_on_one_worker_skips_the_step_on_all(ways):
    """Weights and moments stay the same, and the scale is halved, however the state is sharded."""
    weights, observed = ways
    for way in (way for way in WAYS if way.scaled):
        # In the fifth step.
        expected = [*[[2.0**15, False]] * 4, [2.0**14, True], [2.0**14, False]]
        # The first step has a learning rate of 0, but changes the moments.
        assert observed[way].scales == [expected] * WORKERS, way
        assert_same_weights(weights, way)


def test_float16_costs_no_more_precision_when_sharded(ways):
    weights, observed = ways

    def error(shard: str) -> float:
        expected, rounded = (weights[Way(shard, 2, wire=wire)] for wire in ("float32", "float16"))
        return np.sqrt(sum(np.sum((rounded[name] - expected[name]) ** 2) for name in expected))

    assert 0 < error("gradients") < 1.5 * error("none")
    plain, rounded = (observed[Way("none", 2, wire=wire)].losses for wire in ("float32", "float16"))
    np.testing.assert_allclose(rounded, plain, rtol=0, atol=5e-3)


def test_traffic_is_what_the_documentation_says(ways):
    """The formula is in docs/benchmark-log.md; negotiation and metrics of a step take a few KB."""
    weights, observed = ways
    for way in SMALL:
        wire = {"float32": 4, "float16": 2}[way.wire]
        bytes_per_value = {"none": 2 * wire, "state": wire + 4, "gradients": way.batches * wire + 4}
        values = sum(value.size for value in weights[way].values())
        expected = bytes_per_value[way.shard] * values * (WORKERS - 1) / WORKERS
        assert observed[way].sent == pytest.approx(expected, rel=0.02), way


def test_sending_overlaps_the_backward_pass(ways):
    """The last layer's gradients are sent first, those of the embeddings last."""
    for way in (Way("state", 1, "lamb"), Way("gradients", 2)):
        parts = sorted(set(ways.observed[way].waits_for))
        assert len(parts) > LAYERS, way
        assert parts[0] < parts[-1] / 2, way
