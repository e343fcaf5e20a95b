"""Helios: circuits between the racks with most traffic, and an electrical core for all others.

Helios (Farrington et al., SIGCOMM 2010). Every epoch the circuit switches get matchings of largest
weight for what was measured in the last one. Bytes between racks that a circuit joins take it, all
others the core.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from lightloom.errors import FabricError
from lightloom.fabric.base import ports_of_switch
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.network import EpochRules, Network, RackCircuits
from lightloom.fabric.option_types import Count, Quantity
from lightloom.fabric.racks import EstimatorChoice, RackFabric, RackPorts, Thousandths
from lightloom.units import show_time, to_ps


class Helios(RackFabric):
    """Circuits by measured demand beside an electrical core."""

    kind: ClassVar[str] = "helios"
    title: ClassVar[str] = "helios"

    packet_uplinks: Count | None = Field(
        None,
        description="Links of a rack to the electrical core, at the rate of the NICs; by default a"
        " quarter of its NICs.",
    )
    switches: Count | None = Field(
        None,
        description="Circuit switches, a fiber of each rack at each; by default as many as its NICs"
        " that are not on the core.",
    )
    epoch_s: Quantity = Field(
        0.1,
        description="Time from one decision to the next; assumed, the prototype's is not at hand.",
    )
    control_s: Quantity = Field(
        0.0, description="Time from a decision to the moment at which switches begin to turn."
    )
    hello_s: Quantity = Field(
        0.0, description="Time between two looks of racks at their circuits; 0 for at once."
    )
    estimator: EstimatorChoice = Field(
        "last",
        description="What an epoch is expected to bring: 'last' and 'smoothed' know what was"
        " measured, 'clairvoyant' what is to come, which no controller does.",
    )
    weight: Thousandths = Field(
        250, description="Weight of the newest measurement of 'smoothed', in thousandths."
    )
    hysteresis: Annotated[int, Field(ge=0, le=1_000_000, strict=True)] = Field(
        0, description="Thousandths by which circuits must carry more for switches to turn."
    )

    def _ports(self, cluster: Cluster) -> RackPorts:
        nics = self._rack_nics(cluster)
        electrical = self.packet_uplinks or max(1, nics // 4)
        switches = self.switches or max(1, nics - electrical)
        if electrical + switches > 4 * nics:
            raise FabricError(
                f"{self.name}: {switches} switches and {electrical} packet_uplinks: expected at"
                f" most four times the {nics} NICs of a rack"
            )
        return RackPorts(switches, 1, electrical)

    def _core_switches(self, cluster: Cluster) -> int:
        ports = ports_of_switch(self.switch_ports, cluster.rate_gbps)
        return -(-self._electrical_links(cluster) // ports)

    def _circuits(self, cluster: Cluster) -> RackCircuits:
        self._check_epoch("epoch_s", self.epoch_s)
        rules = EpochRules(
            "helios",
            estimator=self.estimator,
            weight=self.weight,
            hysteresis=self.hysteresis,
        )
        return self._rack_circuits(
            cluster,
            self.epoch_s,
            rules,
            core_rate_bps=self._ports(cluster).electrical * cluster.nic_rate_bps,
            control_ps=to_ps(self.control_s),
            circuits_per_path=1,
            hello_ps=to_ps(self.hello_s),
        )

    def _notes(self, cluster: Cluster) -> tuple[str, ...]:
        ports = self._ports(cluster)
        knows = "what comes" if self.estimator == "clairvoyant" else "what was measured"
        return (
            f"{self._racks(cluster)} racks, {ports.switches} circuits and {ports.electrical} links"
            f" to the core each; circuits follow {knows}, each {show_time(self.epoch_s)}, and are"
            f" dark for {show_time(self._dark_s())} when they change",
        )

    def _applied(self, cluster: Cluster, network: Network) -> dict[str, Any]:
        ports = self._ports(cluster)
        parameters = {"switches": ports.switches, "packet_uplinks": ports.electrical}
        return super()._applied(cluster, network) | parameters
