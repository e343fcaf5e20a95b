"""Advice on a purchase as one HTML page: what to buy, the candidates, what would change it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightloom import __version__
from lightloom.output.files import write_text
from lightloom.report.page_template import files_of, render_page
from lightloom.report.plots_purchase import candidates_drawing, styles_of, tornado
from lightloom.report.purchase_table import (
    best_grid,
    effects_grid,
    flip_sentences,
    front_grid,
    lost_grid,
    plans_grid,
    sentences,
)
from lightloom.study.purchase.results import PurchaseAdvice


def write_purchase_page(advice: PurchaseAdvice, path: Path, command: str = "") -> None:
    """Write the page; ``path`` appears only when it is whole.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    write_text(render_purchase(advice, command), path)


def render_purchase(advice: PurchaseAdvice, command: str = "") -> str:
    """Text of the page."""
    grids = [best_grid(advice), front_grid(advice), lost_grid(advice)]
    if advice.effects:
        grids.append(effects_grid(advice))
    grids.append(plans_grid(advice))
    context: dict[str, Any] = {
        "version": __version__,
        "title": "What to buy",
        "heading": advice.summary[0] if advice.summary else "",
        "verdict": sentences(advice),
        "legend": list(styles_of(advice).values()),
        "candidates": candidates_drawing(advice),
        "tornado": tornado(advice.effects) if advice.effects else "",
        "flips": flip_sentences(advice),
        "tables": grids,
        "summary": advice.summary,
        "warnings": advice.warnings,
        "command": command,
        "files": files_of("advice", advice.to_json(), advice.rows(), "a row per candidate"),
    }
    return render_page("purchase.html", context)
