"""``lightloom fabrics``: what can be compared, its options, and what it costs."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from lightloom.cost import Cost, PartsCostModel
from lightloom.errors import FabricError, did_you_mean
from lightloom.fabric import FABRICS, Cluster, load_fabric
from lightloom.hardware import load_prices
from lightloom.units import parse_quantity, show_usd


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        name="fabrics",
        epilog="Examples\n\nlightloom fabrics --gpus 1024 --rate 400\n\n"
        "lightloom fabrics mixnet\n\nA file with kind = 'mixnet' and any of its options is a "
        "fabric of your own: lightloom compare ... --fabrics fat-tree,mine.toml",
    )(fabrics)


def fabrics(
    kind: Annotated[str | None, typer.Argument(help="Show the options of this fabric.")] = None,
    gpus: Annotated[int, typer.Option("--gpus", help="GPUs to connect.")] = 1024,
    rate: Annotated[str, typer.Option("--rate", help="Rate of one NIC [Gb/s].")] = "400",
    prices: Annotated[Path | None, typer.Option("--prices", help="Price list (TOML).")] = None,
) -> None:
    """List fabrics with their network cost, or the options of one."""
    console = Console()
    if kind is not None:
        _print_options(kind, console)
        return
    rate_gbps = parse_quantity(rate, "gigabit / second", "--rate")
    cluster = Cluster.of(gpus=gpus, nic_gbps=rate_gbps, gpu="a100")
    table = Table(
        title=f"Network cost for {gpus} GPUs at {rate_gbps:g} Gb/s",
        title_justify="left",
        header_style="bold",
    )
    for header in ("fabric", "what it is"):
        table.add_column(header)
    table.add_column("cost", justify="right")
    table.add_column("per GPU", justify="right")
    table.add_column("largest parts")
    model, price_list = PartsCostModel(), load_prices(prices)
    for name, fabric_class in FABRICS.items():
        cost = model.capital_cost(load_fabric(name).bill_of_materials(cluster), price_list)
        table.add_row(
            name, _first_sentence(fabric_class), show_usd(cost.total_usd),
            show_usd(cost.per_gpu_usd), _largest_parts(cost),
        )  # fmt: skip
    console.print(table)
    console.print("Options of one:  lightloom fabrics mixnet", style="dim")


def _first_sentence(fabric_class: type) -> str:
    text = inspect.getdoc(fabric_class) or ""
    return text.split(".", maxsplit=1)[0].replace("``", "").replace("\n", " ")


def _largest_parts(cost: Cost) -> str:
    parts = sorted(cost.by_component_usd.items(), key=lambda part: -part[1])[:3]
    return ", ".join(f"{name.replace('_', ' ')} {usd / cost.total_usd:.0%}" for name, usd in parts)


def _print_options(kind: str, console: Console) -> None:
    if kind not in FABRICS:
        raise FabricError(
            f"no fabric '{kind}'{did_you_mean(kind, FABRICS)}; there are {', '.join(FABRICS)}"
        )
    fabric_class = FABRICS[kind]
    console.print(inspect.getdoc(fabric_class), highlight=False)
    table = Table(title=f"Options of {kind}", title_justify="left", header_style="bold")
    table.add_column("option (TOML key)")
    table.add_column("default")
    defaults = load_fabric(kind).parameters()
    for name in fabric_class.model_fields:
        table.add_row(name, "-" if defaults[name] is None else str(defaults[name]))
    console.print(table)
