"""A comparison as one HTML page that needs nothing else: no network, no other file.

The page is made from a template (``templates/``) and drawings (``plots*.py``); every text from
outside is escaped. It leaves out nothing of the tables in the terminal and of the ``--json`` file
but samples and hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from lightloom.output.files import write_text
from lightloom.report.components import COMPONENTS
from lightloom.report.explain import WORDS
from lightloom.report.failures_table import failure_rows, failures_sentence
from lightloom.report.page_bill import fabric_views, ownership_rows
from lightloom.report.page_circuits import CircuitView, circuit_views
from lightloom.report.page_pareto import pareto_data, pareto_points
from lightloom.report.page_template import files_of, render_page
from lightloom.report.page_time import WAITED, time_data, time_views
from lightloom.report.parameters import parameter_tables
from lightloom.report.plots import Bars, BarsBuilder, interval_strip, pareto
from lightloom.report.plots_circuits import matrix_drawing
from lightloom.report.plots_svg import FabricStyle, fabric_styles
from lightloom.report.remarks import remarks
from lightloom.report.result_columns import column
from lightloom.report.story import difference, doubts, story, unswitched
from lightloom.report.supply_text import listed
from lightloom.report.table import (
    BREAKDOWN,
    grouped,
    intervals,
    notes_by_fabrics,
    parts_of,
)
from lightloom.report.worth_of_strategies import worth_grids
from lightloom.study.compare.advice import advise, undecided
from lightloom.study.compare.results import Comparison, FabricResult
from lightloom.units import show_bytes, show_column, show_number, show_time, show_usd

#: who carries the bytes, in words
CARRIERS = {
    "eps": "packet fabric",
    "ocs": "circuits of a region",
    "direct": "fixed circuits",
    "crossbar": "circuits that take turns",
    "racks": "circuits between racks",
    "scheduled": "circuits that change by the clock",
    "relayed": "relayed by servers (counted again)",
    "nvswitch": "inside servers (NVSwitch)",
}
MEMORY = {
    "parameters": "parameters",
    "gradients": "gradients",
    "optimizer": "optimizer states",
    "activations": "activations",
    "logits": "logits",
    "workspace": "unadded gradients",
}
PARALLELISMS = {
    "tp": "TP: tensor",
    "ep": "EP: all-to-all of experts",
    "pp": "PP: pipeline",
    "dp": "DP: gradients and parameters",
    "cp": "CP: context",
    "transfers": "transfers between ranks",
}


def write_page(comparison: Comparison, path: Path) -> None:
    """Write the page; ``path`` appears only when it is whole.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    write_text(render(comparison), path)


def render(comparison: Comparison) -> str:
    """Text of the page."""
    return render_page("page.html", page_context(comparison))


def page_context(comparison: Comparison) -> dict[str, Any]:
    """Everything that the template shows, by name."""
    results = comparison.results
    styles = fabric_styles([(r.fabric, r.kind) for r in results])
    fastest = min(results, key=lambda r: r.step_time_s)
    times = time_views(comparison, styles)
    ownership, yearly = ownership_rows(comparison)
    circuits: list[CircuitView] = circuit_views(comparison, styles)
    return {
        "title": _title(comparison),
        "heading": _heading(comparison),
        "verdict": story(comparison),
        "doubt": doubts(comparison),
        "remarks": remarks(comparison),
        "difference": difference,
        "unswitched": unswitched,
        "percent": lambda ratio: f"{100 * (ratio - 1):+.1f} %",
        "version": str(comparison.inputs.get("lightloom", "")),
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "summary": [str(line) for line in comparison.inputs.get("summary", [])],
        "command": str(comparison.inputs.get("command", "")),
        "files": files_of("results", comparison.to_json(), comparison.rows(), "a row per fabric"),
        "warnings": comparison.warnings,
        "tiles": tiles(comparison, styles),
        "results": results,
        "styles": styles,
        "notes": notes_by_fabrics(comparison),
        "fastest": fastest,
        "failures": failure_rows(results),
        "lost": failures_sentence(results),
        "worth": worth_grids(results),
        "as_flows": as_flows(results),
        "listed": listed,
        "loads": [load.imbalance for load in results[0].loads],
        "best": _best(results),
        "columns": {
            name: dict(zip([r.fabric for r in results], column(results, name), strict=True))
            for name in _best(results)
        },
        "intervals": dict(
            zip([r.fabric for r in results], map(" to ".join, intervals(results)), strict=True)
        ),
        "show_column": show_column,
        "parts": parts_of(results),
        "strips": _strips(results, styles),
        "pareto": pareto(pareto_points(results, styles), "the network"),
        "charts": {
            "pareto": pareto_data(results, styles),
            **time_data(times, advise(results).build.fabric),
        },
        "waited": WAITED,
        "path_bars": time_bars(results, styles, "critical_path_s"),
        "mean_bars": time_bars(results, styles, "mean_s"),
        "groups": {r.fabric: grouped(r.critical_path_s) for r in results},
        "group_names": list(BREAKDOWN),
        "carried": _carried_bars(results, styles),
        "demand": _demand(comparison),
        "circuits": circuits,
        "times": times,
        "costs": _component_bars(results, styles, "cost_by_component_usd"),
        "powers": _component_bars(results, styles, "power_by_component_w"),
        "fabrics": fabric_views(comparison, styles),
        "component_words": COMPONENTS,
        "ownership": ownership,
        "ownership_rows": yearly,
        "memory": _memory_bars(comparison),
        "memory_fits": comparison.memory.get("fits", True),
        "traffic": _traffic_bars(comparison),
        "tables": parameter_tables(comparison),
    }


