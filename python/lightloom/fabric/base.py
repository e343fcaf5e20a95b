"""What every fabric has: a kind, a network and a bill of materials; how packets are spread."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from pydantic import Field, model_validator

from lightloom.errors import FabricError
from lightloom.fabric.all_to_all import all_to_all_candidates, best_all_to_all, crosses_planes
from lightloom.fabric.bill import Bill, Counting
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.fabric_options import FabricOptions, Setting
from lightloom.fabric.interconnect import uplink_efficiency
from lightloom.fabric.network import Eps, Network, Part
from lightloom.fabric.option_types import (
    ECMP,
    SERVERS_PER_TOR,
    SWITCH_PORTS,
    Count,
    PartNames,
    Share,
)
from lightloom.fabric.reconfiguration import Reconfiguration
from lightloom.fabric.tree import Tree, packet_bill, plan_tree
from lightloom.hardware import packet_switches
from lightloom.schedule import Failures

#: an option of fabrics of packet switches
FAILED = Field(
    (),
    description="Parts that are never used: nic:2/1 (server/NIC), plane:0, or server:3, which a"
    " spare one under another ToR replaces.",
)


class Fabric(Protocol):
    """One way to connect the servers of a cluster."""

    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """What results call this fabric."""
        ...

    def adapt(self, cluster: Cluster) -> Cluster:
        """Return the cluster with this fabric's own servers, NICs and rates."""
        ...

    def network(self, cluster: Cluster, context: FabricContext | None = None) -> Network:
        """Return the network for the core."""
        ...

    def bill_of_materials(
        self,
        cluster: Cluster,
        counting: Counting | None = None,
        network: Network | None = None,
    ) -> Bill:
        """Return the parts that the network is built of.

        Given what :meth:`network` made for a job, they are in as few boxes as its regions allow.
        """
        ...

    def parameters(self) -> dict[str, Any]:
        """Every option and its value."""
        ...

    def effective(self, cluster: Cluster, network: Network) -> dict[str, Any]:
        """Every option and the value that applies, given or not; ``None`` where none does."""
        ...

    def reconfiguration(self) -> Reconfiguration | None:
        """Return how circuits follow the demand; ``None`` if none do."""
        ...

    def candidates(
        self, cluster: Cluster, context: FabricContext | None
    ) -> Mapping[Setting, Fabric]:
        """Return the fabric with each value that a setting may have that is left open.

        The estimated best is first. Those that can differ on the job alone; empty if nothing is
        left open.
        """
        ...

    def without(self, lost: Failures, /) -> Fabric | None:
        """Return the fabric without more parts; ``None`` if it cannot lack any."""
        ...

    def knobs(self, cluster: Cluster) -> Mapping[str, Sequence[Any]]:
        """Return what a buyer may choose: other values of options by name; empty if nothing.

        The cluster is as :meth:`adapt` returns it.
        """
        ...

    def replace(self, **options: Any) -> Fabric:
        """Return the fabric with some of its :meth:`parameters` changed, under its name.

        Raises
        ------
        FabricError
            If they cannot be so.
        """
        ...


