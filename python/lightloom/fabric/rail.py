"""Rail-optimized: NIC i of every server of a group is under ToR i, the layers above are 1:1.

Traffic between GPUs of one rail stays under a ToR; from one rail to another it goes over the layer
above, or inside the server first (the all-to-all ``rail``, NCCL's PXN). The parts are those of a
fat-tree, only the wiring differs.
"""

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


class Rail(PacketSwitched):
    """A rail-optimized 1:1 tree: NIC i of every server of a group is under ToR i."""

    kind: ClassVar[str] = "rail"
    title: ClassVar[str] = "rail"

    ecmp: Share | None = ECMP
    switch_ports: Count = Field(64, description="Ports of a packet switch at the rate of the NICs.")
    servers_per_tor: Count | None = Field(
        None,
        description="Servers that share a group of ToRs; by default as many as its ports allow.",
    )

    def _tree(self, cluster: Cluster) -> Tree:
        return plan_tree(
            self.name,
            cluster.servers,
            cluster.nics_per_server,
            self.switch_ports,
            rail=True,
            servers_per_tor=self.servers_per_tor,
        )

    def network(self, cluster: Cluster, context: FabricContext | None = None) -> Network:
        """Return the network for the core, NICs on their rails."""
        cluster = self.adapt(cluster)
        return packet_network(
            cluster, context, eps_of(self._tree(cluster), cluster, self.ecmp), self.all_to_all
        )

    def bill_of_materials(self, cluster: Cluster, counting: Counting | None = None) -> Bill:
        """Return the parts, counted as those of a fat-tree."""
        cluster = self.adapt(cluster)
        return packet_bill(self.name, cluster, self._tree(cluster), counting or Counting())
