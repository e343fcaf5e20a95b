"""``lightloom packets``: flows over a packet network, and when each finishes.

Lists of transports, rates or hosts are one table, page and file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from lightloom import packets
from lightloom.cli.options import Command, CommandCall, Option, Panel, option
from lightloom.cli.outputs import (
    Outputs,
    checked_outputs,
    path_of_point,
    say_written,
    text_outputs,
    write_each,
)
from lightloom.cli.packets_scenario import EXAMPLE, Shortcuts, scenario_of
from lightloom.cli.terminal import command_line, remarks_console, results_console
from lightloom.errors import InputError, StuckError
from lightloom.inputs.files import STDIN
from lightloom.inputs.strict import Strict, Whole
from lightloom.output.files import ColumnWriter, csv_text, write_columns, write_json, write_text
from lightloom.packets.scenario import NetworkTable, PacketTable, Queue, ScenarioFile, TrafficTable

if TYPE_CHECKING:
    from lightloom.packets.several import PacketCase

EXAMPLES = (
    EXAMPLE,
    "lightloom packets --hosts 1024 --rate 100 --transport ndp --flows flows.csv --csv out.csv",
    "lightloom packets --hosts 64 --rate 100,400 --transport roce,ndp --pattern permutation "
    "--bytes 1MB",
    "lightloom packets --hosts 16 --rate 100 --transport roce --programs ring.goal",
    "lightloom packets --scenario examples/packets.toml --set queue.size_bytes=1MB --html a.html",
)
NOTES = "--transport, --topology, --routing, --hosts, --rate, --bytes, --load, --seed take lists."

_MAX_EVENTS, _SAMPLES, _SERIES_ROWS = 100_000, 500, 1_000_000
#: rows of series for the plots of single links
_DRAWN_ROWS = 200_000
#: a run that takes less than this shows no progress, seconds
_PATIENCE_S = 1.0


class EventOptions(Strict):
    """Which events of packets are recorded."""

    max_events: Whole | None = Field(
        None, description="Number of events recorded, from the first; 100000 by default."
    )
    events_flow: Annotated[int, Field(strict=True, ge=0)] | None = Field(
        None, description="Index of the only flow whose events are recorded; the first is 0."
    )


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(_traffic(), _network(), _transport(), _simulation(), _output()),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _traffic() -> Panel:
    return Panel(
        "Traffic: a file of flows, a pattern, or programs",
        (
            option(TrafficTable, "flows", common=True, below="traffic", metavar="PATH|-"),
            option(TrafficTable, "programs", common=True, below="traffic", metavar="PATH|-"),
            option(TrafficTable, "pattern", common=True, below="traffic"),
            option(TrafficTable, "size_bytes", "--bytes", common=True, below="traffic"),
            option(TrafficTable, "fan_in", common=True, below="traffic"),
            option(TrafficTable, "group", "--group-size", common=True, below="traffic"),
            option(TrafficTable, "matrix", below="traffic"),
            option(TrafficTable, "load", below="traffic"),
            option(TrafficTable, "flow_sizes", below="traffic"),
            option(TrafficTable, "load_time_s", "--load-time", below="traffic"),
        ),
    )


def _network() -> Panel:
    tiers = ("radix", "hosts_per_leaf", "spines", "oversubscription", "hosts_per_server")
    groups = ("hosts_per_switch", "switches_per_group", "global_links", "planes", "plane_choice")
    return Panel(
        "Network",
        (
            _of_file("network.hosts"),
            _of_file("network.rate_gbps"),
            option(NetworkTable, "topology", common=True, below="network"),
            option(NetworkTable, "link_delay_s", common=True, below="network"),
            *(option(NetworkTable, name, below="network") for name in tiers),
            option(NetworkTable, "nvlink_gbps", "--nvlink", below="network"),
            *(option(NetworkTable, name, below="network") for name in groups),
            option(NetworkTable, "links", below="network"),
            option(NetworkTable, "routing", below="network"),
            option(NetworkTable, "flowlet_gap_s", "--flowlet-gap", below="network"),
            option(NetworkTable, "outages", below="network"),
            option(
                NetworkTable,
                "failures",
                "--failure",
                repeats=True,
                metavar="WHAT@START[+FOR]",
                below="network",
            ),
            option(NetworkTable, "detection_s", "--failure-detection", below="network"),
        ),
    )


def _of_file(key: str, metavar: str = "") -> Option:
    """An option that is only needed without a scenario file."""
    return replace(option(ScenarioFile, key, common=True, metavar=metavar), optional=True)


def _transport() -> Panel:
    return Panel(
        "Transport, packets and queues (by default those of the transport's reference)",
        (
            _of_file("transport", "NAME"),
            option(PacketTable, "mtu_bytes", common=True, below="packet"),
            option(PacketTable, "header_bytes", below="packet"),
            option(Queue, "size_bytes", "--queue", common=True, below="queue"),
            option(Shortcuts, "ecn", metavar="MIN,MAX,P", below="shortcuts"),
            option(Shortcuts, "pfc", metavar="PAUSE,RESUME", below="shortcuts"),
            option(Shortcuts, "initial_window", below="shortcuts"),
            option(Shortcuts, "paths", below="shortcuts"),
        ),
    )


def _simulation() -> Panel:
    return Panel(
        "Simulation",
        (
            option(Shortcuts, "scenario", common=True, below="shortcuts"),
            option(
                Shortcuts, "set", common=True, repeats=True, metavar="KEY=VALUE", below="shortcuts"
            ),
            option(ScenarioFile, "seed", common=True),
            option(ScenarioFile, "until_s"),
            option(ScenarioFile, "threads"),
        ),
    )


def _output() -> Panel:
    return Panel(
        "Output",
        (
            *text_outputs(),
            option(Outputs, "html", common=True, below="output"),
            option(Outputs, "open", below="output"),
            option(Outputs, "parquet", below="output"),
            option(Outputs, "operations", below="output"),
            option(Outputs, "series", below="output"),
            option(Outputs, "events", below="output"),
            option(EventOptions, "max_events", below="events"),
            option(EventOptions, "events_flow", below="events"),
        ),
    )


def _run(call: CommandCall) -> None:
    from lightloom.cli.points import lists_of
    from lightloom.packets.several import LISTS

    outputs = checked_outputs(call).with_page()
    lists = lists_of(call, LISTS)
    record = _record(call.take(EventOptions, "events"), outputs)
    if lists:
        _simulate_lists(call, lists, outputs, record)
    else:
        scenario, flows = _scenario_and_flows(call, outputs)
        _simulate(scenario, flows, outputs, record)


def _scenario_and_flows(
    call: CommandCall, outputs: Outputs, *, several: bool = False
) -> tuple[ScenarioFile, packets.Flows]:
    """A scenario that makes sense, and its flows."""
    from lightloom.packets.classes import classify
    from lightloom.packets.settings import resolve

    scenario, called = scenario_of(call)
    if several and str(scenario.traffic.flows) == STDIN:
        raise InputError("--flows - is read once; write the flows to a file for several runs")
    resolve(scenario, called)
    flows = packets.flows_of(scenario, lambda key: called(f"traffic.{key}"))
    classify(flows, scenario)
    _keep_input(scenario, outputs)
    _keep_operations(flows, outputs)
    _check_series(scenario, outputs, called)
    return scenario, flows


def _check_series(scenario: ScenarioFile, outputs: Outputs, called: Callable[[str], str]) -> None:
    """Refuse a period of series that nothing shows."""
    shown = outputs.series or outputs.html or outputs.json_target
    if scenario.series.model_fields_set and shown is None and not outputs.open:
        key = called("series.period_s")
        raise InputError(f"{key} is for --series, --html and --json; give one of them as well")


def _simulate(
    scenario: ScenarioFile, flows: packets.Flows, outputs: Outputs, record: packets.Record
) -> None:
    """Simulate, write what was asked for, and print the tables.

    Raises
    ------
    InputError
        If something makes no sense; nothing is written then.
    StuckError
        If flows will never finish; the rows of the others are written.
    """
    import numpy as np

    from lightloom.output.progress import TerminalMonitor
    from lightloom.packets.columns import completion_columns, unfinished_columns
    from lightloom.report.packets_table import print_packets

    rows = ColumnWriter(outputs.csv_target, outputs.parquet)
    remarks = remarks_console()
    is_done = np.zeros(len(flows), dtype=np.bool_)
    record = replace(record, sample_s=scenario.series.period_s)

    def write(finished: packets.Finished) -> None:
        is_done[finished.flow] = True
        rows.write(completion_columns(flows, finished))

    try:
        with TerminalMonitor(remarks, write, patience_s=_PATIENCE_S) as monitor:
            run = packets.simulate_flows(flows, scenario, record=record, monitor=monitor)
        rows.write(unfinished_columns(flows, is_done))
    except StuckError:
        rows.write(unfinished_columns(flows, is_done))
        raise
    except KeyboardInterrupt:
        remarks.print(f"{rows.count:,} of {len(flows):,} flows had finished", highlight=False)
        raise
    finally:
        rows.close()
    print_packets(run, scenario, remarks if outputs.on_stdout else results_console())
    say_written(rows.files)
    write_each(_writers(run, scenario, outputs))
    outputs.show_page()


def _writers(
    run: packets.PacketRun, scenario: ScenarioFile, outputs: Outputs
) -> dict[str, Callable[[], None]]:
    """What writes each file but the rows, by its name."""
    from lightloom.packets.columns import as_json

    writers: dict[str, Callable[[], None]] = {}
    if (json := outputs.json_target) is not None:
        writers[json] = lambda: write_json(as_json(run, scenario), json)
    if (series := outputs.series) is not None:
        writers[str(series)] = lambda: _write_series(run, series)
    if (events := outputs.events) is not None:
        writers[str(events)] = lambda: _write_events(run, events)
    if (operations := outputs.operations) is not None:
        writers[str(operations)] = lambda: _write_operations(run, operations)
    if (html := outputs.html) is not None:
        writers[str(html)] = lambda: _write_page(run, scenario, html)
    return writers


def _write_page(run: packets.PacketRun, scenario: ScenarioFile, path: Path) -> None:
    from lightloom.report.page_packets import write_packets_page

    write_packets_page(run, scenario, path, command_line())


def _write_events(run: packets.PacketRun, path: Path) -> None:
    """Write the events of packets as CSV."""
    from lightloom.packets.columns import trace_columns

    write_text(csv_text(trace_columns(run)), path)


def _write_series(run: packets.PacketRun, path: Path) -> None:
    """Write links and flows over time."""
    from lightloom.packets.columns import series_columns

    write_columns(series_columns(run), path)


def _write_operations(run: packets.PacketRun, path: Path) -> None:
    """Write when operations began and ended as CSV."""
    from lightloom.packets.programs import operation_rows

    assert run.operations is not None
    rows = operation_rows(run.flows, run.operations)
    write_text(csv_text(rows), path)


def _simulate_lists(
    call: CommandCall, lists: dict[str, list[Any]], outputs: Outputs, record: packets.Record
) -> None:
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
    from lightloom.cli.points import given_points
    from lightloom.packets.several import PacketCase, values_of

    waiting = []
    for point in given_points(call, lists):
        scenario, flows = _scenario_and_flows(point, outputs, several=True)
        waiting.append((PacketCase(values_of(scenario, list(lists)), scenario), flows))
    rows = ColumnWriter(outputs.csv_target, outputs.parquet)
    cases: list[PacketCase] = []
    interrupted = False
    try:
        for case, flows in waiting:
            cases.append(_simulate_case(case, flows, record, rows))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        rows.close()
    if cases:
        _report_cases(cases, outputs, rows, interrupted=interrupted)
    if interrupted:
        raise KeyboardInterrupt
    stuck = next((case for case in cases if case.stuck), None)
    if stuck is not None:
        raise StuckError(f"{stuck.title}: {stuck.stuck}")


def _simulate_case(
    case: PacketCase, flows: packets.Flows, record: packets.Record, rows: ColumnWriter
) -> PacketCase:
    """Run one case; its flows become rows that begin with its values."""
    import numpy as np

    from lightloom.output.progress import TerminalMonitor
    from lightloom.packets.columns import completion_columns, unfinished_columns

    is_done = np.zeros(len(flows), dtype=np.bool_)
    record = replace(record, sample_s=case.scenario.series.period_s)

    def write(columns: dict[str, Any]) -> None:
        count = len(columns["flow"])
        rows.write({name: np.full(count, value) for name, value in case.values.items()} | columns)

    def finished(done: packets.Finished) -> None:
        is_done[done.flow] = True
        write(completion_columns(flows, done))

    remarks = remarks_console()
    try:
        with TerminalMonitor(remarks, finished, patience_s=_PATIENCE_S) as monitor:
            run = packets.simulate_flows(flows, case.scenario, record=record, monitor=monitor)
    except StuckError as error:
        write(unfinished_columns(flows, is_done))
        return replace(case, stuck=str(error))
    except KeyboardInterrupt:
        done = f"{int(is_done.sum()):,} of {len(flows):,}"
        remarks.print(f"{case.title}: {done} flows had finished", highlight=False)
        raise
    write(unfinished_columns(flows, is_done))
    return replace(case, run=run)


def _report_cases(
    cases: Sequence[PacketCase], outputs: Outputs, rows: ColumnWriter, *, interrupted: bool
) -> None:
    """Print the table, and write every file but the rows."""
    from lightloom.report.packets_cases import print_cases

    remarks = remarks_console()
    print_cases(cases, remarks if outputs.on_stdout else results_console())
    say_written(rows.files)
    write_each(_writers_of_cases(cases, outputs, interrupted=interrupted))
    outputs.show_page()


def _writers_of_cases(
    cases: Sequence[PacketCase], outputs: Outputs, *, interrupted: bool
) -> dict[str, Callable[[], None]]:
    """What writes each file, by its name; series, events and operations have one for each case."""
    from lightloom.packets.several import cases_as_json

    writers: dict[str, Callable[[], None]] = {}
    if (json := outputs.json_target) is not None:
        writers[json] = lambda: write_json(cases_as_json(cases, interrupted=interrupted), json)
    if (html := outputs.html) is not None:
        writers[str(html)] = lambda: _write_cases_page(cases, html)
    for target, write in (
        (outputs.series, _write_series),
        (outputs.events, _write_events),
        (outputs.operations, _write_operations),
    ):
        for case in cases:
            if target is not None and case.run is not None:
                path = path_of_point(target, case.title)
                writers[str(path)] = partial(write, case.run, path)
    return writers


def _write_cases_page(cases: Sequence[PacketCase], path: Path) -> None:
    from lightloom.report.page_packets import write_cases_page

    write_cases_page(cases, path, command_line())


def _keep_operations(flows: packets.Flows, outputs: Outputs) -> None:
    """Refuse to write operations where there are none."""
    if outputs.operations is not None and flows.programs is None and flows.after is None:
        raise InputError(
            "--operations is for --programs, or flows with the column 'after'; leave it out"
        )


def _record(events: EventOptions, outputs: Outputs) -> packets.Record:
    """What is kept for the files that are wanted."""
    for name in ("max_events", "events_flow"):
        if getattr(events, name) is not None and outputs.events is None:
            flag = name.replace("_", "-")
            raise InputError(f"--{flag} is for --events; give it a file as well")
    # for the plots and the file that show them
    samples = _SAMPLES if outputs.html or outputs.json_target else 0
    drawn = _DRAWN_ROWS if outputs.html else 0
    series = drawn if outputs.series is None else _SERIES_ROWS
    trace = 0 if outputs.events is None else events.max_events or _MAX_EVENTS
    return packets.Record(
        samples=samples, series=series, trace=trace, trace_flow=events.events_flow
    )


def _keep_input(scenario: ScenarioFile, outputs: Outputs) -> None:
    """Refuse to write over what is read."""
    network = scenario.network
    tables = [scenario.traffic, *(it.traffic for it in scenario.classes if it.traffic is not None)]
    sources = [network.links, network.outages]
    for traffic in tables:
        sources += [traffic.flows, traffic.programs, traffic.matrix]
    read = {source.resolve() for source in sources if source is not None}
    for path in outputs.files():
        if path.resolve() in read:
            raise InputError(f"{path}: is read as well; write results to another file")
