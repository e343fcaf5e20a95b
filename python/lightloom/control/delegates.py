"""Which GPU sends the bytes of a pair of servers, and over which NIC.

A delegate is the GPU next to the NIC that ends a circuit: the other GPUs of its server hand their
bytes for the far server to it over NVSwitch (MixNet, section 5.3). Pairs without circuits use the
EPS from every GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lightloom.control.failures import EpsRelay
from lightloom.control.port_map import NicPair
from lightloom.schedule.carrying import gpu_of_nic


class Delegate(NamedTuple):
    """Over which NIC, and by which GPU, one server sends to another."""

    nic: int
    gpu: int
    peer_nic: int
    peer_gpu: int


def delegates_of(
    circuits: Iterable[NicPair], nics_per_server: Mapping[int, int], gpus: int
) -> dict[tuple[int, int], tuple[Delegate, ...]]:
    """Return the delegates of each ordered pair of servers that has circuits.

    Parameters
    ----------
    circuits
        The circuits that carry traffic.
    nics_per_server
        Optical NICs of each server.
    gpus
        GPUs of every server.
    """
    delegates: dict[tuple[int, int], list[Delegate]] = {}
    for server, nic, peer, peer_nic in sorted(circuits):
        gpu = gpu_of_nic(nic, nics_per_server[server], gpus)
        peer_gpu = gpu_of_nic(peer_nic, nics_per_server[peer], gpus)
        delegates.setdefault((server, peer), []).append(Delegate(nic, gpu, peer_nic, peer_gpu))
        delegates.setdefault((peer, server), []).append(Delegate(peer_nic, peer_gpu, nic, gpu))
    return {pair: tuple(delegates) for pair, delegates in sorted(delegates.items())}


def delegates_as_json(
    delegates: Mapping[tuple[int, int], tuple[Delegate, ...]], relays: Iterable[EpsRelay] = ()
) -> dict[str, object]:
    """Return delegates as plain values: rows of pairs with circuits; all other pairs use the EPS.

    A server in ``relays`` has no EPS NIC: it sends what has no circuit to its peer, which passes
    it on.
    """
    return {
        "circuits": [
            [source, destination, [list(delegate) for delegate in pairs]]
            for (source, destination), pairs in delegates.items()
        ],
        "otherwise": "eps",
        "relays": [list(relay) for relay in relays],
    }
