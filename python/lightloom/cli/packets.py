"""``lightloom packets``: flows over a packet network, and when each finishes."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from lightloom.cli.options import Command, Given, Option, Panel, option
from lightloom.cli.outputs import Outputs, text_outputs
from lightloom.inputs.strict import File, Name, Strict, Whole
from lightloom.packets.scenario import NetworkTable, PacketTable, Queue, ScenarioFile, TrafficTable

EXAMPLES = (
    "lightloom packets --hosts 128 --rate 100 --transport ndp --pattern permutation --bytes 2MB",
    "lightloom packets --hosts 1024 --rate 100 --transport ndp --flows flows.csv --csv out.csv",
    "lightloom packets --hosts 64 --rate 100,400 --transport roce,ndp --pattern permutation "
    "--bytes 1MB",
    "lightloom packets --hosts 16 --rate 100 --transport roce --programs ring.goal",
    "lightloom packets --scenario examples/packets.toml --set queue.size_bytes=1MB --html a.html",
)
NOTES = "--transport, --topology, --routing, --hosts, --rate, --bytes, --seed take lists."


class Shortcuts(Strict):
    """Options that are several keys of a scenario, or one that depends on the transport."""

    scenario: File | None = Field(
        None,
        description="Scenario file (TOML) to start from; options given as well replace it.",
    )
    ecn: Name | None = Field(
        None,
        description="Mark packets from a queue of MIN, with probability P at MAX, and always above "
        "it; one SIZE for both; on or off.",
    )
    pfc: Name | None = Field(
        None,
        description="Pause the sender of a link above PAUSE buffered bytes until below RESUME; on "
        "or off.",
    )
    initial_window: Annotated[Whole, Field(le=2**32 - 1)] | None = Field(
        None, description="Packets of a flow that are sent before the first acknowledgment."
    )
    paths: Annotated[Whole, Field(le=2**16 - 1)] | None = Field(
        None, description="Number of paths that the packets of a flow are sprayed over."
    )
    set: tuple[str, ...] = Field(
        (), description="Any key of a scenario file, such as transport.gain=0.05; repeatable."
    )


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


def _run(given: Given) -> None:
    from lightloom.cli.packets_run import packets

    packets(given)
