"""The plans that a search considered, and which fabric has which of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from lightloom.report.grid import Grid, as_rich
from lightloom.report.terminal import print_table
from lightloom.study.compare.job import PlanCandidate
from lightloom.study.compare.plan_search import title
from lightloom.study.compare.results import Comparison, FabricResult

#: plans that are shown
SHOWN = 10
#: degrees that are a column where they differ from 1
_OFTEN_ONE = ("cp", "etp", "vpp")


def print_plans(comparison: Comparison, console: Console) -> None:
    """Print the ten best plans of a search."""
    candidates = comparison.inputs.get("plan_candidates", ())
    if candidates:
        names = [name for plan in _by_plan(comparison.results)[1:] for name in plan[1]]
        print_table(as_rich(plans_grid(candidates, names)), console)


def plans_sentence(comparison: Comparison) -> str | None:
    """Which fabrics have which plan, where a search found several; ``None`` for one plan."""
    (first, names), *others = _by_plan(comparison.results)
    if not others:
        return None
    plans = comparison.inputs.get("plan_candidates", ())
    usual = title(first)
    clauses = [f"{', '.join(names)}: {usual}"]
    for plan, fabrics in others:
        gains = (_gain(plans, first, plan, name) for name in fabrics)
        ratios = [ratio for ratio in gains if ratio is not None]
        faster = f" ({min(ratios):.2f}x faster there than {usual})" if ratios else ""
        clauses.append(f"{', '.join(fabrics)}: {title(plan)}{faster}")
    return f"Each fabric has its best plan. {'; '.join(clauses)}."


def _by_plan(results: Sequence[FabricResult]) -> list[tuple[Mapping[str, Any], list[str]]]:
    """The plans of results, each with the fabrics that have it."""
    by_degrees: dict[tuple[Any, ...], tuple[Mapping[str, Any], list[str]]] = {}
    for result in results:
        by_degrees.setdefault(_degrees(result.plan), (result.plan, []))[1].append(result.fabric)
    return list(by_degrees.values())


def _degrees(plan: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(plan.get(name) for name in PlanCandidate.DEGREES)


def _gain(
    candidates: Sequence[Mapping[str, Any]],
    first: Mapping[str, Any],
    plan: Mapping[str, Any],
    fabric: str,
) -> float | None:
    """How many times faster a fabric's own plan is there, as predicted."""
    times = {_degrees(each): each["predicted_by_fabric_s"].get(fabric) for each in candidates}
    there, best = times.get(_degrees(first)), times.get(_degrees(plan))
    return there / best if there and best else None


def plans_grid(candidates: Sequence[Mapping[str, Any]], fabrics: Sequence[str] = ()) -> Grid:
    """A row for each of the best plans, steps scaled to the tokens of the first.

    Plans that were only estimated, from few layers, are left out. ``fabrics`` are those with
    another plan than the first, whose steps are there, too.
    """
    shown = [plan for plan in candidates if not plan["is_screened"]][:SHOWN]
    per_sequence = [plan["predicted_step_time_s"] / _share(plan) for plan in shown]
    optional = [name for name in _OFTEN_ONE if any(plan[name] > 1 for plan in shown)]
    degrees = ["tp", "pp", "ep", *optional, "dp"]
    rows = []
    for plan, each_s in zip(shown, per_sequence, strict=True):
        seconds = each_s * _share(shown[0])
        rows.append(
            [
                *(f"{plan[name]:,}" for name in degrees),
                f"{plan['micro_batches']:,} x {plan['micro_batch_size']}",
                plan["recompute"],
                plan["peak_memory_bytes"] / 1e9,
                seconds,
                f"{each_s / per_sequence[0]:.3f}",
                *(_on(plan, name, seconds / plan["predicted_step_time_s"]) for name in fabrics),
            ]
        )
    return Grid(
        title=f"Plans: the best {len(rows)} of {len(candidates)} that fit",
        headers=[
            *((name.upper(), "") for name in degrees),
            ("micro-\nbatches", ""),
            ("recom-\nputed", ""),
            ("memory", "GB"),
            ("step", "s"),
            ("vs\nbest", ""),
            *((f"on\n{name}", "s") for name in fabrics),
        ],
        rows=rows,
        best=0,
        caption="DP: replicas of the experts; step: on a fat-tree, of equal tokens",
    )


def _on(candidate: Mapping[str, Any], fabric: str, scale: float) -> str:
    seconds = candidate["predicted_by_fabric_s"].get(fabric)
    return "-" if seconds is None else f"{scale * seconds:.4g}"


def _share(candidate: Mapping[str, Any]) -> float:
    """Sequences of a step on so many GPUs, but for a factor that all plans share."""
    ranks: float = candidate["tp"] * candidate["pp"] * candidate["cp"]
    return float(candidate["micro_batches"] * candidate["micro_batch_size"]) / ranks
