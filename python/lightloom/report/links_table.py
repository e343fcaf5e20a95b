"""Links that were fitted to measured collectives: every size before and after, and the values."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console
from rich.text import Text

from lightloom.report.grid import Grid, print_rows
from lightloom.study.calibration.network.fit import FittedLinks, FittedSize
from lightloom.study.calibration.network.readings import Reading
from lightloom.units import show_bytes, show_time


def print_links(fitted: FittedLinks, console: Console) -> None:
    """Print each size of each reading, the fitted values, and how far they can be trusted."""
    for reading, points in groupby(fitted.points, key=lambda point: point.reading):
        print_rows(_sizes(reading, list(points)), console, left=("",))
    print_rows(_values(fitted), console)
    console.print()
    for line in _sentences(fitted):
        console.print(Text(line), soft_wrap=True)


def _sizes(reading: Reading, points: list[FittedSize]) -> Grid:
    rows: list[list[str | float]] = [
        [
            show_bytes(point.point.size_bytes),
            show_time(point.point.time_s),
            show_time(point.before_s),
            f"{100 * point.before:+.1f}",
            show_time(point.after_s),
            f"{100 * point.after:+.1f}",
            _counted(point),
        ]
        for point in points
    ]
    return Grid(
        title=f"{reading.name}, {reading.servers}",
        headers=[
            ("size", ""),
            ("measured", ""),
            ("packaged", ""),
            ("error", "%"),
            ("calibrated", ""),
            ("error", "%"),
            ("", ""),
        ],
        rows=rows,
        best=-1,
        caption="",
    )


def _counted(point: FittedSize) -> str:
    if not point.is_fitted:
        return "not fitted"
    return f"counts {point.weight:.0%}" if point.weight < 0.995 else ""


def _values(fitted: FittedLinks) -> Grid:
    rows: list[list[str | float]] = [
        [
            name,
            _shown(name, getattr(fitted.before, name)),
            _shown(name, getattr(fitted.after, name)),
        ]
        for name in fitted.changed
    ]
    return Grid(
        title="Links",
        headers=[("value", ""), ("packaged", ""), ("calibrated", "")],
        rows=rows,
        best=-1,
        caption="efficiencies are shares of the vendor's rate",
    )


def _shown(name: str, value: float) -> str:
    return f"{value:.3f}" if name.endswith("efficiency") else show_time(value)


def _sentences(fitted: FittedLinks) -> list[str]:
    used = [point for point in fitted.points if point.is_fitted]
    before, after = (
        sum(abs(getattr(point, side)) for point in used) / len(used) for side in ("before", "after")
    )
    lines = [
        f"mean error of {len(used)} sizes: {before:.1%} as packaged, {after:.1%} calibrated"
        + ("" if fitted.held_out is None else f", {fitted.held_out:.1%} of sizes left out of a fit")
    ]
    return [*lines, *fitted.remarks]


def links_as_json(fitted: FittedLinks) -> dict[str, object]:
    """All of it as plain values."""
    return {
        "links": {
            name: {
                "packaged": getattr(fitted.before, name),
                "calibrated": getattr(fitted.after, name),
            }
            for name in fitted.changed
        },
        "sizes": [
            {
                "name": point.reading.name,
                "test": point.reading.test,
                "gpus": point.reading.servers.gpus,
                "gpus_per_server": point.reading.servers.gpus_per_server,
                "size_bytes": point.point.size_bytes,
                "measured_s": point.point.time_s,
                "packaged_s": point.before_s,
                "calibrated_s": point.after_s,
                "weight": point.weight if point.is_fitted else 0.0,
            }
            for point in fitted.points
        ],
        "held_out_error": fitted.held_out,
        "remarks": list(fitted.remarks),
    }
