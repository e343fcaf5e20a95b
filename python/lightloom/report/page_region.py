"""The page of a region that is served: it reads ``/region.json`` again and again and shows it."""

from __future__ import annotations

from lightloom import __version__
from lightloom.report.page_template import render_page

#: seconds between two readings of ``/region.json``
_EVERY_S = 2
#: parts of the page, each with its heading
_SECTIONS = (
    ("alarms", "Alarms"),
    ("circuits", "Circuits"),
    ("demand", "Last demand"),
    ("changes", "Last changes, and why"),
    ("switches", "Switches"),
    ("members", "Clients"),
)


def render_region(region: str) -> str:
    """Text of the page of a region of this name."""
    context = {
        "version": __version__,
        "title": f"{region}: waiting for the service",
        "region": region,
        "every_s": _EVERY_S,
        "sections": _SECTIONS,
    }
    return render_page("region.html", context)
