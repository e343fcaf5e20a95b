"""The exact linear program of two-hop relaying, solved by HiGHS.

Least T such that every pair's bytes are divided among its paths and no resource carries more than
its capacity times T. Resources are the circuits from server to server, the EPS NICs of each server
(sending and receiving) and its NVSwitch (staging); a relay's memory is a fixed limit. The duals of
the capacities are the prices of a lower bound that needs no trust in the solver: see
``crates/schedule/src/relay/dual.rs``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, hstack, vstack

from lightloom.errors import InputError
from lightloom.schedule.core_requests import RoutingRequest
from lightloom.units import to_bps

_CIRCUIT, _EPS, _CIRCUIT_CIRCUIT, _CIRCUIT_EPS, _EPS_CIRCUIT = range(5)

#: status of ``linprog``
_INFEASIBLE = 2


@dataclass(frozen=True)
class Solved:
    """A routing, and the prices that prove how good it is.

    Attributes
    ----------
    paths
        Rows of source, relay (-1 for none), destination, kind.
    size_bytes
        Bytes of each path, ``(len(paths),)``, not whole.
    arc_prices, server_prices
        Duals of circuits, ``(n, n)``, and of EPS out, EPS in and staging, ``(3, n)``.
    """

    paths: npt.NDArray[np.int32]
    size_bytes: npt.NDArray[np.float64]
    arc_prices: npt.NDArray[np.float64]
    server_prices: npt.NDArray[np.float64]


def solve_program(request: RoutingRequest) -> Solved:
    """Solve the program.

    Raises
    ------
    InputError
        If some pair has no path at all, or the relays' memory does not suffice to give it one.
    """
    demand, circuits, charges = request.demand, request.circuits, request.charges
    n = len(demand)
    pairs = [(int(a), int(b)) for a, b in np.argwhere(demand)]
    paths, pair_of = _paths(pairs, circuits, has_eps=request.eps_bps > 0)
    for row in np.flatnonzero(np.bincount(pair_of, minlength=len(pairs)) == 0):
        raise InputError(f"demand: no path leads from server {pairs[row][0]} to {pairs[row][1]}")
    # Sizes in units of the mean keep the solver's tolerances meaningful.
    wanted = np.array([float(demand[pair]) for pair in pairs])
    scale = float(wanted.mean()) if pairs else 1.0
    uses = _uses(paths, n)
    capacity = _capacities(request)
    limiting = np.flatnonzero(np.isfinite(capacity) & (np.diff(uses.indptr) > 0))
    above = hstack([uses[limiting], csr_array(-capacity[limiting, None])])
    right = np.zeros(len(limiting))
    if charges.memory_limit_bytes is not None:
        above = vstack([above, hstack([uses[-n:], csr_array((n, 1))])])
        right = np.concatenate([right, np.full(n, charges.memory_limit_bytes / scale)])
    path_sums = (np.ones(len(paths)), (pair_of, np.arange(len(paths))))
    solver: Any = linprog  # its type stubs know no sparse matrices
    solved = solver(
        np.append(np.zeros(len(paths)), 1.0),
        A_ub=above,
        b_ub=right,
        A_eq=coo_array(path_sums, (len(pairs), len(paths) + 1)),
        b_eq=wanted / scale,
        method="highs",
    )
    if solved.status == _INFEASIBLE:
        raise InputError("memory_limit_bytes: relays cannot hold what has no other path")
    assert solved.status == 0, solved.message
    prices = np.zeros(len(capacity))
    prices[limiting] = np.maximum(0.0, -solved.ineqlin.marginals[: len(limiting)])
    return Solved(
        paths=paths,
        size_bytes=np.maximum(0.0, solved.x[:-1]) * scale,
        arc_prices=prices[: n * n].reshape(n, n),
        server_prices=prices[n * n :].reshape(3, n),
    )


def _paths(
    pairs: list[tuple[int, int]], circuits: npt.NDArray[np.uint16], has_eps: bool
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return rows of source, relay, destination, kind, and the pair of each row."""
    rows: list[tuple[int, int, int, int]] = []
    pair_of: list[int] = []
    for index, (source, destination) in enumerate(pairs):
        begin = len(rows)
        if circuits[source, destination]:
            rows.append((source, -1, destination, _CIRCUIT))
        if has_eps:
            rows.append((source, -1, destination, _EPS))
        for relay in _places(circuits[source]):
            if relay == destination:
                continue
            if circuits[relay, destination]:
                rows.append((source, relay, destination, _CIRCUIT_CIRCUIT))
            if has_eps:
                rows.append((source, relay, destination, _CIRCUIT_EPS))
        if has_eps:
            relays = [relay for relay in _places(circuits[:, destination]) if relay != source]
            rows.extend((source, relay, destination, _EPS_CIRCUIT) for relay in relays)
        pair_of.extend([index] * (len(rows) - begin))
    return np.array(rows, dtype=np.int32).reshape(-1, 4), np.array(pair_of, dtype=np.int64)


def _places(row: npt.NDArray[np.uint16]) -> list[int]:
    return [int(place) for place in np.flatnonzero(row)]


def _uses(paths: npt.NDArray[np.int32], n: int) -> csr_array:
    """Return which resources (rows) each path (column) uses."""
    source, relay, destination, kind = paths.T.astype(np.int64)
    eps_out, eps_in, staging = n * n, n * n + n, n * n + 2 * n
    relayed = relay >= 0
    used = [
        (kind == _CIRCUIT, source * n + destination),
        (np.isin(kind, [_CIRCUIT_CIRCUIT, _CIRCUIT_EPS]), source * n + relay),
        (np.isin(kind, [_CIRCUIT_CIRCUIT, _EPS_CIRCUIT]), relay * n + destination),
        (np.isin(kind, [_EPS, _EPS_CIRCUIT]), eps_out + source),
        (kind == _CIRCUIT_EPS, eps_out + relay),
        (np.isin(kind, [_EPS, _CIRCUIT_EPS]), eps_in + destination),
        (kind == _EPS_CIRCUIT, eps_in + relay),
        (relayed, staging + relay),
    ]
    rows = np.concatenate([resource[mask] for mask, resource in used])
    columns = np.concatenate([np.flatnonzero(mask) for mask, _ in used])
    ones = np.ones(len(rows))
    return csr_array(coo_array((ones, (rows, columns)), (n * n + 3 * n, len(paths))))


def _capacities(request: RoutingRequest) -> npt.NDArray[np.float64]:
    """Return capacities in units of one circuit, in the order of the rows of :func:`_uses`."""
    n = len(request.circuits)
    gbps = request.charges.nvswitch_gbps
    staging = np.inf if gbps is None else to_bps(gbps) / request.circuit_bps
    eps = np.full(2 * n, request.eps_bps / request.circuit_bps)
    return np.concatenate([request.circuits.ravel().astype(np.float64), eps, np.full(n, staging)])
