"""What ``compare`` and ``run`` share: the job first, progress on the way, results at the end.

Standard output has results alone: the tables, or JSON or CSV if they were asked for there.
Progress and remarks go to standard error.
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from lightloom.cli.outputs import Outputs
from lightloom.cli.terminal import remarks_console, results_console, terminal
from lightloom.errors import InputError, OutputError
from lightloom.output.files import STDOUT, RowWriter, write_json, write_text
from lightloom.output.progress import TerminalMonitor
from lightloom.report.table import print_opening, print_results
from lightloom.study.compare.plan_hint import with_plan_hint
from lightloom.study.compare.results import Comparison
from lightloom.study.compare.run import compare
from lightloom.study.compare.scenario import Scenario
from lightloom.units import show_time


def run_and_report(scenario: Scenario, outputs: Outputs) -> Comparison:
    """Print the job and warnings, compare, write what was asked for, then print the tables.

    The verdict is the last line of standard output; remarks on files come before it.

    Raises
    ------
    InputError
        If the scenario cannot be used; nothing is written then.
    OutputError
        If a file cannot be written; the others and the tables are there nevertheless.
    """
    outputs = outputs.with_page()
    outputs.check(scenario.model_dump())
    if outputs.launch is not None and scenario.workload is not None:
        raise InputError("--launch is for a model: a traced program has its own plan; leave it out")
    remarks = remarks_console()
    started = time.monotonic()
    rows = outputs.rows()
    with_timeline = outputs.timeline is not None or outputs.html is not None
    # With standard output taken, the tables are a remark.
    console = remarks if outputs.on_stdout else results_console()

    printed: list[str] = []

    def opening(summary: Sequence[str], warnings: Sequence[str]) -> None:
        printed.extend(warnings)
        print_opening(summary, warnings, console)

    def finished(row: dict[str, Any]) -> None:
        rows.write(row)
        if terminal().verbose:
            remarks.print(_run_line(row), style="dim", soft_wrap=True, markup=False)

    try:
        with TerminalMonitor(remarks, finished, opening=opening) as monitor:
            comparison = compare(scenario, monitor=monitor, with_timeline=with_timeline)
            comparison = with_plan_hint(comparison, monitor)
    except BaseException as error:
        _keep_rows(outputs, rows, remarks, interrupted=isinstance(error, KeyboardInterrupt))
        raise
    command = shlex.join(["lightloom", *sys.argv[1:]])
    comparison = dataclasses.replace(comparison, inputs=comparison.inputs | {"command": command})
    failures = _write_files(comparison, outputs, rows, remarks)
    for path in outputs.files():
        if str(path) not in failures:
            remarks.print(f"wrote {path}", style="dim", soft_wrap=True, markup=False)
    remarks.print(f"compared in {time.monotonic() - started:.1f} s", style="dim")
    later = [warning for warning in comparison.warnings if warning not in printed]
    print_opening((), later, console)
    print_results(comparison, console)
    if outputs.json_target == STDOUT:
        write_json(comparison.to_json(), STDOUT)
    outputs.show_page()
    if failures:
        raise OutputError("; ".join(str(failure) for failure in failures.values()))
    return comparison


def _run_line(row: Mapping[str, Any]) -> str:
    """One finished run, in words."""
    words = [row["fabric"], row["variant"], row["imbalance"] and f"{row['imbalance']} load"]
    what = " ".join(str(word) for word in words if word)
    scale = "" if row["compute_scale"] == 1 else f", compute times x {row['compute_scale']:.3g}"
    return (
        f"{what}, seed {row['seed']} step {row['step']}{scale}: "
        f"{show_time(row['step_time_s'], 6)}, {row['events']:,} events"
    )


def _keep_rows(outputs: Outputs, rows: RowWriter, remarks: Console, *, interrupted: bool) -> None:
    """Close the files of rows after something went wrong, and say what is in them."""
    try:
        rows.close()
    except OutputError as error:
        remarks.print(f"lightloom: {error}", soft_wrap=True, markup=False)
        return
    kept = _row_files(outputs)
    if interrupted and rows.count and kept:
        runs = f"{rows.count} finished run{'s' * (rows.count > 1)}"
        remarks.print(f"{runs} kept in {' and '.join(kept)}", soft_wrap=True, markup=False)


def _row_files(outputs: Outputs) -> list[str]:
    """The files that have a row for each run."""
    targets = (outputs.csv_target, outputs.parquet)
    return [str(path) for path in targets if path not in (None, STDOUT)]


def _write_files(
    comparison: Comparison, outputs: Outputs, rows: RowWriter, remarks: Console
) -> dict[str, OutputError]:
    """Write every file; one that fails does not keep the others from being written."""
    row_file = next(iter(_row_files(outputs)), "rows")
    tasks: dict[str, Callable[[], None]] = {row_file: rows.close}
    if (json := outputs.json_target) not in (None, STDOUT):
        tasks[str(json)] = lambda: write_json(comparison.to_json(), str(json))
    if (html := outputs.html) is not None:
        tasks[str(html)] = lambda: _write_page(comparison, html)
    if (trace := outputs.timeline) is not None:
        tasks[str(trace)] = lambda: _write_timeline(comparison, trace)
    if (launch := outputs.launch) is not None:
        tasks[str(launch)] = lambda: _write_launch(comparison, launch)
    failures = {}
    for name, write in tasks.items():
        try:
            with remarks.status(f"writing {name}"):
                write()
        except OutputError as error:
            failures[name] = error
    return failures


def _write_page(comparison: Comparison, path: Path) -> None:
    from lightloom.report.page import write_page  # plots take a while to import

    write_page(comparison, path)


def _write_timeline(comparison: Comparison, path: Path) -> None:
    from lightloom.report.timeline import write_timeline

    write_timeline(comparison, path)


def _write_launch(comparison: Comparison, path: Path) -> None:
    from lightloom.report.launch import launch_text

    write_text(launch_text(comparison.details["job"], comparison.inputs["command"]), path)
