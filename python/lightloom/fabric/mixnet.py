"""MixNet: some NICs of a server on a fat-tree, the others on a circuit switch of its region.

MixNet (SIGCOMM 2025), sections 4.2 and 5. The packet fabric carries everything but the all-to-alls
of expert parallelism, and what of them has no circuit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from pydantic import model_validator

from lightloom.errors import FabricError
from lightloom.fabric.base import (
    Fabric,
    check_layout,
    circuit_all_to_all,
    eps_of,
    network_of,
    other_ports,
    ports_of_switch,
)
from lightloom.fabric.bill import Bill, Counting, Line, Switches, eps_lines, merged, nic_lines
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.fabric_options import Setting
from lightloom.fabric.mixnet_options import TIMING, MixNetOptions
from lightloom.fabric.network import Eps, Network, Ocs
from lightloom.fabric.reconfiguration import BringUp, Reconfiguration
from lightloom.fabric.regions import NO_REGION, plan_regions
from lightloom.fabric.tree import Tree, plan_tree, tree_links, tree_switches
from lightloom.hardware import measured_turnaround, nic_activation, switch_technology
from lightloom.schedule import (
    ALLOCATORS,
    WHEN_POLICIES,
    AllocationRequest,
    CircuitAllocator,
    Failures,
    RelayCost,
    SwitchTiming,
    allocate_region,
    allocator_by_name,
)
from lightloom.units import PS_PER_S, to_ps


def exact_circuits(requests: Sequence[AllocationRequest]) -> list[npt.NDArray[np.uint16]]:
    """Propose circuits for the requests of a run by integer programming, each in some 10 ms."""
    return [
        allocate_region(r.demand, r.region, method="exact", previous=r.previous).circuits
        for r in requests
    ]


class MixNet(MixNetOptions):
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
        if self.allocator == "static":
            return None
        label = self.name
        first: dict[str, Fabric] = {}
        if self.when not in ("never", "oracle"):
            other = "block" if self.first == "reuse" else "reuse"
            first[other] = self.replace(first=other, label=label)
        return Reconfiguration(
            when=self.when,
            allocator=self._custom_allocator(),
            other_policies={
                policy: self.replace(when=policy, label=label)
                for policy in WHEN_POLICIES
                if policy != self.when
            },
            other_first=first,
            link_up=self._link_up(),
        )

    def _custom_allocator(self) -> CircuitAllocator | None:
        """What allocates circuits in the place of the core."""
        if self.allocator in ALLOCATORS:
            return None
        return exact_circuits if self.allocator == "exact" else allocator_by_name(self.allocator)

    def _link_up(self) -> BringUp | None:
        if self.when == "never":
            return None
        delay_s, measured_s = self.bring_up_s(), nic_activation().mean_s
        other_s = 0.0 if delay_s else measured_s
        other = self.replace(link_up_s=other_s, label=self.name)
        return BringUp(delay_s, measured_s, other_s, other)

    def circuit_ports(self) -> int:
        """Ports of a circuit switch."""
        return self.ocs_ports or switch_technology(self.technology).ports

    def largest_region(self) -> int:
        """Servers that one circuit switch takes, with the spare ones on it."""
        return max(0, self.circuit_ports() // self._ports_of_server() - self.spare_servers)

    def _ports_of_server(self) -> int:
        """Its ports on one circuit switch."""
        return self.ports if self.planes is None else 1

    def _regions_per_switch(self, region: np.typing.NDArray[np.uint32]) -> int:
        """Regions that share a circuit switch, as many as fit."""
        largest = int(np.bincount(region[region != NO_REGION]).max(initial=1))
        return max(1, self.largest_region() // largest)

    def knobs(self, cluster: Cluster) -> dict[str, Sequence[Any]]:
        """Its optical NICs, and the packet switches that are sold in volume."""
        nics = cluster.nics_per_server
        rate, ports = self._eps_cluster(cluster).rate_gbps, self._switch_ports(cluster)
        return {
            "ports": sorted({max(1, nics * share // 4) for share in (1, 2, 3)} - {self.ports}),
            "switch_ports": other_ports(rate, ports),
        }

    def candidates(self, cluster: Cluster, context: FabricContext | None) -> Mapping[Setting, Self]:
        """Return the fabric with its ``split`` on and off, unless one was asked for.

        On evens out all-to-alls that have the packet NICs to themselves, and is the estimate. It
        delays what else uses these, which only a simulation shows. Relays divide the bytes of a
        pair, and without regions there is nothing to divide.
        """
        if not self._may_split(self._regions(self.adapt(cluster), context)):
            return {}
        return {
            Setting("split", name): self.replace(split=split)
            for name, split in (("on", True), ("off", False))
        }

    def _may_split(self, region: np.typing.NDArray[np.uint32]) -> bool:
        """Whether ``split`` is left open, and there is something to divide."""
        return self.split is None and not self.relay and bool((region != NO_REGION).any())

    def _regions(
        self, cluster: Cluster, context: FabricContext | None
    ) -> np.typing.NDArray[np.uint32]:
        """Region of each server, ``(servers,)``."""
        if context is None:
            raise FabricError(f"{self.name}: the layout of the job is needed to plan regions")
        check_layout(cluster, context)
        return plan_regions(
            self.name, context.layout, cluster.servers, self.region_servers, self.largest_region()
        )

    def network(self, cluster: Cluster, context: FabricContext | None = None) -> Network:
        """Return the network for the core; ``split`` is on where it is left open.

        Raises
        ------
        FabricError
            If there is no context, the NICs do not suffice or a region exceeds its switch.
        """
        cluster = self.adapt(cluster)
        region = self._regions(cluster, context)
        tree = self._tree(cluster)
        self._check_eps(tree.nics)
        return network_of(
            cluster,
            circuit_all_to_all(self.all_to_all),
            parts=(self._eps(tree, cluster), self._ocs(cluster, region)),
            notes=(
                self._region_note(region),
                *self._split_notes(region),
                *self._relay_notes(),
                *self._failure_notes(),
            ),
        )

    def _not_spared(self, region: np.typing.NDArray[np.uint32]) -> Failures | None:
        """What has failed less the servers that a spare one on their circuit switch replaces."""
        failures = self.failures()
        if not self.failed:
            return None
        if not self.spare_servers:
            return failures
        spares: dict[int, int] = {}
        left = []
        for server in sorted(set(failures.servers)):
            if server >= len(region) or region[server] == NO_REGION:
                left.append(server)
                continue
            switch = int(region[server]) // self._regions_per_switch(region)
            spares[switch] = spares.get(switch, 0) + 1
            if spares[switch] > self.spare_servers:
                left.append(server)
        return dataclasses.replace(failures, servers=left)

    def _eps(self, tree: Tree, cluster: Cluster) -> Eps:
        eps = eps_of(tree, self._eps_cluster(cluster), self.ecmp)
        there = {server for server in self.failures().servers if server < cluster.servers}
        return dataclasses.replace(eps, replaced=tuple(sorted(there)))

    def _check_eps(self, nics: int) -> None:
        """Refuse failures that leave a server without EPS, which only a controller works around."""
        eps = set(map(tuple, self.failures().eps_nics))
        for server in sorted({server for server, _ in eps}):
            if nics <= sum(other == server for other, _ in eps):
                raise FabricError(
                    f"{self.name}: all EPS NICs of server {server} ({nics}) have failed; lightloom "
                    "control relays its traffic through an optical peer, which is not simulated: "
                    f"leave one of them, or name server:{server}, which a spare one replaces"
                )

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
        circuits = self._circuit_switches(cluster, network)
        servers = cluster.servers + self.spare_servers * (circuits.count // circuits.planes)
        tree, eps = self._tree(cluster, servers), self._eps_cluster(cluster)
        optical = servers * self.ports
        links = tree_links(tree, servers, counting.tiers)
        conventions = {"spare": f"NICs and ports of {servers - cluster.servers} servers"}
        lines = [
            *nic_lines(servers * tree.nics, eps.rate_gbps, counting),
            *eps_lines(links, eps.rate_gbps, counting),
            *nic_lines(optical, cluster.rate_gbps, counting),
            Line(counting.circuit_transceiver, cluster.rate_gbps, optical),
            Line(
                "ocs_port", cluster.rate_gbps, optical * counting.ocs_ports_per_nic, self.technology
            ),
            Line("fiber", cluster.rate_gbps, optical),
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

    def _circuit_switches(self, cluster: Cluster, network: Network | None) -> Switches:
        """Circuit switches: one of a region's for each NIC of a server where they are planes."""
        planes = 1 if self.planes is None else self.ports
        servers, ports = cluster.servers, self.circuit_ports()
        each = self._ports_of_server()
        count = -(-servers * each // max(1, ports - self.spare_servers * each))
        ocs = None if network is None else network.part(Ocs)
        if ocs is not None:
            region = ocs.region_of_server
            sizes = np.bincount(region[region != NO_REGION])
            count, servers = -(-len(sizes) // ocs.regions_per_switch), int(sizes.sum())
        return Switches(
            component="ocs_port",
            rate_gbps=cluster.rate_gbps,
            ports=ports,
            count=count * planes,
            used=(servers + count * self.spare_servers) * self.ports,
            planes=planes,
            technology=self.technology,
            availability=switch_technology(self.technology).availability,
        )

    def _tree(self, cluster: Cluster, servers: int | None = None) -> Tree:
        if self.ports >= cluster.nics_per_server:
            raise FabricError(
                f"{self.name}: ports = {self.ports}: a server has {cluster.nics_per_server} NICs"
                " and one at least must stay on the packet fabric"
            )
        return plan_tree(
            self.name,
            servers or cluster.servers,
            cluster.nics_per_server - self.ports,
            self._switch_ports(cluster),
            servers_per_tor=self.servers_per_tor,
        )

    def _switch_ports(self, cluster: Cluster) -> int:
        return ports_of_switch(self.switch_ports, self._eps_cluster(cluster).rate_gbps)

    def _eps_cluster(self, cluster: Cluster) -> Cluster:
        return dataclasses.replace(cluster, rate_gbps=self.eps_nic_gbps or cluster.rate_gbps)

    def _ocs(self, cluster: Cluster, region: np.typing.NDArray[np.uint32]) -> Ocs:
        return Ocs(
            ports=self.ports,
            nic_rate_bps=cluster.nic_rate_bps,
            circuit_delay_ps=cluster.link_delay_ps,
            region_of_server=region,
            allocator=self.allocator if self.allocator in ALLOCATORS else "best",
            split=self.split is not False,
            when=self.when,
            first=self.first,
            timing=self.switch_timing(),
            relaying=self._relaying(),
            planes=self.planes,
            failures=self._not_spared(region),
            regions_per_switch=self._regions_per_switch(region),
            spare_servers=self.spare_servers,
        )

    def _applied(self, cluster: Cluster, network: Network) -> dict[str, Any]:
        ocs = network.part(Ocs)
        assert ocs is not None
        sizes = np.bincount(ocs.region_of_server[ocs.region_of_server != NO_REGION])
        relaying = (None, None) if ocs.relaying is None else ocs.relaying
        parameters = {
            "eps_nic_gbps": self._eps_cluster(cluster).rate_gbps,
            "region_servers": int(sizes.max(initial=0)),
            "split": ocs.split,
            "switch_ports": self._switch_ports(cluster),
            "ocs_ports": self.circuit_ports(),
            "fixed_s": self.switching_s()[0] if self.fixed_s is None else self.fixed_s,
            "per_pair_s": self.switching_s()[1],
            "link_up_s": self.bring_up_s(),
            "relay_chunk_bytes": relaying[0],
            "relay_delay_s": None if relaying[1] is None else relaying[1] / PS_PER_S,
        }
        return super()._applied(cluster, network) | parameters

    def _failure_notes(self) -> list[str]:
        return [f"failed, and not used: {self.failures().parts}"] if self.failed else []

    def _split_notes(self, region: np.typing.NDArray[np.uint32]) -> list[str]:
        if not self._may_split(region):
            return []
        return ["split on: an estimate, which leaves out what else uses the packet NICs"]

    def _relay_notes(self) -> list[str]:
        relaying = self._relaying()
        if relaying is None:
            return []
        chunk, delay_ps = relaying
        return [
            "servers of a region pass bytes of others on where that is faster, in chunks of "
            f"{chunk:,} bytes and {delay_ps / 1e6:g} us each"
        ]

    def _relaying(self) -> tuple[int, int] | None:
        if not self.relay:
            return None
        costs: dict[str, Any] = {
            "chunk_bytes": self.relay_chunk_bytes,
            "relay_delay_s": self.relay_delay_s,
        }
        cost = RelayCost(**{key: value for key, value in costs.items() if value is not None})
        return cost.chunk_bytes, to_ps(cost.relay_delay_s)

    def switch_timing(self) -> SwitchTiming:
        """How long a switch takes."""
        fixed_s, per_pair_s = self.switching_s()
        timing = {"fixed_s": fixed_s, "per_pair_s": per_pair_s, "link_up_s": self.bring_up_s()}
        return SwitchTiming(**{key: getattr(self, key) for key in TIMING} | timing)

    def switching_s(self) -> tuple[float, float]:
        """Switching time: a fixed part, and a part for each pair that changes."""
        fixed_s, per_pair_s = self.fixed_s, 0.0
        if isinstance(fixed_s, str):
            none, single = measured_turnaround(0), measured_turnaround(1)
            is_mean = fixed_s == "measured"
            fixed_s = none.mean_s if is_mean else none.p99_s
            per_pair_s = (single.mean_s if is_mean else single.p99_s) - fixed_s
        elif fixed_s is None:
            fixed_s = switch_technology(self.technology).reconfig_delay_s
        return fixed_s, per_pair_s if self.per_pair_s is None else self.per_pair_s

    def bring_up_s(self) -> float:
        """Time from settled circuits to links that carry traffic."""
        if isinstance(self.link_up_s, str):
            return nic_activation().mean_s
        return self.link_up_s

    def _region_note(self, region: np.typing.NDArray[np.uint32]) -> str:
        used = region[region != NO_REGION]
        if used.size == 0:
            return "no region: every EP group is inside one server"
        size = np.bincount(used)
        return f"{len(size)} regions of up to {size.max()} servers, {self.ports} circuits each"
