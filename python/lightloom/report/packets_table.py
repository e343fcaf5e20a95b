"""A packet simulation as tables and sentences."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import numpy as np
from rich.console import Console
from rich.text import Text

from lightloom.packets import NetworkTable, PacketRun, PacketScenario
from lightloom.packets.programs import critical_rows, operation_rows
from lightloom.packets.settings import PacketSettings, topology_of
from lightloom.packets.spread import spread
from lightloom.report.grid import Grid, as_rich
from lightloom.report.terminal import print_table, print_wrapped
from lightloom.units import show_bytes, show_column, show_count, show_number, show_time, time_unit

_WIDTH = 80
#: unfinished flows that are named
_NAMED = 5


def print_packets(run: PacketRun, scenario: PacketScenario, console: Console) -> None:
    """Print what was simulated, when flows finished, and the use of the links."""
    print_wrapped(heading(run, scenario), console)
    for grid in grids(run):
        print_table(as_rich(grid), console)
    console.print()
    print_wrapped(work_text(run), console)
    for line in settings_lines(run):
        console.print(Text(line, style="dim"), soft_wrap=True)
    console.print()
    for remark in run.remarks:
        print_wrapped(remark, console)
    for sentence in [*programs_text(run), *verdict(run)]:
        print_wrapped(sentence, console, "bold")


def heading(run: PacketRun, scenario: PacketScenario) -> str:
    """What was simulated, in one line."""
    flows = run.flows
    return (
        f"{flows.name}: {len(flows):,} flow{'s' * (len(flows) > 1)}, "
        f"{show_bytes(int(flows.size_bytes.sum()))}, by {run.transports} over "
        f"{network_text(scenario.network)}"
    )


def network_text(network: NetworkTable) -> str:
    """A short description of the network."""
    if network.topology == "links":
        return f"the links of {network.links} between {network.hosts:,} hosts"
    built = topology_of(network)
    links = f"{network.rate_gbps:g} Gb/s, {show_time(network.link_delay_s)} per link"
    hosts = f"{network.hosts:,} hosts at {links}"
    text = f"{_fabric_text(network, built['shape'])}{hosts}"
    planes = built["planes"]
    return f"{planes} planes ({built['plane_choice']}), each {text}" if planes > 1 else text


def _fabric_text(network: NetworkTable, shape: Mapping[str, int]) -> str:
    if network.topology == "star":
        return "one switch with "
    if network.topology == "fat-tree":
        return f"a fat tree of {shape['radix']}-port switches with "
    if network.topology == "rail":
        slots, nvlink = shape["hosts_per_server"], f"{shape['nvlink_rate_bps'] / 1e9:g} Gb/s"
        return f"{slots:,} rails and servers of {slots:,}, NVLinks of {nvlink}, with "
    if network.topology == "dragonfly":
        hosts, switches = shape["hosts_per_switch"], shape["switches_per_group"]
        groups = -(-network.hosts // (hosts * switches))
        sizes = f"{groups:,} groups of {switches:,} switches, {hosts:,} hosts each"
        return f"a dragonfly of {sizes}, with "
    uplink = f"{shape['uplink_rate_bps'] / 1e9:g} Gb/s"
    leaves = -(-network.hosts // shape["hosts_per_leaf"])
    return f"{leaves:,} leaves and {shape['spines']:,} spines, uplinks of {uplink}, with "


def grids(run: PacketRun) -> list[Grid]:
    """The tables with content."""
    found = (_completion(run), _classes(run), _layers(run))
    return [grid for grid in found if grid is not None]


def _completion(run: PacketRun) -> Grid | None:
    times, slowdowns = spread(run.fct_s), spread(run.slowdown)
    if times is None or slowdowns is None:
        return None
    unit_s, unit = time_unit(times["max"])
    return Grid(
        title="Completion",
        headers=[("", ""), *((name, "") for name in times)],
        rows=[
            [f"time [{unit}]", *show_column(value / unit_s for value in times.values())],
            ["slowdown", *show_column(slowdowns.values())],
        ],
        best=-1,
        caption="time: from a flow's start until its sender has the last acknowledgment; "
        "slowdown: until the receiver has all bytes, over the same time on an idle network",
    )


def _classes(run: PacketRun) -> Grid | None:
    """The flows of each class; nothing where all have one transport."""
    uses = run.class_use()
    times = [use.fct_s["max"] for use in uses if use.fct_s is not None]
    if not times:
        return None
    unit_s, unit = time_unit(max(times))

    def column(name: str, quantile: str, scale: float = 1.0) -> list[str]:
        spreads = [getattr(use, name) for use in uses]
        shown = iter(show_column(it[quantile] / scale for it in spreads if it is not None))
        return ["-" if it is None else next(shown) for it in spreads]

    columns = [
        [use.name for use in uses],
        [use.transport for use in uses],
        [str(use.priority) for use in uses],
        [f"{use.flows:,}" for use in uses],
        [show_bytes(use.bytes) for use in uses],
        column("fct_s", "p50", unit_s),
        column("fct_s", "p99", unit_s),
        column("slowdown", "p99"),
    ]
    return Grid(
        title="Classes",
        headers=[
            ("class", ""),
            ("transport", ""),
            ("priority", ""),
            ("flows", ""),
            ("bytes", ""),
            ("p50\ntime", unit),
            ("p99\ntime", unit),
            ("p99\nslowdown", ""),
        ],
        rows=[list(row) for row in zip(*columns, strict=True)],
        best=-1,
        caption="priority: ports send packets of higher ones first, from queues of their own",
    )


def _layers(run: PacketRun) -> Grid:
    queues = [it.settings.tables["queue"] for it in run.classes.classes]
    rows = run.layer_use()
    lossless = any(queue["pfc"] is not None for queue in queues)
    shown = {
        "drops": any(queue["pfc"] is None for queue in queues) or any(row.drops for row in rows),
        "control_drops": any(row.control_drops for row in rows),
        "trims": any(queue["overflow"] == "trim" for queue in queues),
        "marks": any(queue["ecn"] is not None for queue in queues),
        "pauses": lossless,
    }
    counts = [name for name, wanted in shown.items() if wanted]
    body = [
        [
            row.name,
            f"{row.links:,}",
            f"{100 * row.mean_utilization:.1f}",
            f"{100 * row.max_utilization:.1f}",
            f"{row.peak_queue_bytes / 1e3:,.1f}",
            *(f"{getattr(row, name):,}" for name in counts),
            *([f"{100 * row.paused_s / (row.links * run.end_s):.1f}"] if lossless else []),
        ]
        for row in rows
    ]
    return Grid(
        title="Links, by layer",
        headers=[
            ("layer", ""),
            ("links", ""),
            ("mean\nuse", "%"),
            ("max\nuse", "%"),
            ("peak\nqueue", "kB"),
            *((name.replace("_", "\n"), "") for name in counts),
            *([("paused", "% of time")] if lossless else []),
        ],
        rows=body,
        best=-1,
        caption="use: of the rate, headers included, over the whole run; max: the busiest link",
    )


def verdict(run: PacketRun) -> list[str]:
    """The outcome, a sentence each."""
    left = run.unfinished
    total = len(run.flows)
    if not len(left):
        every = "The flow" if total == 1 else f"All {total:,} flows"
        return [f"{every} finished by {show_time(run.end_s)}{_slowest(run)}."]
    named = ", ".join(str(flow) for flow in left[:_NAMED])
    more = " and more" if len(left) > _NAMED else ""
    return [
        f"{total - len(left):,} of {total:,} flows finished by {show_time(run.end_s)}; "
        f"unfinished: {named}{more}; their receivers have {_received(run)}."
    ]


def _received(run: PacketRun) -> str:
    """How much of the flows that have not finished is there."""
    received, sent = run.unfinished_received_bytes, run.flows.size_bytes[run.unfinished]
    return f"{show_bytes(int(received.sum()))} of {show_bytes(int(sent.sum()))}"


def _slowest(run: PacketRun) -> str:
    """How much longer flows took than alone."""
    times = spread(run.slowdown)
    if times is None:
        return ""
    if len(run.flows) == 1:
        return f", in {show_number(times['max'])} times what it takes on an idle network"
    return (
        f"; one in a hundred took at least {show_number(times['p99'])} times as long as on an idle "
        "network"
    )


def programs_text(run: PacketRun) -> list[str]:
    """How long programs took, and what of it is on the critical path."""
    if run.operations is None:
        return []
    rows = operation_rows(run.flows, run.operations)
    path = critical_rows(run.flows, run.operations)
    begin, makespan_s = path["begin_us"] / 1e6, run.operations.makespan_s
    spans = np.diff(np.append(begin, makespan_s))
    computes = path["kind"] == "compute"
    flows = int((path["kind"] == "send").sum())
    return [
        f"{len(rows['rank']):,} operations; everything was received and computed by "
        f"{show_time(makespan_s)}. On the critical path: {int(computes.sum()):,} computations "
        f"that take {show_time(float(spans[computes].sum()), 4)}, and {flows:,} flows that take "
        f"{show_time(float(spans[~computes].sum()), 4)}."
    ]


def work_text(run: PacketRun) -> str:
    """The amount of simulation, its speed, and why two threads did not share it."""
    hops = run.data_hops + run.control_hops
    alone = f" One thread did it alone: {run.undivided}." if run.undivided else ""
    return (
        f"{show_count(hops)} packet-hops ({show_count(run.data_hops)} data, "
        f"{show_count(run.control_hops)} control) and {show_count(run.events)} events in "
        f"{show_time(run.wall_s, 3)}: {show_count(hops / run.wall_s)} packet-hops/s.{alone}"
    )


def settings_lines(run: PacketRun) -> list[str]:
    """All parameters by table, those that were given marked, in lines that fit a terminal."""
    lines: list[str] = []
    for settings in _distinct_settings(run):
        lines += _settings_lines(settings)
    return lines


def _distinct_settings(run: PacketRun) -> list[PacketSettings]:
    """The settings of all classes, equal ones once."""
    found: list[PacketSettings] = []
    for it in run.classes.classes:
        if it.settings not in found:
            found.append(it.settings)
    return found


def parameter_rows(run: PacketRun) -> list[tuple[str, str, bool]]:
    """Every key, its value as text, and whether it was given, for each of several transports."""
    found = _distinct_settings(run)
    if len(found) == 1:
        return found[0].rows()
    return [
        (f"{settings.transport}: {key}", value, is_given)
        for settings in found
        for key, value, is_given in settings.rows()
    ]


def _settings_lines(settings: PacketSettings) -> list[str]:
    mark = " (*: as given)" if settings.given else ""
    is_fitted = settings.tables["transport"]["preset"] == "auto"
    network = ", for the round trip here" if is_fitted else ""
    lines = [f"Parameters of {settings.transport}'s reference{network}{mark}"]
    for table in settings.tables:
        parts = [
            f"{key.removeprefix(f'{table}.')} {value}{'*' * is_set}"
            for key, value, is_set in settings.rows()
            if key.startswith(f"{table}.")
        ]
        if parts:
            lines += textwrap.wrap(
                ", ".join(parts),
                _WIDTH,
                initial_indent=f"  {table:<11}",
                subsequent_indent=" " * 13,
            )
    return lines