def as_flows(results: Sequence[FabricResult]) -> list[str]:
    """Steps as flows, in seconds, where they were simulated as packets; empty where none were."""
    if not any(r.packets for r in results):
        return []
    return show_column(r.packets.get("step_time_as_flows_s") for r in results)


def _title(comparison: Comparison) -> str:
    scenario = comparison.inputs.get("scenario", {})
    gpus = f" on {scenario['gpus']:,} GPUs" if "gpus" in scenario else ""
    name = comparison.inputs.get("model", {}).get("name", "training job")
    return f"Which fabric for {name}{gpus}?"


def _heading(comparison: Comparison) -> str:
    """GPU, rate and fabrics on one line."""
    cluster = comparison.inputs.get("scenario", {}).get("cluster", {})
    parts = [str(comparison.inputs["gpu"]).upper()] if "gpu" in comparison.inputs else []
    if "rate_gbps" in cluster:
        parts.append(f"{cluster['rate_gbps']:g} Gb/s per NIC")
    return " · ".join([*parts, ", ".join(r.fabric for r in comparison.results)])


@dataclass(frozen=True)
class Tile:
    """One result of the headline."""

    title: str
    style: FabricStyle
    value: str
    notes: tuple[str, ...]


def tiles(comparison: Comparison, styles: dict[str, FabricStyle]) -> list[Tile]:
    """What to build, what there is for less, and the best performance per dollar.

    There is none where nothing is decided (:func:`~lightloom.study.compare.advice.undecided`).
    """
    results = comparison.results
    if undecided(comparison) is not None:
        return []
    advice = advise(results)
    by_network = max(results, key=lambda r: r.perf_per_usd)
    by_cluster = max(results, key=lambda r: r.perf_per_cluster_usd)
    rival = [] if advice.rival is None else [f"as fast: {advice.rival.fabric}"]
    cards = [_tile("Build", advice.build, styles, rival)]
    if advice.cheaper is not None:
        slower = difference(advice.cheaper.ratio_to(advice.build))
        cards.append(_tile("For less money", advice.cheaper, styles, [slower]))

    def against(best: FabricResult, of: str) -> tuple[str, ...]:
        """The gain over the other fabrics, in the order in which they were named."""
        mine = getattr(best, of)
        notes = ["cannot be bought"] if best.supply.availability == "paper" else []
        others = [f"{mine / getattr(r, of):.2f} x {r.fabric}" for r in results if r is not best]
        return (*notes, *others)

    return [
        *cards,
        Tile(
            "Best per dollar of network",
            styles[by_network.fabric],
            f"{1000 * by_network.perf_per_usd:,.1f} {by_network.pace_unit} per k$",
            against(by_network, "perf_per_usd"),
        ),
        Tile(
            "Best per dollar of cluster",
            styles[by_cluster.fabric],
            f"{1000 * by_cluster.perf_per_cluster_usd:,.2f} {by_cluster.pace_unit} per k$",
            against(by_cluster, "perf_per_cluster_usd"),
        ),
    ]


def _tile(
    title: str, result: FabricResult, styles: dict[str, FabricStyle], notes: Sequence[str]
) -> Tile:
    """Step time and price of a fabric."""
    price = f"{show_usd(result.network_cost_usd)} of network"
    return Tile(title, styles[result.fabric], show_time(result.step_time_s), (*notes, price))


def _best(results: Iterable[FabricResult]) -> dict[str, float]:
    """The best value of each column that has one."""
    rows = list(results)
    costs = ("network_cost_usd", "cluster_cost_usd", "network_power_w")
    per_token = ("days_per_trillion_tokens", "energy_per_token_j", "usd_per_token")
    lowest = ("step_time_s", *per_token, *costs)
    highest = (
        "pace",
        "tokens_per_s_per_gpu",
        "mfu",
        "perf_per_usd",
        "perf_per_cluster_usd",
        "tokens_per_s_per_w",
    )
    columns = {name: [getattr(r, name) for r in rows] for name in (*lowest, *highest)}
    return {
        name: min(values) if name in lowest else max(values)
        for name, values in columns.items()
        if None not in values
    }


def _strips(results: tuple[FabricResult, ...], styles: dict[str, FabricStyle]) -> dict[str, Markup]:
    low = min(r.step_time_low_s for r in results)
    high = max(r.step_time_high_s for r in results)
    span = (low, high if high > low else low * 1.1)
    return {
        r.fabric: interval_strip(
            r.step_time_low_s, r.step_time_s, r.step_time_high_s, span, styles[r.fabric]
        )
        for r in results
    }


