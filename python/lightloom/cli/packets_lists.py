"""``lightloom packets`` with several transports, rates or hosts: one table, page and file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.cli.options import CommandCall
from lightloom.cli.outputs import Outputs, path_of_point, say_written, write_each
from lightloom.cli.packets_options import EventOptions
from lightloom.cli.packets_run import (
    PATIENCE_S,
    keep_input,
    keep_operations,
    record_of,
    scenario_of,
    write_events,
    write_operations,
)
from lightloom.cli.points import given_points
from lightloom.cli.terminal import command_line, remarks_console, results_console
from lightloom.errors import InputError, StuckError
from lightloom.inputs.files import STDIN
from lightloom.output.files import ColumnWriter, write_json
from lightloom.output.progress import TerminalMonitor
from lightloom.packets import Finished, Flows, Record, flows_of, simulate_flows
from lightloom.packets.columns import completion_columns, unfinished_columns
from lightloom.packets.settings import resolve
from lightloom.packets.several import PacketCase, cases_as_json, values_of
from lightloom.report.packets_cases import print_cases


def simulate_lists(call: CommandCall, lists: dict[str, list[Any]], outputs: Outputs) -> None:
    """Simulate every choice of the values in turn, write what was wanted, and print the table.

    Raises
    ------
    InputError
        If one of the scenarios makes no sense; nothing is simulated then.
    StuckError
        If flows of a run will never finish; everything else is written and printed.
    KeyboardInterrupt
        If it was interrupted; finished runs are printed and written.
    """
    record = record_of(call.take(EventOptions, "events"), outputs)
    waiting = [_case(point, list(lists), outputs) for point in given_points(call, lists)]
    rows = ColumnWriter(outputs.csv_target, outputs.parquet)
    cases: list[PacketCase] = []
    interrupted = False
    try:
        for case, flows in waiting:
            cases.append(_simulate(case, flows, record, rows))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        rows.close()
    if cases:
        _report(cases, outputs, rows, interrupted=interrupted)
    if interrupted:
        raise KeyboardInterrupt
    stuck = next((case for case in cases if case.stuck), None)
    if stuck is not None:
        raise StuckError(f"{stuck.title}: {stuck.stuck}")


def _case(call: CommandCall, keys: Sequence[str], outputs: Outputs) -> tuple[PacketCase, Flows]:
    """A scenario that makes sense, and its flows."""
    scenario, called = scenario_of(call)
    if str(scenario.traffic.flows) == STDIN:
        raise InputError("--flows - is read once; write the flows to a file for several runs")
    resolve(scenario, called)
    flows = flows_of(scenario, lambda key: called(f"traffic.{key}"))
    keep_input(scenario, outputs)
    keep_operations(flows, outputs)
    return PacketCase(values_of(scenario, keys), scenario), flows


def _simulate(case: PacketCase, flows: Flows, record: Record, rows: ColumnWriter) -> PacketCase:
    """Run one case; its flows become rows that begin with its values."""
    is_done = np.zeros(len(flows), dtype=np.bool_)

    def write(columns: dict[str, Any]) -> None:
        count = len(columns["flow"])
        rows.write({name: np.full(count, value) for name, value in case.values.items()} | columns)

    def finished(done: Finished) -> None:
        is_done[done.flow] = True
        write(completion_columns(flows, done))

    remarks = remarks_console()
    try:
        with TerminalMonitor(remarks, finished, patience_s=PATIENCE_S) as monitor:
            run = simulate_flows(flows, case.scenario, record=record, monitor=monitor)
    except StuckError as error:
        write(unfinished_columns(flows, is_done))
        return replace(case, stuck=str(error))
    except KeyboardInterrupt:
        done = f"{int(is_done.sum()):,} of {len(flows):,}"
        remarks.print(f"{case.title}: {done} flows had finished", highlight=False)
        raise
    write(unfinished_columns(flows, is_done))
    return replace(case, run=run)


def _report(
    cases: Sequence[PacketCase], outputs: Outputs, rows: ColumnWriter, *, interrupted: bool
) -> None:
    """Print the table, and write every file but the rows."""
    remarks = remarks_console()
    print_cases(cases, remarks if outputs.on_stdout else results_console())
    say_written(rows.files)
    write_each(_writers(cases, outputs, interrupted=interrupted))
    outputs.show_page()


def _writers(
    cases: Sequence[PacketCase], outputs: Outputs, *, interrupted: bool
) -> dict[str, Callable[[], None]]:
    """What writes each file, by its name; events and operations have one for each case."""
    writers: dict[str, Callable[[], None]] = {}
    if (json := outputs.json_target) is not None:
        writers[json] = lambda: write_json(cases_as_json(cases, interrupted=interrupted), json)
    if (html := outputs.html) is not None:
        writers[str(html)] = lambda: _write_page(cases, html)
    for target, write in ((outputs.events, write_events), (outputs.operations, write_operations)):
        for case in cases:
            if target is not None and case.run is not None:
                path = path_of_point(target, case.title)
                writers[str(path)] = partial(write, case.run, path)
    return writers


def _write_page(cases: Sequence[PacketCase], path: Path) -> None:
    from lightloom.report.page_packets import write_cases_page  # plots take a while to import

    write_cases_page(cases, path, command_line())