class PacketTrees(FabricOptions):
    """A fabric of nothing but packet switches: a tree, or several that nothing joins."""

    #: NIC i of a server goes to ToR i of its group
    by_rail: ClassVar[bool] = False

    ecmp: Share | None = ECMP
    switch_ports: Count | None = SWITCH_PORTS
    servers_per_tor: Count | None = SERVERS_PER_TOR

    @model_validator(mode="after")
    def _failed_parts_are_named(self) -> Self:
        if self.failures().eps_nics:
            raise FabricError("failed: all NICs are on packet switches: expected nic:2/1")
        return self

    def candidates(self, cluster: Cluster, context: FabricContext | None) -> Mapping[Setting, Self]:
        """Return the strategies for all-to-alls that can differ, unless one was asked for."""
        if self.all_to_all != "best":
            return {}
        cluster = self.adapt(cluster)
        names = all_to_all_candidates(cluster, context, self.planes_of(cluster))
        return {Setting("all_to_all", name): self.replace(all_to_all=name) for name in names}

    def network(self, cluster: Cluster, context: FabricContext | None = None) -> Network:
        """Return the network for the core."""
        cluster = self.adapt(cluster)
        check_layout(cluster, context)
        return network_of(
            cluster,
            packet_all_to_all(self.all_to_all, cluster, context, self.planes_of(cluster)),
            parts=(self._eps(cluster),),
            notes=tuple(self._notes(cluster)),
        )

    def _notes(self, cluster: Cluster) -> list[str]:
        lost = self.failures()
        notes = [f"failed, and not used: {lost.parts}"] if lost.names else []
        if self.ecmp is None and not self.by_rail and self.tree(cluster).tiers(cluster.servers) > 1:
            # A rail has no such choice to make for what stays on it.
            notes.append(
                f"its switches choose uplinks by load (ecmp = {uplink_efficiency():g}); where they"
                " hash flows less is reached, and a rail is ahead of trees"
            )
        return notes

    def _eps(self, cluster: Cluster) -> Eps:
        eps = eps_of(self.tree(cluster), cluster, self.ecmp)
        return self._without(self.failures(), eps, cluster)

    def _without(self, failures: Failures, eps: Eps, cluster: Cluster) -> Eps:
        """Return the packet fabric without parts that have failed."""
        if not failures.names:
            return eps
        nics = cluster.nics_per_server
        named = (*failures.nics, *((server, 0) for server in failures.servers))
        if any(server >= cluster.servers or nic >= nics for server, nic in named):
            raise FabricError(
                f"{self.name}: failed: {failures.parts}: expected parts of {cluster.servers}"
                f" servers with {nics} NICs"
            )
        planes = self.planes_of(cluster)
        check_planes(self.name, failures, planes)
        each = nics // planes
        lost = {
            (server, plane * each + nic)
            for plane in failures.planes
            for server in range(cluster.servers)
            for nic in range(each)
        }
        lost |= {(server, nic) for server, nic in failures.nics if server not in failures.servers}
        return dataclasses.replace(
            eps, failed=tuple(sorted(lost)), replaced=tuple(sorted(set(failures.servers)))
        )

    def bill_of_materials(
        self,
        cluster: Cluster,
        counting: Counting | None = None,
        _network: Network | None = None,
    ) -> Bill:
        """Return NICs, used switch ports, transceivers and fibers."""
        cluster = self.adapt(cluster)
        return packet_bill(self.name, cluster, self.tree(cluster), counting or Counting())

    def knobs(self, cluster: Cluster) -> dict[str, Sequence[Any]]:
        """NICs of a server, its planes, and the switches that are sold in volume."""
        ports = ports_of_switch(self.switch_ports, cluster.rate_gbps)
        return {
            **super().knobs(cluster),
            "switch_ports": other_ports(cluster.rate_gbps, ports),
        }

    def planes_of(self, _cluster: Cluster) -> int:
        """Separate networks that the NICs of a server are dealt out to."""
        return 1

    def oversubscription(self) -> float:
        """Rate down over rate up of a ToR."""
        return 1.0

    def tree(self, cluster: Cluster) -> Tree:
        """Return where the servers sit; ``cluster`` as :meth:`adapt` returns it."""
        nics, planes = cluster.nics_per_server, self.planes_of(cluster)
        if nics % planes:
            raise FabricError(
                f"{self.name}: planes = {planes}: expected a divisor of the {nics} NICs of a server"
            )
        plane = plan_tree(
            self.name,
            cluster.servers,
            nics // planes,
            ports_of_switch(self.switch_ports, cluster.rate_gbps),
            ratio=self.oversubscription(),
            # one NIC on each plane is a rail by itself
            rail=self.by_rail and planes < nics,
            servers_per_tor=self.servers_per_tor,
        )
        return dataclasses.replace(plane, planes=planes)

    def _applied(self, cluster: Cluster, network: Network) -> dict[str, Any]:
        parameters = {"switch_ports": ports_of_switch(self.switch_ports, cluster.rate_gbps)}
        return super()._applied(cluster, network) | parameters


class PacketSwitched(PacketTrees):
    """Packet switches whose number of separate networks is an option."""

    planes: Count = Field(
        1,
        description="Separate networks, each with an equal part of a server's NICs; as many as NICs"
        " for one network per NIC (multi-plane, rail-only).",
    )
    failed: PartNames = FAILED

    def planes_of(self, _cluster: Cluster) -> int:
        """As given."""
        return self.planes

    def knobs(self, cluster: Cluster) -> dict[str, Sequence[Any]]:
        """NICs of a server, its planes, and the switches that are sold in volume."""
        knobs = super().knobs(cluster)
        switch_ports = knobs.pop("switch_ports")
        planes = sorted({1, cluster.nics_per_server} - {self.planes})
        return {**knobs, "planes": planes, "switch_ports": switch_ports}


