"""What a sweep prints: how far it is, what failed, what was reused, and the best points."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightloom.output.sweep_results import SweepResults
from lightloom.report.terminal import plain_table
from lightloom.study.sweep.axes import GOALS
from lightloom.study.sweep.design import Values
from lightloom.study.sweep.driver import Reuse
from lightloom.units import show_option, show_time

#: reasons of failures that are printed
MOST_REASONS = 5
#: characters of a point in the table
_POINT_WIDTH = 40


def print_sweep(results: SweepResults, console: Console) -> None:
    """Print what is done, the best points, and what to know about the rest."""
    content = results.to_json()
    best = content["best"]
    if best:
        console.print(_best_table(results, best))
    for line in sweep_lines(results, content):
        console.print(Text(line), soft_wrap=True)


def _best_table(results: SweepResults, best: list[Values]) -> Table:
    """The best points: speed, dollars, where they are."""
    words = GOALS[results.goal][0]
    table = plain_table(
        f"Best points by {results.goal} ({words})",
        ["point", "fabric", "step\ntime", "tokens/s", "tok/s\nper k$"],
    )
    table.add_column("at", overflow="fold", max_width=_POINT_WIDTH)
    for row in best:
        table.add_row(
            str(row["point"]),
            Text(row["fabric"], style="bold"),
            show_time(row["step_time_s"]),
            "-" if row["tokens_per_s"] is None else f"{row['tokens_per_s']:,.0f}",
            f"{1e3 * row['perf_per_cluster_usd']:.4g}",
            Text(_place(row, results.axes)),
        )
    return table


def _place(row: Values, axes: list[str]) -> str:
    """The values of a point's axes, by the last part of their names."""
    cells = [(axis.rpartition(".")[2], row[axis]) for axis in axes if row[axis] is not None]
    return " ".join(f"{name}={show_option(value)}" for name, value in cells)


def sweep_lines(results: SweepResults, content: Values) -> list[str]:
    """What is done, failed, open and reused, in lines."""
    failed = content["failed"]
    lines = [
        f"{content['done']:,} of {content['points']:,} points are done, {len(failed):,} failed, "
        f"{content['open']:,} open"
    ]
    reasons = Counter(failure["reason"] for failure in failed)
    for reason, count in reasons.most_common(MOST_REASONS):
        numbers = [f["point"] for f in failed if f["reason"] == reason]
        where = f"point {numbers[0]}" if count == 1 else f"{count:,} points from {numbers[0]}"
        lines.append(f"failed: {where}: {reason}")
    if len(reasons) > MOST_REASONS:
        lines.append(f"failed: {len(reasons) - MOST_REASONS} more reasons in manifest.json")
    made, reused = content["reuse"]["made"], content["reuse"]["reused"]
    reuse = Reuse(Counter(made), Counter(reused)).sentence()
    lines += filter(None, [reuse, results.plan_note()])
    lines.append(f"rows: {results.path}/rows/*.parquet")
    return lines
