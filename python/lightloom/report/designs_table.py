"""The designs that were tried for each fabric, and which were chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from lightloom.report.terminal import plain_table
from lightloom.study.compare.results import Comparison
from lightloom.units import show_column, show_usd


def chosen_designs(designs: Sequence[Mapping[str, Any]]) -> str:
    """A sentence on what was tuned; empty where nothing was."""
    if not designs:
        return ""
    chosen = [design for design in designs if design["is_chosen"]]
    words = [f"{design['fabric']} {_words(design['options'])}" for design in chosen]
    return (
        f"Tuned over {len(designs)} designs by tokens per dollar of the cluster: "
        f"{'; '.join(words)}."
    )


def _words(options: Mapping[str, Any]) -> str:
    words = [f"{name} = {value:g}" for name, value in options.items()]
    return ", ".join(words) or "as by default"


def designs_table(designs: Sequence[Mapping[str, Any]]) -> Table:
    """All designs by their price, with the front of price and speed."""
    table = plain_table(
        "Designs",
        [
            "fabric",
            "design",
            "step\n[s]",
            "network\n[M$]",
            "cluster\n[M$]",
            "vs best per\ncluster $",
        ],
        left=["design"],
        caption="step: predicted from few layers and micro-batches; *: chosen; +: no design is "
        "both cheaper and faster",
    )
    worth = [1 / (design["step_time_s"] * design["cluster_cost_usd"]) for design in designs]
    best = max(worth)
    steps = show_column(design["step_time_s"] for design in designs)
    rows = sorted(zip(worth, designs, steps, strict=True), key=lambda row: -row[0])
    for value, design, step in rows:
        marks = "*" * design["is_chosen"] + "+" * design["is_on_front"]
        table.add_row(
            Text(design["fabric"], style="bold" if design["is_chosen"] else ""),
            f"{_words(design['options'])} {marks}".rstrip(),
            step,
            f"{design['network_cost_usd'] / 1e6:,.2f}",
            f"{design['cluster_cost_usd'] / 1e6:,.2f}",
            f"{value / best:.3f}",
        )
    return table


def equal_cost_sentence(comparison: Comparison) -> str:
    """The rates at which networks cost as much as the first one's; empty if that was not asked."""
    equal = comparison.inputs.get("equal_cost", ())
    if not equal:
        return ""
    names = {design["fabric"] for design in equal}
    first = next(result for result in comparison.results if result.fabric not in names)
    rates = "; ".join(
        f"{design['fabric']} with links of {design['rate_gbps']:g} Gb/s" for design in equal
    )
    return (
        f"All networks cost what that of {first.fabric} costs, "
        f"{show_usd(first.network_cost_usd)}: {rates}. Prices and powers between the rates of their"
        " lists are assumed to be affine."
    )
