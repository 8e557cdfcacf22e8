"""The binding of workers to cores close to their cards."""

import os
from unittest import mock

import pytest

from albert.devices.host import bind_to_card
from tests.helpers.files import write_files

# Two nodes of four physical cores with two threads each. Cards 0 to 2 are at node 1, 3 at node 0.
NODES = {0: "0-3,8-11", 1: "4-7,12-15"}
CARDS = {"3b:00.0": 1, "5e:00.0": 1, "86:00.0": 1, "af:00.0": 0}
TOOLS = {
    "gpu": ("nvidia-smi", "{number}, GPU-{number}a, 00000000:{address}"),
    "hpu": ("hl-smi", "{number}, 0000:{address}"),
}


class Host:
    def __init__(self, root, monkeypatch, as_worker):
        self.root, self.as_worker, self.bound = root, as_worker, set(range(16))
        for node, cores in NODES.items():
            self.write(f"sys/devices/system/node/node{node}/cpulist", cores)
        for address, node in CARDS.items():
            self.write(f"sys/bus/pci/devices/0000:{address}/numa_node", str(node))
        for tool, line in TOOLS.values():
            lines = (line.format(number=n, address=a.upper()) for n, a in enumerate(CARDS))
            self.write(f"bin/{tool}", "#!/bin/sh\ncat <<END\n{}\nEND\n".format("\n".join(lines)))
        monkeypatch.setenv("PATH", f"{root}/bin", prepend=os.pathsep)
        monkeypatch.setattr(os, "cpu_count", lambda: 16)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: self.bound)
        bind = lambda pid, cores: setattr(self, "bound", set(cores))  # noqa: E731
        monkeypatch.setattr(os, "sched_setaffinity", bind)

    def write(self, name, text):
        write_files(self.root, {name: text + "\n"})

    def cores_of(self, rank, workers=4, kind="gpu"):
        self.as_worker(rank, workers)
        bind_to_card(kind, str(self.root))
        return self.bound


@pytest.fixture
def host(tmp_path, monkeypatch, as_worker) -> Host:
    for variable in ("CUDA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES"):
        monkeypatch.delenv(variable, raising=False)
    return Host(tmp_path, monkeypatch, as_worker)


@pytest.mark.parametrize("kind", ["gpu", "hpu"])
@pytest.mark.parametrize(
    ("rank", "cores"),
    [(0, {4, 7, 14}), (1, {5, 12, 15}), (2, {6, 13}), (3, {0, 1, 2, 3, 8, 9, 10, 11})],
)
def test_workers_share_the_cores_of_their_cards_node(host, kind, rank, cores):
    assert host.cores_of(rank, kind=kind) == cores


@pytest.mark.parametrize(
    ("kind", "variable", "value"),
    [
        ("gpu", "CUDA_VISIBLE_DEVICES", "3,0"),
        ("gpu", "CUDA_VISIBLE_DEVICES", "GPU-3a,GPU-0a"),
        ("hpu", "HABANA_VISIBLE_MODULES", "3,0"),
    ],
)
def test_a_variable_chooses_the_cards(host, monkeypatch, kind, variable, value):
    monkeypatch.setenv(variable, value)
    assert host.cores_of(0, 2, kind) == {0, 1, 2, 3, 8, 9, 10, 11}


def test_a_binding_to_the_right_node_stays(host):
    host.bound = {4, 12}
    assert host.cores_of(0) == {4, 12}
    host.bound = {0, 8}
    assert host.cores_of(0) == {4, 7, 14}


def test_unknown_nodes_and_single_workers_change_nothing(host):
    everything = set(range(16))
    assert host.cores_of(0, workers=1) == everything
    # The kernel does not know the node of a card in a virtual machine.
    host.write("sys/bus/pci/devices/0000:5e:00.0/numa_node", "-1")
    assert host.cores_of(0) == everything
    host.write("bin/nvidia-smi", "#!/bin/sh\nexit 9")
    assert host.cores_of(0) == everything


def test_cores_that_are_not_allowed_are_named(host, monkeypatch, log):
    host.bound = {0, 8}
    refuse = mock.Mock(side_effect=OSError(22, "Invalid argument"))
    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    assert host.cores_of(1) == {0, 8}
    assert log() == [
        "This worker cannot use the cores of NUMA node 1, that of card 1; have the launcher bind "
        "it to some of them: 4,5,6,7,12,13,14,15"
    ]
