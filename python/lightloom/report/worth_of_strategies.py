"""How all-to-alls to experts run, and what strategies and orders are worth on each fabric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from lightloom.report.grid import Grid
from lightloom.report.strategy_table import MEANINGS
from lightloom.study.compare.results import FabricResult
from lightloom.study.compare.variants import PACKAGED


def worth_grids(results: Sequence[FabricResult]) -> list[Grid]:
    """Steps with each strategy, each order of traffic and packaged links, where tried."""
    return [*_strategies_grids(results), *_orders_grids(results), *_links_grids(results)]


def _links_grids(results: Sequence[FabricResult]) -> list[Grid]:
    """The first sample with calibrated and with packaged links, a row for each fabric."""
    tried = [result for result in results if PACKAGED.key in result.variants_s]
    if not tried:
        return []
    rows: list[list[str | float]] = []
    for result in tried:
        own_s, packaged_s = result.sample_step_times_s[0], result.variants_s[PACKAGED.key]
        change = 100 * (own_s / packaged_s - 1)
        rows.append([result.fabric, own_s, packaged_s, f"{change:+.1f}"])
    return [
        Grid(
            title="Calibrated and packaged links",
            headers=[("fabric", ""), ("calibrated", "s"), ("packaged", "s"), ("longer", "%")],
            rows=rows,
            best=-1,
            caption="step of the first sample; all other results are calibrated",
        )
    ]


#: what goes first by each order of the traffic
ORDERS = {
    "none": "no traffic goes first",
    "monta": "experts, pipeline, context parallelism, gradients",
    "pipeline": "the same with the pipeline first",
}


def _orders_grids(results: Sequence[FabricResult]) -> list[Grid]:
    """The first sample with each order of its traffic, a row for each fabric."""
    orders = {name: f"priorities={name}" for name in ORDERS}
    tried = [r for r in results if any(key in r.variants_s for key in orders.values())]
    rows: list[list[str | float]] = []
    marked = set()
    for number, result in enumerate(tried):
        own_s = result.sample_step_times_s[0]
        times = {name: result.variants_s.get(key, own_s) for name, key in orders.items()}
        best = min(times, key=lambda name: times[name])
        gain = 100 * (times["none"] / times[best] - 1)
        rows.append([result.fabric, *times.values(), best, f"{gain:.1f}"])
        marked.add((number, 1 + list(times).index(best)))
    if not rows:
        return []
    return [
        Grid(
            title="What the order of traffic is worth",
            headers=[
                ("fabric", ""),
                *((name, "s") for name in orders),
                ("best", ""),
                ("faster\nthan none", "%"),
            ],
            rows=rows,
            best=-1,
            caption="step of the first sample by traffic.priorities; "
            + "; ".join(f"{name}: {text}" for name, text in ORDERS.items()),
            marked=frozenset(marked),
        )
    ]


def _strategies_grids(results: Sequence[FabricResult]) -> list[Grid]:
    """The first sample with each strategy, a row for each fabric; no table where none was tried."""
    tried = [result for result in results if result.strategies]
    if not tried:
        return []
    columns = [each.strategy for each in tried[0].strategies]
    rows: list[list[str | float]] = []
    marked = set()
    for number, result in enumerate(tried):
        times = [each.step_time_s for each in result.strategies]
        own_s = result.sample_step_times_s[0]
        # of equal ones the first that is no baseline, as auto takes it
        taken = next(
            (
                n
                for n, time in zip(columns, times, strict=True)
                if time == own_s and n != "baseline"
            ),
            "",
        )
        rows.append([result.fabric, *times, own_s, taken])
        marked.add((number, 1 + times.index(min(times))))
    caption = (
        "step of the first sample with one strategy for all layers, or what the planner chooses "
        "for each (layers); auto: what is fastest on the fabric, but for the baseline"
    )
    caption += "".join(f"; {name}: {MEANINGS[name]}" for name in MEANINGS)
    misfits = [each.strategy for each in tried[0].strategies if not each.fits]
    if misfits:
        caption += f"; {' and '.join(misfits)} would not fit the memory of the GPUs"
    return [
        Grid(
            title="What each strategy of the all-to-alls is worth",
            headers=[
                ("fabric", ""),
                *((name, "s") for name in columns),
                ("auto", "s"),
                ("auto\ntakes", ""),
            ],
            rows=rows,
            best=-1,
            caption=caption,
            marked=frozenset(marked),
        )
    ]


def strategies_sentence(strategies: Sequence[Mapping[str, int | str]]) -> str:
    """Which layers run their all-to-alls how; empty where they run as usual."""
    if not strategies:
        return ""
    by_name = sorted(strategies, key=lambda each: (str(each["strategy"]), int(each["layer"])))
    parts = []
    for name, group in groupby(by_name, key=lambda each: str(each["strategy"])):
        layers = list(group)
        chunks = sorted({int(each["chunks"]) for each in layers})
        cut = " in " + " to ".join(map(str, dict.fromkeys((chunks[0], chunks[-1])))) + " chunks"
        count = f"{len(layers)} layer{'s' * (len(layers) > 1)}"
        parts.append(f"{name}{cut if chunks[-1] > 1 else ''} ({count})")
    return f"All-to-alls to experts, layer by layer: {', '.join(parts)}."
