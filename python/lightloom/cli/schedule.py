"""``lightloom schedule``: one demand, every scheduler, and the schedule drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import Field

from lightloom import plugins
from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, text_outputs
from lightloom.inputs.fields import Choices
from lightloom.inputs.strict import File, Name, Strict, Switch, Whole, quantity
from lightloom.schedule.named_sets import ALLOCATION_METHODS, choices

EXAMPLES = (
    "lightloom schedule demand.npy --reconfiguration-delay 25ms --ports 6",
    "lightloom schedule --synthetic mixtral --servers 8 --reconfiguration-delay 10us --html "
    "page.html",
    "lightloom schedule demand.npy --reconfiguration-delay 1ms --methods bvn,open-shop --csv -",
    "lightloom demand pair --view rank --csv - | lightloom schedule - --reconfiguration-delay 1ms",
)
NOTES = (
    "A synthetic demand is one micro-batch with an EP rank of 16384 tokens on each server by "
    "default. Without --ports, only schedules of permutations are compared."
)


def _regimes() -> Sequence[str]:
    from lightloom.demand.regime import REGIMES

    return REGIMES


def _methods() -> Sequence[str]:
    # what --start-from adds
    ours = (name for name in choices("permutation method") if name != "previous")
    return (*ours, *plugins.SCHEDULERS.installed())


def _allocators() -> Sequence[str]:
    return (*ALLOCATION_METHODS, "all", *plugins.ALLOCATORS.installed())


Seconds = Annotated[float, quantity("second"), Field(ge=0, le=1e6)]


class ScheduleOptions(Strict):
    """A demand, the switch that serves it, and which schedulers are compared."""

    examples: ClassVar[tuple[str, ...]] = EXAMPLES

    demand: Name | None = Field(
        None,
        description="Bytes from row to column (.npy, .npz, .csv or .parquet), or a token matrix "
        "(JSON); '-' reads a table from standard input.",
    )
    synthetic: Annotated[Name, Choices(_regimes)] | None = Field(
        None, description="Regime to draw a synthetic demand from: {choices}."
    )
    servers: Annotated[Whole, Field(ge=2, le=4096)] | None = Field(
        None,
        description="Number of servers of a synthetic demand; 8 by default. Schedules of "
        "permutations have at most 1,024 lines; larger demand needs --ports.",
    )
    tokens: Whole | None = Field(None, description="Tokens per EP rank and micro-batch.")
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] | None = Field(
        None, description="Seed of the random numbers; the first one where several are used."
    )
    token_bytes: Annotated[Whole, Field(le=2**22)] = Field(
        8192, description="Bytes of one token: 4,096 elements of BF16 by default."
    )
    reconfiguration_delay_s: Seconds = Field(
        description="Time that a reconfiguration takes, such as '25 ms'."
    )
    rate_gbps: Annotated[float, quantity("gigabit / second"), Field(ge=1e-9, le=1e9)] = Field(
        400.0, description="Rate of one NIC and link, per direction."
    )
    switches: Annotated[Whole, Field(le=1_024)] | None = Field(
        None,
        description="Number of switches that every server has a port at; that of --ports by "
        "default, else 1.",
    )
    start_from: File | None = Field(
        None,
        description="Earlier schedule whose matchings are to be kept: the file of an earlier "
        "--out.",
    )
    new_slots: Annotated[Whole, Field(ge=0, le=1_024)] | None = Field(
        None,
        description="Slots that may be added to those of --start-from where that makes the "
        "schedule shorter; none by default.",
    )
    partial: Switch = Field(
        False, description="Let a reconfiguration stop only the ports that it changes."
    )
    chunks: Annotated[Whole, Field(ge=1, le=64)] | None = Field(
        None, description="Number of chunks that compute produces one after another."
    )
    release: File | None = Field(
        None,
        description="When each chunk is produced instead: a file with a time and its unit on each "
        "line, such as '0.5 ms'.",
    )
    produced_over_s: Seconds | None = Field(
        None, description="Time over which compute produces the chunks."
    )
    needed_over_s: Seconds | None = Field(
        None, description="Time over which the receivers' compute uses them; sets deadlines."
    )
    methods: Annotated[tuple[Name, ...], Choices(_methods)] = Field(
        ("auto",), description="Methods that decompose the demand: {choices} (tries them all)."
    )
    time_limit_s: Seconds | None = Field(
        None,
        description="Time after which no other method is started; auto begins, with half of it. "
        "By default 10 s, and auto comes last.",
    )
    systems: Switch = Field(
        True, description="Compare with RotorNet, Helios and X-NEST+ on the same switches."
    )
    ports: Annotated[Whole, Field(le=65_535)] | None = Field(
        None, description="Number of optical ports of a server, its degree in papers."
    )
    allocators: Annotated[tuple[Name, ...], Choices(_allocators)] | None = Field(
        None,
        description="Algorithms that allocate the circuits: {choices}. 'all', the default, leaves "
        "out 'exact', which takes seconds and proves a bound.",
    )
    eps_gbps: Annotated[float, quantity("gigabit / second"), Field(ge=0, le=1e9)] | None = Field(
        None,
        description="Rate of a server into the packet switches, which share the demand; "
        "with --ports twice that of a NIC by default.",
    )
    held_circuits: File | None = Field(
        None,
        description="Held circuits: a matrix, or the file of an earlier --out; a static circulant "
        "by default.",
    )
    failed: Name | None = Field(
        None, description="Failed parts: server:3, nic:2/1 (server/NIC), eps:0/1, plane:5."
    )
    relay: Switch = Field(
        False, description="Relay bytes through other servers where that is faster."
    )
    planes: Switch = Field(False, description="Put NIC i of every server on a switch of its own.")


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(_demand(), _switch(), _circuits(), _output()),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _demand() -> Panel:
    return Panel(
        "Demand",
        (
            option(ScheduleOptions, "demand", "FILE", common=True),
            option(ScheduleOptions, "synthetic", common=True),
            option(ScheduleOptions, "servers", common=True),
            option(ScheduleOptions, "tokens"),
            option(ScheduleOptions, "seed"),
            option(ScheduleOptions, "token_bytes", "--token-bytes", metavar="N"),
        ),
    )


def _switch() -> Panel:
    return Panel(
        "Schedules of permutations",
        (
            option(ScheduleOptions, "reconfiguration_delay_s", common=True),
            option(ScheduleOptions, "rate_gbps", common=True),
            option(ScheduleOptions, "methods", common=True),
            option(ScheduleOptions, "time_limit_s"),
            option(ScheduleOptions, "switches", common=True),
            option(ScheduleOptions, "start_from"),
            option(ScheduleOptions, "new_slots", metavar="N"),
            option(ScheduleOptions, "partial"),
            option(ScheduleOptions, "chunks", metavar="N"),
            option(ScheduleOptions, "produced_over_s"),
            option(ScheduleOptions, "needed_over_s"),
            option(ScheduleOptions, "release"),
            option(ScheduleOptions, "systems"),
        ),
    )


def _circuits() -> Panel:
    return Panel(
        "Circuits with a limited number of ports",
        (
            replace(option(ScheduleOptions, "ports", common=True), aliases=("--degree",)),
            option(ScheduleOptions, "allocators", common=True),
            option(ScheduleOptions, "eps_gbps", "--eps-rate", common=True),
            option(ScheduleOptions, "relay", common=True),
            option(ScheduleOptions, "held_circuits"),
            option(ScheduleOptions, "planes"),
            option(ScheduleOptions, "failed", metavar="PART,..."),
        ),
    )


def _output() -> Panel:
    return Panel(
        "Output",
        (
            *text_outputs(),
            option(Outputs, "html", common=True, below="output"),
            option(Outputs, "open", below="output"),
            option(Outputs, "svg", below="output"),
            option(Outputs, "out", below="output"),
        ),
    )


def _run(call: CommandCall) -> None:
    from lightloom.cli.schedule_run import schedule

    outputs = call.take(Outputs, "output").with_page()
    outputs.check(call.tables)
    schedule(call.build(ScheduleOptions), outputs, call)
