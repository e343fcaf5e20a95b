"""What ``lightloom packets`` does: read the scenario, simulate, write and print."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.cli.options import CommandCall
from lightloom.cli.outputs import Outputs, say_written, write_each
from lightloom.cli.packets_options import EXAMPLES, EventOptions, Shortcuts
from lightloom.cli.settings import split_setting
from lightloom.cli.terminal import command_line, remarks_console, results_console
from lightloom.errors import InputError, StuckError, echo
from lightloom.inputs.formats import read_toml
from lightloom.inputs.strict import check
from lightloom.output.files import ColumnWriter, csv_text, write_json, write_text
from lightloom.output.progress import TerminalMonitor
from lightloom.packets import (
    Finished,
    Flows,
    PacketRun,
    Record,
    ScenarioFile,
    flows_of,
    load_scenario,
    simulate_flows,
)
from lightloom.packets.columns import (
    as_json,
    completion_columns,
    trace_columns,
    unfinished_columns,
)
from lightloom.packets.programs import operation_rows
from lightloom.packets.scenario import TRANSPORTS, below
from lightloom.packets.settings import profile_of, resolve
from lightloom.report.packets_table import print_packets

_MAX_EVENTS, _SAMPLES = 100_000, 500
#: a run that takes less than this shows no progress, seconds
PATIENCE_S = 1.0

#: options that choose a kind, and what of a file is about the former kind then
_CHOICES = {
    "transport.name": (),
    "traffic.flows": (),
    "traffic.programs": (),
    "traffic.pattern": ("size_bytes",),
    "network.topology": ("hosts", "rate_gbps", "link_delay_s"),
    "network.links": ("hosts", "rate_gbps", "link_delay_s"),
}


def simulate_one(call: CommandCall, outputs: Outputs) -> None:
    """Simulate flows packet by packet: completion times, queues, drops, marks, pauses."""
    record = record_of(call.take(EventOptions, "events"), outputs)
    scenario, called = scenario_of(call)
    resolve(scenario, called)
    flows = flows_of(scenario, lambda key: called(f"traffic.{key}"))
    keep_input(scenario, outputs)
    keep_operations(flows, outputs)
    run_and_report(flows, scenario, record, outputs)


def run_and_report(
    flows: Flows, scenario: ScenarioFile, record: Record, outputs: Outputs
) -> PacketRun:
    """Simulate, write what was asked for, and print the tables.

    Raises
    ------
    InputError
        If something makes no sense; nothing is written then.
    StuckError
        If flows will never finish; the rows of the others are written.
    """
    rows = ColumnWriter(outputs.csv_target, outputs.parquet)
    remarks = remarks_console()
    is_done = np.zeros(len(flows), dtype=np.bool_)

    def write(finished: Finished) -> None:
        is_done[finished.flow] = True
        rows.write(completion_columns(flows, finished))

    try:
        with TerminalMonitor(remarks, write, patience_s=PATIENCE_S) as monitor:
            run = simulate_flows(flows, scenario, record=record, monitor=monitor)
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
    return run


def _writers(
    run: PacketRun, scenario: ScenarioFile, outputs: Outputs
) -> dict[str, Callable[[], None]]:
    """What writes each file but the rows, by its name."""
    writers: dict[str, Callable[[], None]] = {}
    if (json := outputs.json_target) is not None:
        writers[json] = lambda: write_json(as_json(run, scenario), json)
    if (events := outputs.events) is not None:
        writers[str(events)] = lambda: write_events(run, events)
    if (operations := outputs.operations) is not None:
        writers[str(operations)] = lambda: write_operations(run, operations)
    if (html := outputs.html) is not None:
        writers[str(html)] = lambda: _write_page(run, scenario, html)
    return writers


def _write_page(run: PacketRun, scenario: ScenarioFile, path: Path) -> None:
    from lightloom.report.page_packets import write_packets_page  # plots take a while to import

    write_packets_page(run, scenario, path, command_line())


def write_events(run: PacketRun, path: Path) -> None:
    """Write the events of packets as CSV.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    write_text(csv_text(trace_columns(run)), path)