def check_planes(fabric: str, lost: Failures, planes: int) -> None:
    """Refuse a failed plane of a fabric that does not have it, or has no other.

    Raises
    ------
    FabricError
        Naming what has failed.
    """
    if any(plane >= planes or planes == 1 for plane in lost.planes):
        raise FabricError(
            f"{fabric}: failed: {lost.parts}: expected one of several planes, there"
            f" {'is' if planes == 1 else 'are'} {planes}"
        )


def other_ports(rate_gbps: float, ports: int) -> list[int]:
    """Ports of other packet switches that are sold in volume for a rate."""
    sold = (box.ports for box in packet_switches(rate_gbps) if box.availability == "volume")
    return [other for other in sold if other != ports]


def ports_of_switch(given: int | None, rate_gbps: float) -> int:
    """Ports of a packet switch: as given, or those of the usual one for the rate of its ports."""
    return packet_switches(rate_gbps)[0].ports if given is None else given


def network_of(
    cluster: Cluster, all_to_all: tuple[str, str], parts: Sequence[Part], notes: Sequence[str] = ()
) -> Network:
    """Return a network that joins servers.

    Parameters
    ----------
    cluster
        The servers.
    all_to_all
        How all-to-alls are spread, and why.
    parts, notes
        Of the network.
    """
    chosen, reason = all_to_all
    return Network(
        servers=cluster.servers,
        gpus_per_server=cluster.gpus_per_server,
        nvswitch=cluster.nvswitch(),
        start_up=cluster.start_up(),
        all_to_all=chosen,
        all_to_all_reason=reason,
        parts=tuple(parts),
        notes=tuple(notes),
    )


def packet_all_to_all(
    wanted: str,
    cluster: Cluster,
    context: FabricContext | None,
    planes: int = 1,
) -> tuple[str, str]:
    """How a packet fabric spreads an all-to-all, and why."""
    if wanted == "best":
        return best_all_to_all(cluster, context, planes)
    if wanted == "flat" and crosses_planes(context, planes):
        return "rail", "a NIC reaches those of its plane alone ('flat' does not apply)"
    return wanted, "as asked"


def circuit_all_to_all(wanted: str) -> tuple[str, str]:
    """How a fabric of circuits between servers spreads it, and why.

    There is one strategy only; the reason says so where another one was requested of all fabrics
    of a comparison.
    """
    reason = "a circuit joins two servers; the GPU at its NIC sends for the others of its server"
    suffix = "" if wanted in {"best", "hierarchical"} else f" ('{wanted}' does not apply)"
    return "hierarchical", reason + suffix


def eps_of(tree: Tree, cluster: Cluster, ecmp: float | None) -> Eps:
    """Return the packet fabric for the core.

    A ToR is a bottleneck where it is oversubscribed, or by as much as flows reach of its uplinks:
    ``ecmp``, by default that of the built-in data.
    """
    uplinks = tree.uplinks_per_tor * cluster.nic_rate_bps
    share = uplink_efficiency() if ecmp is None else ecmp
    return Eps(
        nics=tree.nics * tree.planes,
        nic_rate_bps=cluster.nic_rate_bps,
        link_delay_ps=cluster.link_delay_ps,
        servers_per_tor=tree.servers_per_tor,
        servers_per_pod=tree.servers_per_pod,
        tor_uplink_bps=uplinks if tree.ratio > 1 else None,
        rails=tree.rails * tree.planes,
        tor_uplink_reached_bps=round(share * uplinks) if share < 1 else None,
        planes=tree.planes,
    )


def check_layout(cluster: Cluster, context: FabricContext | None) -> None:
    """Refuse a job that was laid out for other servers.

    Raises
    ------
    FabricError
        If a worker sits on a server that the cluster lacks, or is larger than a server.
    """
    if context is None or context.layout.worker_server.size == 0:
        return
    last = int(np.max(context.layout.worker_server))
    if last >= cluster.servers:
        raise FabricError(
            f"the job is laid out on {last + 1} servers, the cluster has {cluster.servers}"
            f" ({cluster.gpus} GPUs, {cluster.gpus_per_server} per server)"
        )
    if context.layout.gpus_per_worker > cluster.gpus_per_server:
        raise FabricError(
            f"the job has workers of {context.layout.gpus_per_worker} GPUs, servers have"
            f" {cluster.gpus_per_server}"
        )
