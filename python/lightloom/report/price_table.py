"""Results priced again, as a table and a sentence."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from lightloom.report.money_table import show_tokens
from lightloom.report.terminal import plain_table, print_table, print_wrapped
from lightloom.study.pricing import Pricing
from lightloom.units import show_usd


def pricing_as_json(pricing: Pricing) -> dict[str, Any]:
    """The pricing, as plain values."""
    return {
        "tokens": pricing.tokens,
        "budget_usd": pricing.budget_usd,
        "max_power_w": pricing.max_power_w,
        "pue": pricing.ownership.pue.value,
        "fabrics": [
            {
                **asdict(one),
                "days": pricing.days(one),
                "usd": pricing.usd(one),
                "usd_per_token": pricing.usd(one) / pricing.tokens,
                "energy_per_token_j": pricing.energy_per_token_j(one),
            }
            for one in pricing.fabrics
        ],
    }


def print_pricing(pricing: Pricing, console: Console) -> None:
    """Print a row per fabric, and which trains the tokens for the least or in the least time."""
    own, wanted = pricing.ownership, show_tokens(pricing.tokens)
    table = plain_table(
        "Priced clusters",
        [
            "fabric", "GPUs", "network\n[M$]", "cluster\n[M$]", "hall\n[MW]", "tokens\nper day",
            "J per\ntoken", f"days for\n{wanted}", f"$ for\n{wanted}",
        ],
        caption=f"hall, J and $ with a PUE of {own.pue.value:g}; $: the price over "
        f"{own.life_years.value:g} years and electricity at "
        f"{own.electricity_usd_per_kwh.value:g} $/kWh",
    )  # fmt: skip
    for one in pricing.fabrics:
        table.add_row(
            Text(one.fabric, style="bold"),
            f"{one.gpus:,}",
            f"{one.network_cost_usd / 1e6:,.2f}",
            f"{one.cluster_cost_usd / 1e6:,.2f}",
            f"{one.power_w * own.pue.value / 1e6:.3g}",
            show_tokens(one.tokens_per_s * 86_400),
            f"{pricing.energy_per_token_j(one):.3g}",
            f"{pricing.days(one):.3g}",
            f"{pricing.usd(one):,.0f}",
        )
    print_table(table, console)
    console.print()
    print_wrapped(sentence(pricing), console)


def sentence(pricing: Pricing) -> str:
    """Which fabric to buy, of those that may be advised: the fastest under a limit, else the
    cheapest per token.
    """
    fabrics = [one for one in pricing.fabrics if one.is_eligible]
    if pricing.budget_usd is None and pricing.max_power_w is None:
        best = min(fabrics, key=pricing.usd)
        return (
            f"Cheapest per token: {best.fabric}, {show_usd(pricing.usd(best))} and "
            f"{pricing.days(best):.3g} days for {show_tokens(pricing.tokens)} tokens."
        )
    best = max(fabrics, key=lambda one: one.tokens_per_s)
    limits = [] if pricing.budget_usd is None else [show_usd(pricing.budget_usd)]
    limits += [] if pricing.max_power_w is None else [f"{pricing.max_power_w / 1e6:g} MW"]
    text = (
        f"For {' and '.join(limits)} buy {best.fabric}: {best.gpus:,} GPUs train "
        f"{show_tokens(best.tokens_per_s * 86_400)} tokens a day"
    )
    others = [one for one in fabrics if one is not best]
    if others:
        second = max(others, key=lambda one: one.tokens_per_s)
        more = 100 * (best.tokens_per_s / second.tokens_per_s - 1)
        text += f", {more:.2g} % more than {second.fabric}"
    return f"{text}. Replicas are taken to train as fast as in the results."
