"""Say how much the busiest port carries while an all-to-all goes on, and how long queues get.

    python experiments/chronos-fig6/port.py [--write | --check]

Simulates the first matrix again and again, each time a ninth further, and prints what its busiest
receiver got; the first matrices once, for their queues. ``--write`` puts the tables into port.md,
``--check`` says whether they are there. About a minute on two idle cores.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import cases
import numpy as np
from settings import Settings, load

from lightloom.packets import Record, from_matrix, simulate_flows

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from results import command_line, write_or_check  # noqa: E402

PORT = HERE / "port.md"
PARTS, NAMES = 9, ("published", "tuned", "timer")
#: packet simulations and matrices whose queues are told
QUEUES, FIRST = (*NAMES, "deep", "roce"), 20


def uses(settings: Settings, name: str, demand: cases.Matrix) -> list[tuple[float, float, int]]:
    """End, use of the busiest receiver's link and flows to it that are left, of each part."""
    host = int(demand.sum(axis=0).argmax())
    flows, case = from_matrix(demand, "matrix"), cases.packet_case(settings, name)
    whole = simulate_flows(flows, case, record=Record(samples=0))
    completion_s = float(whole.fct_s.max())
    ends_s = whole.fct_s[flows.destination == host]
    (link,) = np.flatnonzero(whole.links.destination == host)
    part_s = completion_s / PARTS
    max_bytes = settings.network.rate_gbps * 1e9 / 8 * part_s
    found, before = [], 0
    for part in range(1, PARTS + 1):
        until = case.model_copy(update={"until_s": part * part_s})
        run = whole if part == PARTS else simulate_flows(flows, until, record=Record(samples=0))
        sent = int(run.links.sent_bytes[link])
        left = int((ends_s > part * part_s).sum())
        found.append((part * part_s, (sent - before) / max_bytes, left))
        before = sent
    return found


def queues(settings: Settings, demands: cases.Matrix) -> Iterator[str]:
    """A row for each packet simulation: its longest queues and how many matrices see a pause."""
    flows = [from_matrix(demand, "matrix") for demand in demands]
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for name in QUEUES:
            one = partial(
                simulate_flows,
                scenario=cases.packet_case(settings, name),
                record=Record(samples=0),
            )
            links = [run.links for run in pool.map(one, flows)]
            peaks = np.array([own.peak_queue_bytes.max() for own in links]) / 1e6
            paused = sum(bool(own.pauses.any()) for own in links)
            yield f"| {name} | {np.median(peaks):.0f} | {peaks.max():.0f} | {paused} |"


def table(settings: Settings) -> str:
    """The tables in Markdown."""
    demands = cases.demands(settings, FIRST, settings.matrices.seed)
    lines = [
        "# The busiest port during one all-to-all",
        "",
        "The first matrix; the completion time of each DCQCN in ninths. Use of the link to the",
        "receiver with most to receive, headers included, and the flows to it that are left at the",
        "end of the part.",
    ]
    for name in NAMES:
        found = uses(settings, name, demands[0])
        lines += ["", f"## {name}", ""]
        lines.append("| until [ms] | " + " | ".join(f"{row[0] * 1e3:.2f}" for row in found) + " |")
        lines.append("|---|" + "---:|" * PARTS)
        lines.append("| use [%] | " + " | ".join(f"{row[1] * 100:.0f}" for row in found) + " |")
        lines.append("| flows left | " + " | ".join(str(row[2]) for row in found) + " |")
    lines += ["", "## Queues", ""]
    lines += [f"The longest queue at a port, for each of the first {FIRST} matrices.", ""]
    lines.append("| packets | median [MB] | most [MB] | matrices with pauses |")
    lines.append("|---|---:|---:|---:|")
    lines += queues(settings, demands)
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print, write or check."""
    options = command_line(__doc__).parse_args()
    text = table(load())
    if not (options.write or options.check):
        print(text, end="")
    return write_or_check({PORT: text}, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
