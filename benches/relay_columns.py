"""What further matchings would add to schedules that relay over slots.

``decompose_hybrid(relay=True)`` relays over slots that were made without relays in mind. Here its
slots are a start for column generation: the linear program of holds and routes (that of
``crates/schedule/src/hybrid/relay_program.rs``, exact by HiGHS) prices every matching at every
place in the order by its duals, over one hop or as either hop of a relay; the one of greatest worth
is an assignment problem. It is added, slots are left out as long as that helps, and so on until
three in a row shorten nothing. Holds are not whole, so that these are the least that could be had.
Printed are lengths over that of ``decompose_hybrid``: with the same slots, and with new ones.

    python benches/relay_columns.py 8 3 25
"""

from __future__ import annotations

import sys
import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from kept_matchings import RATE_GBPS, Matrix, draw
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import coo_matrix

from lightloom.schedule import decompose_hybrid

PRICE, HELPS, STALE, SHORTEST = 2e-4, 1 - 1e-5, 3, 4
Slots = list[npt.NDArray[np.int64]]


class World(NamedTuple):
    """A demand, the delay in bytes, and the rate of packets over that of circuits."""

    demand: Matrix
    delay: int
    share: float


class Solved(NamedTuple):
    """Length, holds, and the dual of each row of the program by its name."""

    length: float
    holds: npt.NDArray[np.float64]
    dual: dict[tuple[Any, ...], float]


def paths(world: World, slots: Slots) -> list[tuple[int, int, list[tuple[int, int]]]]:
    """Source, destination, and the row and slot of each hop."""
    found = []
    for first, joined in enumerate(slots):
        for source, relay in enumerate(joined.tolist()):
            if relay < 0:
                continue
            if world.demand[source, relay] > 0:
                found.append((source, relay, [(source, first)]))
            for second in range(first + 1, len(slots)):
                to = int(slots[second][relay])
                if to >= 0 and len({source, relay, to}) == 3 and world.demand[source, to] > 0:
                    found.append((source, to, [(source, first), (relay, second)]))
    return found


def solve(world: World, slots: Slots) -> Solved:
    """Holds and routes over given slots."""
    routes, lines = paths(world, slots), len(world.demand)
    limits: dict[tuple[Any, ...], float] = {}
    cells: list[tuple[tuple[Any, ...], int, float]] = []
    for slot, joined in enumerate(slots):
        for row in np.flatnonzero(joined >= 0).tolist():
            limits["circuit", row, slot] = 0.0
            cells.append((("circuit", row, slot), slot, -1.0))
    for row, to in np.argwhere(world.demand > 0).tolist():
        limits["pair", row, to] = float(world.demand[row, to])
    for axis, name in ((1, "row"), (0, "column")):
        for line, size in enumerate(world.demand.sum(axis=axis).tolist()):
            limits[name, line] = world.share * len(slots) * world.delay - size
            cells += [((name, line), slot, -world.share) for slot in range(len(slots))]
    for index, (row, to, hops) in enumerate(routes, len(slots)):
        cells += [(("circuit", *hop), index, 1.0) for hop in hops]
        cells += [(("pair", row, to), index, 1.0)]
        cells += [(("row", row), index, -1.0), (("column", to), index, -1.0)]
    place = {name: index for index, name in enumerate(limits)}
    names, variables, values = zip(*cells, strict=True)
    shape = (len(limits), len(slots) + len(routes))
    matrix = coo_matrix((values, ([place[name] for name in names], variables)), shape=shape)
    cost = [1.0] * len(slots) + [PRICE * (len(hops) - 1) for _, _, hops in routes]
    found: Any = linprog(cost, A_ub=matrix.tocsr(), b_ub=list(limits.values()), method="highs")
    holds = found.x[: len(slots)]
    dual = dict(zip(limits, (-found.ineqlin.marginals).tolist(), strict=True))
    assert len(dual) >= 2 * lines
    return Solved(float(holds.sum()) + len(slots) * world.delay, holds, dual)


def pair_worth(world: World, dual: dict[tuple[Any, ...], float]) -> npt.NDArray[np.float64]:
    """What a byte of each pair over circuits is worth."""
    worth = np.full(world.demand.shape, -np.inf)
    for row, to in np.argwhere(world.demand > 0).tolist():
        worth[row, to] = dual["row", row] + dual["column", to] - dual["pair", row, to]
    return worth


