"""Say how much the busiest port carries while an all-to-all goes on.

    python experiments/chronos-fig6/port.py [--write | --check]

Simulates the first matrix again and again, each time a ninth further, and prints what its busiest
receiver got; ``--write`` puts the table into port.md, ``--check`` says whether it is there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import cases
import numpy as np

from lightloom.packets import Record, from_matrix, simulate_flows

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from results import write_or_check  # noqa: E402

PORT = HERE / "port.md"
PARTS, NAMES = 9, ("published", "tuned", "timer")


def uses(values: dict[str, Any], name: str, demand: cases.Matrix) -> list[tuple[float, float, int]]:
    """End, use of the busiest receiver's link and flows to it that are left, of each part."""
    host = int(demand.sum(axis=0).argmax())
    flows, case = from_matrix(demand, "matrix"), cases.packet_case(values, name)
    whole = simulate_flows(flows, case, record=Record(samples=0))
    completion_s = float(whole.fct_s.max())
    ends_s = whole.fct_s[flows.destination == host]
    (link,) = np.flatnonzero(whole.links.destination == host)
    part_s = completion_s / PARTS
    most_bytes = values["network"]["rate_gbps"] * 1e9 / 8 * part_s
    found, before = [], 0
    for part in range(1, PARTS + 1):
        until = case.model_copy(update={"until_s": part * part_s})
        run = whole if part == PARTS else simulate_flows(flows, until, record=Record(samples=0))
        sent = int(run.links.sent_bytes[link])
        left = int((ends_s > part * part_s).sum())
        found.append((part * part_s, (sent - before) / most_bytes, left))
        before = sent
    return found


def table(values: dict[str, Any]) -> str:
    """The table in Markdown."""
    demand = cases.network_bytes(
        values, cases.token_matrices(values, 1, values["matrices"]["seed"])
    )
    lines = [
        "# The busiest port during one all-to-all",
        "",
        "The first matrix; the completion time of each DCQCN in ninths. Use of the link to the",
        "receiver with most to receive, headers included, and the flows to it that are left at the",
        "end of the part.",
    ]
    for name in NAMES:
        found = uses(values, name, demand[0])
        lines += ["", f"## {name}", ""]
        lines.append("| until [ms] | " + " | ".join(f"{row[0] * 1e3:.2f}" for row in found) + " |")
        lines.append("|---|" + "---:|" * PARTS)
        lines.append("| use [%] | " + " | ".join(f"{row[1] * 100:.0f}" for row in found) + " |")
        lines.append("| flows left | " + " | ".join(str(row[2]) for row in found) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print, write or check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--write", action="store_true")
    group.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = table(cases.settings())
    if not (options.write or options.check):
        print(text, end="")
    return write_or_check({PORT: text}, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
