"""The options of ``lightloom packets``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lightloom.packets import TRANSPORTS

_TRAFFIC, _NETWORK, _QUEUES, _RUN, _OUTPUT = (
    "Traffic: a file of flows or a pattern",
    "Network",
    "Transport, packets, queues (by default those of the transport's reference)",
    "Run",
    "Output",
)


def _option(panel: str, *names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


ScenarioPath = Annotated[
    Path | None,
    _option(
        _RUN,
        "--scenario",
        metavar="PATH",
        help="All of this as one TOML file; options given beside it take precedence.",
    ),
]
FlowsPath = Annotated[
    Path | None,
    _option(
        _TRAFFIC,
        "--flows",
        metavar="PATH|-",
        help="CSV with the columns src, dst, bytes, start_us and route.",
    ),
]
Pattern = Annotated[
    str | None,
    _option(
        _TRAFFIC,
        "--pattern",
        metavar="NAME",
        help="permutation (one random cycle), incast (to host 0), all-to-all, matrix.",
    ),
]
Bytes = Annotated[
    str | None, _option(_TRAFFIC, "--bytes", metavar="SIZE", help="Of each flow of a pattern: 2MB.")
]
FanIn = Annotated[
    int | None, _option(_TRAFFIC, "--fan-in", metavar="N", help="incast: hosts that send.")
]
Group = Annotated[
    int | None,
    _option(
        _TRAFFIC,
        "--group",
        metavar="N",
        help="all-to-all: hosts of a group.",
        show_default="all hosts",
    ),
]
Matrix = Annotated[
    Path | None,
    _option(
        _TRAFFIC,
        "--matrix",
        metavar="PATH",
        help="matrix: bytes from row to column: .npy, .npz, .csv, .parquet.",
    ),
]
Hosts = Annotated[int | None, _option(_NETWORK, "--hosts", metavar="N", help="Hosts (NICs).")]
Rate = Annotated[
    str | None,
    _option(_NETWORK, "--rate", metavar="GBPS", help="Rate of a link in Gb/s, per direction."),
]
Topology = Annotated[
    str | None,
    _option(
        _NETWORK,
        "--topology",
        metavar="NAME",
        help="fat-tree (three tiers), leaf-spine, star (one switch), rail.",
        show_default="fat-tree",
    ),
]
Delay = Annotated[
    str | None,
    _option(
        _NETWORK, "--delay", metavar="TIME", help="Propagation over a link.", show_default="1us"
    ),
]
Radix = Annotated[
    int | None,
    _option(
        _NETWORK,
        "--radix",
        metavar="N",
        help="fat-tree: ports of a switch.",
        show_default="fewest",
    ),
]
HostsPerLeaf = Annotated[
    int | None,
    _option(
        _NETWORK,
        "--hosts-per-leaf",
        metavar="N",
        help="leaf-spine: hosts of a leaf.",
        show_default="16",
    ),
]
Spines = Annotated[
    int | None,
    _option(
        _NETWORK,
        "--spines",
        metavar="N",
        help="leaf-spine: spines, each linked to every leaf.",
        show_default="as many as make uplinks of --rate",
    ),
]
Oversubscription = Annotated[
    float | None,
    _option(
        _NETWORK,
        "--oversubscription",
        metavar="R",
        help="leaf-spine: hosts' rate over uplinks' rate of a leaf.",
        show_default="1",
    ),
]
HostsPerServer = Annotated[
    int | None,
    _option(
        _NETWORK,
        "--hosts-per-server",
        metavar="N",
        help="rail: hosts (GPUs) of a server, each on a rail of its own.",
        show_default="8",
    ),
]
Nvlink = Annotated[
    str | None,
    _option(
        _NETWORK,
        "--nvlink",
        metavar="GBPS",
        help="rail: rate of a host's link to the NVSwitch of its server.",
        show_default="that of an H100",
    ),
]
Links = Annotated[
    Path | None,
    _option(
        _NETWORK,
        "--links",
        metavar="PATH",
        help="Any topology: CSV with the columns a, b (host number or switch name), rate_gbps and "
        "delay_us.",
    ),
]
Circuits = Annotated[
    Path | None,
    _option(
        _NETWORK,
        "--circuits",
        metavar="PATH",
        help="Links that go dark: CSV with the columns a, b, dark_us and up_us.",
    ),
]
Transport = Annotated[
    str | None,
    _option(_QUEUES, "--transport", metavar="NAME", help=f"{', '.join(TRANSPORTS)}."),
]
Mtu = Annotated[
    str | None, _option(_QUEUES, "--mtu", metavar="SIZE", help="Payload of a full packet.")
]
Header = Annotated[
    str | None, _option(_QUEUES, "--header", metavar="SIZE", help="Header of a data packet.")
]
QueueSize = Annotated[
    str | None,
    _option(_QUEUES, "--queue", metavar="SIZE", help="Data that a port queues, or 'unlimited'."),
]
EcnThresholds = Annotated[
    str | None,
    _option(
        _QUEUES,
        "--ecn",
        metavar="MIN,MAX,P",
        help="Mark from MIN on, with probability P at MAX, always above; one SIZE; or off.",
    ),
]
PfcThresholds = Annotated[
    str | None,
    _option(
        _QUEUES,
        "--pfc",
        metavar="PAUSE,RESUME",
        help="Pause a link's sender above PAUSE buffered bytes until below RESUME; or off.",
    ),
]
Window = Annotated[
    int | None, _option(_QUEUES, "--window", metavar="N", help="First window, in packets.")
]
PathCount = Annotated[
    int | None,
    _option(_QUEUES, "--paths", metavar="N", help="Paths to spray packets over."),
]
Sets = Annotated[
    list[str] | None,
    _option(
        _QUEUES,
        "--set",
        metavar="KEY=VALUE",
        help="Any key of a scenario file, such as transport.gain=0.05; repeatable.",
    ),
]
Seed = Annotated[
    int | None,
    _option(
        _RUN, "--seed", metavar="N", help="Of paths, permutations and marks.", show_default="1"
    ),
]
Until = Annotated[
    str | None,
    _option(_RUN, "--until", metavar="TIME", help="Stop then, finished or not: '10 ms'."),
]
Csv = Annotated[
    str | None,
    _option(_OUTPUT, "--csv", metavar="PATH|-", help="Completion of each flow, as they finish."),
]
Parquet = Annotated[
    Path | None, _option(_OUTPUT, "--parquet", metavar="PATH", help="The same rows.")
]
Json = Annotated[
    str | None,
    _option(_OUTPUT, "--json", metavar="PATH|-", help="Everything but the flows; - is stdout."),
]
Html = Annotated[Path | None, _option(_OUTPUT, "--html", metavar="PATH", help="A page with plots.")]
Trace = Annotated[
    Path | None,
    _option(_OUTPUT, "--trace", metavar="PATH", help="What happened to packets, as CSV."),
]
TraceEvents = Annotated[
    int | None,
    _option(
        _OUTPUT,
        "--trace-events",
        metavar="N",
        help="Only so many events, the first.",
        show_default="100000",
    ),
]
TraceFlow = Annotated[
    int | None,
    _option(_OUTPUT, "--trace-flow", metavar="N", help="Only this flow; the first is 0."),
]
