"""Fixed circuits less those of failed NICs: what crossed them takes the shortest ways left.

NIC i of a server has the i-th of its circuits in the order in which a topology lists them.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from lightloom.errors import FabricError
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.network import Direct
from lightloom.schedule import Failures


def without_failed(
    direct: Direct, failures: Failures, cluster: Cluster, what: str, ends: str = "NICs"
) -> Direct:
    """Return the circuits that failed NICs of servers leave; failed servers are replaced.

    Parameters
    ----------
    direct, failures, cluster
        All circuits, what has failed, and the servers.
    what, ends
        Fabric, and what circuits end at, for error messages.

    Raises
    ------
    FabricError
        If a part is not there, or no way is left between two servers that talk.
    """
    for server, nic in (*failures.nics, *((server, 0) for server in failures.servers)):
        if server >= cluster.servers or nic >= cluster.nics_per_server:
            raise FabricError(
                f"{what}: failed: {failures.parts}: expected parts of {cluster.servers}"
                f" servers with {cluster.nics_per_server} {ends}"
            )
    nics = sorted({nic for nic in failures.nics if nic[0] not in failures.servers})
    return _without_nics(direct, nics, what)


def _without_nics(direct: Direct, nics: Iterable[tuple[int, int]], what: str) -> Direct:
    """The circuits that are left, and routes for every pair that had some.

    One that has no circuit changes nothing.
    """
    counts = {(a, b): count for a, b, count in direct.circuits.tolist()}
    lost: dict[tuple[int, int], set[int]] = {}
    for server, nic in nics:
        circuit = _circuit(direct, server, nic)
        if circuit is not None:
            lost.setdefault(circuit[0], set()).add(circuit[1])
    if not lost:
        return direct
    for pair, which in lost.items():
        counts[pair] -= len(which)
    left = {pair: count for pair, count in counts.items() if count}
    joined: dict[int, list[int]] = {}
    for a, b in left:
        joined.setdefault(a, []).append(b)
        joined.setdefault(b, []).append(a)
    routes = _routes(direct, joined, what)
    ends = np.cumsum([0, *map(len, routes)], dtype=np.uint32)
    return dataclasses.replace(
        direct,
        circuits=np.array([(a, b, n) for (a, b), n in left.items()], np.uint32).reshape(-1, 3),
        route_offsets=ends,
        route_servers=np.array([server for route in routes for server in route], np.uint32),
    )


def _circuit(direct: Direct, server: int, nic: int) -> tuple[tuple[int, int], int] | None:
    """The pair that a NIC's circuit joins, and which of its circuits it is; none where it idles."""
    before = 0
    for a, b, count in direct.circuits.tolist():
        if server in (a, b):
            if nic < before + count:
                return (a, b), nic - before
            before += count
    return None


def _routes(direct: Direct, joined: dict[int, list[int]], what: str) -> list[Sequence[int]]:
    """Routes that are still whole; one that is found anew for each pair that would have none."""
    offsets, servers = direct.route_offsets.tolist(), direct.route_servers.tolist()
    all_routes = [servers[begin:end] for begin, end in pairwise(offsets)]
    whole: list[Sequence[int]] = [
        route for route in all_routes if all(b in joined.get(a, ()) for a, b in pairwise(route))
    ]
    served = {(route[0], route[-1]) for route in whole}
    for route in all_routes:
        pair = (route[0], route[-1])
        if pair not in served:
            served.add(pair)
            whole.append(_shortest(joined, *pair, what))
    return whole


def _shortest(joined: dict[int, list[int]], start: int, end: int, what: str) -> list[int]:
    came_from, waiting = {start: start}, deque([start])
    while waiting and end not in came_from:
        here = waiting.popleft()
        for there in joined.get(here, ()):
            if there not in came_from:
                came_from[there] = here
                waiting.append(there)
    if end not in came_from:
        raise FabricError(
            f"{what}: NICs have failed: no way is left from server {start} to server {end};"
            f" name server:{start}, which a spare one replaces"
        )
    route = [end]
    while route[-1] != start:
        route.append(came_from[route[-1]])
    return route[::-1]
