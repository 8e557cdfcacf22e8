"""A server of few files answers beside connections that are idle, half-sent, or large."""

from __future__ import annotations

from tests.faults import server_load


def test_a_well_behaved_client_is_answered(exported):
    with (
        server_load.served(str(exported), files=128) as server,
        server_load.connections(server.port, 80, b""),
        server_load.connections(server.port, 80, server_load.HALF),
        server_load.connections(server.port, 2, server_load.post_of("word " * 500_000)),
    ):
        assert len(server_load.times(server.port, 0.0)) == 100
    # No more than that there were not enough files.
    assert len(server.log) <= 1, server.log
