"""``lightloom fabrics``: what can be compared, its options, and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lightloom.fabric import Cluster
from lightloom.hardware import load_prices
from lightloom.report.fabrics_table import print_fabrics, print_options
from lightloom.units import parse_quantity


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
        print_options(kind, console)
        return
    rate_gbps = parse_quantity(rate, "gigabit / second", "--rate")
    cluster = Cluster.of(gpus=gpus, nic_gbps=rate_gbps, gpu="a100")
    print_fabrics(cluster, load_prices(prices), console)
