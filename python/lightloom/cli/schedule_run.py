"""What ``lightloom schedule`` does: read the demand, compare schedulers, write and print."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from rich.console import Console

from lightloom import schedule as schedulers
from lightloom.cli.options import CommandCall
from lightloom.cli.outputs import Outputs, write_each
from lightloom.cli.terminal import command_line, remarks_console, results_console
from lightloom.demand import rank_matrix, synthetic
from lightloom.demand.byte_matrix import (
    check_bytes,
    read_byte_matrix,
    read_whole_matrix,
    write_npz,
)
from lightloom.errors import InputError, expected_one_of
from lightloom.inputs.fields import field_of
from lightloom.output.files import write_binary, write_json
from lightloom.report.page_schedule import write_schedule_drawing, write_schedule_page
from lightloom.report.schedule_table import print_scheduling
from lightloom.report.schedule_text import MAX_ROWS, print_circuits, print_gantt
from lightloom.schedule import parse_failures
from lightloom.study.scheduling import (
    MethodChoice,
    PortBudget,
    Problem,
    ScheduleComparison,
    compare_schedules,
    read_earlier,
    without_diagonal,
    without_servers,
)
from lightloom.study.scheduling.chunked import ChunkTimes, read_releases
from lightloom.study.scheduling.data import as_arrays, as_json, as_rows
from lightloom.study.scheduling.other_systems import SYSTEMS
from lightloom.study.scheduling.port_times import busiest, port_times
from lightloom.units import show_bytes, show_time

if TYPE_CHECKING:
    from lightloom.cli.schedule import ScheduleOptions

#: options of a demand that is drawn, and of circuits
_DRAWN = ("servers", "tokens", "seed")
_FOR_CIRCUITS = ("allocators", "held_circuits", "failed", "relay", "planes")
#: NICs of a server that stay on the packet fabric unless --eps-rate says otherwise, as in MixNet
_EPS_NICS = 2


def schedule(options: ScheduleOptions, outputs: Outputs, call: CommandCall) -> None:
    """Compare circuit schedulers on one demand, decide whether to reconfigure, draw the schedule.

    Raises
    ------
    InputError
        If an option cannot be used.
    """
    choice = MethodChoice(
        methods=_names(call, options, "methods", options.methods),
        allocators=_names(call, options, "allocators", options.allocators or ("all",)),
        time_limit_s=options.time_limit_s,
        systems=tuple(SYSTEMS) if options.systems else (),
        relay=options.relay,
        planes=options.planes,
    )
    budget = _budget(call, options)
    name, matrix = _demand(options)
    sent, inside = without_diagonal(matrix)
    _check_held(options, budget, len(sent))
    lost_bytes = 0
    if budget is not None and budget.failed is not None and sent.shape[0] == sent.shape[1]:
        sent, lost_bytes = without_servers(sent, budget.failed.servers)
    problem = Problem(
        name,
        sent,
        options.rate_gbps,
        options.reconfiguration_delay_s,
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
    remarks = remarks_console()
    with remarks.status("scheduling") as status:
        return compare_schedules(
            problem, choice, progress=lambda share, title="": status.update(f"{share:4.0%} {title}")
        )


def _demand(options: ScheduleOptions) -> tuple[str, npt.NDArray[np.uint64]]:
    """The name and the bytes of what is to be scheduled."""
    regime, path = options.synthetic, options.demand
    if (regime is None) == (path is None):
        both = "both are given" if path is not None else "neither is given"
        raise InputError(
            f"expected a demand FILE or --synthetic REGIME, {both}; "
            f"for example: {options.examples[1]}"
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
    source = synthetic(
        regime,
        ranks=servers,
        experts=servers,
        tokens_per_rank=16_384 if options.tokens is None else options.tokens,
        top_k=min(2, servers),
        seed=seed,
    )
    counts = rank_matrix(source.tokens(group=0, layers=[0], micro_batches=1, step=0)[0, 0])
    name = f"{regime} ({servers} servers, seed {seed})"
    return name, check_bytes(counts * options.token_bytes, regime)


def _earlier(
    options: ScheduleOptions, shape: tuple[int, ...]
) -> schedulers.PermutationSchedule | None:
    if options.start_from is not None:
        return read_earlier(options.start_from, shape)
    if options.new_slots is not None:
        raise InputError("--new-slots is for --start-from; give it as well, or leave it out")
    return None


def _chunks(options: ScheduleOptions) -> ChunkTimes | None:
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
    failed = parse_failures(options.failed, "--failed")
    eps_nics = round(eps_gbps / rate_gbps)
    if failed.eps_nics and not math.isclose(eps_nics * rate_gbps, eps_gbps):
        raise InputError(
            f"--failed: EPS NICs need an --eps-rate that is a multiple of {rate_gbps:g} Gb/s, "
            f"got {eps_gbps:g}"
        )
    return PortBudget(ports, eps_gbps, circuits, failed, eps_nics)


def _check_held(options: ScheduleOptions, budget: PortBudget | None, servers: int) -> None:
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
    choices = field_of(type(options), key).choices
    names = tuple(dict.fromkeys(names))
    wrong = next((name for name in names if name not in choices), None)
    if wrong is not None or not names:
        called = " ".join([call.flag(key), *([wrong] if wrong else [])])
        raise InputError(f"{called}: {expected_one_of(wrong, choices)}")
    if "all" not in names:
        return names
    quick = (name for name in schedulers.ALLOCATION_METHODS if name != "exact")
    return tuple(dict.fromkeys([*quick, *(name for name in names if name != "all")]))


def _print_drawings(comparison: ScheduleComparison, console: Console) -> None:
    if comparison.winner is not None:
        winner = comparison.schedules[comparison.winner]
        demand = comparison.problem.demand
        rows = busiest(demand, MAX_ROWS)
        title = f"Schedule by {comparison.winner}: {show_time(winner.length_s)}"
        print_gantt(port_times(winner, demand, rows), rows, title, console)
    best = comparison.best_allocation
    if best is not None:
        title = f"Circuits by {best.method}: parallel circuits of each pair of servers"
        print_circuits(best.split.circuits, title, console)
