"""Times of NCCL's tests by size beside those of ``lightloom collective``.

    python experiments/interconnect/nccl.py [--write | --check]

``nccl_tests.csv`` has the times, ``nccl_tests.toml`` their sources. A hash of a row says whether
it may calibrate or only tests: the two numbers of switches that add up, one pair for Hopper and
one for Blackwell, are fitted to all-reduces inside servers of the first half (:func:`fit`), and
``fabric/data/cluster.toml`` has them.
"""

from __future__ import annotations

import csv
import hashlib
import statistics
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from results import run_table  # noqa: E402

from lightloom.fabric.interconnect import Interconnect  # noqa: E402
from lightloom.study.calibration.network.fit import Machines  # noqa: E402
from lightloom.study.calibration.network.readings import (  # noqa: E402
    MeasuredSize,
    Reading,
    Servers,
)

TABLE = HERE / "nccl.md"
#: first bytes of classes of sizes, by their title
CLASSES = {"to 1 MiB": 0, "to 32 MiB": 1 << 20, "to 512 MiB": 1 << 25, "512 MiB and more": 1 << 29}
#: mean absolute error from which a table is named
OFF = 0.15
#: GPUs whose switches have the same two numbers, their channels, and bytes/s of one GPU
GENERATIONS = {
    "Hopper": (("h100", "h200"), 16, 450e9),
    "Blackwell": (("b200", "b300", "gb200", "gb300"), 24, 900e9),
}
#: NCCL's chunks
CHUNKS = (128 << 10, 64 << 10, 32 << 10, 16 << 10)


@dataclass(frozen=True)
class Row:
    """One measured size of one table, and where it was measured."""

    source: str
    test: str
    links: str
    gpus: int
    server: int
    rate_gbps: float
    nics: int
    size_bytes: int
    time_s: float

    @property
    def table(self) -> tuple[object, ...]:
        """What tells its table from others."""
        of_nics = (self.rate_gbps, self.nics)
        return (self.source, self.test, self.links, self.gpus, self.server, *of_nics)

    @property
    def is_inside(self) -> bool:
        """Whether its GPUs share NVLink."""
        return self.gpus <= self.server

    @property
    def calibrates(self) -> bool:
        """Whether something may be fitted to it: by a hash of what was measured, not its time."""
        what = f"{self.source},{self.test},{self.links},{self.gpus},{self.size_bytes}"
        return hashlib.sha256(what.encode()).digest()[0] % 2 == 0


def rows() -> list[Row]:
    """All rows of the file."""
    with (HERE / "nccl_tests.csv").open(encoding="utf-8") as file:
        return [
            Row(
                row["source"],
                row["test"],
                row["links"],
                int(row["gpus"]),
                int(row["server"]),
                float(row["rate_gbps"]),
                int(row["nics"]),
                int(row["size_bytes"]),
                float(row["time_us"]) / 1e6,
            )
            for row in csv.DictReader(file)
        ]


def fit(generation: str) -> tuple[float, float, int]:
    """Efficiency, bytes that a chunk costs beyond its own, and how many rows both are fitted to.

    Least squares of relative errors over all-reduces inside servers from 32 MiB on, by three GPUs
    and more: a buffer and two rounds of it, ``(n + 1) / n`` of both at a share of NVLink's rate.
    """
    gpus, channels, rate = GENERATIONS[generation]
    start_s = Interconnect.named("measured", gpus[0]).nvlink_reduce_start_up_s
    used = []
    for row in rows():
        is_of_switches = row.test == "all-reduce" and row.is_inside and row.gpus > 2
        if not (is_of_switches and row.calibrates and row.links in gpus):
            continue
        if row.size_bytes >= 1 << 25:
            used.append(row)
    tried = []
    for overhead in range(0, 50_000, 100):
        moved = np.array([_moved(row, channels, overhead) / row.time_s for row in used])
        wanted = np.array([1 - start_s / row.time_s for row in used])
        each = float(moved @ wanted / (moved @ moved))
        tried.append((float(np.sum((each * moved - wanted) ** 2)), 1 / each / rate, overhead))
    _, efficiency, overhead = min(tried)
    return efficiency, float(overhead), len(used)


