"""Figures and tables that show themselves in a notebook, and figures that can be saved."""

from __future__ import annotations

import html
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from rich.console import Console

from lightloom.errors import InputError
from lightloom.inputs.arguments import path_of
from lightloom.output.files import write_text
from lightloom.output.sweep_results import SweepResults
from lightloom.packets import PacketRun
from lightloom.report.page_goodput import lost_drawing
from lightloom.report.page_pareto import pareto_points
from lightloom.report.page_schedule import schedule_title, shortest_drawn
from lightloom.report.page_template import render_page
from lightloom.report.plots import Point, pareto
from lightloom.report.plots_circuits import matrix_drawing
from lightloom.report.plots_map import map_drawing
from lightloom.report.plots_packets import distribution
from lightloom.report.plots_purchase import candidates_drawing
from lightloom.report.plots_schedule import MAX_SOURCES, gantt
from lightloom.report.plots_svg import fabric_styles
from lightloom.schedule import PermutationSchedule
from lightloom.study.compare.results import Comparison
from lightloom.study.goodput.results import Goodput
from lightloom.study.purchase.results import PurchaseAdvice
from lightloom.study.scheduling.port_times import busiest, port_times
from lightloom.study.scheduling.results import ScheduleComparison
from lightloom.study.switch_map.results import SwitchMap
from lightloom.units import show_time

#: width of tables in a notebook, characters
_WIDTH = 110
#: points of a sweep in its drawing
_MOST_DRAWN = 12


@dataclass(frozen=True, repr=False)
class Figure:
    """A drawing: a notebook shows it, :meth:`save` writes it as a page of its own.

    Examples
    --------
    >>> import lightloom
    >>> lightloom.Figure("Nothing", "<svg></svg>", 100)
    Figure('Nothing')
    """

    title: str
    svg: str
    height: int

    def __repr__(self) -> str:
        return f"Figure({self.title!r})"

    def to_html(self) -> str:
        """Return a page that holds the drawing and its styles."""
        return render_page("figure.html", {"title": self.title, "drawing": Markup(self.svg)})

    def _repr_html_(self) -> str:
        # a frame keeps the styles of the page and those of the notebook apart
        page = html.escape(self.to_html(), quote=True)
        style = f"width: 100%; height: {self.height}px; border: 0"
        return (
            f'<iframe srcdoc="{page}" style="{style}" title="{html.escape(self.title)}"></iframe>'
        )

    def save(self, path: Path | str) -> None:
        """Write the page.

        Raises
        ------
        OutputError
            If it cannot be written.
        """
        write_text(self.to_html(), path_of(path, "path"))


def html_of(show: Callable[[Console], Any]) -> str:
    """What ``show`` prints, as HTML for a notebook."""
    console = Console(
        record=True, file=io.StringIO(), width=_WIDTH, highlight=False, force_jupyter=False
    )
    show(console)
    return console.export_html(
        inline_styles=True,
        code_format='<pre style="line-height: 1.2; font-family: monospace">{code}</pre>',
    )


def comparison_figure(comparison: Comparison) -> Figure:
    """Tokens per second of each fabric against the cost of its network."""
    styles = fabric_styles([(result.fabric, result.kind) for result in comparison.results])
    points = pareto_points(comparison.results, styles)
    return Figure("Speed against cost of the network", str(pareto(points, "the network")), 430)


def sweep_figure(results: SweepResults) -> Figure:
    """Tokens per second of the best points against the cost of their clusters.

    Raises
    ------
    InputError
        If no point is done.
    """
    best = results.best(_MOST_DRAWN)
    if not best:
        raise InputError("there is nothing to draw: no point is done")
    styles = fabric_styles(sorted({(r["fabric"], r["kind"]) for r in best}))
    points = []
    for row in best:
        is_steps = row["tokens_per_s"] is None
        pace = 3600 / row["step_time_s"] if is_steps else row["tokens_per_s"]
        unit = "steps/h" if is_steps else "tokens/s"
        style = styles[row["fabric"]]
        points.append(Point(style, row["cluster_cost_usd"], pace, pace, pace, unit))
    return Figure("Speed against cost of the cluster", str(pareto(points, "the cluster")), 430)


def goodput_figure(goodput: Goodput) -> Figure:
    """What the time goes to that is not useful, fabric by fabric."""
    height = 80 + 34 * len(goodput.results)
    return Figure("What is not useful of the time", str(lost_drawing(goodput)), height)


def map_figure(found: SwitchMap) -> Figure:
    """Delay against bring-up, and delay against the price of a port."""
    return Figure("For which circuit switches does it pay?", map_drawing(found), 660)


def purchase_figure(advice: PurchaseAdvice) -> Figure:
    """Price against pace of the candidates."""
    return Figure("Price and pace of the candidates", str(candidates_drawing(advice)), 470)


def schedule_figure(comparison: ScheduleComparison) -> Figure:
    """The shortest schedule: to whom each source sends when.

    Raises
    ------
    ValueError
        If an interrupt left no schedule.
    """
    gantt_chart = shortest_drawn(comparison)
    if gantt_chart is None:
        raise ValueError("there is no schedule to draw: the comparison was interrupted")
    title = schedule_title(comparison)
    return Figure(title, str(gantt_chart.drawing(title)), round(gantt_chart.height) + 60)


def packets_figure(run: PacketRun) -> Figure:
    """Share of flows that are done after a time.

    Raises
    ------
    InputError
        If no flow has finished.
    """
    done = run.fct_s[~np.isnan(run.fct_s)]
    if not len(done):
        raise InputError("there is nothing to draw: no flow has finished")
    return Figure("Completion times of flows", str(distribution([done], "completion time")), 370)


def circuits_figure(circuits: npt.NDArray[Any], title: str) -> Figure:
    """Circuits between servers as a matrix."""
    names = [str(index) for index in range(len(circuits))]
    drawn = matrix_drawing(circuits, names, lambda count: f"{count:g} circuits", title, "circuits")
    return Figure(title, str(drawn), 480)


def permutations_figure(schedule: PermutationSchedule, demand: npt.NDArray[np.uint64]) -> Figure:
    """A schedule of permutations: to whom each of the busiest rows sends when."""
    rows = busiest(demand, MAX_SOURCES)
    drawn = gantt(port_times(schedule, demand, rows), rows)
    title = f"Schedule by {schedule.chosen}: {show_time(schedule.length_s)}"
    return Figure(title, str(drawn.drawing(title)), round(drawn.height) + 60)
