"""Results priced again, as a table and a sentence."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from lightloom.report.money_table import ownership_words
from lightloom.report.terminal import plain_table, print_table, print_wrapped
from lightloom.study.pricing import Pricing
from lightloom.units import show_column, show_count, show_usd


def pricing_as_json(pricing: Pricing) -> dict[str, Any]:
    """The pricing, as plain values."""
    return {
        "tokens": pricing.tokens,
        "budget_usd": pricing.budget_usd,
        "max_power_w": pricing.max_power_w,
        "pue": pricing.ownership.pue.value,
        "fabrics": [
            {
                **asdict(fabric),
                "days": pricing.days(fabric),
                "usd": pricing.usd(fabric),
                "usd_per_token": pricing.usd(fabric) / pricing.tokens,
                "energy_per_token_j": pricing.energy_per_token_j(fabric),
            }
            for fabric in pricing.fabrics
        ],
    }


def print_pricing(pricing: Pricing, console: Console) -> None:
    """Print a row per fabric, and which trains the tokens for the least or in the least time."""
    fabrics, wanted = pricing.fabrics, show_count(pricing.tokens)
    columns = {
        "GPUs": [f"{fabric.gpus:,}" for fabric in fabrics],
        "network\n[M$]": [f"{fabric.network_cost_usd / 1e6:,.2f}" for fabric in fabrics],
        "cluster\n[M$]": [f"{fabric.cluster_cost_usd / 1e6:,.2f}" for fabric in fabrics],
        "hall\n[MW]": show_column((pricing.hall_w(fabric) / 1e6 for fabric in fabrics), 3),
        "10^9 tok\nper day": show_column((fabric.tokens_per_day / 1e9 for fabric in fabrics), 3),
        "J per\ntoken": show_column(map(pricing.energy_per_token_j, fabrics), 3),
        f"days for\n{wanted}": show_column(map(pricing.days, fabrics), 3),
        f"$ for\n{wanted}": show_column(map(pricing.usd, fabrics), 3),
    }
    table = plain_table(
        "Priced clusters",
        ["fabric", *columns],
        caption=f"hall, J and $ with {ownership_words(pricing.ownership)}",
    )
    for one, row in zip(fabrics, zip(*columns.values(), strict=True), strict=True):
        table.add_row(Text(one.fabric, style="bold"), *row)
    print_table(table, console)
    console.print()
    print_wrapped(sentence(pricing), console)


def sentence(pricing: Pricing) -> str:
    """Which fabric to buy, of those that may be advised: the fastest under a limit, else the
    cheapest per token.
    """
    fabrics = [fabric for fabric in pricing.fabrics if fabric.is_eligible]
    if pricing.budget_usd is None and pricing.max_power_w is None:
        best = min(fabrics, key=pricing.usd)
        return (
            f"Cheapest per token: {best.fabric}, {show_usd(pricing.usd(best))} and "
            f"{pricing.days(best):.3g} days for {show_count(pricing.tokens)} tokens."
        )
    best = max(fabrics, key=lambda one: one.tokens_per_s)
    limits = [] if pricing.budget_usd is None else [show_usd(pricing.budget_usd)]
    limits += [] if pricing.max_power_w is None else [f"{pricing.max_power_w / 1e6:g} MW"]
    text = (
        f"For {' and '.join(limits)} buy {best.fabric}: {best.gpus:,} GPUs train "
        f"{show_count(best.tokens_per_day)} tokens a day"
    )
    others = [fabric for fabric in fabrics if fabric is not best]
    if others:
        second = max(others, key=lambda one: one.tokens_per_s)
        more = 100 * (best.tokens_per_s / second.tokens_per_s - 1)
        text += f", {more:.2g} % more than {second.fabric}"
    return f"{text}. Replicas are taken to train as fast as in the results."
