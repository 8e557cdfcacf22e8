"""A server of few files answers beside connections that are idle, half-sent, or large."""

from __future__ import annotations

import numpy as np
import pytest

from tests.faults import server_load


@pytest.fixture(scope="module")
def server(exported):
    with server_load.served(str(exported), files=128) as server:
        yield server


@pytest.mark.parametrize(
    "load",
    [
        lambda port: server_load.connections(port, 150, b""),
        lambda port: server_load.connections(port, 150, server_load.HALF),
        lambda port: server_load.large_bodies(port, 3),
    ],
    ids=["idle", "half-sent", "large"],
)
def test_a_well_behaved_client_is_answered(server, load):
    with load(server.port):
        # Without the server's care these take from seconds to half a minute.
        seconds = server_load.times(server.port, 0.0)
    assert np.percentile(seconds, 99) < 2.0
    assert len(server.log) <= 1
