"""What circuits from before are worth to an allocation where few rows of the demand are new.

A region of servers with 6 circuits of 400 Gb/s and 800 Gb/s of EPS each has the circuits of
``best``. Then 1, 4 and a quarter of its servers send other bytes. Printed are, over that many draws
of each kind of demand and for each tolerance: the makespan over that of ``best`` without circuits
from before, mean (worst), the processor time over its, and the pairs that change.

    python benches/few_rows.py 64 60
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from kept_matchings import Matrix, draw

from lightloom.schedule import Allocation, Region, allocate_region, changed_pairs

TOLERANCES = (0.0, 0.005, 0.01, 0.02, 0.05)
REGION = Region(ports=6, circuit_gbps=400, eps_gbps=800)


def off_diagonal(kind: str, n: int, random: np.random.Generator) -> Matrix:
    """Draw bytes of a regime; none stay inside a server."""
    demand = draw(kind, n, random)
    np.fill_diagonal(demand, 0)
    return demand


def timed(allocate: Callable[[], Allocation]) -> tuple[Allocation, float]:
    """Return an allocation and the processor time that it takes."""
    begin = time.thread_time()
    return allocate(), time.thread_time() - begin


def measure(kind: str, n: int, rows: int, seed: int) -> list[tuple[float, float, float, int]]:
    """Makespan, time anew, time and changed pairs for each tolerance."""
    random = np.random.default_rng(100 * seed + rows)
    demand = off_diagonal(kind, n, random)
    held = allocate_region(demand, REGION).circuits
    changed = random.choice(n, rows, replace=False)
    demand[changed] = off_diagonal(kind, n, random)[changed]
    anew, anew_s = timed(lambda: allocate_region(demand, REGION))
    found = []
    for tolerance in TOLERANCES:
        kept, kept_s = timed(
            lambda limit=tolerance: allocate_region(demand, REGION, previous=held, tolerance=limit)
        )
        length = kept.makespan_s / anew.makespan_s
        found.append((length, anew_s, kept_s, changed_pairs(held, kept.circuits)))
    return found


def main() -> None:
    """Print a line per kind of demand and number of rows."""
    n, draws = int(sys.argv[1]), int(sys.argv[2])
    for kind in ("pair", "sparse", "mixtral"):
        for rows in (1, 4, n // 4):
            found = np.array([measure(kind, n, rows, seed) for seed in range(draws)])
            texts = [
                f"{tolerance:g}: {lengths.mean():.4f} ({lengths.max():.4f}), time "
                f"{kept_s.sum() / anew_s.sum():.2f}, {pairs.mean():.1f} pairs"
                for tolerance, (lengths, anew_s, kept_s, pairs) in zip(
                    TOLERANCES, found.transpose(1, 2, 0), strict=True
                )
            ]
            print(f"{kind:7} {rows:2} of {n} rows: " + "; ".join(texts), flush=True)


if __name__ == "__main__":
    main()
