"""``lightloom packets``: flows over a packet network, and when each finishes."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console

from lightloom.cli import packet_options as options
from lightloom.cli.outputs import Outputs
from lightloom.errors import InputError, StuckError, echo
from lightloom.inputs.formats import read_toml
from lightloom.inputs.strict import check
from lightloom.output.files import STDOUT, ColumnWriter, write_json, write_text
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
from lightloom.packets.scenario import below
from lightloom.packets.settings import resolve
from lightloom.report.packets_table import print_packets

EXAMPLES = """Examples

lightloom packets --hosts 128 --rate 100 --transport ndp --pattern permutation --bytes 2MB

lightloom packets --hosts 1024 --rate 100 --transport ndp --flows flows.csv --csv out.csv

lightloom packets --hosts 64 --rate 400 --transport roce --pattern incast --fan-in 8 --bytes 1MB

lightloom packets --scenario examples/packets.toml --set queue.size_bytes=1MB --html page.html

out.csv adds fct_us, from a flow's start until its sender has the last acknowledgement, and its
slowdown against an idle network. More: docs/explanation/packets.md
"""
_TRACE_EVENTS, _SAMPLES = 100_000, 500

#: the key of a scenario file that each option is, where it is one value
KEYS = {
    "hosts": "network.hosts",
    "rate": "network.rate_gbps",
    "topology": "network.topology",
    "delay": "network.link_delay_s",
    "radix": "network.radix",
    "hosts_per_leaf": "network.hosts_per_leaf",
    "spines": "network.spines",
    "oversubscription": "network.oversubscription",
    "hosts_per_server": "network.hosts_per_server",
    "nvlink": "network.nvlink_gbps",
    "links": "network.links",
    "circuits": "network.circuits",
    "transport": "transport.name",
    "mtu": "packet.mtu_bytes",
    "header": "packet.header_bytes",
    "queue": "queue.size_bytes",
    "paths": "transport.paths",
    "flows": "traffic.flows",
    "pattern": "traffic.pattern",
    "bytes": "traffic.size_bytes",
    "fan_in": "traffic.fan_in",
    "group": "traffic.group",
    "matrix": "traffic.matrix",
    "seed": "seed",
    "until": "until_s",
}
#: options that choose a kind, and what of a file is about the former kind then
_CHOICES = {
    "transport": ("transport", ()),
    "flows": ("traffic", ()),
    "pattern": ("traffic", ("size_bytes",)),
    "topology": ("network", ("hosts", "rate_gbps", "link_delay_s")),
    "links": ("network", ("hosts", "rate_gbps", "link_delay_s")),
}

#: a run that takes less than this shows no progress, seconds
_PATIENCE_S = 1.0


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("packets", epilog=EXAMPLES)(packets)


def packets(  # noqa: PLR0913 - one parameter per option of the command line
    scenario: options.ScenarioPath = None,
    flows: options.FlowsPath = None,
    pattern: options.Pattern = None,
    bytes: options.Bytes = None,
    fan_in: options.FanIn = None,
    group: options.Group = None,
    matrix: options.Matrix = None,
    hosts: options.Hosts = None,
    rate: options.Rate = None,
    topology: options.Topology = None,
    delay: options.Delay = None,
    radix: options.Radix = None,
    hosts_per_leaf: options.HostsPerLeaf = None,
    spines: options.Spines = None,
    oversubscription: options.Oversubscription = None,
    hosts_per_server: options.HostsPerServer = None,
    nvlink: options.Nvlink = None,
    links: options.Links = None,
    circuits: options.Circuits = None,
    transport: options.Transport = None,
    mtu: options.Mtu = None,
    header: options.Header = None,
    queue: options.QueueSize = None,
    ecn: options.EcnThresholds = None,
    pfc: options.PfcThresholds = None,
    window: options.Window = None,
    paths: options.PathCount = None,
    set: options.Sets = None,
    seed: options.Seed = None,
    until: options.Until = None,
    csv: options.Csv = None,
    parquet: options.Parquet = None,
    json: options.Json = None,
    html: options.Html = None,
    trace: options.Trace = None,
    trace_events: options.TraceEvents = None,
    trace_flow: options.TraceFlow = None,
) -> None:
    """Simulate flows packet by packet: completion times, queues, drops, marks, pauses."""
    given = dict(locals())
    outputs = Outputs(csv=csv, parquet=parquet, json=json, html=html, trace=trace)
    outputs.check()
    record = _record(given)
    described = scenario_of(given)
    resolve(described, _caller(given))
    wanted = flows_of(described, lambda key: _caller(given)(f"traffic.{key}"))
    _keep_input(described, outputs)
    run_and_report(wanted, described, record, outputs)


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
    rows = ColumnWriter(outputs.csv, outputs.parquet)
    remarks = Console(stderr=True)
    is_done = np.zeros(len(flows), dtype=np.bool_)

    def write(finished: Finished) -> None:
        is_done[finished.flow] = True
        rows.write(completion_columns(flows, finished))

    try:
        with TerminalMonitor(remarks, write, patience_s=_PATIENCE_S) as monitor:
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
    _write(run, scenario, outputs)
    print_packets(run, scenario, Console(highlight=False, stderr=outputs.on_stdout))
    for path in outputs.files():
        remarks.print(f"wrote {path}", style="dim", soft_wrap=True, markup=False)
    if outputs.json == STDOUT:
        write_json(as_json(run, scenario), STDOUT)
    return run


def _write(run: PacketRun, scenario: ScenarioFile, outputs: Outputs) -> None:
    """Write every file but the rows.

    Raises
    ------
    OutputError
        If one cannot be written.
    """
    if outputs.json not in (None, STDOUT):
        write_json(as_json(run, scenario), str(outputs.json))
    if outputs.trace is not None:
        import polars

        write_text(polars.DataFrame(trace_columns(run)).write_csv(), outputs.trace)
    if outputs.html is not None:
        from lightloom.report.page_packets import write_packets_page

        write_packets_page(run, scenario, outputs.html)


def scenario_of(given: dict[str, Any]) -> ScenarioFile:
    """The scenario of the file, if there is one, with what other options say in its place.

    Raises
    ------
    InputError
        If a value is missing, of the wrong kind or out of range, or a key unknown.
    """
    path = given["scenario"]
    values: dict[str, Any] = {}
    if path is not None:
        load_scenario(path)  # a file is complete by itself, so that its mistakes are called its own
        values = below(read_toml(path, "scenario"), path.parent)
    table = values.get("transport")
    name = given["transport"] or (table.get("name") if isinstance(table, dict) else table)
    own = _own(given, name)
    for option, (table, stays) in _CHOICES.items():
        if given[option] is not None and isinstance(values.get(table), dict):
            values[table] = {key: x for key, x in values[table].items() if key in stays}
    for key, value in own.items():
        _put(values, key, value)
    if path is None:
        _check_present(given)
        values.setdefault("traffic", {})
    return check(ScenarioFile, values, "", call=_caller(given))


def _own(given: dict[str, Any], transport: Any) -> dict[str, Any]:
    """Keys and values of the options, ``--set`` last."""
    own = {key: given[name] for name, key in KEYS.items() if given[name] is not None}
    own = {key: str(value) if isinstance(value, Path) else value for key, value in own.items()}
    if given["window"] is not None:
        # what a transport calls its first window
        own["transport.initial_window" if transport == "dctcp" else "transport.window"] = given[
            "window"
        ]
    own |= _thresholds("ecn", given["ecn"], ("min_bytes", "max_bytes", "probability"))
    own |= _thresholds("pfc", given["pfc"], ("pause_bytes", "resume_bytes"))
    return own | dict(_setting(text) for text in given["set"] or ())


def _thresholds(name: str, text: str | None, keys: tuple[str, ...]) -> dict[str, Any]:
    """Thresholds that are written as one option."""
    if text is None:
        return {}
    if text in {"on", "off"}:
        return {f"queue.{name}.on": text == "on"}
    parts: list[Any] = [part.strip() for part in text.split(",")]
    if name == "ecn" and len(parts) == 1:
        parts *= 2
    least = 2
    if not least <= len(parts) <= len(keys) or "" in parts:
        example = "'100kB,400kB,0.2'" if name == "ecn" else "'60kB,48kB'"
        raise InputError(
            f"--{name} {echo(text, quoted=False)}: expected on, off or sizes such as {example}"
        )
    if len(parts) == 3:
        parts[2] = _plain(parts[2])
    return {f"queue.{name}.{key}": part for key, part in zip(keys, parts, strict=False)}


def _setting(text: str) -> tuple[str, Any]:
    """A key and its value, read as TOML does, else as text."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key or not all(key.split(".")):
        raise InputError(
            f"--set {echo(text, quoted=False)}: expected KEY=VALUE, such as queue.size_bytes=1MB"
        )
    return key, _plain(value.strip())


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


