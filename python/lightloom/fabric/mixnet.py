"""MixNet: some NICs of a server on a fat-tree, the others on a circuit switch of its region.

MixNet (SIGCOMM 2025), sections 4.2 and 5. The packet fabric carries everything but the all-to-alls
of expert parallelism, and what of them has no circuit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import model_validator

from lightloom.fabric.base import (
    circuit_all_to_all,
    eps_of,
    network_of,
    other_ports,
    ports_of_switch,
)
from lightloom.fabric.bill import Bill, Counting, eps_lines, merged, nic_lines
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.fabric_options import Setting
from lightloom.fabric.mixnet_options import MixNetOptions
from lightloom.fabric.network import Eps, Network
from lightloom.fabric.reconfiguration import CircuitRegion, Reconfiguration
from lightloom.fabric.regional_circuits import PacketNics, RegionalCircuits
from lightloom.fabric.tree import Tree, plan_tree, tree_links, tree_switches
from lightloom.units import show_things


class MixNet(RegionalCircuits, MixNetOptions):
    """A fat-tree and regional circuit switches.

    Some NICs of a server are optical, the others are on the fat-tree. A region must fit the ports
    of its circuit switch. The delay of a reconfiguration is switching + control + link bring-up.
    Relayed bytes pass the NVSwitch of a server in chunks, each a delay later.
    """

    @model_validator(mode="after")
    def _failed_parts_are_named(self) -> Self:
        self.failures()
        return self

    def reconfiguration(self) -> Reconfiguration | None:
        """Return how circuits follow the demand; ``None`` if they are static."""
        return self.reconfiguration_of(lambda **options: self.replace(label=self.name, **options))

    def circuit_region(self, cluster: Cluster) -> CircuitRegion:
        """Return what a controller must know of a region."""
        cluster = self.adapt(cluster)
        return self.region_of(cluster, self._packet_nics(cluster))

    def _packet_nics(self, cluster: Cluster) -> PacketNics:
        count = self.packet_nics(self.name, cluster.nics_per_server)
        return PacketNics(count, self._eps_cluster(cluster).nic_rate_bps)

    def knobs(self, cluster: Cluster) -> dict[str, Sequence[Any]]:
        """Its optical NICs, and the packet switches that are sold in volume."""
        nics = cluster.nics_per_server
        rate, ports = self._eps_cluster(cluster).rate_gbps, self._switch_ports(cluster)
        return {
            "ports": sorted({max(1, nics * share // 4) for share in (1, 2, 3)} - {self.ports}),
            "switch_ports": other_ports(rate, ports),
        }

    def candidates(self, cluster: Cluster, context: FabricContext | None) -> Mapping[Setting, Self]:
        """Return the fabric with its ``split`` on and off, unless one was asked for."""
        if not self.may_split(self.regions(self.name, self.adapt(cluster), context)):
            return {}
        return {
            Setting("split", name): self.replace(split=split)
            for name, split in (("on", True), ("off", False))
        }

    def network(self, cluster: Cluster, context: FabricContext | None = None) -> Network:
        """Return the network for the core; ``split`` is on where it is left open.

        Raises
        ------
        FabricError
            If there is no context, the NICs do not suffice or a region exceeds its switch.
        """
        cluster = self.adapt(cluster)
        region = self.regions(self.name, cluster, context)
        nics = self._packet_nics(cluster)
        self.check_links(self.name, self.failures().eps_nics, nics.each, "EPS NICs")
        lost = self.not_spared(region, self.failures()) if self.failed else None
        ocs = self.ocs(cluster, nics, region, lost)
        return network_of(
            cluster,
            circuit_all_to_all(self.all_to_all),
            parts=(self._eps(self._tree(cluster), cluster), ocs),
            notes=(*self.notes(ocs), *self._failure_notes()),
        )

    def _eps(self, tree: Tree, cluster: Cluster) -> Eps:
        eps = eps_of(tree, self._eps_cluster(cluster), self.ecmp)
        there = {server for server in self.failures().servers if server < cluster.servers}
        return dataclasses.replace(eps, replaced=tuple(sorted(there)))

    def bill_of_materials(
        self,
        cluster: Cluster,
        counting: Counting | None = None,
        network: Network | None = None,
    ) -> Bill:
        """Return a fat-tree for the packet NICs, and for each optical NIC its switch port.

        The far end of a circuit is the NIC, transceiver and fiber of another server. Regions share
        a circuit switch where their ports fit; without a network, they fill switches.
        """
        cluster, counting = self.adapt(cluster), counting or Counting()
        circuits = self.circuit_switches(cluster, network)
        servers = cluster.servers + self.spares(circuits)
        tree, eps = self._tree(cluster, servers), self._eps_cluster(cluster)
        links = tree_links(tree, servers, counting.tiers)
        spare = show_things(servers - cluster.servers, "server")
        conventions = {"spare": f"NICs and ports of {spare}"}
        lines = [
            *nic_lines(servers * tree.nics, eps.rate_gbps, counting),
            *eps_lines(links, eps.rate_gbps, counting),
            *self.circuit_lines(cluster, servers, counting),
        ]
        return Bill(
            fabric=self.name,
            gpus=cluster.gpus,
            servers=cluster.servers,
            lines=merged(lines),
            switches=(tree_switches(tree, servers, eps.rate_gbps), circuits),
            fiber_length_m=counting.length_m,
            conventions=counting.conventions(tiers=1 + len(links.fabric))
            | (conventions if self.spare_servers else {}),
        )

    def _tree(self, cluster: Cluster, servers: int | None = None) -> Tree:
        return plan_tree(
            self.name,
            servers or cluster.servers,
            self.packet_nics(self.name, cluster.nics_per_server),
            self._switch_ports(cluster),
            servers_per_tor=self.servers_per_tor,
        )

    def _switch_ports(self, cluster: Cluster) -> int:
        return ports_of_switch(self.switch_ports, self._eps_cluster(cluster).rate_gbps)

    def _eps_cluster(self, cluster: Cluster) -> Cluster:
        return dataclasses.replace(cluster, rate_gbps=self.eps_nic_gbps or cluster.rate_gbps)

    def _applied(self, cluster: Cluster, network: Network) -> dict[str, Any]:
        parameters = {
            "eps_nic_gbps": self._eps_cluster(cluster).rate_gbps,
            "switch_ports": self._switch_ports(cluster),
        }
        return super()._applied(cluster, network) | parameters | self.applied(network)

    def _failure_notes(self) -> list[str]:
        return [f"failed, and not used: {self.failures().parts}"] if self.failed else []
