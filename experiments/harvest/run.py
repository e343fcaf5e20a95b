"""When rings of circuits are to be changed in a collective: Harvest's open schedules, found anew.

    python experiments/harvest/run.py [--write | --check | --fast]

Prints the tables; ``--write`` puts them into table.md, ``--fast`` checks the published files alone.
"""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import markdown, run, settings

HERE = Path(__file__).parent
VALUES = settings(HERE)
UNITS = {"KB": 2**10, "MB": 2**20, "GB": 2**30}
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Schedule:
    """What a collective takes, and how often circuits change in it."""

    cost_ns: float
    reconfigurations: int


def hops(shift: int, ring: int, gpus: int) -> float:
    """Circuits from a GPU to the one so much further, over rings that join each to the next.

    A ring joins GPU i to i + ``ring``; infinite where it does not lead there.
    """
    shared = math.gcd(ring, gpus)
    if shift % shared:
        return math.inf
    length = gpus // shared
    return shift // shared * pow(ring // shared, -1, length) % length if length > 1 else math.inf


def steps(collective: str, size: int, gpus: int) -> list[tuple[int, float]]:
    """How far each GPU sends in each step, and how many bytes; they follow each other."""
    if collective == "all-to-all":
        return [(shift, size / gpus) for shift in range(1, gpus)]
    halves = [(2**k, size / 2 ** (k + 1)) for k in range(gpus.bit_length() - 1)]
    return halves + halves[::-1]


def costs_ns(collective: str, size: int, gpus: int) -> Floats:
    """What each step takes on each ring, without turning: ``(steps, rings)``.

    As many flows share a circuit as a flow crosses circuits.
    """
    byte_ns = 8 / VALUES["gbps"]
    return np.array(
        [
            [
                VALUES["step_ns"] + hops(shift, ring, gpus) * (VALUES["hop_ns"] + part * byte_ns)
                for ring in range(1, gpus)
            ]
            for shift, part in steps(collective, size, gpus)
        ]
    )


def shortest(costs: Floats, delay_ns: float) -> Schedule:
    """Rings for the steps of each interval, by dynamic programming; the first is there already."""
    best = [Schedule(-delay_ns, -1)]
    for end in range(1, len(costs) + 1):
        summed, options = np.zeros(costs.shape[1]), []
        for begin in range(end - 1, -1, -1):
            summed = summed + costs[begin]
            before = best[begin]
            cost = before.cost_ns + delay_ns + float(summed.min())
            options.append(Schedule(cost, before.reconfigurations + 1))
        best.append(min(options, key=lambda found: (found.cost_ns, found.reconfigurations)))
    return best[-1]


def baselines(costs: Floats, delay_ns: float) -> dict[str, float]:
    """One ring for all steps, and another one for each step."""
    return {
        "one ring": float(costs[:, 0].sum()),
        "each step": float(costs.min(axis=1).sum()) + delay_ns * (len(costs) - 1),
    }


def size_bytes(text: str) -> int:
    """Bytes of a size such as 16MB."""
    return int(text[:-2]) * UNITS[text[-2:]]


def published() -> str:
    """Files beside what is found here."""
    rows = []
    for entry in VALUES["files"]["published"]:
        costs = costs_ns(entry["collective"], size_bytes(entry["size"]), VALUES["gpus"])
        found = shortest(costs, entry["delay_ns"])
        error = f"{100 * (found.cost_ns / entry['cost_ns'] - 1):+.4f}"
        rows.append(
            [
                f"{entry['collective']}, {entry['size']}, {entry['delay_ns'] / 1e3:g} us",
                f"{entry['cost_ns'] / 1e3:.3f}",
                f"{found.cost_ns / 1e3:.3f}",
                error,
                f"{entry['reconfigurations']}",
                f"{found.reconfigurations}",
            ]
        )
    head = ["collective", "file [us]", "here [us]", "difference [%]", "changes in it", "here"]
    return markdown(head, rows)


def cells(collective: str) -> list[list[str]]:
    """Who is fastest by size and delay, and by how much over the better baseline."""
    gains: dict[str, list[float]] = {"one ring": [], "each step": [], "Harvest": []}
    for size, delay in itertools.product(VALUES["sizes"], VALUES["delays_ns"]):
        costs = costs_ns(collective, size_bytes(size), VALUES["gpus"])
        found, others = shortest(costs, delay), baselines(costs, delay)
        winner = min(others, key=lambda name: others[name])
        gain = others[winner] / found.cost_ns
        gains["Harvest" if gain > 1 + 1e-9 else winner].append(gain)
    every = [gain for group in gains.values() for gain in group]
    counts = [f"{len(group)}" for group in gains.values()]
    return [[collective, f"{len(every)}", *counts, f"{max(every):.2f}", f"{np.mean(every):.2f}"]]


def render(*, fast: bool = False) -> dict[Path, str]:
    """The tables."""
    text = (
        "# Harvest's schedules for 64 GPUs\n\nMade by run.py; see [README.md](README.md).\n\n"
        f"## Published files\n\n{published()}"
    )
    if not fast:
        head = [
            "collective",
            "cells",
            "one ring",
            "each step",
            "Harvest alone",
            "gain",
            "mean gain",
        ]
        rows = cells("all-to-all") + cells("recursive doubling")
        text += (
            "\n## Who is fastest, by size and delay\n\nCells in which one ring for all steps, or"
            " another one for each, is as fast as Harvest's schedule, and in which it is not; how"
            " many times as long the better of both takes, at most and in the mean.\n\n"
            f"{markdown(head, rows)}"
        )
    return {HERE / "table.md": text}


if __name__ == "__main__":
    sys.exit(run(__doc__, render))
