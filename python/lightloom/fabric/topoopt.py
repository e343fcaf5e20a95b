"""TopoOpt: every NIC on an optical patch panel, one topology for the whole job.

After Wang et al. (NSDI 2023). Any two NICs can be joined. Where there are more than the ports of
a panel, NIC i of every server is on panel i, or there are two tiers of panels (the MixNet paper,
section 7.1, charges one flat panel of any size). The topology follows the demand averaged over the
job; what has no direct circuit is forwarded by the GPUs of other servers, which costs their links'
rate and ``relay_delay_s`` each.

TopoOpt shares the ports by bytes, as if a step took as long as its busiest circuit. Here the
all-to-alls, the pipeline's sends in each direction and the rings are phases that follow each other,
so that their times add up: small phases deserve more than their share. A phase is as long as its
busiest circuit. Overlap with compute is left out.

Panels that are planes take any topology with as many circuits at each server as there are planes,
where transmit and receive fibers are patched apart: senders and receivers of d circuits each are a
bipartite graph, whose edges d colors, one per panel, keep apart at every end (Kőnig 1916). A NIC
may then send to one server and receive from another.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from lightloom.errors import FabricError
from lightloom.fabric.base import check_layout, circuit_all_to_all, network_of
from lightloom.fabric.bill import Bill, Counting, Line, Switches, merged, nic_lines
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.fabric_options import FabricOptions
from lightloom.fabric.interconnect import cluster_defaults
from lightloom.fabric.lost_circuits import without_failed
from lightloom.fabric.network import Direct, Network
from lightloom.fabric.option_types import Count, OptionalQuantity, PartNames, Switch
from lightloom.hardware import switch_technology
from lightloom.schedule import Ring, cycles_in_order, topoopt_topology
from lightloom.units import to_ps


class TopoOpt(FabricOptions):
    """Fixed circuits from an optical patch panel."""

    kind: ClassVar[str] = "topoopt"
    title: ClassVar[str] = "topoopt"

    panel: Literal["flat", "planes", "folded", "fit"] = Field(
        "fit",
        description="One panel where panel_ports suffice for all NICs, else planes where they "
        "suffice for all servers, else folded (fit); a panel for each NIC of a server (planes); "
        "two tiers of panels with long-reach transceivers (folded); or one panel of any size, as "
        "in the MixNet paper (flat).",
    )
    panel_ports: Count | None = Field(
        None, description="Ports of a patch panel; by default those of the catalog."
    )
    look_ahead: Switch = Field(
        False,
        description="Add a second port and a 1x2 switch per NIC, so that the topology of the next "
        "job is set up while this one runs.",
    )
    relay_delay_s: OptionalQuantity = Field(
        None,
        description="Delay of forwarding in a server; by default that of the built-in data.",
    )
    max_routes: Count = Field(
        4, description="Maximum number of shortest paths that share the bytes of a pair."
    )
    failed: PartNames = Field(
        (),
        description="Parts that are never used: nic:2/1 (server/NIC), or server:3, which a spare"
        " one on the panel replaces.",
    )

    @model_validator(mode="after")
    def _failed_parts_are_named(self) -> Self:
        failures = self.failures()
        if failures.eps_nics or failures.planes:
            raise FabricError("failed: all NICs are on one panel: expected nic:2/1 or server:3")
        return self

    def network(self, cluster: Cluster, context: FabricContext | None = None) -> Network:
        """Return the network for the core.

        Raises
        ------
        FabricError
            If there is no context, or the NICs cannot connect the servers that talk.
        """
        cluster = self.adapt(cluster)
        if context is None:
            raise FabricError(f"{self.name}: the demand of the job is needed to plan circuits")
        check_layout(cluster, context)
        return network_of(
            cluster,
            circuit_all_to_all(self.all_to_all),
            parts=(
                without_failed(self._direct(cluster, context), self.failures(), cluster, self.name),
            ),
            notes=(f"{cluster.nics_per_server} circuits per server, fixed for the job",),
        )

    def bill_of_materials(
        self,
        cluster: Cluster,
        counting: Counting | None = None,
        _network: Network | None = None,
    ) -> Bill:
        """Return a panel port, a transceiver and a fiber per NIC.

        A folded panel takes three ports and three fibers per NIC, and long reach transceivers
        against the loss of several passes.

        Raises
        ------
        FabricError
            If planes are asked for and a panel has fewer ports than there are servers.
        """
        cluster, counting = self.adapt(cluster), counting or Counting()
        nics, rate = cluster.nics, cluster.rate_gbps
        built = self._built(cluster) if counting.patch_panels == "built" else "flat"
        passes = 3 if built == "folded" else 1
        reach = "long_reach_transceiver" if passes > 1 else counting.circuit_transceiver
        lines = [
            *nic_lines(nics, rate, counting),
            Line(reach, rate, nics),
            Line("patch_port", rate, nics * (passes + self.look_ahead)),
            Line("fiber", rate, nics * passes),
            Line("switch_1x2", rate, nics * self.look_ahead),
        ]
        words = {"folded": "two tiers", "planes": "one per NIC of a server"}
        panel = {"patch panel": words.get(built, "flat"), "look-ahead": self._look_ahead()}
        return Bill(
            fabric=self.name,
            gpus=cluster.gpus,
            servers=cluster.servers,
            lines=merged(lines),
            switches=(self._panels(cluster, built),),
            fiber_length_m=counting.length_m,
            conventions={**counting.conventions(), **panel},
        )

    def _panels(self, cluster: Cluster, built: str) -> Switches:
        """Panels that are bought; planes share one where their ports fit."""
        planes = cluster.nics_per_server if built == "planes" else 1
        per_nic = (3 if built == "folded" else 1) + self.look_ahead
        ports, plane = self._ports(), cluster.nics // planes * per_nic
        count = -(-planes // (ports // plane)) if plane <= ports else planes * -(-plane // ports)
        return Switches(
            component="patch_port",
            rate_gbps=cluster.rate_gbps,
            ports=ports,
            count=count,
            used=plane * planes,
            tiers=2 if built == "folded" else 1,
            planes=planes,
        )

    def _direct(self, cluster: Cluster, context: FabricContext) -> Direct:
        rings = [
            Ring(ring.servers.tolist(), max(1, round(ring.size_bytes)), min(ring.phase, LAST_PHASE))
            for ring in context.mean().rings
        ]
        demand, phases = all_pairs(context)
        topology = topoopt_topology(
            cluster.servers,
            cluster.nics_per_server,
            rings=rings,
            demand=demand,
            phases=phases,
            max_routes=self.max_routes,
        )
        cycles = cycles_in_order(topology, rings)
        return Direct(
            nic_rate_bps=cluster.nic_rate_bps,
            link_delay_ps=cluster.link_delay_ps,
            relay_delay_ps=to_ps(self.relay_s()),
            circuits=topology.circuits,
            route_offsets=topology.route_offsets,
            route_servers=topology.route_servers,
            cycle_offsets=cycles.offsets,
            cycle_servers=cycles.servers,
            cycle_counts=cycles.counts,
        )

    def _look_ahead(self) -> str:
        return "a second port and a 1x2 switch per NIC" if self.look_ahead else "none"

    def _built(self, cluster: Cluster) -> str:
        """How panels are laid out: ``flat``, ``planes`` or ``folded``."""
        ports = self._ports()
        if self.panel == "planes" and cluster.servers > ports:
            raise FabricError(
                f"{self.name}: panel = planes: a panel has {ports:,} ports for "
                f"{cluster.servers:,} servers: expected panel_ports of as many, or panel = folded"
            )
        if self.panel != "fit":
            return self.panel
        if cluster.nics <= ports:
            return "flat"
        return "planes" if cluster.servers <= ports else "folded"

    def _applied(self, cluster: Cluster, network: Network) -> dict[str, Any]:
        parameters = {"panel_ports": self._ports(), "relay_delay_s": self.relay_s()}
        return super()._applied(cluster, network) | parameters

    def _ports(self) -> int:
        return self.panel_ports or switch_technology("robotic").ports

    def relay_s(self) -> float:
        """Delay of one forwarding server."""
        if self.relay_delay_s is None:
            return cluster_defaults()["relay_delay_s"].value
        return self.relay_delay_s


#: the largest number of a phase, of 64 that the finder takes
LAST_PHASE = 63
#: sources, destinations and bytes
_Demand = tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint64]]


def all_pairs(context: FabricContext) -> tuple[_Demand, npt.NDArray[np.uint32]]:
    """Demand of the job and its phases, and one byte for every pair of an EP group.

    A pair that sends nothing on average may send something in one step and then needs a route.
    Of a recorded job with very many kinds of groups the last ones count as one.
    """
    mean = context.mean()
    groups = sorted({tuple(servers.tolist()) for servers in context.layout.group_servers()})
    ends = [(member, other) for group in groups for member in group for other in group]
    src, dst = np.array(ends, dtype=np.uint32).reshape(-1, 2).T
    apart = src != dst
    # The finder compares bytes and adds them up: 2^63 is as good as more.
    sizes = np.minimum(np.ceil(mean.demand_bytes), 2.0**63).astype(np.uint64)
    phases = np.minimum(mean.demand_phase, np.uint32(LAST_PHASE))
    last = phases.max(initial=0)
    demand = (
        np.concatenate([mean.demand_src, src[apart]]),
        np.concatenate([mean.demand_dst, dst[apart]]),
        np.concatenate([sizes, np.ones(np.count_nonzero(apart), np.uint64)]),
    )
    return demand, np.concatenate([phases, np.full(np.count_nonzero(apart), last)])
