"""The plans that a search considered, and which fabric has which of them."""

from __future__ import annotations

import math
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
#: what else a plan may differ in
_PRACTICE = ("schedule", "strategy", "dispatcher", "sharded")
#: what of it has a shorter name
_NAMES = {
    **{"states": "ZeRO-1", "gradients": "ZeRO-2", "parameters": "ZeRO-3"},
    "zero-bubble": "ZB-H1",
}
#: parts of an estimated step, in words, and which are communication
_PARTS = {
    "compute_s": "compute",
    "tp_s": "TP",
    "ep_s": "EP",
    "cp_s": "CP",
    "pp_s": "PP",
    "dp_s": "DP",
    "bubble_s": "bubble",
}
_COMMUNICATION = ("tp_s", "ep_s", "cp_s", "pp_s", "dp_s")


def print_plans(comparison: Comparison, console: Console) -> None:
    """Print the ten best plans of a search."""
    candidates = comparison.inputs.get("plan_candidates", ())
    if candidates:
        names = [name for plan in _by_plan(comparison.results)[1:] for name in plan[1]]
        fitting = comparison.inputs.get("plans_that_fit", len(candidates))
        print_table(as_rich(plans_grid(candidates, names, fitting=fitting)), console)
        if (grid := parts_grid(comparison)) is not None:
            print_table(as_rich(grid), console)


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


def plans_grid(
    candidates: Sequence[Mapping[str, Any]],
    fabrics: Sequence[str] = (),
    *,
    fitting: int | None = None,
) -> Grid:
    """A row for each of the best plans, steps scaled to the tokens of the first.

    Plans that were only estimated are left out. ``fabrics`` are those with another plan than the
    first, whose steps are there, too; ``fitting`` the plans that fit, if more than candidates.
    """
    shown = _shown(candidates)
    per_sequence = [plan["predicted_step_time_s"] / _share(plan) for plan in shown]
    optional = [name for name in _OFTEN_ONE if any(plan[name] > 1 for plan in shown)]
    degrees = ["tp", "pp", "ep", *optional, "dp"]
    run_as = _run_as(shown)
    rows = []
    for plan, each_s, words in zip(shown, per_sequence, run_as, strict=True):
        seconds = each_s * _share(shown[0])
        rows.append(
            [
                *(f"{plan[name]:,}" for name in degrees),
                f"{plan['micro_batches']:,} x {plan['micro_batch_size']}",
                plan["recompute"],
                *words,
                plan["peak_memory_bytes"] / 1e9,
                seconds,
                f"{each_s / per_sequence[0]:.3f}",
                *(_on(plan, name, seconds / plan["predicted_step_time_s"]) for name in fabrics),
            ]
        )
    return Grid(
        title=f"Plans: the best {len(rows)} of {fitting or len(candidates):,} that fit",
        headers=[
            *((name.upper(), "") for name in degrees),
            ("micro-\nbatches", ""),
            ("recom-\nputed", ""),
            *([("run as", "")] if run_as and run_as[0] else []),
            ("memory", "GB"),
            ("step", "s"),
            ("vs\nbest", ""),
            *((f"on\n{name}", "s") for name in fabrics),
        ],
        rows=rows,
        best=0,
        caption="DP: replicas of the experts; step: on a fat-tree, of equal tokens"
        + (
            "; ZB-H1: zero-bubble"
            if any("ZB-H1" in cell for cells in run_as for cell in cells)
            else ""
        ),
    )


def _run_as(plans: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A cell for each plan with its practice, of what differs between plans; none if nothing."""
    # earlier versions searched for degrees alone
    names = [name for name in _PRACTICE if len({plan.get(name) for plan in plans}) > 1]
    cells = [", ".join(_NAMES.get(plan[name], plan[name]) for name in names) for plan in plans]
    return [[cell] if names else [] for cell in cells]


def _shown(candidates: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The best plans that were simulated."""
    return [plan for plan in candidates if not plan["is_screened"]][:SHOWN]


def parts_grid(comparison: Comparison) -> Grid | None:
    """What the steps of the best plans consist of: why the next ones take longer.

    Parts are those of the closed form, as shares of the step that was predicted. ``None`` where
    results have none, as of earlier versions.
    """
    shown = _shown(comparison.inputs["plan_candidates"])
    estimates = [plan.get("estimated_s") or {} for plan in shown]
    rates = comparison.results[0]
    if not shown or not all(estimates) or rates.mfu is None or len(shown) < 2:
        return None
    share = _share(shown[0])
    rows = []
    for number, (plan, parts) in enumerate(zip(shown, estimates, strict=True), 1):
        step_s = plan["predicted_step_time_s"] * share / _share(plan)
        each = {name: step_s * value / sum(parts.values()) for name, value in parts.items()}
        rows.append((number, step_s, each))
    first, best_s = rows[0][2], rows[0][1]
    names = [n for n in first if any(abs(each[n]) > 0.0005 * best_s for _, _, each in rows)]
    rate = rates.mfu * rates.step_time_s
    digits = max(0, 3 - math.floor(math.log10(best_s)))
    grid = []
    for number, step_s, each in rows:
        exposed = sum(each[name] for name in _COMMUNICATION) / step_s
        more = [
            f"{each[n]:.{digits}f}" if number == 1 else f"{each[n] - first[n]:+.{digits}f}"
            for n in names
        ]
        grid.append([str(number), f"{100 * rate / step_s:.1f}", f"{100 * exposed:.1f}", *more])
    return Grid(
        title="Why the next plans take longer",
        headers=[
            ("plan", ""),
            ("MFU", "%"),
            ("exposed", "%"),
            *((_PARTS[name], "s") for name in names),
        ],
        rows=grid,
        best=0,
        caption=(
            "exposed: communication that nothing hides; parts of the first step, and how much"
            " longer they are of the others (closed form)"
        ),
    )


def _on(candidate: Mapping[str, Any], fabric: str, scale: float) -> str:
    seconds = candidate["predicted_by_fabric_s"].get(fabric)
    return "-" if seconds is None else f"{scale * seconds:.4g}"


def _share(candidate: Mapping[str, Any]) -> float:
    """Sequences of a step on so many GPUs, but for a factor that all plans share."""
    ranks: float = candidate["tp"] * candidate["pp"] * candidate["cp"]
    return float(candidate["micro_batches"] * candidate["micro_batch_size"]) / ranks
