"""What the fault trace of InfiniteHBD says, and the GPUs that three kinds of fabrics then waste.

    python experiments/infinitehbd-trace/run.py fault_trace.json [--write | --check]

Prints the tables; ``--write`` puts them into table.md. The trace is not shipped: see README.md.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import command_line, finish, markdown, settings

HERE = Path(__file__).parent
VALUES = settings(HERE)
SERVERS, GROUP = int(VALUES["servers"]), int(VALUES["group"])
Events = list[dict[str, Any]]
Flags = npt.NDArray[np.bool_]


def read(path: Path) -> Events:
    """The events of the trace."""
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != VALUES["sha256"]:
        raise SystemExit(f"{path}: not the trace of {VALUES['source']}")
    events: Events = json.loads(content)
    return events


def outages(events: Events) -> list[tuple[str, float, float]]:
    """Server, begin and end, in days, of each fault."""
    begun: dict[tuple[str, str], list[float]] = defaultdict(list)
    found = []
    for event in events:
        key = event["node_id"], event["fault_type"]["Desc"]
        if event["event_type"] == "fault_start":
            begun[key].append(event["event_time"])
        else:
            found.append((event["node_id"], begun[key].pop(0), event["event_time"]))
    return found


def down(faults: list[tuple[str, float, float]]) -> Flags:
    """Which servers are down, ``(samples, servers)``; those without a fault come last."""
    days = np.arange(0, VALUES["days"], 1 / VALUES["samples_per_day"])
    out = np.zeros((len(days), SERVERS), dtype=bool)
    index = {name: number for number, name in enumerate(dict.fromkeys(f[0] for f in faults))}
    for name, begin, end in faults:
        out[:, index[name]] |= (days >= begin) & (days < end)
    return out


def facts(events: Events) -> str:
    """What the README of the trace says, and more of it."""
    faults = outages(events)
    kinds = Counter(e["fault_type"]["Class"] for e in events if e["event_type"] == "fault_start")
    shares = {f"{kind} [%]": 100 * kinds[kind] / len(faults) for kind in ("GPU", "NIC")}
    found: dict[str, str] = {"servers with faults": str(len({fault[0] for fault in faults}))}
    found |= {name: f"{share:.2f}" for name, share in shares.items()}
    rows = [[name, found[name], f"{value}"] for name, value in VALUES["published"].items()]
    share = 100 * down(faults).mean(axis=1)
    repair = np.array([end - begin for _, begin, end in faults])
    more = {
        "faults": f"{len(faults)}",
        "servers down, mean [%]": f"{share.mean():.2f}",
        "servers down, 99 % of the time below [%]": f"{np.quantile(share, 0.99):.2f}",
        "repair, mean [days]": f"{repair.mean():.1f}",
        "repair, median [days]": f"{np.median(repair):.2f}",
    }
    rows += [[name, value, "-"] for name, value in more.items()]
    return markdown(["trace", "here", "its README"], rows)


def in_blocks(up: Flags, size: int, *, whole: bool) -> int:
    """Servers in whole groups of blocks of servers; a block may have to be whole, too."""
    blocks = up[: len(up) // size * size].reshape(-1, size).sum(axis=1)
    if whole:
        blocks = np.where(blocks == size, blocks, 0)
    return int((blocks // GROUP * GROUP).sum())


def in_line(up: Flags) -> int:
    """Servers in whole groups of a line that goes past fewer servers in a row than it reaches."""
    used, run, gap = 0, 0, 0
    for is_up in up.tolist():
        gap = 0 if is_up else gap + 1
        run += is_up
        if gap == VALUES["reach"]:
            used += run // GROUP * GROUP
            run = 0
    return used + run // GROUP * GROUP


def waste(events: Events) -> str:
    """GPUs that work but are in no group, mean over time and over orders of the servers."""
    out = down(outages(events))[:: VALUES["samples_per_day"]]
    kinds = {
        f"racks of {VALUES['rack'] * VALUES['gpus_per_server']} GPUs (NVL72)": lambda up: in_blocks(
            up, VALUES["rack"], whole=False
        ),
        f"cubes of {VALUES['cube'] * VALUES['gpus_per_server']} that are whole (TPUv4)": (
            lambda up: in_blocks(up, VALUES["cube"], whole=True)
        ),
        f"a line that reaches {VALUES['reach']} servers (InfiniteHBD)": in_line,
    }
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for seed in range(VALUES["orders"]):
        order = np.random.default_rng(seed).permutation(SERVERS)
        for sample in out:
            up = ~sample[order]
            for kind, used in kinds.items():
                found[kind].append(100 * (up.sum() - used(up)) / SERVERS)
    rows = [[kind, f"{np.mean(shares):.2f}"] for kind, shares in found.items()]
    return markdown(["fabric", "wasted [%]"], rows)


def render(events: Events) -> dict[Path, str]:
    """The tables."""
    text = (
        "# The fault trace of InfiniteHBD\n\nMade by run.py; see [README.md](README.md).\n\n"
        f"## The trace\n\n{facts(events)}\n## GPUs that work and are in no group of"
        f" {GROUP * VALUES['gpus_per_server']}\n\n{waste(events)}"
    )
    return {HERE / "table.md": text}


def main() -> int:
    """Print, write or check."""
    parser = command_line(__doc__)
    parser.add_argument("trace", type=Path, help="fault_trace.json")
    options = parser.parse_args()
    return finish(render(read(options.trace)), options)


if __name__ == "__main__":
    sys.exit(main())
