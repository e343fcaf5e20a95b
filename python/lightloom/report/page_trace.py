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
    drawn = trace_drawing(imported)
    recorded = len(trace.ranks)
    calls = sum(len(one.calls) for one in trace.ranks.values())
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
                *(f"{one[:1].upper()}{one[1:]}." for one in imported.remarks),
            ],
            "drawing": drawn.svg,
            "drawing_title": title,
            "legend": drawn.legend,
            "tables": [*time_grids(imported), *volume_grids(imported)],
        },
    )


def _verdict(imported: Imported) -> list[str]:
    """One sentence on the time that communication takes."""
    found = step_times(imported.spans)
    if not found:
        line = computed(imported)
        return [f"{line[:1].upper()}{line[1:]}."] if line else []
    length = sum(one.length_s for one in found)
    exposed = sum(one.exposed_s for one in found)
    communicated = sum(one.communication_s for one in found)
    if not length or not communicated:
        return ["Nothing is communicated."]
    return [
        f"Communication takes {100 * communicated / length:.1f} % of the time, and is exposed in "
        f"{100 * exposed / length:.1f} %."
    ]
