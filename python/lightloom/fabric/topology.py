"""A topology that a file describes: packet switches that are joined in any way.

Tiers of switches and rules of links (:mod:`lightloom.fabric.topology_options`) say in a few lines
what is joined; ``docs/how-to/describe-a-topology.md`` shows how. Bytes take all shortest paths,
evenly by rate; NIC i of a server sends to NIC i of another one. What a link costs and draws is that
of its parts in the lists of prices and powers, or what the file says.

With a table ``[circuits]`` some NICs of every server end at circuit switches of its region instead
(:mod:`lightloom.fabric.regional_circuits`), which carry all-to-alls of expert parallelism.

Left out: paths longer than the shortest ones, links whose directions differ.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from lightloom.errors import FabricError, did_you_mean, echo
from lightloom.fabric.all_to_all import all_to_all_candidates
from lightloom.fabric.base import (
    check_layout,
    check_planes,
    circuit_all_to_all,
    network_of,
    packet_all_to_all,
    ports_of_switch,
)
from lightloom.fabric.bill import COMPONENTS, Bill, Counting, Line, Switches, merged, nic_lines
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.fabric_options import FabricOptions, Setting
from lightloom.fabric.interconnect import uplink_efficiency
from lightloom.fabric.network import Network, Part, SwitchGraph
from lightloom.fabric.option_types import ECMP, MAXIMUM, Count, PartNames, Share
from lightloom.fabric.reconfiguration import CircuitRegion, Reconfiguration
from lightloom.fabric.regional_circuits import PacketNics, RegionalCircuits
from lightloom.fabric.topology_graph import TopologyGraph, topology_graph
from lightloom.fabric.topology_options import SERVERS, LinkRule, Rules, SwitchTier, Tiers
from lightloom.schedule import Failures
from lightloom.units import show_things, to_ps


def _of_components(value: dict[str, float]) -> dict[str, float]:
    for name, number in value.items():
        if name not in COMPONENTS:
            hint = did_you_mean(name[:60], COMPONENTS)
            raise ValueError(f"unknown part {echo(name)}{hint}; known: {', '.join(COMPONENTS)}")
        if not 0 <= number <= MAXIMUM:
            raise ValueError(f"{name} = {number:g}: expected 0 to {MAXIMUM:.0e}")
    return value


#: a number for some of the components
OfParts = Annotated[dict[str, float], AfterValidator(_of_components)]


class Topology(FabricOptions):
    """Packet switches that are joined as a file says."""

    kind: ClassVar[str] = "topology"
    title: ClassVar[str] = "topology"

    switches: Tiers = Field(description="The kinds of switches by name, each a table.")
    links: Rules = Field(description="What they join: a list of rules, each a table.")
    planes: Annotated[int, Field(gt=0, le=64, strict=True)] = Field(
        1, description="How many times all switches and links are there, apart from each other."
    )
    servers: Count | None = Field(
        None, description="Servers that are described at most; by default as many as there are."
    )
    ecmp: Share | None = ECMP
    failed: PartNames = Field(
        (),
        description="Parts that are never used: nic:2/1 (server/NIC; an optical one where there are"
        " circuits), eps:2/9 (server/link), plane:0, or server:3, which a spare one in its place"
        " replaces; it has no circuits unless spare_servers suffice.",
    )
    prices_usd: OfParts = Field(
        {}, description="Prices of parts by name; by default those of the price list."
    )
    watts: OfParts = Field({}, description="Power of parts by name; by default as published.")
    circuits: RegionalCircuits | None = Field(
        None,
        description="Circuit switches, and which NICs of every server are on them: a table of"
        " options of mixnet.",
    )

    @model_validator(mode="after")
    def _failed_parts_are_named(self) -> Self:
        self.failures()
        return self

    def __hash__(self) -> int:
        return hash((self.name, tuple(self.switches.items()), self.links, self.planes))

    def graph(self, servers: int) -> TopologyGraph:
        """Return what joins so many servers.

        Raises
        ------
        FabricError
            If the file describes fewer, or does not join them.
        """
        if self.servers is not None and servers > self.servers:
            gpus = f" of {self.gpus_per_server} GPUs" if self.gpus_per_server else ""
            raise FabricError(
                f"{self.name}: describes {self.servers:,} servers{gpus}, the cluster has"
                f" {servers:,}"
            )
        try:
            return _graph(servers, self.planes, tuple(self.switches.items()), self.links)
        except FabricError as error:
            raise FabricError(f"{self.name}: {error}") from None

    def adapt(self, cluster: Cluster) -> Cluster:
        """Return the cluster with NICs of the rate of their links, where the file says it."""
        cluster = super().adapt(cluster)
        graph, nics = self.graph(cluster.servers), self.packet_nics(cluster)
        links = graph.links_per_server
        if links % nics:
            optical = cluster.nics_per_server - nics
            raise FabricError(
                f"{self.name}: a server has {links} links for {nics} NICs"
                f"{' beside those of circuits' if optical else ''}: expected as many for"
                f" each; set nics_per_server, such as {links + optical}"
            )
        rates = {self.links[rule].rate_gbps for rule in graph.server_rules[0].tolist()}
        if len(rates) > 1:
            shown = " and ".join("none" if rate is None else f"{rate:g}" for rate in rates)
            raise FabricError(
                f"{self.name}: links of servers: rate_gbps = {shown}: expected one rate"
            )
        rate = rates.pop()
        return (
            cluster if rate is None else dataclasses.replace(cluster, rate_gbps=rate * links / nics)
        )

    def packet_nics(self, cluster: Cluster) -> int:
        """NICs of a server that links join, which are all without circuits."""
        nics = cluster.nics_per_server
        return nics if self.circuits is None else self.circuits.packet_nics(self.name, nics)

    def circuit_region(self, cluster: Cluster) -> CircuitRegion | None:
        """Return what a controller must know of a region; ``None`` without circuits."""
        if self.circuits is None:
            return None
        cluster = self.adapt(cluster)
        return self.circuits.region_of(cluster, self._reached(cluster))

    def _reached(self, cluster: Cluster) -> PacketNics:
        """The NICs of a server that links join, as the network has them."""
        graph, nics = self.graph(cluster.servers), self.packet_nics(cluster)
        rate_bps = self._port_rate_bps(graph, cluster)
        return PacketNics(nics, graph.links_per_server // nics * rate_bps)

    def _port_rate_bps(self, graph: TopologyGraph, cluster: Cluster) -> int:
        rule = self.links[int(graph.server_rules[0, 0])]
        return cluster.effective_nic_bps(self.rate_of(rule, cluster))

    def reconfiguration(self) -> Reconfiguration | None:
        """Return how circuits follow the demand; ``None`` if none do."""
        if self.circuits is None:
            return None
        return self.circuits.reconfiguration_of(self._with_circuits)

    def _with_circuits(self, **options: Any) -> Self:
        """The topology with some options of its circuits changed, under its name."""
        assert self.circuits is not None
        given = self.circuits.model_dump(exclude_unset=True)
        return self.replace(label=self.name, circuits=given | options)

    def network(self, cluster: Cluster, context: FabricContext | None = None) -> Network:
        """Return the network for the core; where ``circuits.split`` is left open it is on.

        Raises
        ------
        FabricError
            If the cluster is larger than what is described; with circuits also if there is no
            context, or a region exceeds its switch.
        """
        cluster = self.adapt(cluster)
        check_layout(cluster, context)
        graph = self.graph(cluster.servers)
        planes = graph.planes_of_nics(self.packet_nics(cluster))
        count = int(graph.pairs[:, 2].sum()) * graph.planes
        notes = [f"{graph.switches * graph.planes:,} switches, {count:,} links between them"]
        if self.failed:
            notes.append(f"failed, and not used: {self.failures().parts}")
        parts: list[Part] = [self._part(graph, cluster)]
        if self.circuits is None:
            spread = packet_all_to_all(self.all_to_all, cluster, context, planes)
        else:
            region = self.circuits.regions(self.name, cluster, context)
            lost = self._lost_by_regions(self.circuits, graph, cluster) if self.failed else None
            lost = lost and self.circuits.not_spared(region, lost)
            ocs = self.circuits.ocs(cluster, self._reached(cluster), region, lost)
            parts.append(ocs)
            notes += self.circuits.notes(ocs)
            spread = circuit_all_to_all(self.all_to_all)
        return network_of(cluster, spread, parts, notes)

    def _part(self, graph: TopologyGraph, cluster: Cluster) -> SwitchGraph:
        planes = np.arange(graph.planes) * graph.switches
        a, b, count, rules = graph.pairs.T
        rates = np.array([cluster.effective_nic_bps(self.rate_of(r, cluster)) for r in self.links])
        delays = np.array([to_ps(self.delay_of(rule, cluster)) for rule in self.links])
        ends = [np.concatenate([end + plane for plane in planes]) for end in (a, b)]
        each = (count, rates[rules], delays[rules], rules)
        columns = [*ends, *(np.tile(column, graph.planes) for column in each)]
        nics = self.packet_nics(cluster)
        first_rule = int(graph.server_rules[0, 0])
        return SwitchGraph(
            nics=nics,
            ports=graph.links_per_server // nics,
            port_rate_bps=self._port_rate_bps(graph, cluster),
            port_delay_ps=int(delays[first_rule]),
            switches=graph.switches * graph.planes,
            switch_of_port=graph.ports(nics).reshape(-1).astype(np.uint32),
            bundles=np.column_stack(columns).astype(np.uint64),
            layers=tuple(_layer(rule) for rule in self.links),
            reached=uplink_efficiency() if self.ecmp is None else self.ecmp,
            failed=() if self.circuits is not None else self._failed_links(graph, cluster),
            tiers=tuple((tier.name, tier.first, tier.count) for tier in graph.tiers.values()),
            planes=graph.planes,
        )

    def _failed_links(self, graph: TopologyGraph, cluster: Cluster) -> tuple[tuple[int, int], ...]:
        """Links of servers that are lost, as (server, link); with circuits no NIC is named here."""
        lost, nics, links = self.failures(), self.packet_nics(cluster), graph.links_per_server
        each, are_optical = links // nics, self.circuits is not None
        on_links = () if are_optical else lost.nics
        named = [(server, nic * each + link) for server, nic in on_links for link in range(each)]
        named += lost.eps_nics
        if any(server >= graph.servers or link >= links for server, link in named) or any(
            server >= graph.servers for server in lost.servers
        ):
            beside = " beside those of circuits" if are_optical else ""
            raise FabricError(
                f"{self.name}: failed: {lost.parts}: expected parts of {graph.servers} servers with"
                f" {nics} NICs of {show_things(each, 'link')}{beside}"
            )
        if self.circuits is None or self.circuits.planes is None:
            check_planes(self.name, lost, graph.planes)
            on_plane = graph.ports(nics) // graph.switches
            of_planes = np.argwhere(np.isin(on_plane, list(lost.planes)))
            named += [(int(server), int(link)) for server, link in of_planes]
        return tuple(sorted(set(named)))

    def _lost_by_regions(
        self, circuits: RegionalCircuits, graph: TopologyGraph, cluster: Cluster
    ) -> Failures:
        """What has failed as regions name it: planes are those of circuits, where there are such.

        Raises
        ------
        FabricError
            If a part is not there, or a server has no link left.
        """
        lost, links = self.failures(), self._failed_links(graph, cluster)
        planes = () if circuits.planes is None else lost.planes
        for server, nic in [*lost.nics, *((0, plane) for plane in planes)]:
            if server >= cluster.servers or nic >= circuits.ports:
                raise FabricError(
                    f"{self.name}: failed: {lost.parts}: expected parts of {cluster.servers}"
                    f" servers with {circuits.ports} optical NICs"
                )
        circuits.check_links(self.name, links, graph.links_per_server, "links")
        return dataclasses.replace(lost, eps_nics=links, planes=planes)

    def rate_of(self, rule: LinkRule, cluster: Cluster) -> float:
        """Rate of a link in Gb/s; ``cluster`` as :meth:`adapt` returns it."""
        if rule.rate_gbps is not None:
            return rule.rate_gbps
        links = self.graph(cluster.servers).links_per_server
        return cluster.rate_gbps * self.packet_nics(cluster) / links

    def delay_of(self, rule: LinkRule, cluster: Cluster) -> float:
        """Propagation delay of a link in seconds."""
        return cluster.link_delay_s if rule.delay_s is None else rule.delay_s

    def candidates(self, cluster: Cluster, context: FabricContext | None) -> Mapping[Setting, Self]:
        """Return the strategies for all-to-alls that can differ, unless one was asked for.

        With circuits, ``circuits.split`` on and off in their place.
        """
        if self.circuits is not None:
            region = self.circuits.regions(self.name, self.adapt(cluster), context)
            choices = (("on", True), ("off", False)) if self.circuits.may_split(region) else ()
            given = self.circuits.model_dump(exclude_unset=True)
            return {
                Setting("split", name): self.replace(circuits=given | {"split": split})
                for name, split in choices
            }
        if self.all_to_all != "best":
            return {}
        cluster = self.adapt(cluster)
        planes = self.graph(cluster.servers).planes_of_nics(cluster.nics_per_server)
        names = all_to_all_candidates(cluster, context, planes)
        return {Setting("all_to_all", name): self.replace(all_to_all=name) for name in names}

    def knobs(self, _cluster: Cluster) -> dict[str, Sequence[Any]]:
        """Nothing: what may be chosen is what the file says."""
        return {}

    def bill_of_materials(
        self,
        cluster: Cluster,
        counting: Counting | None = None,
        network: Network | None = None,
    ) -> Bill:
        """Return NICs, ports, what ends links, and fibers: those of all links that are described.

        With circuits, what is of them as well, and what joins spare servers; regions share circuit
        switches as their ports fit.

        Raises
        ------
        FabricError
            If a switch has more links than ports, or the file joins fewer servers.
        """
        cluster, counting = self.adapt(cluster), counting or Counting()
        circuits = self.circuits
        switches = None if circuits is None else circuits.circuit_switches(cluster, network)
        spare = 0 if circuits is None or switches is None else circuits.spares(switches)
        servers = cluster.servers + spare
        graph = self._graph_with_spares(cluster.servers, spare)
        links = self.links_of_rules(graph)
        lines = nic_lines(servers * self.packet_nics(cluster), cluster.rate_gbps, counting)
        for rule, count in zip(self.links, links, strict=True):
            lines += self._lines(rule, int(count), cluster, counting)
        boxes = [self._boxes(name, graph, cluster) for name in graph.tiers]
        if circuits is not None and switches is not None:
            lines += circuits.circuit_lines(cluster, servers, counting)
            boxes.append(switches)
        priced = [
            dataclasses.replace(
                line,
                price_usd=self.prices_usd.get(line.component),
                power_w=self.watts.get(line.component),
            )
            for line in lines
        ]
        return Bill(
            fabric=self.name,
            gpus=cluster.gpus,
            servers=cluster.servers,
            lines=merged(priced),
            switches=tuple(boxes),
            fiber_length_m=counting.length_m,
            conventions=counting.conventions(tiers=len(graph.tiers))
            | ({"spare": f"NICs and ports of {show_things(spare, 'server')}"} if spare else {}),
        )

    def _graph_with_spares(self, servers: int, spare: int) -> TopologyGraph:
        graph = self.graph(servers)
        if not spare:
            return graph
        try:
            return self.graph(servers + spare)
        except FabricError as error:
            text = str(error).removeprefix(f"{self.name}: ")
            assert self.circuits is not None
            given = f"circuits.spare_servers = {self.circuits.spare_servers}"
            raise FabricError(f"{self.name}: {given}: {text}") from None

    def _applied(self, cluster: Cluster, network: Network) -> dict[str, Any]:
        values = super()._applied(cluster, network)
        if self.circuits is not None:
            values["circuits"] = self.circuits.model_dump() | self.circuits.applied(network)
        return values

    def links_of_rules(self, graph: TopologyGraph) -> list[int]:
        """Links of each rule, all planes together."""
        between = np.bincount(graph.pairs[:, 3], graph.pairs[:, 2], minlength=len(self.links))
        of_servers = np.bincount(graph.server_rules.reshape(-1), minlength=len(self.links))
        return [round(count) * graph.planes for count in (between + of_servers).tolist()]

    def _lines(
        self, rule: LinkRule, count: int, cluster: Cluster, counting: Counting
    ) -> list[Line]:
        """Parts of the links of one rule."""
        to_server = SERVERS in rule.ends
        optics = rule.optics or (counting.host_links if to_server else "transceiver")
        rate = self.rate_of(rule, cluster) * rule.broken_out
        shared = math.ceil(count / rule.broken_out)
        at_switches = shared if to_server else 2 * shared
        lines = [Line("eps_port", rate, at_switches)]
        if optics in {"dac", "aoc"}:
            return [*lines, Line(optics, rate, shared)]
        inside = at_switches if optics == "co-packaged" else 0
        return [
            *lines,
            Line("co_packaged", rate, inside),
            Line("transceiver", rate, 2 * shared - inside),
            Line("fiber", rate, count),
        ]

    def _boxes(self, name: str, graph: TopologyGraph, cluster: Cluster) -> Switches:
        """The switches of a tier, whose ports have the rate of its fastest links."""
        tier = graph.tiers[name]
        rules = [rule for rule in self.links if name in rule.ends]
        rate = max(self.rate_of(rule, cluster) * rule.broken_out for rule in rules)
        share = np.array([self.rate_of(rule, cluster) / rate for rule in self.links])
        used = np.bincount(
            graph.server_links.reshape(-1),
            share[graph.server_rules.reshape(-1)],
            minlength=graph.switches,
        )
        each = share[graph.pairs[:, 3]] * graph.pairs[:, 2]
        for end in (0, 1):
            used += np.bincount(graph.pairs[:, end], each, minlength=graph.switches)
        mine = used[tier.first : tier.first + tier.count]
        ports = ports_of_switch(self.switches[name].ports, rate)
        if (fullest := float(mine.max())) > ports + 1e-6:
            raise FabricError(
                f"{self.name}: {graph.name_of(tier.first + int(np.argmax(mine)))} needs"
                f" {math.ceil(fullest - 1e-6):,} ports of {rate:g} Gb/s, a switch has {ports:,};"
                f" set switches.{name}.ports"
            )
        return Switches(
            component="eps_port",
            rate_gbps=rate,
            ports=ports,
            count=tier.count * graph.planes,
            used=math.ceil(float(mine.sum()) * graph.planes - 1e-6),
            tiers=len(graph.tiers),
            planes=graph.planes,
        )


@functools.lru_cache(maxsize=16)
def _graph(
    servers: int,
    planes: int,
    switches: tuple[tuple[str, SwitchTier], ...],
    links: tuple[LinkRule, ...],
) -> TopologyGraph:
    return topology_graph(servers, planes, dict(switches), links)


def _layer(rule: LinkRule) -> tuple[str, str]:
    """Names of the links of a rule, there and back."""
    a, b = rule.ends
    return (f"{a} to {b}", f"{b} to {a}") if a != b else (f"{a} to {a}", f"{a} to {a}, back")
