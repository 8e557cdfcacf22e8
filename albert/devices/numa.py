"""Binds each of a host's workers to cores that are close to its card."""

from __future__ import annotations

import os
import re

import tensorflow.compat.v1 as tf

from albert.devices import host
from albert.distributed import collectives

# For each kind of device, the command that lists cards as lines such as "0, 00000000:3B:00.0": the
# names that a variable may select them by, and the PCI address; and that variable.
_CARDS = {
    "gpu": (
        ("nvidia-smi", "--query-gpu=index,uuid,pci.bus_id", "--format=csv,noheader"),
        "CUDA_VISIBLE_DEVICES",
    ),
    "hpu": (("hl-smi", "-Q", "module_id,bus_id", "-f", "csv,noheader"), "HABANA_VISIBLE_MODULES"),
}


def bind(kind: str, root: str = "/") -> None:
    """Binds this worker to its share of the cores of its card's NUMA node.

    Does nothing for a single worker, with one node or unknown ones, and if the launcher has bound
    this worker to cores of that node. `kind` is "gpu" or "hpu", and `root` the folder of `sys`.
    """
    rank, workers = collectives.local_rank(), collectives.local_size()
    cards = _nodes_of_cards(kind, root) if workers > 1 else []
    if not cards:
        return
    nodes = [cards[worker % len(cards)] for worker in range(workers)]
    core_list = os.path.join(root, f"sys/devices/system/node/node{nodes[rank]}/cpulist")
    cores = host.parse_cores(host.read(core_list))
    bound = os.sched_getaffinity(0)
    if not cores or cores >= set(range(os.cpu_count() or 1)) or bound <= cores:
        return
    # Workers with cards at the same node take turns. If their number divides that of the physical
    # cores, the two threads of a core, whose numbers are far apart, have the same worker.
    neighbors = [worker for worker in range(workers) if nodes[worker] == nodes[rank]]
    own = sorted(cores)[neighbors.index(rank) :: len(neighbors)] or cores
    card = f"NUMA node {nodes[rank]}, that of card {rank % len(cards)}"
    try:
        os.sched_setaffinity(0, own)
    except OSError:
        # A container or batch system does not allow these cores.
        tf.logging.warning(
            "This worker cannot use the cores of %s; have the launcher bind it to some of them: %s",
            *(card, ",".join(map(str, sorted(cores)))),
        )
        return
    tf.logging.info("Bound to %d cores of %s", len(os.sched_getaffinity(0)), card)


def _nodes_of_cards(kind: str, root: str) -> list[int]:
    """Returns the NUMA nodes of the cards that this process may use; [] if one is unknown."""
    command, variable = _CARDS[kind]
    lines = [line.replace(" ", "").split(",") for line in host.run_tool(command).splitlines()]
    addresses = {name: address for *names, address in lines for name in names}
    # All cards unless the variable selects some.
    chosen = os.environ.get(variable) or ",".join(names[0] for names in lines)
    candidates = [_node_of(addresses.get(name, ""), root) for name in chosen.split(",")]
    nodes = [node for node in candidates if node is not None]
    return nodes if len(nodes) == len(candidates) else []


def _node_of(address: str, root: str) -> int | None:
    """Returns the NUMA node of a PCI address; None if it is unknown."""
    match = re.fullmatch(r"(?:[\da-f]*([\da-f]{4}):)?([\da-f]{2}:[\da-f]{2}\.\d)", address.lower())
    if not match:
        return None
    device = f"{match[1] or '0000'}:{match[2]}"
    node = host.read(os.path.join(root, "sys/bus/pci/devices", device, "numa_node")).strip()
    # The kernel writes -1 for a device without a node.
    return int(node) if node.isdecimal() else None
