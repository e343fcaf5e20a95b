"""What ``compare`` and ``run`` share: the job first, progress on the way, results at the end.

Standard output has results alone: the tables, or JSON or CSV if they were asked for there.
Progress and remarks go to standard error.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from lightloom.cli.outputs import Outputs, write_each
from lightloom.cli.terminal import command_line, remarks_console, results_console, terminal
from lightloom.errors import InputError, OutputError
from lightloom.output.files import RowWriter, write_json, write_text
from lightloom.output.progress import TerminalMonitor
from lightloom.output.recordings import check_folder, write_recordings
from lightloom.report.table import print_opening, print_results
from lightloom.study.compare.advice import advise
from lightloom.study.compare.plan_hint import with_plan_hint
from lightloom.study.compare.results import Comparison
from lightloom.study.compare.run import compare
from lightloom.study.compare.scenario import Scenario
from lightloom.units import show_time


def run_and_report(scenario: Scenario, outputs: Outputs) -> Comparison:
    """Print the job and warnings, compare, print the tables, then write what was asked for.

    The verdict is the last line of standard output.

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
    recorded = None if scenario.packets is None else scenario.packets.record
    targets = (outputs.timeline, outputs.html, recorded)
    with_timeline = any(target is not None for target in targets)
    if recorded is not None:
        check_folder(recorded)
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
        _keep_rows(rows, remarks, interrupted=isinstance(error, KeyboardInterrupt))
        raise
    inputs = comparison.inputs | {"command": command_line()}
    comparison = dataclasses.replace(comparison, inputs=inputs)
    more = "" if terminal().verbose or outputs.html else "; --verbose or --html say more"
    remarks.print(f"compared in {time.monotonic() - started:.1f} s{more}", style="dim")
    later = [warning for warning in comparison.warnings if warning not in printed]
    print_opening((), later, console)
    print_results(comparison, console, details=terminal().verbose)
    writers = _writers(comparison, outputs, rows)
    if recorded is not None:
        writers[str(recorded)] = lambda: write_recordings(comparison.details["runs"], recorded)
    write_each(writers)
    outputs.show_page()
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


def _keep_rows(rows: RowWriter, remarks: Console, *, interrupted: bool) -> None:
    """Close the files of rows after something went wrong, and say what is in them."""
    try:
        rows.close()
    except OutputError as error:
        remarks.print(f"lightloom: {error}", soft_wrap=True, markup=False)
        return
    if interrupted and rows.count and rows.files:
        runs = f"{rows.count} finished run{'s' * (rows.count > 1)}"
        remarks.print(f"{runs} kept in {' and '.join(rows.files)}", soft_wrap=True, markup=False)


def _writers(
    comparison: Comparison, outputs: Outputs, rows: RowWriter
) -> dict[str, Callable[[], None]]:
    """What writes each file, by its name."""
    writers: dict[str, Callable[[], None]] = {}
    if (json := outputs.json_target) is not None:
        writers[json] = lambda: write_json(comparison.to_json(), json)
    if rows.files:
        writers[" and ".join(rows.files)] = rows.close
    if (html := outputs.html) is not None:
        writers[str(html)] = lambda: _write_page(comparison, html)
    if (trace := outputs.timeline) is not None:
        writers[str(trace)] = lambda: _write_timeline(comparison, trace)
    if (launch := outputs.launch) is not None:
        writers[str(launch)] = lambda: _write_launch(comparison, launch)
    return writers


def _write_page(comparison: Comparison, path: Path) -> None:
    from lightloom.report.page import write_page  # plots take a while to import

    write_page(comparison, path)


def _write_timeline(comparison: Comparison, path: Path) -> None:
    from lightloom.report.timeline import write_timeline

    write_timeline(comparison, path)


def _write_launch(comparison: Comparison, path: Path) -> None:
    from lightloom.report.launch import launch_text

    job = comparison.details["jobs"][advise(comparison.results).build.fabric]
    write_text(launch_text(job, comparison.inputs["command"]), path)
