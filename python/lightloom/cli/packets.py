"""``lightloom packets``: flows over a packet network, and when each finishes."""

from __future__ import annotations

from dataclasses import replace

from lightloom.cli.options import Command, CommandCall, Option, Panel, option
from lightloom.cli.outputs import Outputs, text_outputs
from lightloom.cli.packets_options import EXAMPLES, EventOptions, Shortcuts
from lightloom.packets.scenario import NetworkTable, PacketTable, Queue, ScenarioFile, TrafficTable

NOTES = "--transport, --topology, --routing, --hosts, --rate, --bytes, --seed take lists."


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
            option(Outputs, "events", below="output"),
            option(EventOptions, "max_events", below="events"),
            option(EventOptions, "events_flow", below="events"),
        ),
    )


def _run(call: CommandCall) -> None:
    from lightloom.cli.packets_lists import simulate_lists
    from lightloom.cli.packets_run import simulate_one
    from lightloom.cli.points import lists_of
    from lightloom.packets.several import LISTS

    outputs = call.take(Outputs, "output").with_page()
    outputs.check(call.tables)
    if lists := lists_of(call, LISTS):
        simulate_lists(call, lists, outputs)
    else:
        simulate_one(call, outputs)
