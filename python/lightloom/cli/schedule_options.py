"""The options of ``lightloom schedule``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lightloom.schedule import ALLOCATION_METHODS, choices, listed

#: bytes of a token: 4,096 elements of BF16, as 'lightloom demand' counts by default
TOKEN_BYTES = 8192
_DEMAND, _SWITCH, _CIRCUITS, _OUTPUT = (
    "Demand",
    "Schedules of permutations",
    "Circuits under a port budget",
    "Output",
)


def _option(panel: str, *names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


DemandFile = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE",
        show_default=False,
        help="Bytes from row to column: .npy, .npz, .csv, .parquet; a token matrix (JSON); - for "
        "a table on standard input.",
    ),
]
Delay = Annotated[
    str, _option(_SWITCH, "--delay", metavar="TIME", help="Reconfiguration delay: '25 ms'.")
]
Regime = Annotated[
    str | None,
    _option(
        _DEMAND, "--synthetic", metavar="REGIME", help="Draw the demand: mixtral, pair, sparse ..."
    ),
]
Servers = Annotated[
    int | None,
    _option(_DEMAND, "--servers", metavar="N", help="Servers of a drawn demand.", show_default="8"),
]
Tokens = Annotated[
    int | None,
    _option(_DEMAND, "--tokens", metavar="N", help="Tokens of each server.", show_default="16384"),
]
Seed = Annotated[
    int | None,
    _option(_DEMAND, "--seed", metavar="N", help="Seed of a drawn demand.", show_default="0"),
]
TokenBytes = Annotated[
    int, _option(_DEMAND, "--token-bytes", metavar="BYTES", help="Bytes of a token.")
]
Rate = Annotated[
    str,
    _option(_SWITCH, "--rate", metavar="GBPS", help="Rate of one circuit in Gb/s, per direction."),
]
Partial = Annotated[
    bool, _option(_SWITCH, "--partial", help="A reconfiguration stops only the ports it moves.")
]
Methods = Annotated[
    str,
    _option(
        _SWITCH,
        "--method",
        metavar="NAME,...",
        help=f"{listed(choices('permutation method'))}; auto tries them all.",
    ),
]
TimeLimit = Annotated[
    str | None,
    _option(
        _SWITCH,
        "--time-limit",
        metavar="TIME",
        help="Begin no other method after it; auto searches until then.",
        show_default="10 s",
    ),
]
Degree = Annotated[
    int | None,
    _option(_CIRCUITS, "--degree", metavar="N", help="Optical ports per server."),
]
EpsRate = Annotated[
    str | None,
    _option(
        _CIRCUITS,
        "--eps-rate",
        metavar="GBPS",
        help="Rate of a server into the packet switches in Gb/s.",
        show_default="2 x rate",
    ),
]
Allocators = Annotated[
    str | None,
    _option(
        _CIRCUITS,
        "--circuits",
        metavar="NAME,...",
        help=f"{listed(ALLOCATION_METHODS)}; all: those that take no seconds.",
        show_default="all",
    ),
]
Previous = Annotated[
    Path | None,
    _option(
        _CIRCUITS,
        "--previous",
        metavar="PATH",
        help="Circuits held now: a matrix, or an earlier --out.",
        show_default="a static circulant",
    ),
]
Failed = Annotated[
    str | None,
    _option(
        _CIRCUITS,
        "--failed",
        metavar="PART,...",
        help="What is broken: server:3, nic:2/1 (server/NIC), eps:0/1, plane:5.",
    ),
]
Relay = Annotated[bool, _option(_CIRCUITS, "--relay", help="Relay over third servers as well.")]
Planes = Annotated[
    bool,
    _option(_CIRCUITS, "--planes", help="NIC i of every server is on a switch of its own."),
]
Systems = Annotated[
    bool,
    _option(
        _SWITCH, "--systems/--no-systems", help="What RotorNet, Helios and X-NEST+ do as well."
    ),
]
Json = Annotated[
    str | None, _option(_OUTPUT, "--json", metavar="PATH|-", help="Everything but the slots.")
]
Csv = Annotated[str | None, _option(_OUTPUT, "--csv", metavar="PATH|-", help="One row per method.")]
Out = Annotated[
    Path | None,
    _option(_OUTPUT, "--out", metavar="PATH", help="Slots and circuits as arrays (.npz)."),
]
Html = Annotated[
    Path | None, _option(_OUTPUT, "--html", metavar="PATH", help="A page with drawings.")
]
Svg = Annotated[
    Path | None, _option(_OUTPUT, "--svg", metavar="PATH", help="The schedule as a drawing.")
]
