"""What a page shows of time: the shape of a step and a detail of it, for two fabrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from lightloom.report.explain import WORDS
from lightloom.report.plots_gantt import (
    TimeWindow,
    choose_window,
    circuit_drawing,
    detail_drawing,
    step_drawing,
)
from lightloom.report.plots_svg import FabricStyle
from lightloom.report.spans import circuit_spans, worker_spans
from lightloom.study.compare.results import Comparison
from lightloom.units import show_time

MAX_FABRICS, MAX_PAIRS = 2, 28


@dataclass(frozen=True)
class TimeView:
    """Drawings of one fabric's step."""

    style: FabricStyle
    step_s: float
    step: Markup
    detail: Markup
    categories: tuple[tuple[str, str], ...]
    window: str
    circuits: Markup | None
    circuits_caption: str


def time_views(comparison: Comparison, styles: dict[str, FabricStyle]) -> list[TimeView]:
    """Views of the fastest fabric and of the first with circuits that move (else the slowest)."""
    runs = comparison.details.get("runs", {})
    recorded = [r for r in comparison.results if r.fabric in runs and _kept(runs[r.fabric].run)]
    if not recorded:
        return []
    ordered = sorted(recorded, key=lambda r: r.step_time_s)
    moving = [r for r in recorded if len(circuit_spans(runs[r.fabric].run))]
    chosen = list(dict.fromkeys([ordered[0].fabric, (moving or ordered[-1:])[0].fabric]))
    names = [r.fabric for r in recorded if r.fabric in chosen[:MAX_FABRICS]]
    return [_view(runs[name], styles[name]) for name in names]


def _kept(run: Any) -> bool:
    return len(worker_spans(run)) > 0


def _view(done: Any, style: FabricStyle) -> TimeView:
    spans = worker_spans(done.run)
    workers = sorted(set(spans.worker.tolist()))
    stages = {worker: stage for stage, worker in enumerate(workers)}
    window = choose_window(spans, stages)
    assert window is not None, "a run without spans is not shown"
    inside = spans.within(window.start_s, window.end_s)
    present = set(inside.category_names())
    circuits, caption = _circuits(done.run, window, style)
    took = window.end_s - window.start_s
    return TimeView(
        style=style,
        step_s=done.run.step_time_s,
        step=step_drawing(spans, stages, done.run.step_time_s),
        detail=detail_drawing(spans, stages, window, WORDS),
        categories=tuple((f"cat-{k}", text) for k, text in WORDS.items() if k in present),
        window=f"{show_time(took)} from {show_time(window.start_s)}",
        circuits=circuits,
        circuits_caption=caption,
    )


def _circuits(run: Any, window: TimeWindow, style: FabricStyle) -> tuple[Markup | None, str]:
    """Circuits in the window, of the region that changes most there."""
    circuits = circuit_spans(run)
    inside = circuits.within(window.start_s, window.end_s)
    if len(inside) <= len(inside.pairs()):
        # nothing changes: the drawing would be full bars
        return None, ""
    regions = _regions(inside.pairs())
    region = max(regions, key=lambda pairs: _changes(inside, pairs))
    shown = region[:MAX_PAIRS]
    cut = f", {len(shown)} of {len(region)} pairs" if len(shown) < len(region) else ""
    servers = sorted({server for pair in region for server in pair})
    caption = f"region of servers {servers[0]} to {servers[-1]}{cut}"
    return circuit_drawing(inside, shown, window, style.class_), caption


def _regions(pairs: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Pairs that are connected through others are one region."""
    root: dict[int, int] = {}

    def find(server: int) -> int:
        while root.setdefault(server, server) != server:
            server = root[server]
        return server

    for a, b in pairs:
        root[find(a)] = find(b)
    found: dict[int, list[tuple[int, int]]] = {}
    for pair in pairs:
        found.setdefault(find(pair[0]), []).append(pair)
    return list(found.values())


def _changes(inside: Any, pairs: list[tuple[int, int]]) -> int:
    chosen = set(pairs)
    return sum(pair in chosen for pair in zip(inside.a.tolist(), inside.b.tolist(), strict=True))
