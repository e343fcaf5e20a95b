"""Tables of the fabrics that can be compared: their costs, and the options of one."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from lightloom import plugins
from lightloom.cost import Cost, PartsCostModel
from lightloom.fabric import Bill, Cluster, Line, load_fabric
from lightloom.fabric.read import FILES, fabric_class, fabric_kinds
from lightloom.fabric.topology import Topology
from lightloom.hardware import Prices, load_power
from lightloom.inputs.fields import describe
from lightloom.report.switches_table import boxes_of
from lightloom.report.terminal import plain_table, print_table, print_wrapped
from lightloom.report.topology_table import print_topology
from lightloom.units import show_usd

_MODEL = PartsCostModel()


def print_fabrics(cluster: Cluster, prices: Prices, console: Console) -> None:
    """Print the network cost of every kind of fabric for a cluster."""
    table = plain_table(
        f"Network cost for {cluster.gpus:,} GPUs at {cluster.rate_gbps:g} Gb/s",
        ["fabric", "what it is", "cost", "kW", "switches"],
        texts=["what it is", "switches"],
    )
    for kind, bill in _bills(cluster):
        cost, power = _MODEL.capital_cost(bill, prices), _MODEL.power(bill, load_power())
        table.add_row(
            kind, _first_sentence(fabric_class(kind)), show_usd(cost.total_usd),
            f"{power.total_w / 1000:,.1f}", boxes_of(bill.switches),
        )  # fmt: skip
    print_table(table, console)
    console.print("\nOptions of one:  lightloom fabrics mixnet", style="dim")


def fabrics_as_json(cluster: Cluster, prices: Prices) -> dict[str, Any]:
    """The network cost of every kind of fabric, as plain values."""
    fabrics = [
        {
            "fabric": kind,
            "meaning": _first_sentence(fabric_class(kind)),
            **_bill_as_json(bill, prices),
        }
        for kind, bill in _bills(cluster)
    ]
    return {"gpus": cluster.gpus, "rate_gbps": cluster.rate_gbps, "fabrics": fabrics}


def options_as_json(name: str, cluster: Cluster, prices: Prices) -> dict[str, Any]:
    """The options of a kind of fabric, or of a file, and its network cost, as plain values."""
    kind, values = _kind_of(name)
    options = [
        {
            "option": field.name,
            "default": field.default or ("off" if field.kind is bool else ""),
            "value": None if values is None else values.get(field.name),
            "choices": list(field.choices),
            "meaning": field.sentence(),
        }
        for field in describe(fabric_class(kind))
    ]
    return {
        "fabric": name,
        "kind": kind,
        "options": options,
        "gpus": cluster.gpus,
        "rate_gbps": cluster.rate_gbps,
        **_bill_as_json(load_fabric(name).bill_of_materials(cluster), prices),
    }


def _bills(cluster: Cluster) -> list[tuple[str, Bill]]:
    """What every kind is built of; a kind of a package that does not work is left out."""
    bills = []
    for kind in fabric_kinds():
        with plugins.FABRICS.left_out_with_a_warning(kind):
            bills.append((kind, load_fabric(kind).bill_of_materials(cluster)))
    return bills


def _bill_as_json(bill: Bill, prices: Prices) -> dict[str, Any]:
    cost = _MODEL.capital_cost(bill, prices)
    return {
        "power_w": _MODEL.power(bill, load_power()).total_w,
        "switches": [asdict(switches) for switches in bill.switches],
        "parts": [_part_as_json(line) for line in bill.lines],
        "network_cost_usd": cost.total_usd,
        "cost_by_component_usd": dict(cost.by_component_usd),
    }


def _part_as_json(line: Line) -> dict[str, Any]:
    """Fields of a part; its price and power are there if the fabric says them."""
    optional = ("price_usd", "power_w")
    return {name: it for name, it in asdict(line).items() if name not in optional or it is not None}


def _first_sentence(fabric_class: type) -> str:
    text = inspect.getdoc(fabric_class) or ""
    return text.split(".", maxsplit=1)[0].replace("``", "").replace("\n", " ")


def _largest_parts(cost: Cost) -> str:
    parts = sorted(cost.by_component_usd.items(), key=lambda part: -part[1])[:3]
    return ", ".join(f"{name.replace('_', ' ')} {usd / cost.total_usd:.0%}" for name, usd in parts)


def _kind_of(name: str) -> tuple[str, dict[str, Any] | None]:
    """The kind of a fabric, and the options that a file sets."""
    kind, values = name, None
    if name.endswith(FILES):
        fabric = load_fabric(name)
        kind, values = fabric.kind, fabric.parameters()
    return kind, values


def print_options(name: str, cluster: Cluster, prices: Prices, console: Console) -> None:
    """Print the options of a kind of fabric, or those of a file as it sets them, and its cost.

    Raises
    ------
    FabricError
        If there is no such kind, or the file is no fabric.
    """
    kind, values = _kind_of(name)
    fabric = load_fabric(name)
    cost = _MODEL.capital_cost(fabric.bill_of_materials(cluster), prices)
    console.print(inspect.getdoc(fabric_class(kind)), highlight=False, soft_wrap=True)
    if isinstance(fabric, Topology):
        print_topology(fabric, cluster, console)
    else:
        _print_fields(name, kind, values, console)
    console.print()
    print_wrapped(
        f"Network cost for {cluster.gpus:,} GPUs at {fabric.adapt(cluster).rate_gbps:g} Gb/s: "
        f"{show_usd(cost.total_usd)}, {show_usd(cost.per_gpu_usd)} per GPU "
        f"({_largest_parts(cost)})",
        console,
    )
    if isinstance(fabric, Topology):
        return
    console.print(
        f"In a TOML file with kind = '{kind}', or: lightloom compare ... --set {kind}.OPTION=VALUE",
        style="dim",
        highlight=False,
        soft_wrap=True,
    )


def _print_fields(name: str, kind: str, values: dict[str, Any] | None, console: Console) -> None:
    """Print the options of a kind, and what a file sets."""
    title = f"Options of {kind}" if values is None else f"Options of {kind} in {name}"
    headers = ["option", "value", "default" if values is None else "here", "meaning"]
    table = plain_table(title, headers, left=headers, texts=["meaning"])
    for field in describe(fabric_class(kind)):
        value = field.metavar or "on|off"
        default = field.default or ("off" if field.kind is bool else "")
        here = (
            default if values is None or values.get(field.name) is None else str(values[field.name])
        )
        table.add_row(field.name, Text(value), Text(here), Text(field.sentence()))
    print_table(table, console)
