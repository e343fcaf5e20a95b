"""A comparison at several points: one table, and what changes from point to point in words."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from lightloom.report.grid import Grid, print_rows
from lightloom.study.compare.plan_search import title
from lightloom.study.compare.results import SAME
from lightloom.study.compare.scaling import METRICS, Scaling, ScalingPoint

#: columns of names
_NAMES = ("fabric", "GPU", "plan")
_HEADERS = {"gpus": ("GPUs", ""), "rate_gbps": ("rate", "Gb/s"), "gpu": ("GPU", "")}


def print_scaling(scaling: Scaling, console: Console) -> None:
    """Print what was assumed, the tables, what failed, and which fabric is best where, last."""
    for line in opening(scaling):
        console.print(Text(line), soft_wrap=True)
    for warning in warnings(scaling):
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)
    if (plans := plans_grid(scaling)) is not None:
        print_rows(plans, console, left=_NAMES)
    print_rows(scaling_grid(scaling), console, left=_NAMES, best=best_rows(scaling))
    for number, reason in scaling.failures.items():
        console.print(Text(f"{scaling.points[number].title}: {reason}"), soft_wrap=True)
    if scaling.interrupted:
        done, total = len(scaling.results), len(scaling.points)
        console.print(f"interrupted: {done} of {total} points have finished")
    console.print()
    for sentence in verdicts(scaling):
        console.print(Text(sentence, style="bold"), soft_wrap=not console.is_terminal)


def opening(scaling: Scaling) -> list[str]:
    """What the summaries of all points have in common, and where their plans come from."""
    summaries = [
        scaling.results[number]["inputs"].get("summary", []) for number in sorted(scaling.results)
    ]
    common = [line for line in summaries[0] if all(line in summary for summary in summaries)]
    return [*common, *([scaling.plans] if scaling.plans else [])] if summaries else []


def warnings(scaling: Scaling) -> list[str]:
    """The warnings of the points, each once and with the points that have it."""
    points: dict[str, list[str]] = {}
    for number in sorted(scaling.results):
        for warning in scaling.results[number].get("warnings", ()):
            points.setdefault(warning, []).append(scaling.points[number].title)
    alone = len(scaling.results) == 1
    return [
        warning
        if alone or len(titles) == len(scaling.results)
        else f"{'; '.join(titles)}: {warning}"
        for warning, titles in points.items()
    ]


def plans_grid(scaling: Scaling) -> Grid | None:
    """The plan of each point, and how well it scales; ``None`` where there is none."""
    numbers = [n for n in sorted(scaling.results) if scaling.results[n]["inputs"].get("plan")]
    if not numbers:
        return None
    axes = list(scaling.points[0].values)
    speeds = {n: _per_gpu(scaling, n) for n in numbers}
    first = {n: line[0] for line in scaling.lines("gpus") for n in line}
    rows = []
    for number in numbers:
        inputs, values = scaling.results[number]["inputs"], scaling.points[number].values
        rows.append(
            [
                *(_value(name, values[name]) for name in axes),
                title(_fastest(scaling, number).get("plan") or inputs["plan"]),
                f"{inputs['sequences_per_step']:,}",
                scaling.results[number]["memory"]["recompute"],
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


def _fastest(scaling: Scaling, number: int) -> dict[str, Any]:
    """The result of the fastest fabric of a point."""
    results: list[dict[str, Any]] = scaling.results[number]["results"]
    return min(results, key=lambda result: result["step_time_s"])


def _has_own_plans(scaling: Scaling) -> bool:
    """Whether fabrics of one point have different plans."""
    return any(
        len({title(result["plan"]) for result in point["results"] if result.get("plan")}) > 1
        for point in scaling.results.values()
    )


def _per_gpu(scaling: Scaling, number: int) -> float:
    speeds = scaling.metric(number, "tokens_per_s").values()
    return max(speeds) / float(scaling.points[number].values["gpus"])


def scaling_grid(scaling: Scaling) -> Grid:
    """A row for every fabric of every finished point."""
    axes = list(scaling.points[0].values)
    with_plan = _has_own_plans(scaling)
    rows: list[list[str | float]] = []
    for number in sorted(scaling.results):
        values, paces = scaling.points[number].values, scaling.metric(number, "tokens_per_s")
        for result in scaling.results[number]["results"]:
            tied = "=" if result["tied_with_fastest"] and result["ratio_to_fastest"] > 1 else ""
            rows.append(
                [
                    *(_value(name, values[name]) for name in axes),
                    result["fabric"],
                    *([title(result["plan"])] if with_plan else []),
                    result["step_time_s"],
                    f"{result['ratio_to_fastest']:.3f}{tied}",
                    f"{paces[result['fabric']]:,.0f}",
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
        (f"\n{scaling.pace_unit}", ""),
        ("network", "M$"),
        (f"{scaling.pace_unit.replace('tokens', 'tok')}/k$\ncluster", ""),
    ]
    return Grid(
        title="Fabrics at every point",
        headers=headers,
        rows=rows,
        best=-1,
        caption="vs best: of the same point; =: tied; k$: thousand dollars of network, servers and "
        "GPUs, of which the best value of each point is marked",
        marked=frozenset((row, len(axes) + 5 + with_plan) for row in best_rows(scaling)),
    )


def best_rows(scaling: Scaling) -> set[int]:
    """The row of the best value per dollar of each point."""
    best, start = set(), 0
    for number in sorted(scaling.results):
        values = list(scaling.metric(number, "perf_per_cluster_usd").values())
        best.add(start + values.index(max(values)))
        start += len(values)
    return best


def _value(name: str, value: Any) -> str:
    return f"{value:,}" if name == "gpus" else f"{value:g}" if name == "rate_gbps" else str(value)


def verdicts(scaling: Scaling) -> list[str]:
    """Which fabric is best where: a sentence for every metric and line of points."""
    axes = [name for name in scaling.numeric_axes if len(_values(scaling, name)) > 1]
    if not axes:
        return [_over_kinds(scaling, metric) for metric in METRICS] if scaling.results else []
    changes = {
        (cross.metric, cross.axis, tuple(cross.fixed.items())) for cross in scaling.crossovers()
    }
    return [
        _sentence(scaling, metric, axis, line)
        for metric in METRICS
        for axis in axes
        for line in scaling.lines(axis)
        if axis == axes[0] or (metric, axis, tuple(_fixed(scaling, axis, line).items())) in changes
    ]


def _fixed(scaling: Scaling, axis: str, line: list[int]) -> dict[str, Any]:
    """What all points of a line have in common."""
    return {name: value for name, value in scaling.points[line[0]].values.items() if name != axis}


def _values(scaling: Scaling, axis: str) -> set[Any]:
    return {point.values[axis] for point in scaling.points}


def _sentence(scaling: Scaling, metric: str, axis: str, line: list[int]) -> str:
    fixed = _fixed(scaling, axis, line)
    where = ScalingPoint(fixed, scaling.points[line[0]].scenario).title
    runs: list[tuple[str, list[int]]] = []
    for number in line:
        name = _best(scaling, metric, number, runs[-1][0] if runs else None)
        if not runs or runs[-1][0] != name:
            runs.append((name, []))
        runs[-1][1].append(number)
    crossed = {
        cross.above: cross
        for cross in scaling.crossovers()
        if cross.metric == metric and cross.axis == axis and cross.fixed == fixed
    }
    unit = "GPUs" if axis == "gpus" else "Gb/s"
    clauses = []
    for place, (name, numbers) in enumerate(runs):
        first, last = (
            _value(axis, scaling.points[n].values[axis]) for n in (numbers[0], numbers[-1])
        )
        span = f"at {first} {unit}" if first == last else f"from {first} to {last} {unit}"
        at = ""
        if place and (cross := crossed.get(name)) is not None:
            at = f" (the two are equal at about {float(f'{cross.at:.2g}'):,.0f})"
        clauses.append(f"{name} {span}{at}")
    lead = f"{where}: " if where else ""
    return f"{lead}{METRICS[metric]} is {'; '.join(clauses)}."


def _best(scaling: Scaling, metric: str, number: int, former: str | None) -> str:
    """The best fabric of a point; that of the point before if it is as good."""
    values = scaling.metric(number, metric)
    best = max(values, key=values.__getitem__)
    if former in values and former is not None and values[former] * SAME >= values[best]:
        return former
    return best


def _over_kinds(scaling: Scaling, metric: str) -> str:
    clauses = [
        f"{_best(scaling, metric, number, None)} with {scaling.points[number].title}"
        for number in sorted(scaling.results)
    ]
    return f"{METRICS[metric]} is {'; '.join(clauses)}."
