"""NVL72: racks of many GPUs, some of them spare, on a non-blocking fat-tree.

NVIDIA's GB200 and GB300 NVL72 join 72 GPUs by NVLink at 7.2 Tb/s each way. Groups of ranks are
powers of two, so that jobs use 64: the others are bought, wired and powered, but idle, as the
MixNet paper's section 8 has them. What NVLink switches and cables of a rack cost and draw is in
the prices and powers of servers, as for servers of eight. Every GPU has a NIC.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from lightloom.fabric.base import FAILED, PacketTrees, ports_of_switch
from lightloom.fabric.bill import Bill, Counting
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.network import KEPT_APART, Network
from lightloom.fabric.option_types import Count, PartNames, Spares, Switch, parse_named
from lightloom.fabric.tree import Tree, packet_bill, plan_tree


class Nvl72(PacketTrees):
    """Racks of 64 GPUs, and 8 that are spare, on a fat-tree with a NIC for each GPU."""

    kind: ClassVar[str] = "nvl72"
    title: ClassVar[str] = "nvl72"

    gpus_per_server: Count = Field(64, description="GPUs of a rack that a job uses.")
    nics_per_server: Count | None = Field(
        None, description="NICs of the GPUs that are used; by default one for each."
    )
    nvlink_gbps: Annotated[float | None, BeforeValidator(parse_named), Field(ge=900, le=14_400)] = (
        Field(7200.0, description="Rate of a GPU into the rack per direction: 900 to 14,400 Gb/s.")
    )
    spare_gpus: Spares = Field(
        8, description="Further GPUs of a rack: bought with their NICs, wired and idle."
    )
    regroup: Switch = Field(
        True,
        description="Regroup flows from each GPU of a rack to each of another to fewer, with as "
        "many bytes over every NIC: much faster to simulate, exact where all GPUs are alike.",
    )
    failed: PartNames = FAILED

    def adapt(self, cluster: Cluster) -> Cluster:
        """Return the cluster with racks in the place of its servers; idempotent."""
        racks = super().adapt(cluster)
        return dataclasses.replace(
            racks,
            gpus=cluster.used_gpus,
            gpus_of_job=None,
            nics_per_server=self.nics_per_server or self.gpus_per_server,
            idle_gpus_per_server=self.spare_gpus,
        )

    def tree(self, cluster: Cluster) -> Tree:
        """Return where the racks sit; spare GPUs have their share of each switch's ports."""
        ports = ports_of_switch(self.switch_ports, cluster.rate_gbps)
        return plan_tree(
            self.name,
            cluster.servers,
            cluster.nics_per_server,
            ports * self.gpus_per_server // (self.gpus_per_server + self.spare_gpus),
            servers_per_tor=self.servers_per_tor,
        )

    def network(self, cluster: Cluster, context: FabricContext | None = None) -> Network:
        """Return the network for the core."""
        network = super().network(cluster, context)
        return network if self.regroup else dataclasses.replace(network, regroup_above=KEPT_APART)

    def bill_of_materials(
        self,
        cluster: Cluster,
        counting: Counting | None = None,
        _network: Network | None = None,
    ) -> Bill:
        """Return the parts of a fat-tree for all NICs, those of spare GPUs included."""
        cluster = self.adapt(cluster)
        tree = self.tree(cluster)
        nics = tree.rails * -(-self._whole(tree.nics) // tree.rails)
        wired = dataclasses.replace(
            tree,
            nics=nics,
            switch_ports=ports_of_switch(self.switch_ports, cluster.rate_gbps),
            uplinks_per_tor=-(-tree.uplinks_per_tor * nics // tree.nics),
        )
        racks = dataclasses.replace(cluster, nics_per_server=nics)
        return packet_bill(self.name, racks, wired, counting or Counting())

    def _whole(self, used: int) -> int:
        """Of a whole rack as many as ``used`` are of the GPUs that a job uses."""
        size = self.gpus_per_server
        return -(-used * (size + self.spare_gpus) // size)

    def _notes(self, cluster: Cluster) -> list[str]:
        size, spare = cluster.gpus_per_server, self.spare_gpus
        racks = f"racks of {size} GPUs and {spare} spare ones, which are bought and idle"
        return [*super()._notes(cluster), racks]
