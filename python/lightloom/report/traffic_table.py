"""The traffic of a whole job: a table by kind of parallelism, a heat map, rows and arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.text import Text

from lightloom.demand.shading import heat_map, shades_of
from lightloom.report.demand_table import COLORS, MARGIN, print_cells
from lightloom.report.terminal import plain_table, print_table
from lightloom.study.compare.traffic import JobTraffic
from lightloom.units import show_bytes, show_column

#: rows of a heat map in a terminal at most, and characters of a cell
ROWS, CELL = 64, 2


def traffic_rows(traffic: JobTraffic) -> Iterator[dict[str, Any]]:
    """One flat row for each kind and pair that sends anything."""
    matrix = traffic.matrix
    for kind, sent in zip(matrix.kinds, matrix.size_bytes, strict=True):
        for source, destination in zip(*np.nonzero(sent), strict=True):
            yield {
                "kind": kind,
                f"source_{matrix.unit}": int(source),
                f"destination_{matrix.unit}": int(destination),
                "size_bytes": round(float(sent[source, destination])),
            }


def traffic_as_json(traffic: JobTraffic) -> dict[str, Any]:
    """The traffic of a job, as plain values; matrices row by row."""
    matrix = traffic.matrix
    pairs = zip(matrix.kinds, matrix.size_bytes, strict=True)
    return {
        "model": traffic.job.name,
        "gpus": traffic.job.scenario.gpus,
        "plan": traffic.job.plan.describe(),
        "unit": matrix.unit,
        "traffic": {
            kind: {
                "total_bytes": traffic.workload.traffic[kind].total_bytes,
                "network_bytes": traffic.workload.traffic[kind].network_bytes,
                "size_bytes": np.rint(sent).astype(np.int64).tolist(),
            }
            for kind, sent in pairs
        },
    }


def traffic_arrays(traffic: JobTraffic) -> dict[str, npt.NDArray[np.uint64]]:
    """A matrix of bytes for each kind, by its name; ``demand`` is what crosses servers."""
    matrix = traffic.matrix
    named = {**dict(zip(matrix.kinds, matrix.size_bytes, strict=True)), "demand": across(traffic)}
    return {name: np.rint(sent).astype(np.uint64) for name, sent in named.items()}


def across(traffic: JobTraffic) -> npt.NDArray[np.float64]:
    """Bytes of all kinds between different servers, ``(n, n)``."""
    matrix = traffic.matrix
    per_unit = traffic.job.cluster.gpus_per_server if matrix.unit == "gpu" else 1
    servers = np.arange(len(matrix.total)) // per_unit
    return np.where(servers[:, np.newaxis] != servers, matrix.total, 0.0)


def print_traffic(traffic: JobTraffic, kind: str | None, console: Console) -> None:
    """Print bytes by kind, and a heat map of one or of what crosses servers."""
    plan = traffic.job.plan
    console.print(Text(f"{traffic.job.name} on {plan.describe()}"), soft_wrap=True)
    if plan.provenance:
        console.print(Text(f"plan from: {'; '.join(plan.provenance)}"), soft_wrap=True)
    _print_kinds(traffic, console)
    title, drawn = shown_matrix(traffic, kind)
    _print_map(title, drawn, traffic.matrix.unit, console)


def _print_kinds(job_traffic: JobTraffic, console: Console) -> None:
    headers = [
        "kind",
        "all\n[GB]",
        "between\nservers [GB]",
        "share of\nthese",
        "mean GPU\nsends [GB]",
    ]
    table = plain_table("Bytes sent in one step, by kind of parallelism", headers)
    traffic, gpus = job_traffic.workload.traffic, job_traffic.job.scenario.gpus
    network = sum(kind.network_bytes for kind in traffic.values())
    sent = {name: kind for name, kind in traffic.items() if kind.total_bytes}
    columns = [
        [name.upper() for name in sent],
        show_column((kind.total_bytes / 1e9 for kind in sent.values()), 3),
        show_column((kind.network_bytes / 1e9 for kind in sent.values()), 3),
        [f"{kind.network_bytes / max(1, network):.1%}" for kind in sent.values()],
        show_column((kind.total_bytes / gpus / 1e9 for kind in sent.values()), 3),
    ]
    for row in zip(*columns, strict=True):
        table.add_row(*row)
    print_table(table, console)


def shown_matrix(traffic: JobTraffic, kind: str | None) -> tuple[str, npt.NDArray[np.float64]]:
    """What a heat map shows: a kind, or what crosses servers if anything does."""
    if kind is not None:
        return kind.upper(), traffic.matrix.of(kind)
    crossing = across(traffic)
    if crossing.any():
        return "between servers", crossing
    return "inside the server", traffic.matrix.total


def _print_map(title: str, matrix: npt.NDArray[np.float64], unit: str, console: Console) -> None:
    units = {"gpu": "GPU", "server": "server"}[unit]
    size = min(ROWS, (console.width - MARGIN) // CELL)
    heat = heat_map(matrix, size, size)
    text = f"{title}; rows: source {units}, columns: destination {units}"
    if heat.rows_per_cell > 1:
        text += f"; a cell is {heat.rows_per_cell} x {heat.columns_per_cell} of them"
    console.print(Text(text), soft_wrap=True)
    print_cells(console, heat, CELL, numbers=False)
    for level, shade in enumerate(shades_of(console.encoding)[1:], 1):
        legend = Text(shade * 2, style=COLORS[level])
        legend.append(f" to {show_bytes(heat.bounds[level], 3)} per cell", "default")
        if level == 1:
            legend.append("; blank is none", "default")
        console.print(legend)
