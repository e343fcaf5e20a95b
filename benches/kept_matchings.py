"""What the matchings of an earlier schedule allow at best, and what new slots add to that.

Each pair of a demand becomes larger or smaller by up to 5 %. For every case, a linear program
bounds from below the length of any schedule that moves no circuit: holds of the kept matchings,
with idle ports joined as if a slot could join them to several at once, and as many slots as each
line has peers. Printed are, per number of lines, the part of cases within 1.5 % of ``auto`` anew:
those whose bound is, and those that ``previous`` reaches with so many new slots.

    python benches/kept_matchings.py 8,16,24 4
"""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from lightloom.schedule import PermutationSchedule, decompose

RATE_GBPS, DRIFT, CLOSE = 400.0, 0.05, 1.015
DELAYS, NEW_SLOTS = (1e-4, 1e-3, 1e-2, 1e-1), (0, 1, 2, 4, 8)
Matrix = npt.NDArray[np.int64]


def draw(kind: str, n: int, random: np.random.Generator) -> Matrix:
    """Draw bytes of a regime, 400 MB per row, as ``crates/schedule/tests`` does."""
    if kind == "mixtral":
        popularity = np.exp(0.774 * random.normal(size=n))
        shares = random.gamma(340 * popularity / popularity.sum() * n / 8, size=(n, n))
    elif kind == "uniform":
        shares = random.uniform(size=(n, n))
    else:
        shares = random.gamma({"pair": 1.0, "sparse": 0.15}[kind], size=(n, n))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True) * 4e8, dtype=np.int64)


def bound(demand: Matrix, earlier: PermutationSchedule) -> float:
    """Length in bytes that no schedule beats which moves no circuit of the earlier one."""
    slots, largest = len(earlier.permutations), float(demand.max())
    # variables: the hold of each slot, whether it is used, and bytes over idle ports
    cells: list[tuple[int, int, float]] = []
    limits: list[float] = []
    serve: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    width = 2 * slots

    def at_most(entries: list[tuple[int, float]], limit: float) -> None:
        cells.extend((len(limits), variable, value) for variable, value in entries)
        limits.append(limit)

    for slot, joined in enumerate(earlier.permutations.tolist()):
        kept = {row: to for row, to in enumerate(joined) if to >= 0 and demand[row, to] > 0}
        for pair in kept.items():
            serve[pair].append((slot, slot))
        lines: dict[tuple[str, int], list[int]] = defaultdict(list)
        for row, to in np.argwhere(demand > 0).tolist():
            if row not in kept and to not in kept.values():
                serve[row, to].append((slot, width))
                lines["row", row].append(width)
                lines["column", to].append(width)
                width += 1
        for own in lines.values():
            at_most([*((variable, 1.0) for variable in own), (slot, -1.0)], 0.0)
        at_most([(slot, 1.0), (slots + slot, -largest)], 0.0)
    for pair, by in serve.items():
        at_most([(variable, -1.0) for _, variable in by], -float(demand[pair]))
    for axis in (0, 1):
        for line in range(demand.shape[axis]):
            used = {slot for pair, by in serve.items() if pair[axis] == line for slot, _ in by}
            peers = np.count_nonzero(demand.take(line, axis=axis))
            at_most([(slots + slot, -1.0) for slot in used], -float(peers))
    rows, columns, values = zip(*cells, strict=True)
    matrix = coo_matrix((values, (rows, columns)), shape=(len(limits), width)).tocsr()
    cost = np.zeros(width)
    cost[:slots], cost[slots : 2 * slots] = 1.0, earlier.delay_bytes
    ends = [(0, None)] * slots + [(0, 1)] * slots + [(0, None)] * (width - 2 * slots)
    found: Any = linprog(cost, A_ub=matrix, b_ub=limits, bounds=ends, method="highs")
    return float(found.fun)


def measure(demand: Matrix, delay: float, random: np.random.Generator) -> list[float]:
    """Lengths over that of ``auto`` anew: the bound, then those with new slots."""
    longest = max(demand.sum(axis=0).max(), demand.sum(axis=1).max())
    delay_s = float(longest * delay) * 8 / (RATE_GBPS * 1e9)
    earlier = decompose(demand, delay_s=delay_s)
    now = (demand * random.uniform(1 - DRIFT, 1 + DRIFT, demand.shape)).astype(np.int64)
    anew = decompose(now, delay_s=delay_s).length_bytes
    lengths = [
        decompose(now, delay_s=delay_s, method="previous", previous=earlier, new_slots=new)
        for new in NEW_SLOTS
    ]
    smallest = bound(now, earlier)
    assert smallest <= lengths[0].length_bytes * (1 + 1e-6)
    return [smallest / anew, *(one.length_bytes / anew for one in lengths)]


def main() -> None:
    """Print a line per size."""
    draws = int(sys.argv[2])
    for n in map(int, sys.argv[1].split(",")):
        found = [
            measure(draw(kind, n, random), delay, random)
            for kind in ("mixtral", "pair", "sparse", "uniform")
            for delay in DELAYS
            for random in map(np.random.default_rng, range(draws))
        ]
        ratios = np.array(found)
        texts = [
            f"{share:.2f} ({worst:.3f})"
            for share, worst in zip((ratios <= CLOSE).mean(axis=0), ratios.max(axis=0), strict=True)
        ]
        print(f"{n:3} lines: bound {texts[0]}; new slots " + ", ".join(
            f"{new}: {text}" for new, text in zip(NEW_SLOTS, texts[1:], strict=True)
        ), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