def _moved(row: Row, channels: int, overhead: int) -> float:
    """Bytes that a GPU sends, with what chunks cost, in the chunks that cost least."""
    buffer, gpus = row.size_bytes, row.gpus
    return (
        min(
            (buffer + 2 * min(buffer, channels * gpus * chunk)) * (1 + overhead / chunk)
            for chunk in CHUNKS
        )
        * (gpus + 1)
        / gpus
    )


def ratios(table: Sequence[Row]) -> list[float]:
    """Predicted over measured times of the rows of one table."""
    first = table[0]
    points = tuple(MeasuredSize(float(row.size_bytes), row.time_s) for row in table)
    servers = Servers(first.gpus, first.server)
    reading = Reading(first.source, first.test, servers, points)  # type: ignore[arg-type]
    machines = Machines(first.links, first.rate_gbps, first.server, first.nics)
    seconds = machines.times(reading, Interconnect.named("measured", first.links))
    return [float(time) / row.time_s for time, row in zip(seconds, table, strict=True)]


def _class_of(size_bytes: int) -> str:
    return [title for title, first in CLASSES.items() if size_bytes > first][-1]


def _mean(errors: Iterable[float]) -> str:
    values = list(errors)
    return f"{statistics.fmean(values):.1%} ({len(values)})" if values else "-"


def render() -> str:
    """Errors by kind and size, by table, the fits, and the sources."""
    tables: dict[tuple[object, ...], list[Row]] = {}
    for row in rows():
        tables.setdefault(row.table, []).append(row)
    found = [(table, ratios(table)) for table in tables.values()]
    lines = ["<!-- written by experiments/interconnect/nccl.py --write -->", ""]
    lines += ["## Mean absolute error of times, and rows", ""]
    lines += ["| what | " + " | ".join(CLASSES) + " | calibrate | test |", "|---|" + "---:|" * 6]
    pairs = [(row, ratio) for table, each in found for row, ratio in zip(table, each, strict=True)]
    kinds = sorted({(not row.is_inside, row.test) for row, _ in pairs})
    for crosses, test in kinds:
        own = [p for p in pairs if (not p[0].is_inside, p[0].test) == (crosses, test)]
        cells = [
            _mean(abs(ratio - 1) for row, ratio in own if _class_of(row.size_bytes) == title)
            for title in CLASSES
        ]
        large = [p for p in own if p[0].size_bytes > 1 << 20]
        cells += [
            _mean(abs(ratio - 1) for row, ratio in large if row.calibrates is half)
            for half in (True, False)
        ]
        where = "between servers" if crosses else "inside servers"
        lines.append(f"| {test}, {where} | {' | '.join(cells)} |")
    lines += ["", "The halves are of sizes above 1 MiB.", "", "## Predicted over measured", ""]
    lines += ["| source | test | GPUs | " + " | ".join(CLASSES) + " |"]
    lines.append("|---|---|---|" + "---:|" * len(CLASSES))
    for table, each in found:
        first = table[0]
        cells = []
        for title in CLASSES:
            own_ratios = [
                ratio
                for row, ratio in zip(table, each, strict=True)
                if _class_of(row.size_bytes) == title
            ]
            error = statistics.fmean(abs(r - 1) for r in own_ratios) if own_ratios else 0
            span = f"{min(own_ratios):.2f} to {max(own_ratios):.2f}" if own_ratios else "-"
            cells.append(f"**{span}**" if error > OFF else span)
        gpus = f"{first.gpus} {first.links}"
        if not first.is_inside:
            gpus += f", {first.gpus // first.server} servers"
        lines.append(f"| {first.source} | {first.test} | {gpus} | {' | '.join(cells)} |")
    lines += ["", f"In bold: {OFF:.0%} off and more in the mean.", "", "## Fits", ""]
    for name in GENERATIONS:
        efficiency, overhead, count = fit(name)
        lines.append(
            f"- {name}: {efficiency:.3f} of NVLink's rate, {overhead / 1000:.1f} kB a chunk,"
            f" by {count} rows"
        )
    lines += ["", "## Sources", ""]
    content = tomllib.loads((HERE / "nccl_tests.toml").read_text(encoding="utf-8"))
    for name, source in content["sources"].items():
        text = f"[{source['text']}]({source['url']})" if "url" in source else source["text"]
        lines.append(f"- `{name}`: {text} ({source['date']})")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(run_table(__doc__, TABLE, render))
