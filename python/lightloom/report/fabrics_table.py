"""Tables of the fabrics that can be compared: their costs, and the options of one."""

from __future__ import annotations

import inspect

from rich.console import Console
from rich.table import Table

from lightloom.cost import Cost, PartsCostModel
from lightloom.errors import FabricError, did_you_mean
from lightloom.fabric import FABRICS, Cluster, load_fabric
from lightloom.hardware import Prices
from lightloom.units import show_usd


def print_fabrics(cluster: Cluster, prices: Prices, console: Console) -> None:
    """Print the network cost of every kind of fabric for a cluster."""
    table = Table(
        title=f"Network cost for {cluster.gpus} GPUs at {cluster.nic_gbps:g} Gb/s",
        title_justify="left",
        header_style="bold",
    )
    for header in ("fabric", "what it is"):
        table.add_column(header)
    table.add_column("cost", justify="right")
    table.add_column("per GPU", justify="right")
    table.add_column("largest parts")
    model = PartsCostModel()
    for name, fabric_class in FABRICS.items():
        cost = model.capital_cost(load_fabric(name).bill_of_materials(cluster), prices)
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


def print_options(kind: str, console: Console) -> None:
    """Print the options of a kind of fabric and their defaults.

    Raises
    ------
    FabricError
        If there is no such kind.
    """
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
