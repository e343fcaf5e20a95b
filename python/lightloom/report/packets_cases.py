"""Several packet simulations side by side: one table, the slowest flows of each, a sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console

from lightloom.packets import PacketRun
from lightloom.packets.several import PacketCase
from lightloom.packets.spread import spread
from lightloom.report.grid import Grid, as_rich
from lightloom.report.packets_table import network_text, verdict
from lightloom.report.terminal import print_table, print_wrapped
from lightloom.units import show_bytes, show_number, show_time, time_unit

#: flows of each run that are listed in a terminal: one if there are more runs than ``_FEW``
_LISTED, _FEW = 3, 4
_COUNTS = ("drops", "trims", "marks", "pauses")


def print_cases(cases: Sequence[PacketCase], console: Console) -> None:
    """Print the runs, the slowest flows of each, and which run is best, last."""
    print_wrapped(case_heading(cases), console)
    listed = _LISTED if len(cases) <= _FEW else 1
    for grid in filter(None, (cases_grid(cases), slowest_flows(cases, listed))):
        print_table(as_rich(grid), console)
    console.print()
    for remark in case_remarks(cases):
        print_wrapped(remark, console)
    for sentence in case_verdicts(cases):
        print_wrapped(sentence, console, "bold")


def case_heading(cases: Sequence[PacketCase]) -> str:
    """What the runs have in common; what differs is in their rows."""
    first = cases[0]
    texts = {network_text(case.scenario.network) for case in cases}
    names = dict.fromkeys(case.run.flows.name for case in cases if case.run is not None)
    over = f" over {texts.pop()}" if len(texts) == 1 else ""
    return f"{'; '.join(names) or first.title}: {len(cases)} runs{over}"


def _finished(case: PacketCase) -> tuple[PacketRun, dict[str, float], dict[str, float]] | None:
    """The run of a case, if flows have finished, with its times and slowdowns."""
    if case.run is None:
        return None
    times, slowdowns = spread(case.run.fct_s), spread(case.run.slowdown)
    return None if times is None or slowdowns is None else (case.run, times, slowdowns)


def cases_grid(cases: Sequence[PacketCase]) -> Grid:
    """A row for each run."""
    parts = [_finished(case) for case in cases]
    longest_s = max((part[1]["max"] for part in parts if part is not None), default=1.0)
    unit_s, unit = time_unit(longest_s)
    totals = [
        {} if case.run is None else {
            name: sum(getattr(layer, name) for layer in case.run.layer_use()) for name in _COUNTS
        }
        for case in cases
    ]  # fmt: skip
    counts = [name for name in _COUNTS if any(row.get(name) for row in totals)]
    rows = [
        [case.title, *_cells(one, unit_s), *(f"{row[name]:,}" if row else "-" for name in counts)]
        for case, one, row in zip(cases, parts, totals, strict=True)
    ]
    time_headers = [(f"{name}\ntime", unit) for name in ("p50", "p99", "max")]
    headers = [("run", ""), ("finished", ""), *time_headers]
    headers += [(f"{name}\nslow-\ndown", "") for name in ("p50", "p99")]
    every = [*headers, *((name, "") for name in counts)]
    return Grid(
        title="Runs",
        headers=every,
        rows=rows,
        best=-1,
        caption="time: from a flow's start until its sender has the last acknowledgment; "
        "slowdown: until the receiver has all bytes, over the same time on an idle network",
        less_is_better=tuple(
            words.replace("-\n", "").replace("\n", " ") for words, _ in headers[2:]
        ),
    )


def _cells(
    results: tuple[PacketRun, dict[str, float], dict[str, float]] | None, unit_s: float
) -> list[str | float]:
    if results is None:
        return ["0", *["-"] * 5]
    run, times, slowdowns = results
    total = len(run.flows)
    left = len(run.unfinished)
    finished = f"{total:,}" if not left else f"{total - left:,} of {total:,}"
    return [
        finished,
        *(times[name] / unit_s for name in ("p50", "p99", "max")),
        *(slowdowns[name] for name in ("p50", "p99")),
    ]


def slowest_flows(cases: Sequence[PacketCase], count: int) -> Grid | None:
    """The flows of each run that took longest for their size; nothing if none has finished."""
    ran = [(case, case.run) for case in cases if _finished(case) is not None]
    largest = max((float(np.nanmax(run.fct_s)) for _, run in ran if run is not None), default=0)
    if not ran:
        return None
    unit_s, unit = time_unit(largest)
    rows: list[list[str | float]] = []
    for case, run in ran:
        assert run is not None
        done = np.flatnonzero(~np.isnan(run.slowdown))
        worst = done[np.argsort(-run.slowdown[done], kind="stable")][:count]
        rows += [
            [
                case.title,
                f"{flow}",
                f"{run.nodes[run.flows.source[flow]]} to {run.nodes[run.flows.destination[flow]]}",
                show_bytes(int(run.flows.size_bytes[flow]), 4),
                float(run.fct_s[flow]) / unit_s,
                float(run.slowdown[flow]),
            ]
            for flow in worst.tolist()
        ]
    headers = [
        ("run", ""), ("flow", ""), ("from", ""), ("size", ""), ("time", unit), ("slowdown", ""),
    ]  # fmt: skip
    return Grid("Slowest flows of each run", headers, rows, -1, "By slowdown")


def slowest_in_runs(cases: Sequence[PacketCase], count: int) -> Grid | None:
    """The flows that some run slows down the most, once each; by run where flows differ."""
    runs = [(case.title, case.run) for case in cases if _finished(case) is not None]
    flows = [run.flows for _, run in runs if run is not None]
    alike = all(
        len(flow_list) == len(flows[0])
        and np.array_equal(flow_list.source, flows[0].source)
        and np.array_equal(flow_list.destination, flows[0].destination)
        and np.array_equal(flow_list.size_bytes, flows[0].size_bytes)
        for flow_list in flows
    )
    if len(flows) < 2 or not alike:
        return slowest_flows(cases, count)
    slowed = np.array([run.slowdown for _, run in runs if run is not None])
    largest = np.nan_to_num(slowed, nan=0.0).max(axis=0)
    nodes = next(run.nodes for _, run in runs if run is not None)
    rows = [
        [
            f"{flow}",
            f"{nodes[flows[0].source[flow]]} to {nodes[flows[0].destination[flow]]}",
            show_bytes(int(flows[0].size_bytes[flow]), 4),
            *("-" if np.isnan(slowdown) else slowdown for slowdown in slowed[:, flow].tolist()),
        ]
        for flow in np.argsort(-largest, kind="stable")[:count].tolist()
    ]
    headers = [("flow", ""), ("from", ""), ("size", ""), *((title, "") for title, _ in runs)]
    caption = "Slowdown in each run, the largest first"
    return Grid("Slowest flows", headers, rows, -1, caption)


def case_remarks(cases: Sequence[PacketCase]) -> list[str]:
    """The remarks of all runs, each once, after the runs that they are about."""
    runs: dict[str, list[str]] = {}
    for case in cases:
        for remark in () if case.run is None else case.run.remarks:
            runs.setdefault(remark, []).append(case.title)
    return [f"{'; '.join(titles)}: {remark}" for remark, titles in runs.items()]


def case_verdicts(cases: Sequence[PacketCase]) -> list[str]:
    """The outcome, a sentence each: what is unfinished or stuck, and the shortest tail."""
    lines = [f"{case.title}: stuck: {case.stuck}." for case in cases if case.stuck]
    lines += [
        f"{case.title}: {sentence}"
        for case in cases
        if case.run is not None and len(case.run.unfinished)
        for sentence in verdict(case.run)
    ]
    tails = {
        case.title: times[1]["p99"] for case in cases if (times := _finished(case)) is not None
    }
    if len(tails) > 1:
        best, worst = min(tails, key=tails.__getitem__), max(tails, key=tails.__getitem__)
        lines.append(
            f"p99 of completion: shortest with {best} ({show_time(tails[best])}), longest with "
            f"{worst} ({show_time(tails[worst])}, {show_number(tails[worst] / tails[best], 3)}x)."
        )
    return lines
