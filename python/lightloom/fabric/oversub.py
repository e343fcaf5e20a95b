"""Oversubscribed fat-tree: ToRs with ``ratio`` times as much rate down as up, the rest 1:1.

ToRs are filled as evenly as the cluster allows, so that a small cluster does not have one ToR with
hardly any uplinks.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar

from pydantic import Field

from lightloom.fabric.base import PacketSwitched, eps_of, packet_network
from lightloom.fabric.bill import Bill, Counting
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.network import Network
from lightloom.fabric.options import ECMP, Count, Share
from lightloom.fabric.tree import Tree, packet_bill, plan_tree


class Oversub(PacketSwitched):
    """A fat-tree that is oversubscribed at the ToR."""

    kind: ClassVar[str] = "oversub"
    title: ClassVar[str] = "oversub"

    ratio: Annotated[float, Field(ge=1, allow_inf_nan=False)] = Field(
        3.0, description="Oversubscription of a ToR: its rate down over its rate up."
    )
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
            ratio=self.ratio,
            servers_per_tor=self.servers_per_tor,
        )

    def network(self, cluster: Cluster, context: FabricContext | None = None) -> Network:
        """Return the network for the core, with the rate of a ToR's uplinks."""
        cluster = self.adapt(cluster)
        tree = self._tree(cluster)
        network = packet_network(
            cluster, context, eps_of(tree, cluster, self.ecmp), self.all_to_all
        )
        # What oversubscription costs hangs on how many servers of an EP group share a ToR.
        shared = (
            f"each ToR has {tree.nics_per_tor} ports to its {tree.servers_per_tor} servers and "
            f"{tree.uplinks_per_tor} to the spine, which all pairs cross with servers_per_tor = 1"
        )
        return dataclasses.replace(network, notes=(*network.notes, shared))

    def bill_of_materials(self, cluster: Cluster, counting: Counting | None = None) -> Bill:
        """Return the parts: above the ToR a ``ratio``-th of those of a fat-tree."""
        cluster = self.adapt(cluster)
        return packet_bill(self.name, cluster, self._tree(cluster), counting or Counting())
