"""Tables of where the time of recorded steps went, for the terminal and the page alike."""

from __future__ import annotations

from collections import defaultdict

from rich.console import Console

from lightloom.report.grid import Grid, as_rich
from lightloom.report.terminal import print_table
from lightloom.trace.importers.imported import Imported
from lightloom.trace.profile import CollectiveTimes, collective_times, step_times
from lightloom.trace.summary import LARGEST, bytes_of, group_volumes, largest_calls
from lightloom.units import show_time

#: rows of a table; --json has all
MAX_ROWS = 24


def print_times(imported: Imported, console: Console) -> None:
    """Print what a trace says of time, if it does."""
    for grid in time_grids(imported):
        print_table(as_rich(grid), console)
    if not imported.spans and (line := computed(imported)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def computed(imported: Imported) -> str:
    """What the first rank computed, where only durations are known; empty if none are."""
    rank = min(imported.trace.ranks)
    durations = [compute.duration_s for compute in imported.trace.ranks[rank].computes]
    timed = [duration for duration in durations if duration is not None]
    if not timed:
        return ""
    return f"rank {rank} computes {show_time(sum(timed))} in {len(timed):,} pieces"


def time_grids(imported: Imported) -> list[Grid]:
    """Where time went, by step and rank; by collective; and across ranks."""
    if not imported.spans:
        return []
    collectives = collective_times(imported.trace, imported.spans)
    grids = [_steps(imported), _collectives(collectives)]
    if len(imported.spans) > 1:
        grids.append(_across_ranks(collectives))
    return [grid for grid in grids if grid.rows]


def _steps(imported: Imported) -> Grid:
    steps = step_times(imported.spans)
    rows: list[list[str | float]] = [
        [
            str(step.rank), str(step.step), *map(_ms, (
                step.length_s, step.compute_s, step.communication_s, step.exposed_s,
            )), f"{100 * step.overlap:.1f}", _ms(step.copy_s), _ms(step.idle_s),
        ]
        for step in steps[:MAX_ROWS]
    ]  # fmt: skip
    headers = [
        ("rank", ""), ("step", ""), ("length", "ms"), ("computation", "ms"),
        ("communication", "ms"), ("of it exposed", "ms"), ("hidden", "%"), ("copies", "ms"),
        ("idle", "ms"),
    ]  # fmt: skip
    caption = "Times in which at least one stream does it; exposed: while no kernel computes"
    return Grid("Where the time went", headers, rows, -1, caption + _more(len(steps)))


def _collectives(collectives: list[CollectiveTimes]) -> Grid:
    first = min((call.rank for call in collectives), default=0)
    of_rank = [call for call in collectives if call.rank == first]
    rows: list[list[str | float]] = [
        [
            call.op, call.group, f"{call.group_size:,}", f"{call.calls:,}", _ms(call.duration_s),
            _ms(call.exposed_s), *(
                [call.size_bytes / 1e6, call.algorithm_gbps, call.bus_gbps]
                if call.size_bytes else ["?", "?", "?"]
            ),
        ]
        for call in of_rank[:MAX_ROWS]
    ]  # fmt: skip
    headers = [
        ("operation", ""), ("group", ""), ("ranks", ""), ("calls", ""), ("time", "ms"),
        ("exposed", "ms"), ("size", "MB"), ("algorithm", "Gb/s"), ("bus", "Gb/s"),
    ]  # fmt: skip
    caption = (
        "Bandwidths as of NCCL's tests, over the time in which kernels run, "
        "waiting for other ranks included"
    )
    return Grid(f"Collectives of rank {first}", headers, rows, -1, caption + _more(len(of_rank)))


def _across_ranks(collectives: list[CollectiveTimes]) -> Grid:
    by_kind: dict[tuple[str, str, int], list[tuple[float, int]]] = defaultdict(list)
    for call in collectives:
        by_kind[call.op, call.group, call.group_size].append((call.duration_s, call.rank))
    spread = []
    for (op, group, size), times in by_kind.items():
        mean = sum(time for time, _ in times) / len(times)
        if len(times) > 1 and mean:
            spread.append((mean, op, group, size, min(times), max(times)))
    spread.sort(key=lambda one: -one[0])
    rows: list[list[str | float]] = [
        [
            op, group, f"{size:,}", _ms(mean), _ms(longest[0]), str(longest[1]),
            f"{longest[0] / mean:.2f}", _ms(shortest[0]), str(shortest[1]),
        ]
        for mean, op, group, size, shortest, longest in spread[:MAX_ROWS]
    ]  # fmt: skip
    headers = [
        ("operation", ""), ("group", ""), ("ranks", ""), ("mean", "ms"), ("longest", "ms"),
        ("of rank", ""), ("over mean", ""), ("shortest", "ms"), ("of rank", ""),
    ]  # fmt: skip
    caption = "Who is in a collective for the shortest time is a straggler: others wait for it"
    return Grid("Time in collectives across ranks", headers, rows, -1, caption + _more(len(spread)))


def volume_grids(imported: Imported) -> list[Grid]:
    """Volumes of the first rank by group, and its largest calls."""
    rank = min(imported.trace.ranks)
    volumes: list[list[str | float]] = [
        [
            volume.group, f"{volume.group_size:,}", f"{volume.calls:,}", volume.input_bytes / 1e6,
            f"{100 * volume.share:.1f}",
        ]
        for volume in group_volumes(imported.trace, rank)[:MAX_ROWS]
    ]  # fmt: skip
    calls: list[list[str | float]] = [
        [
            str(call.call_id), call.op, call.group, f"{len(call.ranks):,}",
            bytes_of(call) / 1e6, call.phase, call.layer,
        ]
        for call in largest_calls(imported.trace, rank, LARGEST)
    ]  # fmt: skip
    return [
        Grid(
            f"Volume of rank {rank} by group",
            [("group", ""), ("ranks", ""), ("calls", ""), ("volume", "MB"), ("share", "%")],
            volumes, -1, "What the rank puts in; of receives what it gets out",
        ),
        Grid(
            f"Largest calls of rank {rank}",
            [("call", ""), ("operation", ""), ("group", ""), ("ranks", ""), ("size", "MB"),
             ("phase", ""), ("layer", "")],
            calls, -1, "Numbers count a rank's calls in their order",
        ),
    ]  # fmt: skip


def _ms(seconds: float) -> float:
    return 1e3 * seconds


def _more(rows: int) -> str:
    return f"; {rows - MAX_ROWS:,} more rows: --json has all" if rows > MAX_ROWS else ""
