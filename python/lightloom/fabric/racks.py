"""What fabrics of racks share whose circuits change during a run: RotorNet, Opera, Helios, X-NEST+.

Servers are joined to the switch of their rack, and racks by circuit switches. A port of a rack at
a circuit switch is one or several parallel *fibers* at the rate of the NICs, which turn together.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from lightloom.errors import FabricError
from lightloom.fabric.base import check_layout, network_of, ports_of_switch
from lightloom.fabric.bill import (
    Bill,
    Counting,
    Line,
    Switches,
    TreeLinks,
    eps_lines,
    merged,
    nic_lines,
)
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.fabric_options import FabricOptions
from lightloom.fabric.network import EpochRules, Network, RackCircuits
from lightloom.fabric.option_types import SWITCH_PORTS, Count, OptionalQuantity, PartNames
from lightloom.hardware import switch_names, switch_technology
from lightloom.inputs.fields import Choices, OneOf
from lightloom.schedule.named_sets import ESTIMATORS
from lightloom.units import show_time, to_ps

#: racks that the simulator takes
MOST_RACKS = 1024
#: how measured traffic becomes expected traffic
EstimatorChoice = Annotated[str, OneOf(ESTIMATORS)]
#: racks in the order of ports, and how many circuit switches join just these
Banks = tuple[tuple[tuple[int, ...], int], ...]
#: thousandths
Thousandths = Annotated[int, Field(ge=1, le=1000, strict=True)]


@dataclass(frozen=True)
class RackPorts:
    """What a rack has, besides its NICs.

    Attributes
    ----------
    switches
        Circuit switches that it has a port at.
    fibers
        Parallel fibers of such a port.
    electrical
        Links to other racks or to an electrical core.
    """

    switches: int
    fibers: int
    electrical: int = 0

    @property
    def optical(self) -> int:
        """Fibers to all circuit switches."""
        return self.switches * self.fibers


class RackFabric(FabricOptions):
    """Racks of servers, and circuit switches among the racks."""

    #: the kind of circuit switch that the design is built of
    usual_technology: ClassVar[str] = "mems-3d"
    #: whether a circuit switch goes on where a rack has lost its port
    loses_single_ports: ClassVar[bool] = True

    servers_per_rack: Count | None = Field(
        None,
        description="Servers of a rack; by default one, or more where circuit switches have too few"
        " ports for so many racks.",
    )
    technology: Annotated[str, Choices(switch_names)] | None = Field(
        None, description="Technology of the circuit switches; by default that of the design."
    )
    ocs_ports: Count | None = Field(
        None, description="Ports of a circuit switch; by default those of its technology."
    )
    switch_ports: Count | None = SWITCH_PORTS
    dark_s: OptionalQuantity = Field(
        None,
        description="Time for which the circuits of a switch are dark when it turns; by default the"
        " longest that is reported for its technology.",
    )
    failed: PartNames = Field(
        (),
        description="Parts that are never used: plane:2 (a circuit switch), nic:3/2 (the port of"
        " rack 3 at circuit switch 2), or server:3, which a spare one replaces in its place.",
    )

    @model_validator(mode="after")
    def _technology_is_known(self) -> Self:
        technology = switch_technology(self._technology())
        if self.dark_s is None:
            _ = technology.reconfig_delay_s
        if self.failures().eps_nics:
            raise FabricError(
                "failed: all NICs are on rack switches: expected plane:2, nic:3/2 or server:3"
            )
        return self

    def network(self, cluster: Cluster, context: FabricContext | None = None) -> Network:
        """Return the network for the core.

        Raises
        ------
        FabricError
            If ports do not fit, or an epoch is over before its circuits are lit.
        """
        cluster = self.adapt(cluster)
        check_layout(cluster, context)
        self._check_ports(cluster)
        racks = self._circuits(cluster)
        return network_of(
            cluster, _all_to_all(self.all_to_all), parts=(racks,), notes=self._notes(cluster)
        )

    def bill_of_materials(
        self,
        cluster: Cluster,
        counting: Counting | None = None,
        _network: Network | None = None,
    ) -> Bill:
        """Return NICs, ports of rack switches, and a fiber and a port for each end of a circuit."""
        cluster, counting = self.adapt(cluster), counting or Counting()
        self._check_ports(cluster)
        rate, racks = cluster.rate_gbps, self._racks(cluster)
        optical, electrical = self._fibers(cluster), self._electrical_links(cluster)
        lines = [
            *nic_lines(cluster.nics, rate, counting),
            *eps_lines(TreeLinks(cluster.nics, (electrical,)), rate, counting),
            Line("eps_port", rate, optical),
            Line(counting.circuit_transceiver, rate, optical),
            Line("ocs_port", rate, optical * counting.ocs_ports_per_nic, self._technology()),
            Line("fiber", rate, optical),
        ]
        boxes = self._ocs_ports()
        tors = Switches(
            component="eps_port",
            rate_gbps=rate,
            ports=ports_of_switch(self.switch_ports, rate),
            count=racks + self._core_switches(cluster),
            used=cluster.nics + optical + 2 * electrical,
        )
        circuits = Switches(
            component="ocs_port",
            rate_gbps=rate,
            ports=boxes,
            count=-(-optical // boxes),
            used=optical,
            technology=self._technology(),
            availability=switch_technology(self._technology()).availability,
        )
        return Bill(
            fabric=self.name,
            gpus=cluster.gpus,
            servers=cluster.servers,
            lines=merged(lines),
            switches=(tors, circuits),
            fiber_length_m=counting.length_m,
            conventions={
                **counting.conventions(),
                "circuit switches": "small ones share a box, as in Helios' prototype",
            },
        )

    def _ports(self, cluster: Cluster) -> RackPorts:
        """What a rack has; ``cluster`` as :meth:`adapt` returns it, as below."""
        raise NotImplementedError

    def _circuits(self, cluster: Cluster) -> RackCircuits:
        raise NotImplementedError

    def _notes(self, cluster: Cluster) -> tuple[str, ...]:
        raise NotImplementedError

    def _fibers(self, cluster: Cluster) -> int:
        """Fibers between racks and circuit switches."""
        return self._racks(cluster) * self._ports(cluster).optical

    def _electrical_links(self, cluster: Cluster) -> int:
        """Links between racks, or from racks to a core."""
        return self._racks(cluster) * self._ports(cluster).electrical

    def _core_switches(self, cluster: Cluster) -> int:  # noqa: ARG002
        """Packet switches beside those of racks."""
        return 0

    def _racks(self, cluster: Cluster) -> int:
        """Racks with servers."""
        return -(-cluster.servers // self._per_rack(cluster))

    def _per_rack(self, cluster: Cluster) -> int:
        """Servers of a rack."""
        fewest = -(-cluster.servers // self._most_racks())
        return fewest if self.servers_per_rack is None else self.servers_per_rack

    def _most_racks(self) -> int:
        """Racks that circuit switches, and the simulator, can join."""
        return min(self._ocs_ports(), MOST_RACKS)

    def _ocs_ports(self) -> int:
        return self.ocs_ports or switch_technology(self._technology()).ports

    def _rack_nics(self, cluster: Cluster) -> int:
        """NICs of a full rack."""
        return min(self._per_rack(cluster), cluster.servers) * cluster.nics_per_server

    def _technology(self) -> str:
        return self.technology or self.usual_technology

    def _dark_s(self) -> float:
        if self.dark_s is not None:
            return self.dark_s
        return switch_technology(self._technology()).reconfig_delay_s

    def _check_ports(self, cluster: Cluster) -> None:
        nics, uplinks = self._rack_nics(cluster), self._ports(cluster)
        ports = ports_of_switch(self.switch_ports, cluster.rate_gbps)
        used = nics + uplinks.optical + uplinks.electrical
        if used > ports:
            raise FabricError(
                f"{self.name}: a rack needs {used} ports ({nics} NICs, {uplinks.optical} fibers,"
                f" {uplinks.electrical} electrical links), its switch has {ports}: expected fewer"
                " servers_per_rack, or switch_ports"
            )
        racks, most = self._racks(cluster), self._most_racks()
        if racks > most:
            raise FabricError(
                f"{self.name}: {racks} racks: circuit switches ({self._technology()}) join {most}:"
                " expected more servers_per_rack, or another technology"
            )

    def _check_epoch(self, name: str, epoch_s: float) -> None:
        """Refuse epochs that are over before circuits are lit."""
        dark_s = self._dark_s()
        if epoch_s <= dark_s:
            raise FabricError(
                f"{self.name}: {name} = {show_time(epoch_s)}: circuits are dark for"
                f" {show_time(dark_s)} when they change: expected more than that"
            )

    def _rack_circuits(
        self, cluster: Cluster, epoch_s: float, rules: EpochRules, **others: Any
    ) -> RackCircuits:
        """The part of one set of circuit switches that joins all racks, or of others."""
        racks, ports = self._racks(cluster), self._ports(cluster)
        every = (tuple(range(racks)), ports.switches)
        part = RackCircuits(
            nics=cluster.nics_per_server,
            nic_rate_bps=cluster.nic_rate_bps,
            link_delay_ps=cluster.link_delay_ps,
            servers_per_rack=self._per_rack(cluster),
            racks=racks,
            circuit_rate_bps=cluster.nic_rate_bps * ports.fibers,
            banks=(every,) if racks > 1 else (),
            epoch_ps=to_ps(epoch_s),
            dark_ps=to_ps(self._dark_s()),
            rules=rules,
        )
        part = dataclasses.replace(part, **others)
        return dataclasses.replace(part, banks=self._left(part, cluster))

    def _left(self, part: RackCircuits, cluster: Cluster) -> Banks:
        """Circuit switches without those that have failed; ones that lack ports stand alone."""
        lost = self.failures()
        if not lost.names:
            return part.banks
        switches = [racks for racks, count in part.banks for _ in range(count)]
        fit = all(server < cluster.servers for server in lost.servers)
        fit &= all(plane < len(switches) for plane in lost.planes)
        fit &= all(at < len(switches) and rack in switches[at] for rack, at in lost.nics)
        if not fit:
            raise FabricError(
                f"{self.name}: failed: {lost.parts}: expected parts of {cluster.servers} servers,"
                f" {part.racks} racks and {len(switches)} circuit switches, or ports that join them"
            )
        out = set(lost.planes)
        if not self.loses_single_ports:
            out |= {at for _, at in lost.nics}
        left: dict[tuple[int, int, tuple[int, ...]], int] = {}
        bank_of = [bank for bank, (_, count) in enumerate(part.banks) for _ in range(count)]
        for at, racks in enumerate(switches):
            joined = tuple(rack for rack in racks if (rack, at) not in lost.nics)
            if at not in out and len(joined) > 1:
                key = (bank_of[at], -1 if joined == racks else at, joined)
                left[key] = left.get(key, 0) + 1
        return tuple((joined, count) for (_, _, joined), count in left.items())

    def _applied(self, cluster: Cluster, network: Network) -> dict[str, Any]:
        parameters = {
            "servers_per_rack": self._per_rack(cluster),
            "technology": self._technology(),
            "ocs_ports": self._ocs_ports(),
            "dark_s": self._dark_s(),
            "switch_ports": ports_of_switch(self.switch_ports, cluster.rate_gbps),
        }
        return super()._applied(cluster, network) | parameters


def _all_to_all(wanted: str) -> tuple[str, str]:
    """How racks spread an all-to-all, and why."""
    reason = "the switch of a rack takes what a server sends over any of its NICs"
    suffix = "" if wanted in {"best", "hierarchical"} else f" ('{wanted}' does not apply)"
    return "hierarchical", reason + suffix
