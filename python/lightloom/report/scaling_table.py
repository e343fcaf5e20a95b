"""A comparison at several points: one table, and what changes from point to point in words."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from lightloom.report.grid import Grid
from lightloom.report.terminal import plain_table, print_table
from lightloom.study.compare.results import SAME
from lightloom.study.compare.scaling import METRICS, Scaling, ScalingPoint

_HEADERS = {"gpus": ("GPUs", ""), "rate_gbps": ("rate", "Gb/s"), "gpu": ("GPU", "")}


def print_scaling(found: Scaling, console: Console) -> None:
    """Print the table, what failed, and which fabric is best where, last."""
    grid = scaling_grid(found)
    headers = [f"{words}\n[{unit}]" if unit else words for words, unit in grid.headers]
    table = plain_table(grid.title, headers, caption=grid.caption, left=["fabric", "GPU"])
    best = best_rows(found)
    for number, row in enumerate(grid.rows):
        table.add_row(*row, style="bold green" if number in best else "")
    print_table(table, console)
    for number, reason in found.failures.items():
        console.print(Text(f"{found.points[number].title}: {reason}"), soft_wrap=True)
    if found.interrupted:
        done, total = len(found.results), len(found.points)
        console.print(f"interrupted: {done} of {total} points have finished")
    console.print()
    for sentence in verdicts(found):
        console.print(Text(sentence, style="bold"), soft_wrap=not console.is_terminal)


def scaling_grid(found: Scaling) -> Grid:
    """A row for every fabric of every finished point."""
    axes = list(found.points[0].values)
    rows = []
    for number in sorted(found.results):
        values = found.points[number].values
        for result in found.results[number]["results"]:
            tied = "=" if result["tied_with_fastest"] and result["ratio_to_fastest"] > 1 else ""
            rows.append(
                [
                    *(_value(name, values[name]) for name in axes),
                    result["fabric"],
                    f"{result['step_time_s']:.4g}",
                    f"{result['ratio_to_fastest']:.3f}{tied}",
                    f"{result['tokens_per_s']:,.0f}",
                    f"{result['network_cost_usd'] / 1e6:,.2f}",
                    f"{1000 * result['perf_per_cluster_usd']:,.2f}",
                ]
            )
    return Grid(
        title="Fabrics at every point",
        headers=[
            *(_HEADERS[name] for name in axes),
            ("fabric", ""),
            ("step", "s"),
            ("vs\nbest", ""),
            ("\ntokens/s", ""),
            ("network", "M$"),
            ("tok/s/k$\ncluster", ""),
        ],
        rows=rows,
        best=-1,
        caption="vs best: of the same point; =: tied; k$: thousand dollars of network, servers and "
        "GPUs, of which the best value of each point is marked",
        marked=frozenset((row, len(axes) + 5) for row in best_rows(found)),
    )


def best_rows(found: Scaling) -> set[int]:
    """The row of the best value per dollar of each point."""
    best, start = set(), 0
    for number in sorted(found.results):
        values = list(found.metric(number, "perf_per_cluster_usd").values())
        best.add(start + values.index(max(values)))
        start += len(values)
    return best


def _value(name: str, value: Any) -> str:
    return f"{value:,}" if name == "gpus" else f"{value:g}" if name == "rate_gbps" else str(value)


def verdicts(found: Scaling) -> list[str]:
    """Which fabric is best where: a sentence for every metric and line of points."""
    axes = [name for name in found.numeric_axes if len(_values(found, name)) > 1]
    if not axes:
        return [_over_kinds(found, metric) for metric in METRICS] if found.results else []
    changes = {(one.metric, one.axis, tuple(one.fixed.items())) for one in found.crossovers()}
    return [
        _sentence(found, metric, axis, line)
        for metric in METRICS
        for axis in axes
        for line in found.lines(axis)
        if axis == axes[0] or (metric, axis, tuple(_fixed(found, axis, line).items())) in changes
    ]


def _fixed(found: Scaling, axis: str, line: list[int]) -> dict[str, Any]:
    """What all points of a line have in common."""
    return {name: one for name, one in found.points[line[0]].values.items() if name != axis}


def _values(found: Scaling, axis: str) -> set[Any]:
    return {point.values[axis] for point in found.points}


def _sentence(found: Scaling, metric: str, axis: str, line: list[int]) -> str:
    fixed = _fixed(found, axis, line)
    where = ScalingPoint(fixed, found.points[line[0]].scenario).title
    runs: list[tuple[str, list[int]]] = []
    for number in line:
        name = _best(found, metric, number, runs[-1][0] if runs else None)
        if not runs or runs[-1][0] != name:
            runs.append((name, []))
        runs[-1][1].append(number)
    crossed = {
        one.above: one
        for one in found.crossovers()
        if one.metric == metric and one.axis == axis and one.fixed == fixed
    }
    unit = "GPUs" if axis == "gpus" else "Gb/s"
    clauses = []
    for place, (name, numbers) in enumerate(runs):
        first, last = (
            _value(axis, found.points[n].values[axis]) for n in (numbers[0], numbers[-1])
        )
        span = f"at {first} {unit}" if first == last else f"from {first} to {last} {unit}"
        at = ""
        if place and (one := crossed.get(name)) is not None:
            at = f" (the two are equal at about {_round(one.at)})"
        clauses.append(f"{name} {span}{at}")
    lead = f"{where}: " if where else ""
    return f"{lead}{METRICS[metric]} is {'; '.join(clauses)}."


def _best(found: Scaling, metric: str, number: int, former: str | None) -> str:
    """The best fabric of a point; that of the point before if it is as good."""
    values = found.metric(number, metric)
    best = max(values, key=values.__getitem__)
    if former in values and former is not None and values[former] * SAME >= values[best]:
        return former
    return best


def _over_kinds(found: Scaling, metric: str) -> str:
    clauses = [
        f"{_best(found, metric, number, None)} with {found.points[number].title}"
        for number in sorted(found.results)
    ]
    return f"{METRICS[metric]} is {'; '.join(clauses)}."


def _round(value: float) -> str:
    return f"{float(f'{value:.2g}'):,.0f}"
