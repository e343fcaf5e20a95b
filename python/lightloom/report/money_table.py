"""Energy and money of training as buyers count them: of the whole cluster, per token."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from lightloom.hardware import Ownership, load_ownership
from lightloom.report.result_columns import column
from lightloom.report.terminal import plain_table
from lightloom.study.compare.results import FabricResult

_COLUMNS = {
    "power\n[MW]": "cluster_power_w",
    "tok/s\nper W": "tokens_per_s_per_w",
    "J per\ntoken": "energy_per_token_j",
    "10^9 tok\nper day": "tokens_per_day",
    "days per\n10^12": "days_per_trillion_tokens",
    "k$ per\n10^12": "usd_per_token",
}


def money_table(results: Sequence[FabricResult]) -> Table:
    """Power, energy and dollars of the cluster, and how long training takes."""
    table = plain_table(
        "Energy and money of the cluster",
        ["fabric", *_COLUMNS],
        caption=f"J and $ with {ownership_words(load_ownership())}; 10^12: tokens; power: without "
        "cooling",
    )
    columns = [column(results, name) for name in _COLUMNS.values()]
    for result, row in zip(results, zip(*columns, strict=True), strict=True):
        table.add_row(Text(result.fabric, style="bold"), *row)
    return table


def ownership_words(ownership: Ownership) -> str:
    """What dollars and joules of a hall count, for captions."""
    return (
        f"a PUE of {ownership.pue.value:g}; $: the price over {ownership.life_years.value:g} "
        f"years and electricity at {ownership.electricity_usd_per_kwh.value:g} $/kWh"
    )
