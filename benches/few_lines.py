"""Whether any schedule of a few lines is shorter than that of ``auto``.

A mixed-integer program (HiGHS), independent of how ``auto`` searches: as many slots as could pay,
each a matching, with holds and with bytes per slot and pair. It is asked for a schedule that is
shorter by a ten-thousandth of the longest line, and proves that there is none or finds one. Printed
are, per number of lines, kind of demand and delay as a part of the longest line: cases, those
proven, those where a schedule was found (and how much shorter), those undecided within the limit,
and those that ``auto`` itself proves. Draws are as many seeds from 0 on, or from one to another.
With limit 0 nothing else is asked; with ``cp-sat`` the constraint program of ``few_lines_cp.py`` is
asked, which decides more.

    python benches/few_lines.py 4,5 3 60
    python benches/few_lines.py 4,5,6 2 60 cp-sat
    python benches/few_lines.py 5 1000-1003 20 cp-sat
"""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from kept_matchings import draw
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import coo_matrix

from lightloom.schedule import decompose

RATE_GBPS = 400.0
KINDS, DELAYS = ("mixtral", "pair", "sparse", "uniform"), (1e-2, 1e-1, 3e-1)
SHORTER = 1e-4
Matrix = npt.NDArray[np.int64]


def rows_of(
    demand: npt.NDArray[np.float64], slots: int
) -> Iterator[tuple[dict[int, float], float]]:
    """Yield rows ``sum(value * variable) <= limit``: holds, slots used, pairs joined, bytes."""
    pairs = np.argwhere(demand > 0).tolist()
    joined = {
        (k, p): 2 * slots + k * len(pairs) + p for k in range(slots) for p in range(len(pairs))
    }
    sent = {key: variable + slots * len(pairs) for key, variable in joined.items()}
    for k in range(slots):
        yield {k: 1.0, slots + k: -demand.max()}, 0.0
        if k + 1 < slots:
            yield {k + 1: 1.0, k: -1.0}, 0.0
            yield {slots + k + 1: 1.0, slots + k: -1.0}, 0.0
        for axis in (0, 1):
            for line in range(len(demand)):
                own = [p for p, pair in enumerate(pairs) if pair[axis] == line]
                yield {**{joined[k, p]: 1.0 for p in own}, slots + k: -1.0}, 0.0
        for p, pair in enumerate(pairs):
            yield {sent[k, p]: 1.0, joined[k, p]: -float(demand[tuple(pair)])}, 0.0
            yield {sent[k, p]: 1.0, k: -1.0}, 0.0
    for p, pair in enumerate(pairs):
        yield {sent[k, p]: -1.0 for k in range(slots)}, -float(demand[tuple(pair)])
        # Said apart: a few bytes are less than the solver's tolerance.
        yield {joined[k, p]: -1.0 for k in range(slots)}, -1.0


def shorter_than(demand: Matrix, delay: float, length: float, limit_s: float) -> float | None:
    """Length of a schedule that is shorter, infinity if there is none, nothing if undecided.

    Lengths and the delay are in bytes.
    """
    longest = float(max(demand.sum(axis=0).max(), demand.sum(axis=1).max()))
    part, delay = demand / longest, delay / longest
    goal = length / longest - SHORTER
    slots = int((goal - 1) / delay + 1e-9)
    if slots < max(np.count_nonzero(demand, axis=0).max(), np.count_nonzero(demand, axis=1).max()):
        return float("inf")
    rows = list(rows_of(part, slots))
    cost = {**dict.fromkeys(range(slots), 1.0), **dict.fromkeys(range(slots, 2 * slots), delay)}
    rows.append((cost, goal))
    cells = [(r, v, value) for r, (row, _) in enumerate(rows) for v, value in row.items()]
    width = 2 * slots + 2 * slots * int(np.count_nonzero(demand))
    where = ([cell[0] for cell in cells], [cell[1] for cell in cells])
    matrix = coo_matrix(([cell[2] for cell in cells], where), shape=(len(rows), width)).tocsr()
    whole = np.zeros(width)
    whole[slots : slots + slots + slots * int(np.count_nonzero(demand))] = 1
    objective = np.zeros(width)
    found: Any = milp(
        objective,
        integrality=whole,
        bounds=(0.0, 1.0),
        constraints=LinearConstraint(matrix, -np.inf, [limit for _, limit in rows]),
        options={"time_limit": limit_s},
    )
    if found.status == 2:
        return float("inf")
    if found.x is None:
        return None
    return float(sum(value * found.x[v] for v, value in cost.items()) * longest)


def count(
    solve: Callable[[Matrix, float, float, float], float | None],
    demands: Iterable[Matrix],
    part: float,
    limit_s: float,
) -> str:
    """Count what is proven, found and undecided of demands; the last cells of a line."""
    found: list[float | None] = []
    proved = 0
    for demand in demands:
        longest = max(demand.sum(axis=0).max(), demand.sum(axis=1).max())
        delay_s = float(longest * part) * 8 / (RATE_GBPS * 1e9)
        ours = decompose(demand, delay_s=delay_s, rate_gbps=RATE_GBPS)
        proved += ours.is_optimal
        length = float(ours.length_bytes)
        other = solve(demand, float(ours.delay_bytes), length, limit_s) if limit_s else None
        found.append(None if other is None else length / other - 1)
    by = [ratio for ratio in found if ratio is not None and ratio > 0]
    text = f"{len(by)} ({max(by):.2%})" if by else "0"
    return f"{len(found)} | {found.count(-1.0)} | {text} | {found.count(None)} | {proved}"


def main() -> None:
    """Print a line per number of lines, kind and delay."""
    first, _, last = sys.argv[2].rpartition("-")
    seeds, limit_s = range(int(first or 0), int(last)), float(sys.argv[3])
    solve = shorter_than
    if sys.argv[4:] == ["cp-sat"]:
        solve = importlib.import_module("few_lines_cp").shorter_than
    columns = ("lines", "demand", "delay / L", "cases", "none shorter", "shorter (by)", "undecided")
    print(f"| {' | '.join(columns)} | proved |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|")
    for n, kind, part in itertools.product(map(int, sys.argv[1].split(",")), KINDS, DELAYS):
        demands = (draw(kind, n, np.random.default_rng(seed)) for seed in seeds)
        cells = count(solve, demands, part, limit_s)
        print(f"| {n} | {kind} | {part:g} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
