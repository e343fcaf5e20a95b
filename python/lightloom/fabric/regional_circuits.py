"""Circuits of regions as a part of a fabric: its network, its decisions and its bill.

Some NICs of every server end at a circuit switch of its region, the others at packet switches that
the fabric adds; :class:`RegionalCircuits` knows the former, and what of the latter counts. MixNet
(SIGCOMM 2025), sections 4.2 and 5: the packet switches carry everything but the all-to-alls of
expert parallelism, and what of them has no circuit.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lightloom.errors import FabricError
from lightloom.fabric.base import Fabric, check_layout
from lightloom.fabric.bill import Counting, Line, Switches, nic_lines
from lightloom.fabric.circuit_options import TIMING, CircuitOptions
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.network import Network, Ocs
from lightloom.fabric.reconfiguration import BringUp, CircuitRegion, Reconfiguration
from lightloom.fabric.regions import NO_REGION, plan_regions
from lightloom.hardware import nic_activation, switch_technology
from lightloom.schedule import (
    ALLOCATORS,
    WHEN_POLICIES,
    AllocationRequest,
    CircuitAllocator,
    Failures,
    Policy,
    RelayCost,
    SwitchTiming,
    allocate_region,
    allocator_by_name,
)
from lightloom.schedule.circuit_rules import CircuitRules, link_up_time_s, switching_times_s
from lightloom.units import PS_PER_S, to_ps

RegionOfServer = npt.NDArray[np.uint32]
#: returns the fabric with some options of its circuits changed, under the name that it has
WithCircuits = Callable[..., Fabric]
#: bits per second in Gb/s
_GBPS = 1e9


class PacketNics(NamedTuple):
    """The NICs of a server on packet switches, and the rate that each reaches."""

    each: int
    rate_bps: int


def exact_circuits(requests: Sequence[AllocationRequest]) -> list[npt.NDArray[np.uint16]]:
    """Propose circuits for the requests of a run by integer programming, each in some 10 ms."""
    return [
        allocate_region(r.demand, r.region, method="exact", previous=r.previous).circuits
        for r in requests
    ]


class RegionalCircuits(CircuitOptions):
    """Circuits of regions. Clusters are as the fabric adapts them."""

    def reconfiguration_of(self, changed: WithCircuits) -> Reconfiguration | None:
        """Return how circuits follow the demand; ``None`` if they are static."""
        if self.allocator == "static":
            return None
        first: dict[str, Fabric] = {}
        if self.when not in ("never", "oracle"):
            other = "block" if self.first == "reuse" else "reuse"
            first[other] = changed(first=other)
        return Reconfiguration(
            when=self.when,
            allocator=self._custom_allocator(),
            other_policies={
                policy: changed(when=policy) for policy in WHEN_POLICIES if policy != self.when
            },
            other_first=first,
            link_up=self._link_up(changed),
        )

    def _custom_allocator(self) -> CircuitAllocator | None:
        """What allocates circuits in the place of the core."""
        if self.allocator in ALLOCATORS:
            return None
        return exact_circuits if self.allocator == "exact" else allocator_by_name(self.allocator)

    def _link_up(self, changed: WithCircuits) -> BringUp | None:
        if self.when == "never":
            return None
        delay_s, measured_s = self.bring_up_s(), nic_activation().mean_s
        other_s = 0.0 if delay_s else measured_s
        return BringUp(delay_s, measured_s, other_s, changed(link_up_s=other_s))

    def circuit_ports(self) -> int:
        """Ports of a circuit switch."""
        return self.ocs_ports or switch_technology(self.technology).ports

    def largest_region(self) -> int:
        """Servers that one circuit switch takes, with the spare ones on it."""
        return max(0, self.circuit_ports() // self._ports_of_server() - self.spare_servers)

    def _ports_of_server(self) -> int:
        """Its ports on one circuit switch."""
        return self.ports if self.planes is None else 1

    def regions_per_switch(self, region: RegionOfServer) -> int:
        """Regions that share a circuit switch, as many as fit."""
        largest = int(np.bincount(region[region != NO_REGION]).max(initial=1))
        return max(1, self.largest_region() // largest)

    def may_split(self, region: RegionOfServer) -> bool:
        """Whether ``split`` is left open, and there is something to divide.

        On evens out all-to-alls that have the packet NICs to themselves, and is the estimate. It
        delays what else uses these, which only a simulation shows. Relays divide the bytes of a
        pair, and without regions there is nothing to divide.
        """
        return self.split is None and not self.relay and bool((region != NO_REGION).any())

    def regions(self, name: str, cluster: Cluster, context: FabricContext | None) -> RegionOfServer:
        """Return the region of each server, ``(servers,)``.

        Raises
        ------
        FabricError
            If there is no context, or a region exceeds its switch.
        """
        if context is None:
            raise FabricError(f"{name}: the layout of the job is needed to plan regions")
        check_layout(cluster, context)
        return plan_regions(
            name, context.layout, cluster.servers, self.region_servers, self.largest_region()
        )

    def packet_nics(self, name: str, nics_per_server: int) -> int:
        """NICs of a server that are on packet switches.

        Raises
        ------
        FabricError
            If there is none.
        """
        if self.ports >= nics_per_server:
            raise FabricError(
                f"{name}: ports = {self.ports}: a server has {nics_per_server} NICs"
                " and one at least must stay on the packet fabric"
            )
        return nics_per_server - self.ports

    def region_of(self, cluster: Cluster, nics: PacketNics) -> CircuitRegion:
        """Return what decides on circuits of a region, and what it consists of."""
        return CircuitRegion(
            rules=self._rules(cluster, nics),
            allocator=self.allocator,
            ports=self.ports,
            planes=self.planes,
            servers=self.region_servers or self.largest_region(),
            gpus_per_server=cluster.gpus_per_server,
        )

    def _rules(self, cluster: Cluster, nics: PacketNics) -> CircuitRules:
        return CircuitRules(
            circuit_gbps=cluster.nic_rate_bps / _GBPS,
            eps_gbps=nics.each * nics.rate_bps / _GBPS,
            eps_nics=nics.each,
            split=self.split is not False,
            policy=Policy(
                allocator=self.allocator if self.allocator in ALLOCATORS else "best",
                when=self.when,
                relaying=self._relay_cost(cluster),
            ),
            timing=self.switch_timing(),
        )

    def ocs(
        self,
        cluster: Cluster,
        nics: PacketNics,
        region: RegionOfServer,
        failures: Failures | None = None,
    ) -> Ocs:
        """Return the part of the network, which is the rules over several regions."""
        rules = self._rules(cluster, nics)
        cost = rules.policy.relaying
        return Ocs(
            ports=self.ports,
            nic_rate_bps=cluster.nic_rate_bps,
            circuit_delay_ps=cluster.link_delay_ps,
            region_of_server=region,
            allocator=rules.policy.allocator,
            split=rules.split,
            when=rules.policy.when,
            first=self.first,
            timing=rules.timing,
            relaying=None if cost is None else (cost.chunk_bytes, to_ps(cost.relay_delay_s)),
            planes=self.planes,
            failures=failures,
            regions_per_switch=self.regions_per_switch(region),
            spare_servers=self.spare_servers,
        )

    def _relay_cost(self, cluster: Cluster) -> RelayCost | None:
        if not self.relay:
            return None
        costs: dict[str, Any] = {
            "chunk_bytes": self.relay_chunk_bytes,
            "relay_delay_s": self.relay_delay_s,
        }
        inside_bps = cluster.nvswitch().gpu_rate_bps * cluster.gpus_per_server
        return RelayCost(
            nvswitch_gbps=inside_bps / _GBPS,
            **{key: value for key, value in costs.items() if value is not None},
        )

    def switch_timing(self) -> SwitchTiming:
        """How long a switch takes."""
        fixed_s, per_pair_s = self.switching_s()
        timing = {"fixed_s": fixed_s, "per_pair_s": per_pair_s, "link_up_s": self.bring_up_s()}
        return SwitchTiming(**{key: getattr(self, key) for key in TIMING} | timing)

    def switching_s(self) -> tuple[float, float]:
        """Switching time: a fixed part, and a part for each pair that changes."""
        fixed_s = self.fixed_s
        if fixed_s is None:
            fixed_s = switch_technology(self.technology).reconfig_delay_s
        return switching_times_s(fixed_s, self.per_pair_s)

    def bring_up_s(self) -> float:
        """Time from settled circuits to links that carry traffic."""
        return link_up_time_s(self.link_up_s)

    def circuit_lines(self, cluster: Cluster, servers: int, counting: Counting) -> list[Line]:
        """Return for each optical NIC itself, its transceiver, its switch port and its fiber.

        The far end of a circuit is the NIC, transceiver and fiber of another server.
        """
        optical, rate = servers * self.ports, cluster.rate_gbps
        ports = optical * counting.ocs_ports_per_nic
        return [
            *nic_lines(optical, rate, counting),
            Line(counting.circuit_transceiver, rate, optical),
            Line("ocs_port", rate, ports, self.technology),
            Line("fiber", rate, optical),
        ]

    def circuit_switches(self, cluster: Cluster, network: Network | None) -> Switches:
        """Circuit switches: one of a region's for each NIC of a server where they are planes.

        Regions share a circuit switch where their ports fit; without a network, they fill switches.
        """
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

    def check_links(self, name: str, lost: Sequence[tuple[int, int]], each: int, what: str) -> None:
        """Refuse failures that leave a server no link to packet switches.

        Parameters
        ----------
        name
            Of the fabric.
        lost, each, what
            Links to packet switches that have failed, as (server, link), those of a server, and
            what messages call them.

        Raises
        ------
        FabricError
            Naming the first such server.
        """
        counts = Counter(server for server, _ in set(map(tuple, lost)))
        for server, count in sorted(counts.items()):
            if count >= each:
                raise FabricError(
                    f"{name}: all {what} of server {server} ({each}) have failed; lightloom "
                    "control relays its traffic through an optical peer, which is not simulated: "
                    f"leave one of them, or name server:{server}, which a spare one replaces"
                )

    def spares(self, switches: Switches) -> int:
        """Spare servers on circuit switches, of which each plane has as many."""
        return self.spare_servers * (switches.count // switches.planes)

    def not_spared(self, region: RegionOfServer, failures: Failures) -> Failures:
        """What has failed less the servers that a spare one on their circuit switch replaces."""
        if not self.spare_servers:
            return failures
        spares: dict[int, int] = {}
        left = []
        for server in sorted(set(failures.servers)):
            if server >= len(region) or region[server] == NO_REGION:
                left.append(server)
                continue
            switch = int(region[server]) // self.regions_per_switch(region)
            spares[switch] = spares.get(switch, 0) + 1
            if spares[switch] > self.spare_servers:
                left.append(server)
        return dataclasses.replace(failures, servers=left)

    def applied(self, network: Network) -> dict[str, Any]:
        """What applies of the options that depend on the job or on built-in data."""
        ocs = network.part(Ocs)
        assert ocs is not None
        sizes = np.bincount(ocs.region_of_server[ocs.region_of_server != NO_REGION])
        chunk, delay_ps = (None, None) if ocs.relaying is None else ocs.relaying
        fixed_s, per_pair_s = self.switching_s()
        return {
            "region_servers": int(sizes.max(initial=0)),
            "split": ocs.split,
            "ocs_ports": self.circuit_ports(),
            "fixed_s": fixed_s,
            "per_pair_s": per_pair_s,
            "link_up_s": self.bring_up_s(),
            "relay_chunk_bytes": chunk,
            "relay_delay_s": None if delay_ps is None else delay_ps / PS_PER_S,
        }

    def notes(self, ocs: Ocs) -> list[str]:
        """What is to be known of a network with this part."""
        notes = [self._region_note(ocs.region_of_server)]
        if self.may_split(ocs.region_of_server):
            notes.append("split on: an estimate, which leaves out what else uses the packet NICs")
        if ocs.relaying is not None:
            chunk, delay_ps = ocs.relaying
            notes.append(
                "servers of a region pass bytes of others on where that is faster, in chunks of "
                f"{chunk:,} bytes and {delay_ps / 1e6:g} us each"
            )
        return notes

    def _region_note(self, region: RegionOfServer) -> str:
        used = region[region != NO_REGION]
        if used.size == 0:
            return "no region: every EP group is inside one server"
        size = np.bincount(used)
        return f"{len(size)} regions of up to {size.max()} servers, {self.ports} circuits each"
