"""Tables of a trace of what a training program communicates."""

from __future__ import annotations

from collections import Counter

from rich.console import Console

from lightloom.errors import InputError
from lightloom.report.terminal import plain_table, print_table
from lightloom.trace.check import disagreements
from lightloom.trace.job import steps_of
from lightloom.trace.summary import volumes
from lightloom.trace.trace import RankTrace, Trace

#: rows and lines that are printed; --json has all
MAX_ROWS, MAX_LINES = 24, 8


def print_trace(trace: Trace, console: Console) -> None:
    """Print the volumes of the first recorded rank, what was invented, and whether ranks agree."""
    recorded = [trace.ranks[rank] for rank in sorted(trace.ranks)]
    first = recorded[0]
    number = sum(len(rank.calls) for rank in recorded)
    console.print(
        f"{number:,} calls of {_counted(len(recorded), 'rank')} of {trace.world_size:,}, "
        f"{_counted(first.steps, 'step')}; trace {trace.calls_hash[:16]}",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
    table = plain_table(
        f"Rank {first.rank}",
        ["group", "ranks", "operation", "phase", "calls", "[MB]", "largest [MB]"],
    )
    rows = volumes(trace, first.rank)
    for row in rows[:MAX_ROWS]:
        table.add_row(
            row.group, f"{row.group_size:,}", row.op, row.phase, f"{row.calls:,}",
            f"{row.input_bytes / 1e6:,.3f}", f"{row.largest_bytes / 1e6:,.3f}",
        )  # fmt: skip
    print_table(table, console)
    lines = []
    if len(rows) > MAX_ROWS:
        lines.append(f"{len(rows) - MAX_ROWS} more rows: --json has all")
    lines += _steps(trace)
    if first.invented:
        shown = ", ".join(f"{name} {count:,}" for name, count in sorted(first.invented.items()))
        lines.append(f"numbers that depend on data were invented, by operator: {shown}")
    lines += _assumptions(recorded)
    if first.stubs:
        lines.append(f"replaced by shape, since absent: {', '.join(first.stubs)}")
    wrong = disagreements(trace)
    lines += wrong[:MAX_LINES]
    if len(wrong) > MAX_LINES:
        lines.append(f"and {len(wrong) - MAX_LINES} more disagreements: --json has all")
    if not wrong and len(recorded) > 1:
        lines.append("the recorded ranks agree: what one sends, another expects")
    if lines:
        console.print()
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _steps(trace: Trace) -> list[str]:
    """Which step other commands take, where that is not plain."""
    try:
        whole, others = steps_of(trace)
    except InputError:
        return ["no call is of a training step: all were made before the first one"]
    if not others:
        return []
    return [
        f"step {whole[-1]} is the last whole one, which permutations, slots and compare take; "
        f"what comes after it is of none (--step {others[0]} has it)"
    ]


def _assumptions(recorded: list[RankTrace]) -> list[str]:
    """What was assumed, of other ranks and of data."""
    assumed: Counter[str] = Counter()
    for rank in recorded:
        assumed.update(rank.assumed)
    lines = [
        f"assumed, {number:,} times: {assumption}"
        for assumption, number in assumed.most_common(MAX_LINES)
    ]
    if len(assumed) > MAX_LINES:
        lines.append(f"and {len(assumed) - MAX_LINES} more assumptions: --json has all")
    return lines


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
