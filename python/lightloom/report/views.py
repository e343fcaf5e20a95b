"""How each class of results is printed and drawn."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from lightloom.errors import InputError
from lightloom.optional import need
from lightloom.output.sweep_results import SweepResults
from lightloom.packets import PacketRun
from lightloom.report.difference_table import print_difference
from lightloom.report.explored import explored_sweep
from lightloom.report.figure import (
    Figure,
    circuits_figure,
    comparison_figure,
    goodput_figure,
    html_of,
    map_figure,
    packets_figure,
    permutations_figure,
    purchase_figure,
    schedule_figure,
    sweep_figure,
)
from lightloom.report.goodput_table import print_goodput
from lightloom.report.map_table import print_map
from lightloom.report.packets_table import print_packets
from lightloom.report.page_explore import render_explore
from lightloom.report.page_goodput import render_goodput
from lightloom.report.page_purchase import render_purchase
from lightloom.report.prediction_table import print_prediction
from lightloom.report.purchase_table import print_purchase
from lightloom.report.result_table import print_result
from lightloom.report.schedule_table import print_scheduling
from lightloom.report.shared_table import print_shared
from lightloom.report.sweep_table import print_sweep
from lightloom.report.table import print_comparison
from lightloom.schedule import Allocation, PermutationSchedule, RelayedAllocation
from lightloom.schedule.results import Result
from lightloom.shown import Shown
from lightloom.study.compare.results import Comparison
from lightloom.study.difference import Difference
from lightloom.study.goodput.results import Goodput
from lightloom.study.prediction import Prediction
from lightloom.study.purchase.results import PurchaseAdvice
from lightloom.study.scheduling.results import ScheduleComparison
from lightloom.study.shared_cluster.results import SharedResult
from lightloom.study.switch_map.results import SwitchMap

if TYPE_CHECKING:
    import polars


class View(NamedTuple):
    """What prints a class of results, and what draws it and makes a page of it if anything does."""

    print: Callable[..., None]
    draw: Callable[..., Figure] | None = None
    page: Callable[..., str] | None = None


VIEWS: dict[type, View] = {
    Comparison: View(print_comparison, comparison_figure),
    ScheduleComparison: View(print_scheduling, schedule_figure),
    Difference: View(print_difference),
    Goodput: View(print_goodput, goodput_figure, render_goodput),
    SwitchMap: View(print_map, map_figure, lambda found: map_figure(found).to_html()),
    PurchaseAdvice: View(print_purchase, purchase_figure, render_purchase),
    SharedResult: View(print_shared),
    Prediction: View(print_prediction),
    SweepResults: View(
        print_sweep, sweep_figure, lambda results: render_explore(explored_sweep(results))
    ),
    PacketRun: View(
        lambda run, console: print_packets(run, run.scenario, console), packets_figure
    ),
    Result: View(print_result),
    Allocation: View(
        print_result, lambda found: circuits_figure(found.circuits, f"Circuits by {found.chosen}")
    ),
    RelayedAllocation: View(
        print_result,
        lambda found: circuits_figure(
            found.circuits, f"Circuits for relaying, from {found.origin}"
        ),
    ),
    PermutationSchedule: View(print_result, permutations_figure),
}  # fmt: skip


def _view(result: object) -> View:
    return next(VIEWS[kind] for kind in type(result).__mro__ if kind in VIEWS)


def show(result: object, console: Console | None, **options: bool) -> None:
    """Print a result, to the terminal by default."""
    _view(result).print(result, console or Console(highlight=False), **options)


def html(result: Shown) -> str:
    """Return what a result prints, for a notebook."""
    return html_of(result.print)


def draw(result: object, *more: Any) -> Figure:
    """Draw a result, given what else its drawing needs.

    Raises
    ------
    InputError
        If there is no drawing of such results.
    """
    drawing = _view(result).draw
    if drawing is None:
        raise InputError(f"there is no drawing of a {type(result).__name__}; print it")
    return drawing(result, *more)


def page(result: object) -> str:
    """Return the page of a result.

    Raises
    ------
    InputError
        If there is no page of such results.
    """
    render = _view(result).page
    if render is None:
        raise InputError(f"there is no page of a {type(result).__name__}; print it")
    return render(result)


def as_polars(rows: list[dict[str, object]]) -> polars.DataFrame:
    """Return rows as a table of polars.

    Raises
    ------
    MissingPackageError
        If it is not installed.
    """
    need("polars", "to_polars")
    import polars

    return polars.DataFrame(rows, infer_schema_length=None)


def as_pandas(rows: list[dict[str, object]]) -> Any:
    """Return rows as a table of pandas.

    Raises
    ------
    MissingPackageError
        If it is not installed.
    """
    need("pandas", "to_pandas")
    frame: Any = importlib.import_module("pandas").DataFrame
    return frame(rows)
