"""Exact circuits: integer programs by HiGHS, and the bound that they prove.

At a fixed time T feasibility is a matter of sums (``docs/explanation/circuits.md``): with B the
bytes per second of a circuit, the c-th circuit of a pair takes ``min(D - (c - 1) B T, B T)`` bytes
off the lines of its two servers, and each line must get down to its EPS budget. Without split a
pair has all the circuits that it needs by T, or none. Times are tried between the best known
circuits and the best known bound until these are within the requested gap.

HiGHS comes with scipy, so nothing else need be installed. On these programs it was as fast as
CP-SAT of OR-tools (``benches/RESULTS.md``).

Left out: relaying, latency, and NICs (see :mod:`lightloom.schedule.planes`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, vstack

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

#: Part of a budget that HiGHS may take for nothing (its tolerance is 1e-6): lines are relaxed by
#: this much, so that "infeasible" is never the work of rounding.
_TOLERANCE = 3e-6
#: scipy's status codes of ``milp``
_SOLVED, _INFEASIBLE = 0, 2


@dataclass(frozen=True)
class Lines:
    """What is asked, in floating point.

    Attributes
    ----------
    bytes_
        Demand without diagonal, ``(n, n)``.
    ports
        Optical ports per server, ``(n,)``.
    allowed
        Pairs that may have circuits, ``(n, n)``.
    circuit, eps
        Bytes per second of a circuit, and of each server on the EPS ``(n,)``.
    split
        Whether a pair with circuits may send its excess over the EPS.
    """

    bytes_: Floats
    ports: Integers
    allowed: npt.NDArray[np.bool_]
    circuit: float
    eps: Floats
    split: bool


@dataclass(frozen=True)
class Found:
    """The fastest circuits ``(n, n)``, their time, and a time that nothing beats."""

    circuits: npt.NDArray[np.uint16]
    time_s: float
    bound_s: float


def closest(start: Found, lines: Lines, rate: Callable[[npt.NDArray[np.uint16]], float],
            gap: float, until: float) -> Found:  # fmt: skip
    """Narrow time and bound to ``gap``, or until the clock (``time.monotonic``) says so.

    ``rate`` is the exact time of circuits: the program is solved in floating point.
    """
    if np.isinf(start.time_s) and np.isfinite(start.bound_s):
        start = _any_time(start, lines, rate, until)
    while start.time_s > start.bound_s * (1 + gap) and np.isfinite(start.time_s):
        low, high = start.bound_s, start.time_s
        # The known circuits are near the optimum: first try to prove them.
        target = high / (1 + 0.95 * gap) if high <= low * (1 + 8 * gap) else (low * high) ** 0.5
        proposal = circuits_by(lines, target, until)
        if proposal is None:
            break
        if proposal is False:
            start = Found(start.circuits, high, target)
            continue
        time_s = rate(proposal)
        if time_s >= high:
            break
        start = Found(proposal, time_s, low)
    return start


def _any_time(
    start: Found, lines: Lines, rate: Callable[[npt.NDArray[np.uint16]], float], until: float
) -> Found:
    """Replace circuits that leave a pair without a way, if there are better ones."""
    sums = np.stack([lines.bytes_.sum(axis=axis) for axis in (0, 1)])
    over_eps = np.divide(sums, lines.eps, out=np.zeros_like(sums), where=lines.eps > 0)
    # Circuits that give every pair a way are done by then.
    latest = max(float(over_eps.max()), float(lines.bytes_.max()) / lines.circuit)
    proposal = circuits_by(lines, max(latest, start.bound_s), until)
    if proposal is None or proposal is False:
        return start
    time_s = rate(proposal)
    return Found(proposal, time_s, start.bound_s) if time_s < start.time_s else start


def circuits_by(
    lines: Lines, target: float, until: float
) -> npt.NDArray[np.uint16] | Literal[False] | None:
    """Return circuits that finish by ``target``, False if there are none, None if unknown."""
    units = _units(lines, target)
    solved = _solve(np.zeros(len(units.cost)), [units.ports, *units.loads], 1.0, until)
    if solved is None or solved is False:
        return solved
    return _matrix(len(lines.ports), units, np.rint(solved).astype(np.int64) * units.cost)


def nearest(
    lines: Lines, target: float, previous: npt.NDArray[np.uint16], until: float
) -> npt.NDArray[np.uint16] | None:
    """Return circuits that finish by ``target`` and change fewest; None if it took too long.

    Columns: units of circuits; circuits of each pair; circuits made, and torn down, of each pair;
    the larger of the sums of these two.
    """
    n = len(lines.ports)
    units = _units(lines, target)
    a, b = np.triu_indices(n, 1)
    pairs, count = len(a), len(units.cost)
    width = count + 3 * pairs + 1
    of_unit = np.zeros((n, n), dtype=np.int64)
    of_unit[a, b] = np.arange(pairs)
    unit_pair = of_unit[units.a, units.b]
    old = previous[a, b].astype(np.float64)
    maximum = np.where(lines.allowed[a, b], np.minimum(lines.ports[a], lines.ports[b]), 0)

    def columns(start: int, values: Floats, rows: Integers, height: int) -> csr_array[np.float64]:
        """Return one entry in each of the columns from ``start``."""
        at = np.arange(start, start + len(values))
        return csr_array((values, (rows, at)), shape=(height, width))

    def of_pairs(start: int, sign: float) -> csr_array[np.float64]:
        return columns(start, np.full(pairs, sign), np.arange(pairs), pairs)

    circuits_at, made_at, torn_at = count, count + pairs, count + 2 * pairs
    unit = np.ones(pairs)
    used = columns(circuits_at, unit, a, n) + columns(circuits_at, unit, b, n)
    takes = columns(0, -units.cost.astype(np.float64), unit_pair, pairs)
    rows = [
        *(_Rows(_widen(row.matrix, width), row.low, row.high) for row in units.loads),
        _at_most(used, lines.ports.astype(np.float64)),
        # a unit needs its circuits
        _at_least(takes + of_pairs(circuits_at, 1.0), 0.0),
        _at_least(of_pairs(made_at, 1.0) + of_pairs(circuits_at, -1.0), -old),
        _at_least(of_pairs(torn_at, 1.0) + of_pairs(circuits_at, 1.0), old),
    ]
    if not lines.split:
        # a pair with circuits uses only these: none without its unit
        has = columns(0, maximum[unit_pair].astype(np.float64), unit_pair, pairs)
        wanted = np.flatnonzero(np.maximum(lines.bytes_[a, b], lines.bytes_[b, a]) > 0)
        rows.append(_at_least((has + of_pairs(circuits_at, -1.0))[wanted], 0.0))
    for start in (made_at, torn_at):
        total = columns(start, -unit, np.zeros(pairs, dtype=np.int64), 1)
        largest = columns(width - 1, np.ones(1), np.zeros(1, dtype=np.int64), 1)
        rows.append(_at_least(total + largest, 0.0))
    cost = np.zeros(width)
    cost[-1] = 1.0
    upper = np.concatenate([np.ones(count), maximum, np.full(2 * pairs + 1, np.inf)])
    solved = _solve(cost, rows, upper, until)
    if solved is None or solved is False:
        return None
    circuits = np.zeros((n, n), dtype=np.uint16)
    circuits[a, b] = np.rint(solved[count : count + pairs])
    return circuits + circuits.T


@dataclass(frozen=True)
class _Rows:
    """``low <= matrix @ x <= high``, one limit per row."""

    matrix: csr_array[np.float64]
    low: Floats
    high: Floats


def _at_least(matrix: csr_array[np.float64], low: Floats | float) -> _Rows:
    limits = np.zeros(matrix.shape[0]) + low
    return _Rows(matrix, limits, np.full(len(limits), np.inf))


def _at_most(matrix: csr_array[np.float64], high: Floats) -> _Rows:
    return _Rows(matrix, np.full(len(high), -np.inf), high)


@dataclass(frozen=True)
class _Units:
    """What may be chosen by some time: circuits of pairs (a, b), ``cost`` ports each."""

    a: Integers
    b: Integers
    cost: Integers
    ports: _Rows
    loads: list[_Rows]


def _units(lines: Lines, target: float) -> _Units:
    n = len(lines.ports)
    carry = lines.circuit * target
    a, b = np.triu_indices(n, 1)
    out, back = lines.bytes_[a, b] / carry, lines.bytes_[b, a] / carry
    maximum = np.where(lines.allowed[a, b], np.minimum(lines.ports[a], lines.ports[b]), 0)
    wanted = np.ceil(np.maximum(out, back) * (1 - 1e-12)).astype(np.int64)
    if lines.split:
        count = np.minimum(wanted, maximum)
        cost = np.ones(count.sum(), dtype=np.int64)
        level = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    else:
        count = ((wanted > 0) & (wanted <= maximum)).astype(np.int64)
        cost = wanted[count > 0]
        level = np.zeros(len(cost), dtype=np.int64)
    a, b = np.repeat(a, count), np.repeat(b, count)
    out, back = np.repeat(out, count), np.repeat(back, count)
    if lines.split:
        out, back = np.clip(out - level, 0, 1), np.clip(back - level, 0, 1)
    columns = np.arange(len(cost))
    ends, both = np.concatenate([a, b]), np.concatenate([columns, columns])

    def per_server(at_a: Floats, at_b: Floats) -> csr_array[np.float64]:
        cells = np.concatenate([at_a, at_b])
        return csr_array((cells, (ends, both)), shape=(n, len(cost)))

    budget = lines.eps * target / carry
    loads = []
    for axis, weights in ((1, (out, back)), (0, (back, out))):
        need = lines.bytes_.sum(axis=axis) / carry - budget
        need -= _TOLERANCE * np.maximum(budget, 1.0)
        rows = np.flatnonzero(need > 0)
        if len(rows):
            loads.append(_at_least(per_server(*weights)[rows], need[rows]))
    taken = cost.astype(np.float64)
    ports = _at_most(per_server(taken, taken), lines.ports.astype(np.float64))
    return _Units(a, b, cost, ports, loads)


def _widen(matrix: csr_array[np.float64], width: int) -> csr_array[np.float64]:
    """Return the matrix with columns of zeros behind."""
    return csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], width))


def _solve(
    cost: Floats, rows: list[_Rows], upper: float | Floats, until: float
) -> Floats | Literal[False] | None:
    left = until - time.monotonic()
    if left <= 0:
        return None
    if not len(cost):
        return np.zeros(0) if all((row.low <= 0).all() for row in rows) else False
    stacked = LinearConstraint(
        vstack([row.matrix for row in rows], format="csr"),
        np.concatenate([row.low for row in rows]),
        np.concatenate([row.high for row in rows]),
    )
    solved = milp(
        cost,
        constraints=stacked,
        integrality=np.ones(len(cost), dtype=np.int64),
        bounds=Bounds(0.0, upper),
        options={"time_limit": left},
    )
    if solved.status == _INFEASIBLE:
        return False
    if solved.status != _SOLVED:
        return None
    return np.asarray(solved.x, dtype=np.float64)


def _matrix(n: int, units: _Units, counts: Integers) -> npt.NDArray[np.uint16]:
    circuits = np.zeros((n, n), dtype=np.uint16)
    np.add.at(circuits, (units.a, units.b), counts.astype(np.uint16))
    return circuits + circuits.T
