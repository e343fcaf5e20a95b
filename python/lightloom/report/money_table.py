"""Energy and money of training as buyers count them: of the whole cluster, per token."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from lightloom.hardware import load_ownership
from lightloom.report.terminal import plain_table
from lightloom.study.compare.results import FabricResult


def money_table(results: Sequence[FabricResult]) -> Table:
    """Power, energy and dollars of the cluster, and how long training takes."""
    own = load_ownership()
    table = plain_table(
        "Energy and money of the cluster",
        [
            "fabric", "power\n[MW]", "tok/s\nper W", "J per\ntoken", "tokens\nper day",
            "days per\n10^12", "$ per\n10^12",
        ],
        caption=f"J and $ with a PUE of {own.pue.value:g}, power without; $: the price over "
        f"{own.life_years.value:g} years and electricity at "
        f"{own.electricity_usd_per_kwh.value:g} $/kWh; 10^12: tokens",
    )  # fmt: skip
    for result in results:
        assert result.tokens_per_s is not None
        table.add_row(
            Text(result.fabric, style="bold"),
            f"{result.cluster_power_w / 1e6:.3g}",
            f"{result.tokens_per_s_per_w:.3g}",
            f"{result.energy_per_token_j:.3g}",
            show_tokens(result.tokens_per_s * 86_400),
            f"{result.days_per_trillion_tokens:.3g}",
            f"{1e12 * (result.usd_per_token or 0):,.0f}",
        )
    return table


def show_tokens(count: float) -> str:
    """A number of tokens: with T, B or M from a million on."""
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:,.0f}"
