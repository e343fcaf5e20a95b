"""Print the cost of each fabric by rate and size, with the ratios that the MixNet paper states.

    python experiments/mixnet-fig11/run.py [--write | --check | --fast]

Prints the tables; ``--write`` puts them into table.md and draws figure.svg. It takes a second:
``--fast`` leaves nothing out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from lightloom.cost import PartsCostModel, cluster_cost
from lightloom.fabric import Cluster, Counting, MixNet, load_fabric
from lightloom.fabric.fabric_options import FabricOptions
from lightloom.hardware import load_gpu, load_power, load_prices

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from drawing import Figure, Line
from results import command_line, finish, settings
from results import markdown as table

HERE = Path(__file__).parent
PRICES, POWERS, MODEL = load_prices(), load_power(), PartsCostModel()

#: three tiers of packet switches, as the paper charges for every size
PAPER = Counting(tiers=3)
#: ports of the packet switches at every rate, and one patch panel of any size, as the paper charges
PORTS = {"switch_ports": 64}
OPTIONS = {
    **dict.fromkeys(("fat-tree", "rail", "oversub", "mixnet"), PORTS),
    "topoopt": {"panel": "flat"},
}


def _paper(**changes: Any) -> Counting:
    return Counting(**{"tiers": 3, **changes})


#: conventions that were tried; the first is the one in use
CONVENTIONS = {
    "three tiers, NICs, one OCS port per NIC (in use)": PAPER,
    "two tiers": Counting(tiers=2),
    "as few tiers as 64-port switches allow": Counting(tiers="fit"),
    "two OCS ports per NIC": _paper(ocs_ports_per_nic=2),
    "NICs left out": _paper(include_nics=False),
    "no fiber to speak of": _paper(fiber_length_m=0.001),
    "DAC host links": _paper(host_links="dac"),
    "AOC host links": _paper(host_links="aoc"),
}


def cost(fabric: FabricOptions, cluster: Cluster, counting: Counting = PAPER) -> float:
    """Network cost per GPU in USD."""
    return MODEL.capital_cost(fabric.bill_of_materials(cluster, counting), PRICES).per_gpu_usd


def ratio(cluster: Cluster, counting: Counting = PAPER, mixnet: MixNet | None = None) -> float:
    """Cost of a fat-tree over that of MixNet."""
    tree = load_fabric("fat-tree", PORTS)
    return cost(tree, cluster, counting) / cost(mixnet or MixNet(**PORTS), cluster, counting)


def of(study: dict[str, Any], rate: float, gpus: int | None = None) -> Cluster:
    """Return the cluster of one cell; the smallest size by default."""
    return Cluster.of(gpus=gpus or study["gpus"][0], rate_gbps=rate, gpu=study["gpu"])


def by_size(study: dict[str, Any]) -> str:
    """Cost per GPU by fabric, rate and number of GPUs."""
    fabrics = [load_fabric(name, OPTIONS[name]) for name in study["fabrics"]]
    rows = []
    for rate in study["rates_gbps"]:
        for gpus in study["gpus"]:
            cluster = of(study, rate, gpus)
            costs = [f"{cost(fabric, cluster):,.0f}" for fabric in fabrics]
            rows.append([str(rate), f"{gpus:,}", *costs, f"{ratio(cluster):.3f}"])
    names = [f"{name} [$/GPU]" for name in study["fabrics"]]
    return table(["rate [Gb/s]", "GPUs", *names, "fat-tree / mixnet"], rows)


def against_paper(study: dict[str, Any]) -> str:
    """Ratios that the paper states, and ours."""
    rows = []
    for cell in study["published"]:
        counting = _paper(host_links=cell.get("host_links", "transceiver"))
        rates = [cell["rate_gbps"]] if "rate_gbps" in cell else study["rates_gbps"]
        found = [ratio(of(study, rate, cell.get("gpus")), counting) for rate in rates]
        ours = sum(found) / len(found)
        published = cell["value"]
        rows.append(
            [cell["what"], cell["where"], f"{published:.1f}", f"{ours:.3f}",
             f"{ours / published:.3f}"]
        )  # fmt: skip
    return table(["cost ratio", "where", "paper", "ours", "ours / paper"], rows)


def by_convention(study: dict[str, Any]) -> str:
    """Fat-tree over MixNet under each counting."""
    rows = []
    for name, counting in CONVENTIONS.items():
        found = [ratio(of(study, rate), counting) for rate in study["rates_gbps"]]
        rows.append([name, *(f"{value:.3f}" for value in [*found, sum(found) / len(found)])])
    rates = [f"{rate} Gb/s" for rate in study["rates_gbps"]]
    return table(["counting", *rates, "mean"], rows)


def by_size_min_tiers(study: dict[str, Any]) -> str:
    """Fat-tree over MixNet where a small packet fabric may have fewer tiers."""
    rows = []
    for gpus in study["gpus"]:
        found = [
            ratio(of(study, rate, gpus), Counting(tiers="fit")) for rate in study["rates_gbps"]
        ]
        rows.append([f"{gpus:,}", *(f"{value:.2f}" for value in found)])
    return table(["GPUs", *(f"{rate} Gb/s" for rate in study["rates_gbps"])], rows)


def by_degree(study: dict[str, Any]) -> str:
    """Fat-tree over MixNet by the number of optical links per server."""
    rows = []
    for degree in study["degrees"]:
        mixnet = MixNet(ports=degree, **PORTS)
        found = [ratio(of(study, rate), mixnet=mixnet) for rate in study["rates_gbps"]]
        rows.append([str(degree), *(f"{value:.2f}" for value in found)])
    return table(["degree", *(f"{rate} Gb/s" for rate in study["rates_gbps"])], rows)


def against_others(study: dict[str, Any]) -> str:
    """MixNet over TopoOpt, oversubscribed tree over MixNet."""
    pairs = {
        "mixnet / topoopt (flat panel)": (
            MixNet(**PORTS), load_fabric("topoopt", OPTIONS["topoopt"]),
        ),
        "mixnet / topoopt (flat panel, look-ahead)": (
            MixNet(**PORTS), load_fabric("topoopt", {**OPTIONS["topoopt"], "look_ahead": True}),
        ),
        "mixnet / topoopt (folded panel)": (
            MixNet(**PORTS), load_fabric("topoopt", {"panel": "folded"}),
        ),
        "oversub 3:1 / mixnet": (load_fabric("oversub", PORTS), MixNet(**PORTS)),
    }  # fmt: skip
    rows = []
    for name, (one, other) in pairs.items():
        clusters = [of(study, rate) for rate in study["rates_gbps"]]
        rows.append([name, *(f"{cost(one, c) / cost(other, c):.3f}" for c in clusters)])
    return table(["cost ratio", *(f"{rate} Gb/s" for rate in study["rates_gbps"])], rows)


def whole_cluster(study: dict[str, Any]) -> str:
    """Network and cluster, money and power, fat-tree over MixNet."""
    gpu, rows = load_gpu(study["gpu"]), []
    for rate in study["rates_gbps"]:
        cluster = of(study, rate)
        network, whole, power = [], [], []
        for fabric in (load_fabric("fat-tree", PORTS), MixNet(**PORTS)):
            bill = fabric.bill_of_materials(cluster, PAPER)
            spent = MODEL.capital_cost(bill, PRICES)
            network.append(spent.total_usd)
            whole.append(cluster_cost(spent, gpu, PRICES, cluster.installed_gpus).total_usd)
            power.append(MODEL.power(bill, POWERS).per_gpu_w)
        rows.append(
            [str(rate), f"{network[0] / network[1]:.2f}", f"{whole[0] / whole[1]:.2f}",
             f"{power[0]:.0f}", f"{power[1]:.0f}", f"{power[0] / power[1]:.2f}"]
        )  # fmt: skip
    header = ["rate [Gb/s]", "network cost", f"cluster cost ({study['gpu']})"]
    return table([*header, "fat-tree [W/GPU]", "mixnet [W/GPU]", "network power"], rows)


def render() -> str:
    """Every table as one Markdown text."""
    study = settings(HERE)
    conventions = MODEL.capital_cost(
        MixNet(**PORTS).bill_of_materials(of(study, study["rates_gbps"][0]), PAPER), PRICES
    ).conventions
    parts = {
        "Compared with the paper": against_paper(study),
        "Cost by rate and size": by_size(study),
        "Conventions": by_convention(study),
        "As few tiers as 64-port switches allow, by size": by_size_min_tiers(study),
        "Optical links per server": by_degree(study),
        "Other fabrics": against_others(study),
        "Fat-tree over MixNet: network, cluster, power": whole_cluster(study),
    }
    text = "".join(f"## {title}\n\n{body}\n" for title, body in parts.items())
    listed = "".join(f"- {name}: {value}\n" for name, value in conventions.items())
    return f"# Networking cost\n\n{text}## Counted as\n\n{listed}"


def figure(study: dict[str, Any]) -> str:
    """Cost by rate of each fabric, of the smallest size."""
    rates = study["rates_gbps"]
    lines = []
    for color, name in enumerate(study["fabrics"]):
        fabric = load_fabric(name, OPTIONS[name])
        lines.append(Line(name, [cost(fabric, of(study, rate)) for rate in rates], color))
    drawn = Figure(
        "The network of a fat-tree costs twice as much as MixNet's",
        "rate of a link [Gb/s]",
        "network cost [$/GPU]",
        [str(rate) for rate in rates],
        lines,
    )
    return drawn.svg(HERE)


def main() -> int:
    """Print, write or check."""
    options = command_line(__doc__, fast=True).parse_args()
    wanted = {HERE / "table.md": render(), HERE / "figure.svg": figure(settings(HERE))}
    return finish(wanted, options)


if __name__ == "__main__":
    sys.exit(main())
