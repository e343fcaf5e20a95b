"""A trace as one HTML page: its timeline, where its time went, and what it communicates."""

from __future__ import annotations

from lightloom import __version__
from lightloom.report.page_template import render_page
from lightloom.report.plots_trace import MAX_RANKS, trace_drawing
from lightloom.report.trace_times import computed, time_grids, volume_grids
from lightloom.trace.importers.imported import Imported
from lightloom.trace.profile import step_times


def trace_page(imported: Imported) -> str:
    """Text of the page."""
    trace = imported.trace
    drawing = trace_drawing(imported)
    recorded = len(trace.ranks)
    calls = sum(len(rank.calls) for rank in trace.ranks.values())
    title = "What streams did when" if imported.spans else "Calls in their order"
    if len(imported.spans) > MAX_RANKS:
        title += f", of the first {MAX_RANKS} of {len(imported.spans)} ranks"
    return render_page(
        "trace.html",
        {
            "version": __version__,
            "title": f"Trace of {trace.world_size:,} ranks",
            "heading": f"{imported.form}: {calls:,} calls of {recorded:,} "
            f"rank{'s' * (recorded > 1)} of {trace.world_size:,}",
            "verdict": [
                *_verdict(imported),
                *(f"{remark[:1].upper()}{remark[1:]}." for remark in imported.remarks),
            ],
            "drawing": drawing.svg,
            "drawing_title": title,
            "legend": drawing.legend,
            "tables": [*time_grids(imported), *volume_grids(imported)],
        },
    )


def _verdict(imported: Imported) -> list[str]:
    """One sentence on the time that communication takes."""
    steps = step_times(imported.spans)
    if not steps:
        line = computed(imported)
        return [f"{line[:1].upper()}{line[1:]}."] if line else []
    length = sum(step.length_s for step in steps)
    exposed = sum(step.exposed_s for step in steps)
    communicated = sum(step.communication_s for step in steps)
    if not length or not communicated:
        return ["Nothing is communicated."]
    return [
        f"Communication takes {100 * communicated / length:.1f} % of the time, and is exposed in "
        f"{100 * exposed / length:.1f} %."
    ]