def time_bars(
    results: tuple[FabricResult, ...], styles: dict[str, FabricStyle], attribute: str
) -> Bars:
    """Step times in parts; the parts of a group stand together in the group's colors."""
    order = [name for names in BREAKDOWN.values() for name in names]
    names = {f"cat-{name}": WORDS[name] for name in order}
    builder = BarsBuilder("step time [s]", names, show_time)
    for result in results:
        parts = {f"cat-{key}": value for key, value in getattr(result, attribute).items()}
        interval = (result.step_time_low_s, result.step_time_high_s)
        symbol = styles[result.fabric].symbol()
        builder.add(result.fabric, parts, symbol=symbol, interval=interval)
    return builder.build()


def _carried_bars(results: tuple[FabricResult, ...], styles: dict[str, FabricStyle]) -> Bars | None:
    if not any(r.carried_bytes for r in results):
        return None
    names = {f"carrier-{key}": text for key, text in CARRIERS.items()}
    builder = BarsBuilder("bytes per step [TB]", names, lambda n: show_bytes(n, 3), 1e12)
    for result in results:
        parts = {f"carrier-{key}": float(size) for key, size in result.carried_bytes.items()}
        builder.add(result.fabric, parts, symbol=styles[result.fabric].symbol())
    return builder.build()


def _component_bars(
    results: tuple[FabricResult, ...], styles: dict[str, FabricStyle], attribute: str
) -> Bars | None:
    """Cost or power of each component; both have one order and one set of colors."""
    if not any(getattr(r, attribute) for r in results):
        return None
    used = {key for r in results for key in (*r.cost_by_component_usd, *r.power_by_component_w)}
    words = COMPONENTS | {key: key.replace("_", " ") for key in sorted(used - COMPONENTS.keys())}
    keys = {key: f"part-{number}" for number, key in enumerate(words)}
    names = {keys[key]: text for key, text in words.items()}
    if attribute == "power_by_component_w":
        builder = BarsBuilder("network power [kW]", names, _show_power, 1e3)
    else:
        builder = BarsBuilder("network cost [M$]", names, show_usd, 1e6)
    for result in results:
        parts = {keys[key]: value for key, value in getattr(result, attribute).items()}
        builder.add(result.fabric, parts, symbol=styles[result.fabric].symbol())
    return builder.build()


def _show_power(watts: float) -> str:
    return f"{watts / 1000:,.1f} kW"


def _memory_bars(comparison: Comparison) -> Bars | None:
    stages = comparison.memory.get("stages", [])
    if not stages:
        return None
    names = {f"memory-{key}": text for key, text in MEMORY.items()}
    builder = BarsBuilder("memory per GPU [GB]", names, lambda n: show_bytes(n, 3), 1e9)
    for stage in stages:
        parts = {f"memory-{key}": float(stage.get(f"{key}_bytes", 0.0)) for key in MEMORY}
        builder.add(f"stage {stage['stage']}", parts)
    limit = comparison.memory["limit_bytes"]
    return builder.build(limit=(limit, f"{show_bytes(limit, 3)} for the model"))


def _traffic_bars(comparison: Comparison) -> Bars | None:
    if not comparison.traffic_shares:
        return None
    names = {f"traffic-{key}": text for key, text in PARALLELISMS.items()}
    builder = BarsBuilder("share of bytes sent [%]", names, lambda s: f"{100 * s:.1f} %", 0.01)
    rows = {"all bytes": comparison.traffic_shares}
    workload = comparison.details.get("workload")
    if workload is not None:
        rows["between servers"] = workload.traffic_shares(network_only=True)
    for label, shares in rows.items():
        builder.add(label, {f"traffic-{key}": share for key, share in shares.items()})
    return builder.build()


@dataclass(frozen=True)
class DemandView:
    """The demand matrix and its imbalance."""

    drawing: Markup
    size: int
    unit: str
    rows: tuple[tuple[str, dict[str, Any]], ...]
    local_share: float | None
    rank_one_error: float | None
    of_experts: bool


def _demand(comparison: Comparison) -> DemandView | None:
    """The first block's demand between servers; None for a model without experts."""
    if "server_bytes" not in comparison.demand:
        return None
    matrix = np.array(comparison.demand["server_bytes"], dtype=np.float64)
    imbalance = comparison.demand.get("imbalance", {})
    words = {
        "experts": "columns (what each receives)",
        "pairs": "ordered pairs",
        "symmetric_pairs": "unordered pairs (what circuits see)",
    }
    rows = tuple((text, imbalance[key]) for key, text in words.items() if imbalance.get(key))
    labels = [str(index) for index in range(len(matrix))]
    unit = show_bytes(float(matrix.max()), 3).split()[-1]
    factor = {"PB": 1e15, "TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1.0}[unit]

    def show(value: float) -> str:
        return f"{show_number(value / factor, 3)} {unit}"

    return DemandView(
        drawing=matrix_drawing(matrix, labels, show, "Bytes from server to server"),
        size=len(matrix),
        unit=unit,
        rows=rows,
        local_share=imbalance.get("local_share"),
        rank_one_error=imbalance.get("rank_one_error"),
        of_experts="program" not in comparison.inputs,
    )
