"""``lightloom schedule``: one demand, every scheduler, and the schedule drawn."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console

from lightloom import schedule as schedulers
from lightloom.cli import schedule_options as options
from lightloom.cli.outputs import Outputs
from lightloom.cli.schedule_failed import read_failures
from lightloom.demand import rank_matrix, synthetic
from lightloom.demand.byte_matrix import (
    MAX_SIDE,
    check_bytes,
    read_byte_matrix,
    read_whole_matrix,
    write_npz,
)
from lightloom.errors import InputError, did_you_mean
from lightloom.output.files import write_binary, write_json
from lightloom.report.page_schedule import write_schedule_drawing, write_schedule_page
from lightloom.report.schedule_table import print_scheduling
from lightloom.report.schedule_text import MAX_ROWS, print_circuits, print_gantt
from lightloom.study.scheduling import (
    Choice,
    Ports,
    Problem,
    ScheduleComparison,
    compare_schedules,
    without_diagonal,
    without_servers,
)
from lightloom.study.scheduling.data import as_arrays, as_json, as_rows
from lightloom.study.scheduling.other_systems import SYSTEMS
from lightloom.study.scheduling.port_times import busiest, port_times
from lightloom.units import parse_quantity, show_bytes, show_time

EXAMPLES = """Examples

lightloom schedule demand.npy --delay "25 ms" --degree 6

lightloom schedule --synthetic mixtral --servers 8 --delay "10 us"

