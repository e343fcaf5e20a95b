"""Dual-plane: every NIC on two networks, or more, each with an equal part of its rate.

A port of a NIC or switch is broken out: a switch has ``planes`` times as many ports of a part of
the rate, so that two tiers reach further. In this way Alibaba connects NICs of 2 x 200 Gb/s (HPN,
SIGCOMM 2024), and Zhao et al. propose it for the network after DeepSeek-V3's (ISCA 2025, section
5). NICs are taken to spread the packets of each message evenly over all planes (packet spraying,
placed out of order on arrival): a flow has the rate of the NIC, and a lost plane takes its part of
it from everyone. NICs that keep a message on one plane would be slower where few messages meet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from lightloom.errors import FabricError
from lightloom.fabric.base import PacketTrees, eps_of, ports_of_switch
from lightloom.fabric.bill import Bill, Counting, eps_lines, merged, nic_lines
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.network import Eps, Network
from lightloom.fabric.option_types import PartNames
from lightloom.fabric.tree import Tree, plan_tree, tree_links, tree_switches
from lightloom.schedule import Failures


class DualPlane(PacketTrees):
    """Two separate trees, each with half of the rate of every NIC."""

    kind: ClassVar[str] = "dual-plane"
    title: ClassVar[str] = "dual-plane"

    planes: Literal[2, 4, 8] = Field(
        2, description="Networks that every NIC is on, each with an equal part of its rate."
    )
    failed: PartNames = Field(
        (),
        description="Parts that are never used: nic:2/1 (server/NIC), plane:0, eps:2/3 (a port of"
        " server 2: plane 1 of NIC 1, of two planes), or server:3, which a spare one under another"
        " ToR replaces.",
    )

    @model_validator(mode="after")
    def _failed_parts_are_named(self) -> Self:
        _ = self.failures()
        return self

    def knobs(self, cluster: Cluster) -> dict[str, Sequence[Any]]:
        """Every option of a tree, and the number of planes."""
        planes = [count for count in (2, 4, 8) if count != self.planes]
        return {**super().knobs(cluster), "planes": planes}

    def tree(self, cluster: Cluster) -> Tree:
        """Return where the servers sit; ports of switches are those of a part of the rate."""
        plane = plan_tree(
            self.name,
            cluster.servers,
            cluster.nics_per_server,
            ports_of_switch(self.switch_ports, cluster.rate_gbps) * self.planes,
            servers_per_tor=self.servers_per_tor,
        )
        return dataclasses.replace(plane, planes=self.planes)

    def _eps(self, cluster: Cluster) -> Eps:
        """All planes as one network, at the rate of those that are left."""
        lost = self.failures()
        left = self.planes - len(set(lost.planes))
        if any(plane >= self.planes for plane in lost.planes) or left == 0:
            raise FabricError(
                f"{self.name}: failed: {lost.parts}: expected some of the {self.planes} planes"
            )
        planes = eps_of(dataclasses.replace(self.tree(cluster), planes=1), cluster, self.ecmp)
        rates = {
            name: getattr(planes, name) * left // self.planes
            for name in ("nic_rate_bps", "tor_uplink_reached_bps")
            if getattr(planes, name) is not None
        }
        others = Failures(nics=lost.nics, servers=lost.servers)
        whole = self._without(others, dataclasses.replace(planes, **rates), cluster)
        whole = dataclasses.replace(whole, shared_planes=self.planes)
        if lost.eps_nics:
            return self._without_ports(whole, cluster)
        return dataclasses.replace(whole, sprayed_planes=left)

    def _without_ports(self, eps: Eps, cluster: Cluster) -> Eps:
        """Every NIC as one for each plane that is left; those of ports that have failed join none.

        Raises
        ------
        FabricError
            If a port does not exist, or is the last one of a server.
        """
        lost = self.failures()
        each, nics = self.planes, cluster.nics_per_server
        if any(server >= cluster.servers or port >= nics * each for server, port in lost.eps_nics):
            raise FabricError(
                f"{self.name}: failed: {lost.parts}: expected ports of {cluster.servers} servers"
                f" with {nics} NICs on {each} planes"
            )
        kept = [plane for plane in range(each) if plane not in lost.planes]
        out = {
            (server, nic * len(kept) + at) for server, nic in eps.failed for at in range(len(kept))
        }
        for server, port in lost.eps_nics:
            nic, plane = divmod(port, each)
            if plane in kept and server not in eps.replaced:
                out.add((server, nic * len(kept) + kept.index(plane)))
        return dataclasses.replace(
            eps,
            nics=eps.nics * len(kept),
            nic_rate_bps=eps.nic_rate_bps // len(kept),
            failed=tuple(sorted(out)),
        )

    def _notes(self, cluster: Cluster) -> list[str]:
        sprayed = f"every NIC sprays its packets evenly over {self.planes} planes"
        return [*super()._notes(cluster), sprayed]

    def bill_of_materials(
        self,
        cluster: Cluster,
        counting: Counting | None = None,
        _network: Network | None = None,
    ) -> Bill:
        """Return NICs, used ports and transceivers at the whole rate, and a fiber for each part.

        A transceiver of the whole rate ends as many fibers as there are planes; a port that is
        broken out, too. Cables of copper or of active optics are counted by the port.
        """
        cluster, counting = self.adapt(cluster), counting or Counting()
        tree = self.tree(cluster)
        links = tree_links(tree, cluster.servers, counting.tiers)
        parts = [
            line
            if line.component == "fiber"
            else dataclasses.replace(line, count=-(-line.count // self.planes))
            for line in eps_lines(links, cluster.rate_gbps, counting)
        ]
        switches = tree_switches(tree, cluster.servers, cluster.rate_gbps, broken_out=self.planes)
        return Bill(
            fabric=self.name,
            gpus=cluster.gpus,
            servers=cluster.servers,
            lines=merged([*nic_lines(cluster.nics, cluster.rate_gbps, counting), *parts]),
            switches=(switches,),
            fiber_length_m=counting.length_m,
            conventions=counting.conventions(tiers=1 + len(links.fabric)),
        )
