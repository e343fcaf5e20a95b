"""A comparison at several points: one table, and what changes from point to point in words."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from lightloom.report.grid import Grid
from lightloom.report.terminal import plain_table, print_table
from lightloom.study.compare.plan_search import title
from lightloom.study.compare.results import SAME
from lightloom.study.compare.scaling import METRICS, Scaling, ScalingPoint

_HEADERS = {"gpus": ("GPUs", ""), "rate_gbps": ("rate", "Gb/s"), "gpu": ("GPU", "")}


def print_scaling(found: Scaling, console: Console) -> None:
    """Print what was assumed, the tables, what failed, and which fabric is best where, last."""
    for line in opening(found):
        console.print(Text(line), soft_wrap=True)
    for warning in warnings(found):
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)
    if (plans := plans_grid(found)) is not None:
        _print_grid(plans, set(), console)
    _print_grid(scaling_grid(found), best_rows(found), console)
    for number, reason in found.failures.items():
        console.print(Text(f"{found.points[number].title}: {reason}"), soft_wrap=True)
    if found.interrupted:
        done, total = len(found.results), len(found.points)
        console.print(f"interrupted: {done} of {total} points have finished")
    console.print()
    for sentence in verdicts(found):
        console.print(Text(sentence, style="bold"), soft_wrap=not console.is_terminal)


def _print_grid(grid: Grid, best: set[int], console: Console) -> None:
    headers = [f"{words}\n[{unit}]" if unit else words for words, unit in grid.headers]
    table = plain_table(grid.title, headers, caption=grid.caption, left=["fabric", "GPU", "plan"])
    for number, row in enumerate(grid.texts):
        table.add_row(*row, style="bold green" if number in best else "")
    print_table(table, console)


def opening(found: Scaling) -> list[str]:
    """What the summaries of all points have in common, and where their plans come from."""
    summaries = [
        found.results[number]["inputs"].get("summary", []) for number in sorted(found.results)
    ]
    common = [line for line in summaries[0] if all(line in one for one in summaries)]
    return [*common, *([found.plans] if found.plans else [])] if summaries else []


def warnings(found: Scaling) -> list[str]:
    """The warnings of the points, each once and with the points that have it."""
    points: dict[str, list[str]] = {}
    for number in sorted(found.results):
        for warning in found.results[number].get("warnings", ()):
            points.setdefault(warning, []).append(found.points[number].title)
    alone = len(found.results) == 1
    return [
        warning if alone or len(titles) == len(found.results) else f"{'; '.join(titles)}: {warning}"
        for warning, titles in points.items()
    ]


def plans_grid(found: Scaling) -> Grid | None:
    """The plan of each point, and how well it scales; ``None`` where there is none."""
    numbers = [n for n in sorted(found.results) if "plan" in found.results[n]["inputs"]]
    if not numbers:
        return None
    axes = list(found.points[0].values)
    speeds = {n: _per_gpu(found, n) for n in numbers}
    first = {n: line[0] for line in found.lines("gpus") for n in line}
    rows = []
    for number in numbers:
        inputs, values = found.results[number]["inputs"], found.points[number].values
        rows.append(
            [
                *(_value(name, values[name]) for name in axes),
                title(_fastest(found, number).get("plan") or inputs["plan"]),
                f"{inputs['sequences_per_step']:,}",
                found.results[number]["memory"]["recompute"],
                f"{speeds[number]:,.0f}",
                f"{100 * speeds[number] / speeds[first[number]]:.1f}",
            ]
        )
    return Grid(
        title="Plans and scaling",
        headers=[
            *(_HEADERS[name] for name in axes),
            ("plan", ""),
            ("sequences\nper step", ""),
            ("recom-\nputed", ""),
            ("tokens/s\nper GPU", ""),
            ("effi-\nciency", "%"),
        ],
        rows=rows,
        best=-1,
        caption="plan and tokens/s of the fastest fabric; efficiency: over those of the fewest "
        "GPUs at the same rate",
    )


def _fastest(found: Scaling, number: int) -> dict[str, Any]:
    """The result of the fastest fabric of a point."""
    results: list[dict[str, Any]] = found.results[number]["results"]
    return min(results, key=lambda result: result["step_time_s"])


def _has_own_plans(found: Scaling) -> bool:
    """Whether fabrics of one point have different plans."""
    return any(
        len({title(result["plan"]) for result in point["results"] if result.get("plan")}) > 1
        for point in found.results.values()
    )


def _per_gpu(found: Scaling, number: int) -> float:
    speeds = found.metric(number, "tokens_per_s").values()
    return max(speeds) / float(found.points[number].values["gpus"])


def scaling_grid(found: Scaling) -> Grid:
    """A row for every fabric of every finished point."""
    axes = list(found.points[0].values)
    with_plan = _has_own_plans(found)
    rows: list[list[str | float]] = []
    for number in sorted(found.results):
        values = found.points[number].values
        for result in found.results[number]["results"]:
            tied = "=" if result["tied_with_fastest"] and result["ratio_to_fastest"] > 1 else ""
            rows.append(
                [
                    *(_value(name, values[name]) for name in axes),
                    result["fabric"],
                    *([title(result["plan"])] if with_plan else []),
                    result["step_time_s"],
                    f"{result['ratio_to_fastest']:.3f}{tied}",
                    f"{result['tokens_per_s']:,.0f}",
                    f"{result['network_cost_usd'] / 1e6:,.2f}",
                    1000 * result["perf_per_cluster_usd"],
                ]
            )
    headers = [
        *(_HEADERS[name] for name in axes),
        ("fabric", ""),
        *([("plan", "")] if with_plan else []),
        ("step", "s"),
        ("vs\nbest", ""),
        ("\ntokens/s", ""),
        ("network", "M$"),
        ("tok/s/k$\ncluster", ""),
    ]
    return Grid(
        title="Fabrics at every point",
        headers=headers,
        rows=rows,
        best=-1,
        caption="vs best: of the same point; =: tied; k$: thousand dollars of network, servers and "
        "GPUs, of which the best value of each point is marked",
        marked=frozenset((row, len(axes) + 5 + with_plan) for row in best_rows(found)),
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
