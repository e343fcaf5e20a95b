"""Published bandwidths of all-to-alls and rings beside those of ``lightloom collective``.

    python experiments/interconnect/published.py [--write | --check]

Dispatch and combine are counted as DeepEP counts them, each token once for a server, what stays
included; others are bus bandwidths of NCCL's tests. Each is simulated on a fat-tree: tokens along
the rail of their sender (as DeepEP), and, between servers, also from GPU to GPU, and on rails with
no spine and with NICs of two planes.
"""

from __future__ import annotations

import statistics
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from results import run_table  # noqa: E402

from lightloom.fabric.interconnect import Interconnect  # noqa: E402
from lightloom.study.calibration.network.deep_ep import ELEMENT_BYTES, copies  # noqa: E402
from lightloom.study.calibration.network.fit import Machines  # noqa: E402
from lightloom.study.calibration.network.readings import (  # noqa: E402
    MeasuredSize,
    Reading,
    Servers,
    TokenShape,
)

TABLE = HERE / "published.md"
#: from which error on a row is named
OFF = 0.2
#: fabrics beside the fat-tree, by the title of their column
OTHERS = {"rail-only": "rails", "dual-plane": "two planes"}


def on_server(row: Mapping[str, Any]) -> int:
    """GPUs of a row that share NVLink."""
    return int(row.get("server", min(8, row["gpus"])))


def reading_of(row: Mapping[str, Any]) -> Reading:
    """A row as what a tool measured; its time follows from its bandwidth."""
    servers = Servers(row["gpus"], on_server(row))
    if row["test"] not in ("dispatch", "combine"):
        size = float(row["size"])
        passes = 2 if row["test"] == "all-reduce" else 1
        bus = passes * size * (servers.gpus - 1) / servers.gpus
        point = MeasuredSize(size, bus / row["published"] / 1e9)
        is_ring = row.get("ring", False)
        return Reading(row["source"], row["test"], servers, (point,), is_ring=is_ring)
    count = max(1, servers.gpus // 8)
    element = row.get("element", "BF16")
    shape = TokenShape(row.get("tokens", 4096), 7168, 256, 8, min(4, count), ELEMENT_BYTES[element])
    is_quick = "kernels" in row
    sent = shape.tokens * shape.top_k if is_quick else copies(shape, servers.gpus, count)
    size = sent * shape.hidden * shape.element_bytes
    point = MeasuredSize(size, size / row["published"] / 1e9)
    if is_quick:
        return Reading(row["source"], "all-to-all", servers, (point,))
    return Reading(row["source"], row["test"], servers, (point,), tokens=shape)


def predicted(row: Mapping[str, Any], fabric: str) -> float:
    """GB/s as the source counts."""
    reading = reading_of(row)
    machines = Machines(row["links"], float(row["rate"]), 8, row.get("nics", 8), fabric)
    links = Interconnect.named("measured", row["links"])
    (seconds,) = machines.times(reading, links)
    (point,) = reading.points
    return float(row["published"] * point.time_s / seconds)


def line(row: Mapping[str, Any]) -> tuple[str, float]:
    """A row of the table, and predicted over published."""
    element = f" {row['element']}" if "element" in row else ""
    own, crosses = predicted(row, "fat-tree"), row["gpus"] > on_server(row)
    ratio = own / row["published"]
    cells = [
        row["source"],
        row["test"] + element,
        f"{row['gpus']} {row['links']}",
        f"{row.get('nics', 8)} x {row['rate']}" if crosses else "-",
        f"{row['published']:g}",
        f"{own:.1f}",
        f"{ratio:.2f}" + (" (fault)" if "fault" in row else ""),
    ]
    cells += [f"{predicted(row, name):.1f}" if crosses else "-" for name in OTHERS]
    return f"| {' | '.join(cells)} |", ratio


def render() -> str:
    """The table, the sums by source, and the sources."""
    content = tomllib.loads((HERE / "published.toml").read_text(encoding="utf-8"))
    head = ["source", "what", "GPUs, links as", "NICs [Gb/s]", "published [GB/s]", "here"]
    head += ["ratio", *OTHERS.values()]
    lines = [
        "<!-- written by experiments/interconnect/published.py --write -->",
        "",
        f"| {' | '.join(head)} |",
        "|---|---|---|---|" + "---:|" * (len(head) - 4),
    ]
    ratios: dict[str, list[float]] = {}
    named: list[tuple[str, float]] = []
    for row in content["row"]:
        text, ratio = line(row)
        lines.append(text)
        where = f"{row['gpus']} {row['links']}"
        named.append((f"`{row['source']}`, {row['test']} on {where}: {ratio:.2f}", ratio))
        if "fault" not in row:
            where = "between" if row["gpus"] > on_server(row) else "inside"
            ratios.setdefault(f"{row['source']}, {where} servers", []).append(ratio)
    lines += ["", "| source | rows | median ratio | range |", "|---|---:|---:|---|"]
    lines += [
        f"| {name} | {len(each)} | {statistics.median(each):.2f} |"
        f" {min(each):.2f} to {max(each):.2f} |"
        for name, each in ratios.items()
    ]
    lines += ["", f"## More than {OFF:.0%} off", ""]
    lines += [f"- {name}" for name, ratio in named if abs(ratio - 1) > OFF]
    lines += ["", "## Sources", ""]
    lines += [
        f"- `{name}`: [{source['text']}]({source['url']}) ({source['date']})"
        for name, source in content["sources"].items()
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(run_table(__doc__, TABLE, render))