def write_operations(run: PacketRun, path: Path) -> None:
    """Write when operations began and ended as CSV.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    assert run.operations is not None
    rows = operation_rows(run.flows, run.operations)
    write_text(csv_text(rows), path)


def keep_operations(flows: Flows, outputs: Outputs) -> None:
    """Refuse to write operations where there are none."""
    if outputs.operations is not None and flows.programs is None and flows.after is None:
        raise InputError(
            "--operations is for --programs, or flows with the column 'after'; leave it out"
        )


def scenario_of(call: CommandCall) -> tuple[ScenarioFile, Callable[[str], str]]:
    """The scenario of the file, if there is one, with what other options say in its place.

    Returns
    -------
    tuple
        The scenario, and what messages call a key of it.

    Raises
    ------
    InputError
        If a value is missing, of the wrong kind or out of range, or a key unknown.
    """
    shortcuts = call.take(Shortcuts, "shortcuts")
    path, values = shortcuts.scenario, dict[str, Any]()
    if path is not None:
        load_scenario(path)  # a file is complete by itself, so that its mistakes are called its own
        values = below(read_toml(path, "scenario"), path.parent)
    table = values.get("transport")
    name = call.tables.get("transport") or (table.get("name") if isinstance(table, dict) else table)
    settings = dict(_setting(text) for text in shortcuts.set)
    settings_by_option = _scenario_keys(call.tables) | _shortcut_keys(shortcuts, name)
    twice = next((key for key in settings if key in settings_by_option), None)
    called = _names_of_keys(call, shortcuts, settings_by_option, settings)
    if twice is not None:
        raise InputError(f"--set {twice} and {called(twice)} are both given; leave one of them out")
    for key, stays in _CHOICES.items():
        table_name = key.partition(".")[0]
        if key in settings_by_option and isinstance(values.get(table_name), dict):
            kept = {name: x for name, x in values[table_name].items() if name in stays}
            values[table_name] = kept
    for key, value in (settings_by_option | settings).items():
        _put(values, key, value)
    if path is None:
        _check_present(settings_by_option | settings)
        values.setdefault("traffic", {})
    return check(ScenarioFile, values, "", call=called), called


def _scenario_keys(tables: dict[str, Any]) -> dict[str, Any]:
    """The keys of a scenario that options give, and their values."""
    keys = {}
    for name, value in tables.items():
        if name == "transport":
            keys["transport.name"] = value
        elif isinstance(value, dict):
            keys |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            keys[name] = value
    return keys


def _shortcut_keys(shortcuts: Shortcuts, transport: Any) -> dict[str, Any]:
    """The keys that options of several or changing names give, and their values."""
    keys: dict[str, Any] = {}
    if shortcuts.initial_window is not None:
        keys[_window_key(transport)] = shortcuts.initial_window
    if shortcuts.paths is not None:
        keys["transport.paths"] = shortcuts.paths
    keys |= _thresholds("ecn", shortcuts.ecn, ("min_bytes", "max_bytes", "probability"))
    return keys | _thresholds("pfc", shortcuts.pfc, ("pause_bytes", "resume_bytes"))


def _window_key(transport: Any) -> str:
    """The key of a first window, which transports call differently."""
    parameters = profile_of(transport, 100.0)["transport"] if transport in TRANSPORTS else {}
    return "transport.initial_window" if "initial_window" in parameters else "transport.window"


def _thresholds(name: str, text: str | None, keys: tuple[str, ...]) -> dict[str, Any]:
    """Thresholds that are written as one option."""
    if text is None:
        return {}
    if text in {"on", "off"}:
        return {f"queue.{name}.on": text == "on"}
    parts: list[Any] = [part.strip() for part in text.split(",")]
    if name == "ecn" and len(parts) == 1:
        parts *= 2
    if not 2 <= len(parts) <= len(keys) or "" in parts:
        example = "'100kB,400kB,0.2'" if name == "ecn" else "'60kB,48kB'"
        raise InputError(
            f"--{name} {echo(text, quoted=False)}: expected on, off or sizes such as {example}"
        )
    if len(parts) == 3:
        parts[2] = _plain(parts[2])
    return {f"queue.{name}.{key}": part for key, part in zip(keys, parts, strict=False)}


def _setting(text: str) -> tuple[str, Any]:
    """A key and its value, read as TOML does, else as text."""
    key, value = split_setting(text, "queue.size_bytes=1MB")
    return key, _plain(value)


def _plain(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except (tomllib.TOMLDecodeError, KeyError, ValueError, RecursionError):
        return text


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    """Set ``a.b.c`` in nested tables."""
    *tables, last = key.split(".")
    for name in tables:
        inner = values.get(name)
        if name == "transport" and isinstance(inner, str):
            inner = {"name": inner}
        values[name] = dict(inner) if isinstance(inner, dict) else {}
        values = values[name]
    values[last] = value


def _check_present(keys: dict[str, Any]) -> None:
    needed = {"hosts": "network.hosts", "rate": "network.rate_gbps", "transport": "transport.name"}
    missing = next((flag for flag, key in needed.items() if key not in keys), None)
    if missing is not None:
        raise InputError(f"--{missing} is missing; for example: {EXAMPLES[0]}")


def _names_of_keys(
    command: CommandCall, shortcuts: Shortcuts, of_call: dict[str, Any], settings: dict[str, Any]
) -> Callable[[str], str]:
    """Say what a key is called where its value comes from: an option, or a scenario file."""
    several = {f"queue.{name}": f"--{name}" for name in ("ecn", "pfc")}
    several |= {"transport.window": "--initial-window"}
    several |= {"transport.initial_window": "--initial-window", "transport.paths": "--paths"}

    def call(key: str) -> str:
        flag = command.flag("transport" if key == "transport.name" else key)
        flag = next((name for start, name in several.items() if key.startswith(start)), flag)
        is_given = key in of_call or any(name.startswith(key) for name in of_call)
        in_file = shortcuts.scenario is not None or key in settings
        return key if in_file and not is_given else flag

    return call


def record_of(events: EventOptions, outputs: Outputs) -> Record:
    """What is kept for the files that are wanted."""
    for name in ("max_events", "events_flow"):
        if getattr(events, name) is not None and outputs.events is None:
            flag = name.replace("_", "-")
            raise InputError(f"--{flag} is for --events; give it a file as well")
    # for the plots and the file that show them
    samples = _SAMPLES if outputs.html or outputs.json_target else 0
    if outputs.events is None:
        return Record(samples=samples)
    limit = events.max_events or _MAX_EVENTS
    return Record(samples=samples, trace=limit, trace_flow=events.events_flow)


def keep_input(scenario: ScenarioFile, outputs: Outputs) -> None:
    """Refuse to write over what is read."""
    traffic, network = scenario.traffic, scenario.network
    sources = (traffic.flows, traffic.programs, traffic.matrix, network.links, network.outages)
    read = {source.resolve() for source in sources if source is not None}
    for path in outputs.files():
        if path.resolve() in read:
            raise InputError(f"{path}: is read as well; write results to another file")