def worth_at(
    slots: Slots, place: int, worth: npt.NDArray[np.float64], dual: dict[tuple[Any, ...], float]
) -> npt.NDArray[np.float64]:
    """What each circuit of a slot that is put there is worth at most, alone or as one of two."""
    best = worth.copy()
    lines = range(len(worth))
    for slot, joined in enumerate(slots):
        for row, to in enumerate(joined.tolist()):
            if to < 0 or to == row:
                continue
            price = PRICE + dual["circuit", row, slot]
            for other in lines:
                if other in (row, to):
                    continue
                if slot >= place:  # other - row in the new slot, then row - to
                    best[other, row] = max(best[other, row], worth[other, to] - price)
                else:  # row - to, then to - other in the new slot
                    best[to, other] = max(best[to, other], worth[row, other] - price)
    best = np.maximum(best, 0.0)
    np.fill_diagonal(best, 0.0)
    return best


def best_column(world: World, slots: Slots, dual: dict[tuple[Any, ...], float]) -> Slots | None:
    """The slots with the matching of greatest worth, if it saves anything."""
    worth = pair_worth(world, dual)
    lines = sum(value for name, value in dual.items() if name[0] in ("row", "column"))
    largest, found = 1 - world.share * lines + 1e-9, None
    for place in range(len(slots) + 1):
        circuits = worth_at(slots, place, worth, dual)
        rows, columns = linear_sum_assignment(-circuits)
        if circuits[rows, columns].sum() > largest:
            largest = circuits[rows, columns].sum()
            joined = np.where(circuits[rows, columns] > 1e-12, columns, -1)
            found = [*slots[:place], joined, *slots[place:]]
    return found


def leave_out(world: World, slots: Slots) -> tuple[Slots, Solved]:
    """Leave out slots, one of the shortest at a time, as long as that helps."""
    known = solve(world, slots)
    while len(slots) > 1:
        for slot in np.argsort(known.holds)[:SHORTEST].tolist():
            fewer = [*slots[:slot], *slots[slot + 1 :]]
            found = solve(world, fewer)
            if found.length < HELPS * known.length:
                slots, known = fewer, found
                break
        else:
            break
    return slots, known


def generate(world: World, slots: Slots) -> tuple[float, float]:
    """Length with the same slots, and with new ones."""
    slots, known = leave_out(world, slots)
    same = best = known.length
    stale = 0
    while stale < STALE:
        more = best_column(world, slots, known.dual)
        if more is None:
            break
        slots, known = leave_out(world, more)
        stale = 0 if known.length < HELPS * best else stale + 1
        best = min(best, known.length)
    return same, best


def measure(kind: str, n: int, delay: float, eps_gbps: float, seed: int) -> list[float] | None:
    """Lengths over that of ``decompose_hybrid``, and the processor time."""
    demand = draw(kind, n, np.random.default_rng(seed))
    np.fill_diagonal(demand, 0)
    longest = max(demand.sum(axis=0).max(), demand.sum(axis=1).max())
    delay_s = float(longest * delay) * 8 / (RATE_GBPS * 1e9)
    found = decompose_hybrid(demand, eps_gbps=eps_gbps, delay_s=delay_s, relay=True)
    if found.configurations < 2:
        return None
    begin = time.thread_time()
    world = World(demand, found.delay_bytes, eps_gbps / RATE_GBPS)
    lengths = generate(world, [row.astype(np.int64) for row in found.permutations])
    return [*(length / found.length_bytes for length in lengths), time.thread_time() - begin]


def main() -> None:
    """Print a line per kind of demand and delay, and one for all."""
    n, draws, eps_gbps = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    everything: list[list[float]] = []
    for kind in ("mixtral", "pair", "sparse", "uniform"):
        for delay in (1e-3, 1e-2, 1e-1):
            found = [measure(kind, n, delay, eps_gbps, seed) for seed in range(draws)]
            ratios = [one for one in found if one is not None]
            everything += ratios
            if ratios:
                same, more, took_s = np.mean(ratios, axis=0)
                text = f"same slots {same:.4f}, new ones {more:.4f} in {took_s:.2f} s"
                print(f"{kind:8} delay {delay:5.1%}: {text}", flush=True)
    same, more, _ = np.mean(everything, axis=0)
    print(f"all {len(everything)}: same slots {same:.4f}, new ones {more:.4f}")


if __name__ == "__main__":
    main()
