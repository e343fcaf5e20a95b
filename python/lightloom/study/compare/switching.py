"""In which switches a network comes, and what other switches that are sold would change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from lightloom.cost import PartsCostModel, unit_price_usd, unused_ports_usd
from lightloom.errors import FabricError
from lightloom.fabric import Bill, Cluster, Fabric, Switches
from lightloom.hardware import packet_switches
from lightloom.study.compare.costs import Rates

#: the components of :data:`~lightloom.fabric.COMPONENTS` that count ports of packets or crossbars
ELECTRONIC = ("eps_port", "crossbar_port")


@dataclass(frozen=True)
class OtherSwitch:
    """The same fabric built of another packet switch.

    Attributes
    ----------
    title, ports, availability
        What it is called, its ports at the rate of the NICs, and whether it can be bought.
    tiers, count
        Tiers and number of them.
    network_cost_usd
        What the network costs then.
    """

    title: str
    ports: int
    availability: str
    tiers: int
    count: int
    network_cost_usd: float


@dataclass(frozen=True)
class SwitchGear:
    """The switches of one fabric.

    Attributes
    ----------
    switches
        Those of each kind, packet switches first.
    unused_ports_usd
        Price of the ports that come with them and are not used, which the network's cost leaves
        out.
    others
        Other packet switches of the rate.
    widest_gpus
        The most GPUs that as many tiers take, where there is a limit.
    panel_saving_usd
        By how much less patch panels cost than the circuit switches.
    """

    switches: tuple[Switches, ...] = ()
    unused_ports_usd: float = 0.0
    others: tuple[OtherSwitch, ...] = ()
    widest_gpus: int | None = None
    panel_saving_usd: float = 0.0

    @property
    def main(self) -> Switches | None:
        """The packet switches or crossbars, if there are any."""
        return next((s for s in self.switches if s.component in ELECTRONIC), None)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` made plain values of."""
        return cls(
            switches=tuple(Switches(**values) for values in content["switch_kinds"]),
            unused_ports_usd=content["unused_ports_usd"],
            others=tuple(OtherSwitch(**values) for values in content["other_switches"]),
            widest_gpus=content["widest_gpus"],
            panel_saving_usd=content["panel_saving_usd"],
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        main = self.main
        return {
            "switch_ports": None if main is None else main.ports,
            "tiers": None if main is None else main.tiers,
            "switches": None if main is None else main.count,
            "widest_gpus": self.widest_gpus,
            "unused_ports_usd": self.unused_ports_usd,
            "panel_saving_usd": self.panel_saving_usd,
            "switch_kinds": [asdict(switches) for switches in self.switches],
            "other_switches": [asdict(switch) for switch in self.others],
        }


def switching_of(bill: Bill, fabric: Fabric, cluster: Cluster, rates: Rates) -> SwitchGear:
    """Count the switches of a bill, and of the same fabric with other packet switches.

    Parameters
    ----------
    bill
        The fabric's for the cluster.
    fabric, cluster, rates
        What is built, of which servers, and at which prices.

    Raises
    ------
    FabricError, HardwareError
        As for :func:`~lightloom.study.compare.costs.costs_of`.
    """
    saving = sum(
        line.count * (unit_price_usd(line, bill, rates.prices) - panel)
        for line in bill.lines
        if line.component == "ocs_port"
        for panel in [unit_price_usd(replace(line, component="patch_port"), bill, rates.prices)]
    )
    gear = SwitchGear(
        switches=bill.switches,
        unused_ports_usd=unused_ports_usd(bill, rates.prices),
        panel_saving_usd=saving,
    )
    main = gear.main
    if main is None or main.widest is None or main.component != "eps_port":
        return gear
    return replace(
        gear,
        others=tuple(_others(fabric, cluster, rates, main)),
        widest_gpus=main.widest * fabric.adapt(cluster).gpus_per_server,
    )


def _others(
    fabric: Fabric, cluster: Cluster, rates: Rates, main: Switches
) -> Sequence[OtherSwitch]:
    """The fabric with each other switch of the rate that takes all servers."""
    if "switch_ports" not in fabric.parameters():
        return ()
    others = []
    for switch in packet_switches(main.rate_gbps):
        if switch.ports == main.ports:
            continue
        try:
            bill = fabric.replace(switch_ports=switch.ports).bill_of_materials(
                cluster, rates.counting
            )
        except FabricError:
            continue
        cost = PartsCostModel().capital_cost(bill, rates.prices).total_usd
        lowest = bill.switches[0]
        others.append(
            OtherSwitch(
                switch.title, switch.ports, switch.availability, lowest.tiers, lowest.count, cost
            )
        )
    return others
