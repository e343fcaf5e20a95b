"""Tables of a topology file: its switches, its links, and the laws that it keeps."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from lightloom.fabric import Cluster
from lightloom.fabric.topology import Topology
from lightloom.report.terminal import plain_table, print_table
from lightloom.study.fabric_check import Law


def print_topology(topology: Topology, cluster: Cluster, console: Console) -> None:
    """Print the switches and links that join the servers of a cluster."""
    machines = topology.adapt(cluster)
    graph = topology.graph(machines.servers)
    boxes = topology.bill_of_materials(cluster).switches
    table = plain_table(
        f"Switches of {topology.name}, for {machines.servers:,} servers",
        ["switches", "number", "ports", "used"],
    )
    names = [*graph.tiers, *(["circuit switches"] if topology.circuits is not None else [])]
    for name, box in zip(names, boxes, strict=True):
        used = box.used / max(1, box.ports * box.count)
        table.add_row(Text(name), f"{box.count:,}", f"{box.ports:,}", f"{used:.0%}")
    print_table(table, console)
    table = plain_table(
        f"Links of {topology.name}", ["between", "number", "each [Gb/s]", "in all [Tb/s]"]
    )
    for rule, count in zip(topology.links, topology.links_of_rules(graph), strict=True):
        rate = topology.rate_of(rule, machines)
        table.add_row(
            Text(" - ".join(rule.ends)), f"{count:,}", f"{rate:g}", f"{count * rate / 1e3:,.1f}"
        )
    if (circuits := topology.circuits) is not None:
        count, rate = machines.servers * circuits.ports, machines.rate_gbps
        table.add_row(
            "servers - circuit switches", f"{count:,}", f"{rate:g}", f"{count * rate / 1e3:,.1f}"
        )
    print_table(table, console)


def print_laws(laws: Sequence[Law], console: Console) -> None:
    """Print which laws a topology keeps."""
    table = plain_table("Laws", ["law", "tried", "kept"], left=["kept"])
    for law in laws:
        kept = "yes" if law.tried else "no case of it"
        table.add_row(Text(law.name), f"{law.tried}", Text(law.broken or kept))
    print_table(table, console)
