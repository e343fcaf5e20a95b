"""What a decision takes in Python beyond the call of the core.

``python benches/decide_overhead.py``
"""

import time
from collections.abc import Callable

import numpy as np

from lightloom.schedule import Decider, Policy, Region, upcoming_all_to_alls

CALLS = 5_000


def median_us(call: Callable[[], object]) -> float:
    """Median microseconds of a call."""
    times = []
    for _ in range(CALLS):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return 1e6 * float(np.median(times))


def main() -> None:
    """Print medians for 8 servers."""
    region = Region(ports=6, circuit_gbps=400, eps_gbps=800)
    decider = Decider(8, region, timing="10 us", policy=Policy("static", "always"))
    demand = np.random.default_rng(1).integers(0, 10**8, size=(8, 8), dtype=np.uint64)
    held, upcoming = decider.start(), upcoming_all_to_alls(demand)
    core = median_us(lambda: decider._core.decide(held, upcoming, None))
    known = median_us(lambda: decider.decide(held, upcoming))
    array = median_us(lambda: decider.decide(held, demand))
    print(f"core {core:.1f} us, of upcoming all-to-alls {known:.1f} us, of an array {array:.1f} us")


if __name__ == "__main__":
    main()