def _check_present(given: dict[str, Any]) -> None:
    missing = next((name for name in ("hosts", "rate", "transport") if given[name] is None), None)
    if missing is not None:
        raise InputError(f"--{missing} is missing; for example: {EXAMPLES.splitlines()[2]}")


def _caller(given: dict[str, Any]) -> Callable[[str], str]:
    """Says what a key is called where its value comes from: an option, or a scenario file."""
    set_keys = {_setting(text)[0] for text in given["set"] or ()}
    several: dict[str, tuple[str, ...]] = {
        "window": ("transport.window", "transport.initial_window")
    }
    several |= {name: (f"queue.{name}",) for name in ("ecn", "pfc")}

    def call(key: str) -> str:
        owner = next((name for name, known in KEYS.items() if known == key), None)
        owner = owner or next((n for n, keys in several.items() if key.startswith(keys)), None)
        if owner is None or (given[owner] is None and (given["scenario"] or key in set_keys)):
            return key
        return f"--{owner.replace('_', '-')}"

    return call


def _record(given: dict[str, Any]) -> Record:
    for name in ("trace_events", "trace_flow"):
        if given[name] is not None and given["trace"] is None:
            raise InputError(f"--{name.replace('_', '-')} is for --trace; give it a file as well")
    # for the plots and the file that show them
    samples = _SAMPLES if given["html"] or given["json"] else 0
    if given["trace"] is None:
        return Record(samples=samples)
    events = _TRACE_EVENTS if given["trace_events"] is None else given["trace_events"]
    if events < 1:
        raise InputError(f"--trace-events {events}: expected at least 1")
    return Record(samples=samples, trace=events, trace_flow=given["trace_flow"])


def _keep_input(scenario: ScenarioFile, outputs: Outputs) -> None:
    """Refuse to write over what is read."""
    traffic, network = scenario.traffic, scenario.network
    sources = (traffic.flows, traffic.matrix, network.links, network.circuits)
    read = {source.resolve() for source in sources if source is not None}
    for path in outputs.files():
        if path.resolve() in read:
            raise InputError(f"{path}: is read as well; write results to another file")
