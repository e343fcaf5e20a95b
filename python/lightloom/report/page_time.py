"""What a page's timeline draws: every fabric's step as columns of numbers.

Spans are those of one worker per pipeline stage, as they were recorded; passes of micro-batches
sum them up for a view of the whole step. Where a page would grow too large, spans are kept around
the window that is shown first, and the page says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.report.explain import WORDS
from lightloom.report.page_template import packed
from lightloom.report.passes import passes
from lightloom.report.plots_svg import FabricStyle
from lightloom.report.spans import CircuitSpans, Spans, circuit_spans, worker_spans
from lightloom.report.time_window import TimeWindow, choose_window
from lightloom.study.compare.results import Comparison
from lightloom.units import show_time

#: spans of all fabrics of a page, rows of circuits and spans of circuits of one
MAX_SPANS, MAX_PAIRS, MAX_CIRCUITS = 400_000, 28, 20_000
#: the first part of an all-to-all, in words
WAITED = "all-to-all: waiting for its last member"


@dataclass(frozen=True)
class TimeView:
    """The step of one fabric: how it looks, what it says below, and its numbers."""

    style: FabricStyle
    caption: str
    numbers: dict[str, Any]


def time_views(comparison: Comparison, styles: Mapping[str, FabricStyle]) -> list[TimeView]:
    """Views of all fabrics whose timeline was kept, in their order."""
    runs = comparison.details.get("runs", {})
    spans = {
        r.fabric: kept
        for r in comparison.results
        if r.fabric in runs and len(kept := worker_spans(runs[r.fabric].run))
    }
    share = MAX_SPANS // max(1, len(spans))
    return [_view(runs[name].run, kept, styles[name], share) for name, kept in spans.items()]


def time_data(views: list[TimeView], build: str) -> dict[str, Any]:
    """What the chart of the timelines draws; that of the fabric to ``build`` is shown first."""
    if not views:
        return {}
    names = [view.style.name for view in views]
    return {
        "timelines": [view.numbers for view in views],
        "timelines_first": build if build in names else names[0],
        "words": WORDS,
        "waited": WAITED,
    }


def _view(run: Any, spans: Spans, style: FabricStyle, share: int) -> TimeView:
    workers = sorted(set(spans.worker.tolist()))
    stages = {worker: stage for stage, worker in enumerate(workers)}
    window = choose_window(spans, stages)
    assert window is not None, "a run without spans is not shown"
    kept = _around(spans, window, share)
    unit_s = _unit(run.step_time_s)
    circuits, caption = _circuits(run, unit_s)
    captions = [f"One worker per pipeline stage, first sample: {show_time(run.step_time_s, 4)}"]
    if len(kept) < len(spans):
        first, last = float(kept.start_s.min()), float(kept.end_s.max())
        captions.append(f"spans are kept from {show_time(first)} to {show_time(last)}")
    numbers = {
        "name": style.name,
        "color": style.color,
        "unit_s": unit_s,
        "step_s": run.step_time_s,
        "lanes": [f"stage {stage}" for stage in range(len(workers))],
        "window_s": [window.start_s, window.end_s],
        "categories": [name for name in WORDS if name in set(kept.category_names())],
        "passes": _passes(spans, stages, unit_s),
        "spans": _columns(kept, stages, unit_s),
        "circuits": circuits,
    }
    return TimeView(style, "; ".join([*captions, *caption]), numbers)


def _unit(step_s: float) -> float:
    """A decimal unit of which a step has some ten million: fine enough to zoom in by 10,000."""
    unit_s = 1e-12
    while step_s / unit_s > 5e7:
        unit_s *= 10
    return unit_s


def _around(spans: Spans, window: TimeWindow, share: int) -> Spans:
    """Spans of a part of the step that holds a window, ``share`` at most."""
    if len(spans) <= share:
        return spans
    middle = (window.start_s + window.end_s) / 2
    near = np.argsort(np.abs(spans.start_s - middle), kind="stable")[:share]
    return spans.take(np.sort(near))


def _whole(seconds: npt.NDArray[Any], unit_s: float) -> npt.NDArray[np.int64]:
    return np.round(np.asarray(seconds) / unit_s).astype(np.int64)


def _times(
    start_s: npt.NDArray[Any], end_s: npt.NDArray[Any], unit_s: float
) -> dict[str, npt.NDArray[np.int64]]:
    """Pauses since the end of the span before, and lengths: small numbers, often equal ones."""
    start, end = _whole(start_s, unit_s), _whole(end_s, unit_s)
    before = np.concatenate([[0], end[:-1]]) if len(end) else end
    return {"pause": start - before, "length": end - start}


def _columns(spans: Spans, stages: Mapping[int, int], unit_s: float) -> dict[str, str]:
    """Spans lane by lane, in which neighbors are alike."""
    lanes = np.array([stages[worker] for worker in spans.worker.tolist()], dtype=np.int64)
    order = np.lexsort((spans.start_s, spans.stream, lanes))
    numbers = {name: number for number, name in enumerate(WORDS)}
    category = np.array([numbers[name] for name in spans.category_names()], dtype=np.int64)
    columns = {
        "lane": lanes,
        "stream": np.minimum(spans.stream, 1),
        "waited": _whole(spans.waited_s, unit_s),
        "category": category,
        "layer": spans.layer,
        "micro_batch": spans.micro_batch,
    }
    times = _times(spans.start_s[order], spans.end_s[order], unit_s)
    ordered = {name: column[order] for name, column in columns.items()}
    return {name: packed(column) for name, column in (ordered | times).items()}


def _passes(spans: Spans, stages: Mapping[int, int], unit_s: float) -> dict[str, Any]:
    """Forward and backward passes of micro-batches on every stage."""
    columns: dict[str, list[npt.NDArray[Any]]] = {
        name: [] for name in ("lane", "start_s", "end_s", "backward", "micro_batch")
    }
    overlap = False
    for worker, stage in stages.items():
        worked = passes(spans.take(spans.worker == worker))
        overlap |= worked.overlap
        columns["lane"].append(np.full(len(worked.start_s), stage))
        columns["start_s"].append(worked.start_s)
        columns["end_s"].append(worked.end_s)
        columns["backward"].append(worked.backward.astype(np.int64))
        columns["micro_batch"].append(worked.micro_batch)
    whole = {name: np.concatenate(parts) for name, parts in columns.items()}
    times = _times(whole.pop("start_s"), whole.pop("end_s"), unit_s)
    numbers = {name: packed(column) for name, column in (whole | times).items()}
    return numbers | {"overlap": overlap}


def _circuits(run: Any, unit_s: float) -> tuple[dict[str, Any] | None, list[str]]:
    """Circuits of the region that changes most, if any change, and what is shown of them."""
    circuits = circuit_spans(run)
    if len(circuits) <= len(circuits.pairs()):
        # nothing changes: the drawing would be full bars
        return None, []
    region = max(_regions(circuits.pairs()), key=lambda pairs: _changes(circuits, pairs))
    shown = region[:MAX_PAIRS]
    rows = {pair: row for row, pair in enumerate(shown)}
    ends = list(zip(circuits.a.tolist(), circuits.b.tolist(), strict=True))
    chosen = np.flatnonzero([pair in rows for pair in ends])[:MAX_CIRCUITS]
    mine = circuits.take(chosen)
    servers = sorted({server for pair in region for server in pair})
    cut = f" ({len(shown)} of {len(region)} pairs)" if len(shown) < len(region) else ""
    caption = (
        f"below, circuits between servers {servers[0]} to {servers[-1]}{cut}: the stronger the "
        "color, the more in parallel; gaps are without light"
    )
    columns = {
        "row": np.array([rows[ends[place]] for place in chosen.tolist()], dtype=np.int64),
        "count": mine.count,
        **_times(mine.up_s, mine.down_s, unit_s),
    }
    numbers: dict[str, Any] = {name: packed(column) for name, column in columns.items()}
    return numbers | {"pairs": [f"{a} - {b}" for a, b in shown]}, [caption]


def _regions(pairs: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Pairs that are connected through others are one region."""
    root: dict[int, int] = {}

    def find(server: int) -> int:
        while root.setdefault(server, server) != server:
            server = root[server]
        return server

    for a, b in pairs:
        root[find(a)] = find(b)
    by_root: dict[int, list[tuple[int, int]]] = {}
    for pair in pairs:
        by_root.setdefault(find(pair[0]), []).append(pair)
    return list(by_root.values())


def _changes(circuits: CircuitSpans, pairs: list[tuple[int, int]]) -> int:
    chosen = set(pairs)
    ends = zip(circuits.a.tolist(), circuits.b.tolist(), strict=True)
    return sum(pair in chosen for pair in ends)
