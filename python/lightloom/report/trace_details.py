"""More of a trace than its volumes: by group, its largest calls, skew, and the order of calls."""

from __future__ import annotations

import math
from pathlib import Path

from rich.console import Console

from lightloom.report.terminal import plain_table, print_table
from lightloom.trace.summary import LARGEST, bytes_of, group_volumes, largest_calls, skews
from lightloom.trace.trace import Call, Trace

#: cells of a line of the timeline, and lines of it
CELLS, MAX_GROUPS = 72, 12

#: how many bytes a cell holds, on a logarithmic scale from the smallest to the largest of a trace
HEIGHTS = "▁▂▃▄▅▆▇█"

#: how a phase is shown
PHASES = {"setup": "s", "forward": "f", "backward": "b", "optimizer": "o", "between": "."}


def print_details(trace: Trace, console: Console) -> None:
    """Print what the first recorded rank does, by group, and when; and the skew of all ranks."""
    rank = min(trace.ranks)
    table = plain_table(f"Rank {rank} by group", ["group", "ranks", "calls", "[MB]", "share [%]"])
    for group in group_volumes(trace, rank):
        table.add_row(
            group.group, f"{group.group_size:,}", f"{group.calls:,}",
            f"{group.input_bytes / 1e6:,.3f}", f"{100 * group.share:.1f}",
        )  # fmt: skip
    print_table(table, console)
    _print_largest(trace, rank, console)
    _print_skew(trace, console)
    lines = [
        f"\nOrder of the calls of rank {rank}; the higher, the more bytes (logarithmic); phases: "
        + ", ".join(f"{letter} {phase}" for phase, letter in PHASES.items()),
        *timeline(trace.ranks[rank].calls),
    ]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _print_largest(trace: Trace, rank: int, console: Console) -> None:
    table = plain_table(
        f"Largest calls of rank {rank}",
        ["call", "operation", "group", "[MB]", "phase", "layer", "line"],
        left=["operation", "group", "phase", "layer", "line"],
    )
    for call in largest_calls(trace, rank, LARGEST):
        table.add_row(
            str(call.call_id), call.op, call.group, f"{bytes_of(call) / 1e6:,.3f}", call.phase,
            call.layer, Path(call.call_site.split(" in ")[0]).name,
        )  # fmt: skip
    print_table(table, console)


def _print_skew(trace: Trace, console: Console) -> None:
    groups = skews(trace)
    if not groups:
        return
    table = plain_table(
        "Skew of all-to-alls",
        ["group", "ranks", "calls", "mean", "largest"],
        caption="Rows to the rank that gets the largest part, over the mean part.",
    )
    for skew in groups:
        table.add_row(
            skew.group, f"{skew.group_size:,}", f"{skew.calls:,}", f"{skew.mean:.2f}",
            f"{skew.largest:.2f}",
        )  # fmt: skip
    print_table(table, console)


def timeline(calls: tuple[Call, ...]) -> list[str]:
    """Calls in their order as text: a line of phases, and a line of bytes for each group.

    Parameters
    ----------
    calls
        Of one rank.

    Returns
    -------
    list[str]
        Each cell stands for as many calls as any other, and shows the bytes of its group in them;
        the groups of the largest volumes first.
    """
    if not calls:
        return []
    each = math.ceil(len(calls) / CELLS)
    cells = [calls[start : start + each] for start in range(0, len(calls), each)]
    volumes: dict[tuple[str, int], list[int]] = {}
    for place, cell in enumerate(cells):
        for call in cell:
            row = volumes.setdefault((call.group, len(call.ranks)), [0] * len(cells))
            # a call without data, such as a barrier, is seen as well
            row[place] += max(1, bytes_of(call))
    shown = sorted(volumes, key=lambda kind: (-sum(volumes[kind]), kind))[:MAX_GROUPS]
    sizes = [size for kind in shown for size in volumes[kind] if size]
    names = {kind: f"{kind[0]} ({kind[1]})" for kind in shown}
    width = max(map(len, names.values()))
    phases = "".join(PHASES.get(cell[0].phase, "?") for cell in cells)
    lines = [f"{'':{width}}  {phases}"]
    for kind in shown:
        bars = "".join(_height(size, min(sizes), max(sizes)) for size in volumes[kind])
        lines.append(f"{names[kind]:{width}}  {bars}".rstrip())
    return lines


def _height(size: int, smallest: int, largest: int) -> str:
    if not size:
        return " "
    place = math.log(size / smallest) / math.log(largest / smallest) if largest > smallest else 1.0
    return HEIGHTS[min(len(HEIGHTS) - 1, int(place * len(HEIGHTS)))]