lightloom demand pair --view rank --csv - | lightloom schedule - --delay "1 ms"
"""
#: unit, how it is written, least and most
_SECONDS = ("second", "s", 0.0, 1e6)
_RATE = ("gigabit / second", "Gb/s", 1e-9, 1e9)
_EPS_RATE = ("gigabit / second", "Gb/s", 0.0, 1e9)
_MOST_PORTS = 65_535
#: NICs of a server that stay on the packet fabric unless --eps-rate says otherwise, as in MixNet
_EPS_NICS = 2

_MOST_TOKEN_BYTES = 2**22


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("schedule", epilog=EXAMPLES)(schedule)


def schedule(  # noqa: PLR0913 - one parameter per option of the command line
    delay: options.Delay,
    demand: options.DemandFile = None,
    synthetic_regime: options.Regime = None,
    servers: options.Servers = None,
    tokens: options.Tokens = None,
    seed: options.Seed = None,
    token_bytes: options.TokenBytes = options.TOKEN_BYTES,
    rate: options.Rate = "400",
    partial: options.Partial = False,
    method: options.Methods = "auto",
    time_limit: options.TimeLimit = None,
    degree: options.Degree = None,
    eps_rate: options.EpsRate = None,
    circuits: options.Allocators = None,
    previous: options.Previous = None,
    failed: options.Failed = None,
    relay: options.Relay = False,
    planes: options.Planes = False,
    systems: options.Systems = True,
    json: options.Json = None,
    csv: options.Csv = None,
    out: options.Out = None,
    html: options.Html = None,
    svg: options.Svg = None,
) -> None:
    """Compare circuit schedulers on one demand, say whether to reconfigure, draw the schedule."""
    given = dict(locals())
    outputs = Outputs(json=json, csv=csv, out=out, html=html, svg=svg)
    outputs.check()
    delay_s = _quantity("--delay", delay, _SECONDS)
    rate_gbps = _quantity("--rate", rate, _RATE)
    choice = Choice(
        methods=_names("--method", method),
        allocators=_names("--circuits", circuits or "all"),
        time_limit_s=None
        if time_limit is None
        else _quantity("--time-limit", time_limit, _SECONDS),
        systems=tuple(SYSTEMS) if systems else (),
        relay=relay,
        planes=planes,
    )
    ports = _ports(given, rate_gbps)
    name, matrix = _demand(given)
    sent, inside = without_diagonal(matrix)
    gone = 0
    if ports is not None and ports.failed is not None and sent.shape[0] == sent.shape[1]:
        sent, gone = without_servers(sent, ports.failed.servers)
    problem = Problem(name, sent, rate_gbps, delay_s, partial, ports)
    found = _compare(problem, choice)
    _write(found, outputs)
    console = Console(highlight=False, stderr=outputs.on_stdout)
    if inside:
        console.print(f"{show_bytes(inside)} on the diagonal stay in their server: left out")
    if gone:
        console.print(f"{show_bytes(gone)} from and to failed servers: left out")
    print_scheduling(found, console)
    _print_drawings(found, console)
    if found.interrupted:
        raise KeyboardInterrupt


def _write(found: ScheduleComparison, outputs: Outputs) -> None:
    """Write every file.

    Raises
    ------
    OutputError
        If one cannot be written.
    """
    rows = outputs.rows()
    for row in as_rows(found) if outputs.csv is not None else ():
        rows.write(row)
    rows.close()
    if outputs.out is not None:
        write_binary(write_npz(as_arrays(found)), outputs.out)
    if outputs.html is not None:
        write_schedule_page(found, outputs.html)
    if outputs.svg is not None:
        write_schedule_drawing(found, outputs.svg)
    if outputs.json is not None:
        write_json(as_json(found), outputs.json)


def _compare(problem: Problem, choice: Choice) -> ScheduleComparison:
    """Compare under a line that says what is being done, once it takes a while."""
    remarks = Console(stderr=True)
    with remarks.status("scheduling") as status:
        return compare_schedules(
            problem, choice, progress=lambda share, title="": status.update(f"{share:4.0%} {title}")
        )


def _demand(given: dict[str, Any]) -> tuple[str, npt.NDArray[np.uint64]]:
    """The name and the bytes of what is to be scheduled."""
    drawn = {name: given[name] for name in ("servers", "tokens", "seed")}
    regime, path = given["synthetic_regime"], given["demand"]
    token_bytes = _whole("--token-bytes", given["token_bytes"], 1, _MOST_TOKEN_BYTES)
    if (regime is None) == (path is None):
        both = "both are given" if path is not None else "there is neither"
        raise InputError(
            f"expected a demand FILE or --synthetic REGIME, {both}; for example: lightloom "
            "schedule --synthetic mixtral --servers 8 --delay '25 ms'"
        )
    if regime is None:
        unread = next((name for name, value in drawn.items() if value is not None), None)
        if unread is not None:
            raise InputError(f"--{unread} is for --synthetic; nothing reads it with a file")
        name = "standard input" if path == "-" else Path(path).name
        return name, read_byte_matrix(path, token_bytes=token_bytes)
    servers = 8 if drawn["servers"] is None else _whole("--servers", drawn["servers"], 2, MAX_SIDE)
    source = synthetic(
        regime,
        ranks=servers,
        experts=servers,
        tokens_per_rank=16_384 if drawn["tokens"] is None else drawn["tokens"],
        top_k=min(2, servers),
        seed=0 if drawn["seed"] is None else drawn["seed"],
    )
    counts = rank_matrix(source.tokens(group=0, layers=[0], micro_batches=1, step=0)[0, 0])
    name = f"{regime} ({servers} servers, seed {0 if drawn['seed'] is None else drawn['seed']})"
    return name, check_bytes(counts * token_bytes, regime)


def _ports(given: dict[str, Any], rate_gbps: float) -> Ports | None:
    degree = given["degree"]
    if degree is None:
        for name in ("eps_rate", "circuits", "previous", "failed", "relay", "planes"):
            if given[name] not in {None, False}:
                flag = name.replace("_", "-")
                raise InputError(
                    f"--{flag} is for circuits; give --degree as well, or leave it out"
                )
        return None
    _whole("--degree", degree, 1, _MOST_PORTS)
    eps = given["eps_rate"]
    eps_gbps = _EPS_NICS * rate_gbps if eps is None else _quantity("--eps-rate", eps, _EPS_RATE)
    previous = given["previous"]
    held = None if previous is None else read_whole_matrix(previous, "circuits")
    if given["failed"] is None:
        return Ports(degree, eps_gbps, held)
    failed = read_failures(given["failed"])
    eps_nics = round(eps_gbps / rate_gbps)
    if failed.eps_nics and not math.isclose(eps_nics * rate_gbps, eps_gbps):
        raise InputError(
            f"--failed: EPS NICs need an --eps-rate that is a multiple of {rate_gbps:g} Gb/s, "
            f"got {eps_gbps:g}"
        )
    return Ports(degree, eps_gbps, held, failed, eps_nics)


def _quantity(flag: str, text: str, kind: tuple[str, str, float, float]) -> float:
    """The value of an option in its unit."""
    unit, written, least, most = kind
    value = parse_quantity(text, unit, flag)
    if not least <= value <= most:
        raise InputError(f"{flag} {text}: expected {least:g} to {most:g} {written}")
    return value


def _whole(flag: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise InputError(f"{flag} {value}: expected {least} to {most}")
    return value


def _names(flag: str, text: str) -> tuple[str, ...]:
    """The methods of an option; ``all`` allocators are those that take no seconds."""
    known: tuple[str, ...] = (
        (*schedulers.PERMUTATION_METHODS, "auto")
        if flag == "--method"
        else (*schedulers.ALLOCATION_METHODS, "all")
    )
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    wrong = next((name for name in names if name not in known), None)
    if wrong is not None or not names:
        hint = did_you_mean(wrong, known) if wrong else ""
        raise InputError(f"{flag} {wrong or text}: expected of {', '.join(known)}{hint}")
    if "all" not in names:
        return names
    return tuple(name for name in known[:-1] if name != "exact" or name in names)


def _print_drawings(found: ScheduleComparison, console: Console) -> None:
    if found.winner is not None:
        winner = found.schedules[found.winner]
        demand = found.problem.demand
        rows = busiest(demand, MAX_ROWS)
        title = f"Schedule by {found.winner}: {show_time(winner.length_s)}"
        print_gantt(port_times(winner, demand, rows), rows, title, console)
    best = found.best_allocation
    if best is not None:
        title = f"Circuits by {best.method}: parallel circuits of each pair of servers"
        print_circuits(best.split.circuits, title, console)
