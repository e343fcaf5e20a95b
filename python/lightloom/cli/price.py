"""``lightloom price``: results under other prices, a budget or a power limit."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import checked_outputs, json_panel
from lightloom.cli.terminal import results_console
from lightloom.inputs.amounts import Amount
from lightloom.inputs.strict import File, Strict, quantity

EXAMPLES = (
    "lightloom price results.json",
    "lightloom price results.json --tokens 15e12",
    "lightloom price results.json --budget 200M --max-power 5MW",
)
NOTES = (
    "Write results.json with: lightloom compare ... --json results.json. Without --prices or "
    "--power, the list that the results were made with holds."
)


class PriceOptions(Strict):
    """Results, and what they are priced under."""

    results: File = Field(description="Results that 'lightloom compare --json' has written.")
    prices: File | None = Field(
        None, description="Price list (TOML) that replaces the built-in one."
    )
    power: File | None = Field(
        None, description="Power list (TOML) that replaces the built-in one."
    )
    tokens: Amount = Field(1e12, description="Tokens to train, such as 15e12 or 15T.")
    budget: Amount | None = Field(
        None,
        description="US dollars for network, servers and GPUs, such as 200M: each fabric gets as "
        "many GPUs as they buy.",
    )
    max_power: Annotated[float, quantity("watt"), Field(gt=0, le=1e12)] | None = Field(
        None, description="Power of the hall, cooling included, such as 5MW: as for a budget."
    )


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(
            Panel("Arguments", (option(PriceOptions, "results", "RESULTS", common=True),)),
            Panel(
                "Prices and limits",
                tuple(
                    option(PriceOptions, name, common=True)
                    for name in ("prices", "power", "tokens", "budget", "max_power")
                ),
            ),
            json_panel(),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _run(call: CommandCall) -> None:
    from lightloom.report.explain import read_comparison
    from lightloom.report.price_table import pricing_as_json, print_pricing
    from lightloom.study.pricing import priced

    outputs = checked_outputs(call)
    options = call.build(PriceOptions)
    pricing = priced(
        read_comparison(options.results),
        prices=options.prices,
        powers=options.power,
        tokens=options.tokens,
        budget_usd=options.budget,
        max_power_w=options.max_power,
    )
    if not outputs.on_stdout:
        print_pricing(pricing, results_console())
    outputs.write_json(pricing_as_json(pricing))
