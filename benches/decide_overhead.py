"""What a decision takes in Python beyond the same decision in Rust.

``python benches/decide_overhead.py`` decides on the same demands, none twice, in Rust
(``crates/decide/examples/decide_speed.rs``) and in Python, and checks that both change as many
pairs. Mean microseconds of a call, each the least of twenty turns: other work on the machine only
adds.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.schedule import Decider, Policy, Region, upcoming_all_to_alls

Demands = npt.NDArray[np.uint64]

ROOT = Path(__file__).resolve().parent.parent
TURNS = 20
#: upcoming all-to-alls made beforehand; an array and a time; the same with the time as text
KINDS = ("upcoming", "array", "time as text")


def in_rust(servers: int, policy: Policy, held: Any, demands: Demands) -> tuple[float, int]:
    """Microseconds and pairs that change, by the example of the crate."""
    region = {"ports": 6, "circuit_gbps": 400, "eps_gbps": 800}
    chosen = {"allocator": policy.allocator, "when": policy.when}
    timing = {"fixed_s": 10e-6}
    upcoming = [json.loads(upcoming_all_to_alls(demand, 5e-6)[0].to_json()) for demand in demands]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([servers, region, chosen, timing, json.loads(held.to_json()), upcoming], file)
        file.flush()
        command = ["cargo", "run", "--release", "--quiet", "-p", "lightloom-decide"]
        command += ["--example", "decide_speed", "replay", file.name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    time_us, pairs = done.stdout.split()
    return float(time_us), int(pairs)


def in_python(calls: Sequence[Callable[[], Any]]) -> tuple[npt.NDArray[np.float64], int]:
    """Microseconds of each call, and pairs that change."""
    times, pairs = [], 0
    for call in calls:
        started = time.perf_counter()
        decision = call()
        times.append(time.perf_counter() - started)
        pairs += decision.pairs
    return 1e6 * np.array(times), pairs


def python_calls(
    servers: int, policy: Policy, held: Any, demands: Demands, kind: str
) -> list[Callable[[], Any]]:
    """The decisions as a caller in Python takes them."""
    region = Region(ports=6, circuit_gbps=400, eps_gbps=800)
    decider = Decider(servers, region, timing="10 us", policy=policy)
    if kind == "upcoming":
        known = [upcoming_all_to_alls(demand, 5e-6) for demand in demands]
        return [partial(decider.decide, held, upcoming) for upcoming in known]
    hidden_s = "5 us" if kind == "time as text" else 5e-6
    return [partial(decider.decide, held, demand, hidden_s=hidden_s) for demand in demands]


def measure(servers: int, policy: Policy, count: int) -> list[str]:
    """One row: the decision in Rust, and what each kind of call adds to it."""
    region = Region(ports=6, circuit_gbps=400, eps_gbps=800)
    random = np.random.default_rng(servers)
    demands = random.integers(0, 10**8, size=(count, servers, servers), dtype=np.uint64)
    held = Decider(servers, region, timing="10 us", policy=policy).start()
    rust, expected = in_rust(servers, policy, held, demands)
    added = []
    for kind in KINDS:
        minimum = np.full(count, np.inf)
        for _ in range(TURNS):
            times, pairs = in_python(python_calls(servers, policy, held, demands, kind))
            minimum = np.minimum(minimum, times)
            if pairs != expected:
                raise SystemExit(f"not the same decisions: {pairs} pairs, {expected} in Rust")
        added.append(f"{minimum.mean() - rust:+.1f}")
    return [str(servers), policy.allocator, policy.when, f"{rust:.1f}", *added]


def main() -> None:
    """Print a table for 8, 32 and 64 servers."""
    print("| servers | allocator | policy | Rust | + " + " | + ".join(KINDS) + " |")
    print("|---:|---|---|---:|" + "---:|" * len(KINDS))
    for servers, count in ((8, 2_000), (32, 500), (64, 200)):
        for policy in (Policy("static", "always"), Policy("greedy", "break-even")):
            print("| " + " | ".join(measure(servers, policy, count)) + " |", flush=True)


if __name__ == "__main__":
    main()
