"""``lightloom schedule``: one demand, every scheduler, and the schedule drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lightloom import demand, plugins, schedule
from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, checked_outputs, text_outputs, write_each
from lightloom.cli.terminal import command_line, remarks_console, results_console
from lightloom.errors import InputError, expected_one_of
from lightloom.inputs.fields import Choices, field_of
from lightloom.inputs.strict import File, Name, Strict, Switch, Whole, quantity
from lightloom.output.files import write_binary, write_json
from lightloom.schedule.named_sets import ALLOCATION_METHODS, choices
from lightloom.units import show_bytes, show_time

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from rich.console import Console

    from lightloom.study.scheduling import MethodChoice, PortBudget, Problem, ScheduleComparison
    from lightloom.study.scheduling.chunked import ChunkTimes

EXAMPLES = (
    "lightloom schedule demand.npy --fixed 25ms --ports 6",
    "lightloom schedule --synthetic mixtral --servers 8 --fixed 10us --html page.html",
    "lightloom schedule demand.npy --fixed 1ms --methods bvn,open-shop --csv -",
    "lightloom demand pair --view rank --csv - | lightloom schedule - --fixed 1ms",
)
NOTES = (
    "A synthetic demand is one micro-batch with an EP rank of 16384 tokens on each server by "
    "default. Without --ports, only schedules of permutations are compared."
)

#: options of a demand that is drawn, and of circuits
_DRAWN = ("servers", "tokens", "seed")
_FOR_CIRCUITS = ("allocators", "held_circuits", "failed", "relay", "planes")
#: NICs of a server that stay on the packet fabric unless --eps-rate says otherwise, as in MixNet
_EPS_NICS = 2


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
    fixed_s: Seconds = Field(description="Time that a reconfiguration takes, such as '25 ms'.")
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
            replace(
                option(ScheduleOptions, "fixed_s", common=True),
                aliases=("--reconfiguration-delay",),
            ),
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
    outputs = checked_outputs(call).with_page()
    _schedule(call.build(ScheduleOptions), outputs, call)


def _schedule(options: ScheduleOptions, outputs: Outputs, call: CommandCall) -> None:
    """Compare circuit schedulers on one demand, decide whether to reconfigure, draw the schedule.

    Raises
    ------
    InputError
        If an option cannot be used.
    """
    from lightloom.report.schedule_table import print_scheduling
    from lightloom.study.scheduling import MethodChoice, Problem, without_diagonal, without_servers
    from lightloom.study.scheduling.other_systems import SYSTEMS

    choice = MethodChoice(
        methods=_names(call, options, "methods", options.methods),
        allocators=_names(call, options, "allocators", options.allocators or ("all",)),
        time_limit_s=options.time_limit_s,
        systems=tuple(SYSTEMS) if options.systems else (),
        relay=options.relay,
        planes=options.planes,
    )
    budget = _budget(call, options)
    name, matrix = _demand_of(options)
    sent, inside = without_diagonal(matrix)
    _check_held(options, budget, len(sent))
    lost_bytes = 0
    if budget is not None and budget.failed is not None and sent.shape[0] == sent.shape[1]:
        sent, lost_bytes = without_servers(sent, budget.failed.servers)
    problem = Problem(
        name,
        sent,
        options.rate_gbps,
        options.fixed_s,
        partial=options.partial,
        budget=budget,
        eps_gbps=None if budget is not None else options.eps_gbps or None,
        switches=options.switches,
        chunks=_chunks(options),
        earlier=_earlier(options, sent.shape),
        new_slots=options.new_slots or 0,
    )
    comparison = _compare(problem, choice)
    console = remarks_console() if outputs.on_stdout else results_console()
    if inside:
        console.print(f"{show_bytes(inside)} on the diagonal stay in their server: left out")
    if lost_bytes:
        console.print(f"{show_bytes(lost_bytes)} from and to failed servers: left out")
    print_scheduling(comparison, console)
    _print_drawings(comparison, console)
    write_each(_writers(comparison, outputs))
    outputs.show_page()
    if comparison.interrupted:
        raise KeyboardInterrupt


def _writers(comparison: ScheduleComparison, outputs: Outputs) -> dict[str, Callable[[], None]]:
    """What writes each file, by its name."""
    from lightloom.demand.byte_matrix import write_npz
    from lightloom.report.page_schedule import write_schedule_drawing, write_schedule_page
    from lightloom.study.scheduling.data import as_arrays, as_json, as_rows

    writers: dict[str, Callable[[], None]] = {}
    if outputs.csv_target is not None:
        writers[outputs.csv_target] = lambda: outputs.write_rows(as_rows(comparison))
    if (out := outputs.out) is not None:
        writers[str(out)] = lambda: write_binary(write_npz(as_arrays(comparison)), out)
    if (html := outputs.html) is not None:
        writers[str(html)] = lambda: write_schedule_page(comparison, html, command_line())
    if (svg := outputs.svg) is not None:
        writers[str(svg)] = lambda: write_schedule_drawing(comparison, svg)
    if (json := outputs.json_target) is not None:
        writers[json] = lambda: write_json(as_json(comparison), json)
    return writers


def _compare(problem: Problem, choice: MethodChoice) -> ScheduleComparison:
    """Compare under a line that says what is being done, once it takes a while."""
    from lightloom.study.scheduling import compare_schedules

    remarks = remarks_console()
    with remarks.status("scheduling") as status:
        return compare_schedules(
            problem, choice, progress=lambda share, title="": status.update(f"{share:4.0%} {title}")
        )


def _demand_of(options: ScheduleOptions) -> tuple[str, npt.NDArray[np.uint64]]:
    """The name and the bytes of what is to be scheduled."""
    from lightloom.demand.byte_matrix import check_bytes, read_byte_matrix

    regime, path = options.synthetic, options.demand
    if (regime is None) == (path is None):
        both = "both are given" if path is not None else "neither is given"
        raise InputError(
            f"expected a demand FILE or --synthetic REGIME, {both}; for example: {EXAMPLES[1]}"
        )
    if path is not None:
        unread = (name for name in _DRAWN if getattr(options, name) is not None)
        if (name := next(unread, None)) is not None:
            raise InputError(f"--{name} is for --synthetic; nothing reads it with a file")
        name = "standard input" if path == "-" else Path(path).name
        return name, read_byte_matrix(path, token_bytes=options.token_bytes)
    assert regime is not None
    servers = 8 if options.servers is None else options.servers
    seed = 0 if options.seed is None else options.seed
    source = demand.synthetic(
        regime,
        ranks=servers,
        experts=servers,
        tokens_per_rank=16_384 if options.tokens is None else options.tokens,
        top_k=min(2, servers),
        seed=seed,
    )
    counts = demand.rank_matrix(source.tokens(group=0, layers=[0], micro_batches=1, step=0)[0, 0])
    name = f"{regime} ({servers} servers, seed {seed})"
    return name, check_bytes(counts * options.token_bytes, regime)


def _earlier(
    options: ScheduleOptions, shape: tuple[int, ...]
) -> schedule.PermutationSchedule | None:
    from lightloom.study.scheduling import read_earlier

    if options.start_from is not None:
        return read_earlier(options.start_from, shape)
    if options.new_slots is not None:
        raise InputError("--new-slots is for --start-from; give it as well, or leave it out")
    return None


def _chunks(options: ScheduleOptions) -> ChunkTimes | None:
    from lightloom.study.scheduling.chunked import ChunkTimes

    produced_s, needed_s = options.produced_over_s, options.needed_over_s
    if options.release is not None:
        return _released(options, options.release)
    if options.chunks is None:
        for flag, value in (("--produced-over", produced_s), ("--needed-over", needed_s)):
            if value is not None:
                raise InputError(f"{flag} is for chunks; give --chunks as well, or leave it out")
        return None
    if produced_s is None:
        raise InputError(
            "--chunks needs the time over which compute produces them; for example: "
            f"--chunks {options.chunks} --produced-over 2ms"
        )
    return ChunkTimes(options.chunks, produced_s, needed_s)


def _released(options: ScheduleOptions, path: Path) -> ChunkTimes:
    """Chunks that are produced when a file says."""
    from lightloom.study.scheduling.chunked import ChunkTimes, read_releases

    if options.produced_over_s is not None:
        raise InputError(
            "--release and --produced-over both say when chunks are produced; give one"
        )
    released_s = read_releases(path)
    count = len(released_s)
    if options.chunks not in (None, count):
        raise InputError(f"--chunks {options.chunks}: {path} has {count} release times")
    return ChunkTimes(count, max(released_s), options.needed_over_s, released_s)


def _budget(call: CommandCall, options: ScheduleOptions) -> PortBudget | None:
    from lightloom.demand.byte_matrix import read_whole_matrix
    from lightloom.study.scheduling import PortBudget

    ports, rate_gbps = options.ports, options.rate_gbps
    if ports is None:
        for name in _FOR_CIRCUITS:
            if call.has(name) and not (name == "relay" and options.eps_gbps):
                other = " or --eps-rate" if name == "relay" else ""
                raise InputError(
                    f"{call.flag(name)} is for circuits; give --ports{other} as well, or leave "
                    "it out"
                )
        return None
    eps_gbps = _EPS_NICS * rate_gbps if options.eps_gbps is None else options.eps_gbps
    path = options.held_circuits
    circuits = None if path is None else read_whole_matrix(path, "circuits")
    if options.failed is None:
        return PortBudget(ports, eps_gbps, circuits)
    failed = schedule.parse_failures(options.failed, "--failed")
    eps_nics = round(eps_gbps / rate_gbps)
    if failed.eps_nics and not math.isclose(eps_nics * rate_gbps, eps_gbps):
        raise InputError(
            f"--failed: EPS NICs need an --eps-rate that is a multiple of {rate_gbps:g} Gb/s, "
            f"got {eps_gbps:g}"
        )
    return PortBudget(ports, eps_gbps, circuits, failed, eps_nics)


def _check_held(options: ScheduleOptions, budget: PortBudget | None, servers: int) -> None:
    import numpy as np

    circuits = None if budget is None or budget.previous is None else np.asarray(budget.previous)
    if circuits is not None and len(circuits) != servers:
        raise InputError(
            f"{options.held_circuits}: circuits of {len(circuits)} servers, but the demand has "
            f"{servers}"
        )


def _names(
    call: CommandCall, options: ScheduleOptions, key: str, names: tuple[str, ...]
) -> tuple[str, ...]:
    """The methods of an option; ``all`` allocators are those that take no seconds."""
    allowed = field_of(type(options), key).choices
    names = tuple(dict.fromkeys(names))
    wrong = next((name for name in names if name not in allowed), None)
    if wrong is not None or not names:
        called = " ".join([call.flag(key), *([wrong] if wrong else [])])
        raise InputError(f"{called}: {expected_one_of(wrong, allowed)}")
    if "all" not in names:
        return names
    quick = (name for name in ALLOCATION_METHODS if name != "exact")
    return tuple(dict.fromkeys([*quick, *(name for name in names if name != "all")]))


def _print_drawings(comparison: ScheduleComparison, console: Console) -> None:
    from lightloom.report.schedule_text import MAX_ROWS, print_circuits, print_gantt
    from lightloom.study.scheduling.port_times import busiest, port_times

    if comparison.winner is not None:
        winner = comparison.schedules[comparison.winner]
        sent = comparison.problem.demand
        rows = busiest(sent, MAX_ROWS)
        title = f"Schedule by {comparison.winner}: {show_time(winner.length_s)}"
        print_gantt(port_times(winner, sent, rows), rows, title, console)
    best = comparison.best_allocation
    if best is not None:
        title = f"Circuits by {best.method}: parallel circuits of each pair of servers"
        print_circuits(best.split.circuits, title, console)
