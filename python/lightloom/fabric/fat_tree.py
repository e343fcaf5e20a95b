"""Fat-tree: a non-blocking (1:1) three-tier tree of packet switches, all NICs on it."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lightloom.fabric.base import PacketSwitched, eps_of, packet_network
from lightloom.fabric.bill import Bill, Counting
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.network import Network
from lightloom.fabric.options import ECMP, Count, Share
from lightloom.fabric.tree import Tree, packet_bill, plan_tree


class FatTree(PacketSwitched):
    """A non-blocking (1:1) fat-tree with every NIC on it."""

    kind: ClassVar[str] = "fat-tree"
    title: ClassVar[str] = "fat-tree"

    ecmp: Share | None = ECMP
    switch_ports: Count = Field(64, description="Ports of a packet switch at the rate of the NICs.")
    servers_per_tor: Count | None = Field(
        None, description="Servers under one ToR; by default as many as its ports allow."
    )

    def _tree(self, cluster: Cluster) -> Tree:
        return plan_tree(
            self.name,
            cluster.servers,
            cluster.nics_per_server,
            self.switch_ports,
            servers_per_tor=self.servers_per_tor,
        )

    def network(self, cluster: Cluster, context: FabricContext | None = None) -> Network:
        """Return the network for the core; no ToR is a bottleneck."""
        cluster = self.adapt(cluster)
        return packet_network(
            cluster, context, eps_of(self._tree(cluster), cluster, self.ecmp), self.all_to_all
        )

    def bill_of_materials(self, cluster: Cluster, counting: Counting | None = None) -> Bill:
        """Return NICs, used switch ports, transceivers and fibers."""
        cluster = self.adapt(cluster)
        return packet_bill(self.name, cluster, self._tree(cluster), counting or Counting())
