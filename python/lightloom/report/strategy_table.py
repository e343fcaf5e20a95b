"""A table of the strategies of an all-to-all over the length of a sequence, and the choice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from lightloom.planner.choose import LengthResult
from lightloom.planner.scenario import AllToAllScenario
from lightloom.planner.strategy import AllToAllStrategy
from lightloom.report.grid import Grid, print_rows
from lightloom.units import show_bytes, show_time

#: what each strategy does, in the order of their columns
MEANINGS = {
    AllToAllStrategy.BASELINE: "every TP rank sends all tokens",
    AllToAllStrategy.O1: "each sends its part, receivers gather",
    AllToAllStrategy.O2: "in chunks, gather and copy beside the next all-to-all",
    AllToAllStrategy.O3: "in chunks, all-to-all, gather and copy beside each other",
    AllToAllStrategy.O4: "in chunks cut so that nothing is copied",
}
_CAPTION = "; ".join(f"{name}: {meaning}" for name, meaning in MEANINGS.items()) + (
    "; next: the next best; gain: the baseline's time over that of what to take"
)


def print_strategies(
    scenario: AllToAllScenario, results: Sequence[LengthResult], console: Console
) -> None:
    """Print the times of every strategy, the bytes, and which one to take, last."""
    for line in opening(scenario):
        console.print(Text(line), soft_wrap=True)
    for grid in grids(results):
        print_rows(grid, console, left=("take", "next"))
    for note in notes(scenario):
        console.print(Text(note, style="dim"), soft_wrap=True)
    for line in verdicts(results):
        console.print(Text(line, style="bold"), soft_wrap=True)


def opening(scenario: AllToAllScenario) -> list[str]:
    """What is asked: where, which degrees, how many bytes."""
    chunks = (
        "as many chunks as each is fastest with"
        if scenario.chunks == "auto"
        else f"{scenario.chunks} chunks"
    )
    late = f", the last rank {show_time(scenario.late_s)} late" if scenario.late_s else ""
    return [
        f"{scenario.where.title}: TP {scenario.tp}, EP {scenario.ep}, "
        f"{scenario.token_bytes:,.0f} bytes per token, {chunks}{late}"
    ]


def grids(results: Sequence[LengthResult]) -> list[Grid]:
    """Times of every demand, and the bytes that they have in common with the first one."""
    times = [
        _times(demand, list(rows), _CAPTION if demand == results[-1].demand else "")
        for demand, rows in groupby(results, key=lambda result: result.demand)
    ]
    return [*times, _bytes([r for r in results if r.demand == results[0].demand])]


def _times(demand: str, results: Sequence[LengthResult], caption: str) -> Grid:
    marked = {
        (number, 1 + list(AllToAllStrategy).index(result.choice.chosen))
        for number, result in enumerate(results)
    }
    return Grid(
        title=f"Time of an all-to-all, {demand}",
        headers=[
            ("tokens", ""),
            *((str(strategy), "ms") for strategy in AllToAllStrategy),
            ("take", ""),
            ("chunks", ""),
            ("next", ""),
            ("gain", ""),
        ],
        rows=[
            [
                f"{result.seq:,}",
                *(1e3 * result.choice.times[strategy].time_s for strategy in AllToAllStrategy),
                str(result.choice.chosen),
                f"{result.choice.times[result.choice.chosen].chunks}",
                str(result.choice.next_best or ""),
                f"{result.choice.speed_up:.2f}",
            ]
            for result in results
        ],
        best=-1,
        caption=caption,
        marked=frozenset(marked),
    )


def _bytes(results: Sequence[LengthResult]) -> Grid:
    return Grid(
        title=f"Bytes of the busiest GPU, {results[0].demand}",
        headers=[
            ("tokens", ""),
            ("baseline\nbetween", ""),
            ("baseline\nwithin", ""),
            ("O1 to O4\nbetween", ""),
            ("O1 to O4\nwithin", ""),
            ("O2, O3\ncopied", ""),
        ],
        rows=[[f"{result.seq:,}", *map(show_bytes, _moved(result))] for result in results],
        best=-1,
        caption="between servers, and within one over NVLink",
    )


def _moved(result: LengthResult) -> tuple[float, ...]:
    """What the baseline moves, and what the others do: all but a copy is alike."""
    whole, parts = (
        result.traffic[strategy] for strategy in (AllToAllStrategy.BASELINE, AllToAllStrategy.O2)
    )
    return whole.between_bytes, whole.within_bytes, *parts


def notes(scenario: AllToAllScenario) -> list[str]:
    """What a reader has to know of the values."""
    where = scenario.where
    left_out = [str(strategy) for strategy in AllToAllStrategy if strategy not in where.choices]
    lines = [where.note] if where.note else []
    if left_out:
        lines.append(f"not chosen from on this cluster: {', '.join(left_out)}")
    elif where.grouped_gather == 1:
        lines.append(
            "O4: each gather of a chunk pays its own start-up; nobody has measured that here"
        )
    return lines


def verdicts(results: Sequence[LengthResult]) -> list[str]:
    """Which strategy to take at which lengths, for each demand."""
    sentences = []
    several = len({result.demand for result in results}) > 1
    for demand, rows in groupby(results, key=lambda result: result.demand):
        runs = [
            list(run)
            for _, run in groupby(
                sorted(rows, key=lambda result: result.seq), key=lambda r: r.choice.chosen
            )
        ]
        parts = ", ".join(f"{run[0].choice.chosen} {_span(run)}" for run in runs)
        gains = [result.choice.speed_up for run in runs for result in run]
        faster = " to ".join(dict.fromkeys(f"{gain:.2f}" for gain in (min(gains), max(gains))))
        whose = f"{demand}: take" if several else "Take"
        sentences.append(f"{whose} {parts}; {faster} times as fast as the baseline.")
    return sentences


def _span(run: Sequence[LengthResult]) -> str:
    first, last = run[0].seq, run[-1].seq
    return f"at {first:,} tokens" if first == last else f"at {first:,} to {last:,} tokens"
