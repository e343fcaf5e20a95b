"""What each failed part costs on each fabric, as a table in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from lightloom.hardware import load_failure_rates
from lightloom.report.terminal import plain_table
from lightloom.study.compare.results import NOT_SIMULATED, FabricResult, FailureResult
from lightloom.units import show_change


def failures_table(results: Sequence[FabricResult]) -> Table:
    """The first sample without each part, part by part."""
    headers = ["part", "fabric", "step\n[s]", "longer\nby", "what is left"]
    table = plain_table(
        "With a failed part",
        headers,
        left=["fabric", "what is left"],
        caption="the first sample again, one part at a time",
    )
    for part, names, *cells in failure_rows(results):
        table.add_row(part, Text(names, style="bold"), *cells)
    return table


def failures_sentence(results: Sequence[FabricResult]) -> str:
    """What such failures cost on average, or nothing where no rate is known."""
    lost = [(result.fabric, result.lost_to_failures) for result in results]
    shares = [f"{name} {show_change(share, '.2g')}" for name, share in lost if share is not None]
    if not shares:
        return ""
    rates = load_failure_rates()
    days = rates.repair_days.value
    return (
        f"If all parts of these kinds cost as much and take {days:g} day{'s' * (days != 1)} to"
        f" repair, failures cost this share of the pace on average: {', '.join(shares)}; restarts"
        " are left out."
    )


def failure_rows(results: Sequence[FabricResult]) -> list[tuple[str, str, str, str, str]]:
    """Part, fabrics, step, by what share it is longer, and what takes the part's place."""
    rows = []
    for number, first in enumerate(results[0].failures):
        outcomes = [(result.fabric, result.failures[number]) for result in results]
        for names, outcome in _by_fabrics(outcomes):
            rows.append((first.part, ", ".join(names), *_cells(outcome)))
    return rows


def _by_fabrics(
    outcomes: Sequence[tuple[str, FailureResult]],
) -> list[tuple[list[str], FailureResult]]:
    """Outcomes of one part by fabric; those that lack it for the same reason are together."""
    together: dict[str, tuple[list[str], FailureResult]] = {}
    for fabric, outcome in outcomes:
        key = outcome.response if outcome.is_unaffected else fabric
        together.setdefault(key, ([], outcome))[0].append(fabric)
    return list(together.values())


def _cells(failure: FailureResult) -> tuple[str, str, str]:
    if failure.response.startswith(NOT_SIMULATED):
        return "", "", failure.response
    if failure.is_unaffected:
        return "", "0 %", failure.response
    if failure.step_time_s is None or failure.longer_share is None:
        return "-", "stops", failure.response
    share = show_change(failure.longer_share, ".1f")
    return f"{failure.step_time_s:.4g}", share, failure.response
