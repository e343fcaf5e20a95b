"""What a page shows of single flows and links of a packet simulation: the worst, and a map."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from lightloom.packets import PacketRun
from lightloom.packets.spread import spread
from lightloom.report.grid import Grid
from lightloom.report.plots_circuits import MAX_CELLS, matrix_drawing
from lightloom.units import show_bytes, show_number, show_time, time_unit

#: rows of a table, and points of a line
MAX_ROWS, MAX_POINTS = 10, 2000


def worst_flows(run: PacketRun) -> Grid | None:
    """The flows with the largest slowdown; nothing if none has finished."""
    done = np.flatnonzero(~np.isnan(run.slowdown))
    if not len(done):
        return None
    worst = done[np.argsort(-run.slowdown[done], kind="stable")][:MAX_ROWS]
    unit_s, unit = time_unit(float(run.fct_s[worst].max()))
    flows = run.flows
    rows = [
        [
            f"{flow}",
            run.nodes[flows.source[flow]],
            run.nodes[flows.destination[flow]],
            show_bytes(int(flows.size_bytes[flow]), 4),
            show_time(float(flows.start_s[flow])),
            float(run.fct_s[flow]) / unit_s,
            float(run.slowdown[flow]),
        ]
        for flow in worst.tolist()
    ]
    names = ("flow", "from", "to", "size", "start")
    headers = [*((name, "") for name in names), ("time", unit), ("slowdown", "")]
    left = len(run.flows) - len(done)
    unfinished = f"; {left:,} flows have not finished" if left else ""
    return Grid("Worst flows", headers, rows, -1, f"By slowdown{unfinished}")


def utilization(run: PacketRun) -> npt.NDArray[np.float64]:
    """What each link sent, over what it could have."""
    links = run.links
    could = links.rate_gbps * 1e9 / 8 * max(run.end_s, 1e-12)
    return np.asarray(links.sent_bytes / could, dtype=np.float64)


def busiest_links(run: PacketRun) -> Grid | None:
    """The links that sent the largest share of what they could."""
    use, links = utilization(run), run.links
    if not len(use):
        return None
    busiest = np.argsort(-use, kind="stable")[:MAX_ROWS]
    rows = [
        [
            f"{run.nodes[links.source[link]]} to {run.nodes[links.destination[link]]}",
            run.layers[links.layer[link]],
            f"{links.rate_gbps[link]:g}",
            f"{100 * use[link]:.1f}",
            f"{int(links.peak_queue_bytes[link]) / 1e3:,.1f}",
            f"{int(links.drops[link]):,}",
            f"{int(links.marks[link]):,}",
        ]
        for link in busiest.tolist()
    ]
    headers = [
        ("link", ""), ("layer", ""), ("rate", "Gb/s"), ("used", "%"), ("longest queue", "kB"),
        ("drops", ""), ("marks", ""),
    ]  # fmt: skip
    return Grid("Busiest links", headers, rows, -1, f"Of {len(use):,} links, over the whole run")


def link_map(run: PacketRun) -> Markup | None:
    """From node to node, how much of a link is used; parallel links as their mean."""
    use, links = utilization(run), run.links
    count = len(run.nodes)
    if not len(use) or not count:
        return None
    # neighbors share a cell of a large map: as a matrix of all nodes it would not fit
    step = -(-count // MAX_CELLS)
    cells = -(-count // step)
    total, number = np.zeros((cells, cells)), np.zeros((cells, cells))
    place = links.source // step, links.destination // step
    np.add.at(total, place, use)
    np.add.at(number, place, 1)
    # in hundredths of a percent: drawings are of whole numbers
    shares = np.round(1e4 * total / np.maximum(number, 1)).astype(np.int64)
    names = [run.nodes[first : first + step] for first in range(0, count, step)]
    labels = [few[0] if len(few) == 1 else f"{few[0]}-{few[-1]}" for few in names]
    return matrix_drawing(shares, labels, lambda v: f"{show_number(v / 100, 3)} %", "Use of links")


def distributions(run: PacketRun) -> dict[str, Any] | None:
    """Completion times and slowdowns as steps, with their median and 99th percentile."""
    times, slowdowns = spread(run.fct_s), spread(run.slowdown)
    if times is None or slowdowns is None:
        return None
    unit_s, unit = time_unit(times["max"])
    return {
        "name": f"{run.transports}: {run.flows.name}",
        "time": _steps(run.fct_s / unit_s, f"completion time [{unit}]", unit_s),
        "slowdown": _steps(run.slowdown, "slowdown"),
    }


def _steps(values: npt.NDArray[np.float64], axis: str, unit: float = 1.0) -> dict[str, Any]:
    there = np.sort(values[~np.isnan(values)])
    shares = np.arange(1, len(there) + 1) / len(there)
    places = np.unique(np.linspace(0, len(there) - 1, min(len(there), MAX_POINTS)).round())
    kept = places.astype(np.int64)
    summary = spread(there)
    assert summary is not None, "only of what has finished"
    return {
        "axis": axis,
        "unit": unit,
        "points": [[float(there[i]), float(100 * shares[i])] for i in kept.tolist()],
        "quantiles": {name: summary[name] for name in ("p50", "p99")},
    }
