"""Laws that a topology must keep, tried on demands drawn at random: a suite made from the file.

What is sent arrives; nothing is faster than the NICs; faster links are never slower; a pair takes
as long one way as the other; servers on the same switches may change places; packets are no faster
than fluid flows. With circuits, servers are told apart by those that they start with, so that they
may not change places, and relays are not the same both ways; but a controller that reads the file
decides on the circuits that a run has. Parts that fail, drawn at random, are never used, lose no
bytes, and in the mean make nothing shorter but by what fair shares and choices of circuits move.
Sixteen servers take part at most, spread over all. No law can say whether the topology is the one
that was meant.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom.errors import FabricError
from lightloom.fabric.base import Fabric
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.network import Network, Ocs, Part, SwitchGraph
from lightloom.fabric.reconfiguration import CircuitRegion
from lightloom.fabric.topology import Topology
from lightloom.progress import Progress
from lightloom.schedule import ALLOCATORS, Failures
from lightloom.simulate import Packets, Run, record_decisions, simulate
from lightloom.study.compare.lost_parts import lacks_packet_links
from lightloom.workload.builder import Block, TaskGraphBuilder
from lightloom.workload.categories import step_categories
from lightloom.workload.task_graph import Layout, TaskGraph

#: servers that take part, and demands that are drawn
MAX_MEMBERS, DRAWS = 16, 5
#: bytes of a pair at most, of flows and of packets
FLOW_BYTES, PACKET_BYTES = 100_000_000, 100_000
#: times that a switch takes, of the longest all-to-all whose circuits are decided
SWITCHES = 8
#: share of a time that rounding to whole bytes and picoseconds may be
ROUNDING = 1e-6
#: share of a time that parts which fail may save in the mean, as flows then share links with others
MEETS_OTHERS = 0.05
#: the same where circuits are chosen: by one rule alone, or as is best of several. No choice sees
#: the links above the ToRs, so that fewer bytes on packet switches may be better
CHOSEN_SIMPLY, CHOSEN = 0.25, {"best": 0.10}
#: parts that fail at a time, at most
MAX_FAILED = 3

_Demand = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Law:
    """A law, how many times it was tried, and what broke it first; ``None`` if nothing did."""

    name: str
    tried: int
    broken: str | None = None


def topology_of(fabric: Fabric) -> Topology:
    """Return a fabric that is a topology file.

    Raises
    ------
    FabricError
        If it is another kind.
    """
    if not isinstance(fabric, Topology):
        raise FabricError(f"{fabric.name}: expected a topology file, got {fabric.kind}")
    return fabric


def check_fabric(
    fabric: Topology, cluster: Cluster, seed: int, progress: Progress | None = None
) -> list[Law]:
    """Try every law on a topology.

    Parameters
    ----------
    fabric, cluster
        The topology, and the servers that it joins.
    seed
        Of the demands.
    progress
        Called with the share that is done and the name of a law.

    Raises
    ------
    FabricError
        If there are less than two servers.
    KeyboardInterrupt
        If ``progress`` returned ``False``.
    """
    cluster = fabric.adapt(cluster)
    if cluster.servers < 2:
        raise FabricError(f"{fabric.name}: one server: expected two or more to send between")
    trial = _Trial(fabric, cluster, seed)
    laws = []
    tried = laws_of(fabric)
    for number, (name, law) in enumerate(tried.items()):
        if progress is not None and progress(number / len(tried), name) is False:
            raise KeyboardInterrupt
        cases = list(law(trial))
        laws.append(Law(name, len(cases), next((text for text in cases if text), None)))
    return laws


class _Trial:
    """A topology, some of its servers, and demands between them."""

    def __init__(self, fabric: Topology, cluster: Cluster, seed: int) -> None:
        self.fabric, self.cluster, self.seed = fabric, cluster, seed
        self.graph = fabric.graph(cluster.servers)
        count = min(MAX_MEMBERS, cluster.servers, _largest_region(fabric, cluster))
        # two of each switch where there are more than take part, so that some share one
        pairs = np.linspace(0, cluster.servers - 2, count // 2).round().astype(int)
        spread = {int(s) for first in pairs for s in (first, first + 1)}
        self.servers = list(range(count)) if count == cluster.servers else sorted(spread)
        self.gpus_per_server = cluster.gpus_per_server
        self.network = self._network()
        self.nic_bytes_per_s = cluster.nics_per_server * cluster.nic_rate_bps / 8
        switches = self.network.part(SwitchGraph)
        assert switches is not None
        #: switches of each server, and the links that it has lost
        self.rows = [
            (
                sorted(self.graph.server_links[server].tolist()),
                [link for other, link in switches.failed if other == server],
            )
            for server in self.servers
        ]

    def _network(self, lost: Failures | None = None) -> Network:
        """The network of a job of one EP group, the servers that take part, without some parts."""
        fabric = self.fabric if lost is None else self.fabric.without(lost)
        assert fabric is not None
        if fabric.circuits is None:
            return fabric.network(self.cluster)
        layout = Layout.grid(
            stages=1,
            replicas=1,
            members=len(self.servers),
            gpus_per_worker=self.gpus_per_server,
            worker_server=np.array(self.servers, np.uint32),
        )
        return fabric.network(self.cluster, FabricContext(layout))

    def failures(self) -> Iterator[tuple[Failures, Network]]:
        """Parts that fail, and the network without them; not what would leave a server alone."""
        rng = np.random.default_rng([self.seed, MAX_FAILED])
        for count in range(DRAWS):
            chosen = rng.choice(self.servers, 1 + count % min(MAX_FAILED, len(self.servers)), False)
            lost = self._drawn_parts(rng, [int(server) for server in chosen])
            try:
                yield lost, self._network(lost)
            except FabricError:
                continue

    def _drawn_parts(self, rng: np.random.Generator, servers: Sequence[int]) -> Failures:
        """One part of each of some servers, or the whole of one: optical NICs where there are."""
        region = self.fabric.circuit_region(self.cluster)
        packet_nics = self.fabric.packet_nics(self.cluster)
        each = self.graph.links_per_server // packet_nics
        nics: list[tuple[int, int]] = []
        links: list[tuple[int, int]] = []
        whole: list[int] = []
        for server in servers:
            kind = rng.choice(["optical", "packet", "server"], p=[0.45, 0.45, 0.1])
            if kind == "server":
                whole.append(server)
            elif kind == "optical" and region is not None:
                nics.append((server, int(rng.integers(region.ports))))
            else:
                nic = int(rng.integers(packet_nics))
                links += [(server, nic * each + link) for link in range(each)]
        return Failures(nics=nics, eps_nics=links, servers=whole)

    def demands(self, size: int) -> Iterator[_Demand]:
        """Bytes between servers; some pairs send nothing."""
        rng = np.random.default_rng([self.seed, size])
        members = len(self.servers)
        for _ in range(DRAWS):
            demand = rng.integers(1, size, (members, members), endpoint=True)
            demand[rng.random((members, members)) < 0.3] = 0
            np.fill_diagonal(demand, 0)
            demand[0, -1] = size
            yield demand

    def run(self, demand: _Demand, network: Network | None = None, *, packets: bool = False) -> Run:
        """Play one all-to-all of a demand."""
        on = network or self.network
        if packets:
            every = Packets(transport="ideal", full=True)
            return simulate(self.step([demand]), on, network_model=every)
        return simulate(self.step([demand]), on)

    def step(
        self, demands: Sequence[_Demand], unit_bytes: int = 1, *, first: bool = True
    ) -> TaskGraph:
        """All-to-alls one after another; ``first`` says that nobody knows their demand before."""
        step = TaskGraphBuilder(self.servers, self.gpus_per_server, step_categories())
        members = np.arange(len(self.servers))
        family = step.family("ep", [members.tolist()])
        step.demand("bytes", family, np.array([demands]).astype(np.uint32))
        trainer = step.role("all", members)
        for number in range(len(demands)):
            trainer.all_to_all(family, Block(0, number, unit_bytes, False, first), "ep")
        return step.build()

    def steps(self, region: CircuitRegion, count: int) -> Iterator[TaskGraph]:
        """Steps of all-to-alls whose demand is known before, so large that switching may pay."""
        longest_s = SWITCHES * region.rules.timing.expected_s(len(self.servers))
        unit_bytes = 1 + int(longest_s * self.nic_bytes_per_s / FLOW_BYTES)
        for demand in itertools.islice(self.demands(FLOW_BYTES), count):
            demands = [demand, demand.T, np.roll(demand, 1, axis=(0, 1))]
            yield self.step(demands, unit_bytes, first=False)

    def pair(self, a: int, b: int, size: int) -> _Demand:
        """Bytes of one pair alone."""
        demand = np.zeros((len(self.servers), len(self.servers)), np.int64)
        demand[a, b] = size
        return demand

    def faster(self) -> Network:
        """The network with links of twice the rate."""
        parts: list[Part] = []
        for part in self.network.parts:
            if isinstance(part, SwitchGraph):
                bundles = part.bundles.copy()
                bundles[:, 3] *= 2
                rate_bps = 2 * part.port_rate_bps
                parts.append(dataclasses.replace(part, port_rate_bps=rate_bps, bundles=bundles))
            if isinstance(part, Ocs):
                parts.append(dataclasses.replace(part, nic_rate_bps=2 * part.nic_rate_bps))
        return dataclasses.replace(self.network, parts=tuple(parts))


def _largest_region(fabric: Topology, cluster: Cluster) -> int:
    region = fabric.circuit_region(cluster)
    if region is None:
        return cluster.servers
    if region.servers < 2:
        raise FabricError(f"{fabric.name}: regions of one server: expected two or more")
    return region.servers


def _arrives(trial: _Trial) -> Iterator[str]:
    as_packets = [] if lacks_packet_links(trial.network) else [(PACKET_BYTES, True)]
    for size, packets in ((FLOW_BYTES, False), *as_packets):
        for demand in trial.demands(size):
            yield _lost_bytes(trial.run(demand, packets=packets), int(demand.sum()))


def _lost_bytes(run: Run, sent: int) -> str:
    """What of the bytes sent was not carried, if anything."""
    carried = {use.name: use.carried_bytes for use in run.links}
    # over circuits, less the first of two hops of what is relayed
    lit = carried.get("circuit", 0) - carried.get("relay", 0)
    all_parts = run.carried_bytes["eps"] + run.carried_bytes["ocs"]
    ends = carried["server_up"] + lit, carried["server_down"] + lit, all_parts
    return "" if set(ends) == {sent} else f"{sent:,} bytes sent, {ends} carried"


def _within_nics(trial: _Trial) -> Iterator[str]:
    for demand in trial.demands(FLOW_BYTES):
        busiest = max(demand.sum(0).max(), demand.sum(1).max()) / trial.nic_bytes_per_s
        time = trial.run(demand).step_time_s
        yield "" if time >= busiest * (1 - ROUNDING) else f"{time:g} s, NICs need {busiest:g} s"


def _no_slower_if_faster(trial: _Trial) -> Iterator[str]:
    faster = trial.faster()
    for demand in trial.demands(FLOW_BYTES):
        before, after = (trial.run(demand, net).step_time_s for net in (trial.network, faster))
        fine = after <= before * (1 + ROUNDING)
        yield "" if fine else f"{after:g} s at twice the rate, {before:g} s before"


def _same_both_ways(trial: _Trial) -> Iterator[str]:
    last = len(trial.servers) - 1
    for other in sorted({1, last // 2, last} - {0}):
        pairs = (trial.pair(*ends, FLOW_BYTES) for ends in ((0, other), (other, 0)))
        there, back = (trial.run(pair).step_time_s for pair in pairs)
        apart = abs(there - back) > ROUNDING * there
        names = f"servers {trial.servers[0]} and {trial.servers[other]}"
        yield f"{names}: {there:g} s there, {back:g} s back" if apart else ""


def _equals_change_places(trial: _Trial) -> Iterator[str]:
    rows = trial.rows
    alike = [(a, b) for a in range(len(rows)) for b in range(a) if rows[a] == rows[b]]
    for demand, (a, b) in zip(trial.demands(FLOW_BYTES), alike, strict=False):
        order = np.arange(len(rows))
        order[[a, b]] = b, a
        before, after = (trial.run(d).step_time_s for d in (demand, demand[order][:, order]))
        apart = abs(before - after) > ROUNDING * before
        names = f"servers {trial.servers[b]} and {trial.servers[a]}"
        yield f"{names} change places: {before:g} s becomes {after:g} s" if apart else ""


def _packets_no_faster(trial: _Trial) -> Iterator[str]:
    if lacks_packet_links(trial.network):
        return
    last = len(trial.servers) - 1
    for other in sorted({1, last}):
        demand = trial.pair(0, other, PACKET_BYTES)
        flows, packets = (trial.run(demand, packets=as_packets) for as_packets in (False, True))
        fine = packets.step_time_s >= flows.step_time_s * (1 - ROUNDING)
        yield "" if fine else f"{packets.step_time_s:g} s of packets, {flows.step_time_s:g} s"


def _as_controlled(trial: _Trial) -> Iterator[str]:
    region = trial.fabric.circuit_region(trial.cluster)
    assert region is not None
    ports = [region.ports] * len(trial.servers)
    for network in (trial.network, *(network for _, network in trial.failures())):
        ocs = network.part(Ocs)
        assert ocs is not None
        lost = ocs.failures or Failures()
        if _has_part_of_nic(trial, lost):
            continue
        failed = _told(trial, lost)
        decider = region.rules.decider(ports, region.planes, failed)
        for steps in trial.steps(region, DRAWS if network is trial.network else 1):
            decisions = record_decisions(steps, network).decisions
            assert decisions is not None
            for record in decisions.records:
                decision = decider.decide(record.held, record.upcoming)
                same = decision == record.decision
                yield "" if same else f"a run {record.decision}, a controller {decision}"


def _has_part_of_nic(trial: _Trial, failed: Failures) -> bool:
    """Whether a NIC has lost some of its links to packet switches, which no controller is told."""
    each = trial.graph.links_per_server // trial.fabric.packet_nics(trial.cluster)
    lost = Counter((server, link // each) for server, link in set(failed.eps_nics))
    return any(count < each for count in lost.values())


def _told(trial: _Trial, failed: Failures) -> Failures:
    """What has failed as a controller is told: of servers that take part, and of whole NICs.

    A server that a spare one replaces has no circuits.
    """
    place = {server: number for number, server in enumerate(trial.servers)}
    each = trial.graph.links_per_server // trial.fabric.packet_nics(trial.cluster)
    region = trial.fabric.circuit_region(trial.cluster)
    assert region is not None
    spared = {(server, nic) for server in failed.servers for nic in range(region.ports)}
    links = {(server, link // each) for server, link in failed.eps_nics}
    return Failures(
        nics=[(place[s], nic) for s, nic in sorted(spared | set(failed.nics)) if s in place],
        eps_nics=[(place[server], nic) for server, nic in sorted(links) if server in place],
        planes=failed.planes,
    )


def _lose_no_bytes(trial: _Trial) -> Iterator[str]:
    for demand, (lost, network) in zip(trial.demands(FLOW_BYTES), trial.failures(), strict=False):
        broken = _lost_bytes(trial.run(demand, network), int(demand.sum()))
        yield broken and f"without {lost.parts}: {broken}"


def _are_not_used(trial: _Trial) -> Iterator[str]:
    region = trial.fabric.circuit_region(trial.cluster)
    assert region is not None
    for lost, network in trial.failures():
        ocs = network.part(Ocs)
        assert ocs is not None
        failed = set(_told(trial, ocs.failures or Failures()).nics)
        for steps in trial.steps(region, 1):
            decisions = record_decisions(steps, network).decisions
            assert decisions is not None
            held = [decisions.decider(0).start(), *(one.decision.held for one in decisions.records)]
            ends = {tuple(end) for one in held for end in one.nics.reshape(-1, 2).tolist()}
            used = sorted(ends & failed)
            yield f"without {lost.parts}: circuits end at (server, NIC) {used}" if used else ""


def _no_shorter(trial: _Trial) -> Iterator[str]:
    """In the mean: by chance a single one may be, as flows then share links with others."""
    region = trial.fabric.circuit_region(trial.cluster)
    least = 1 - (MEETS_OTHERS if region is None else CHOSEN.get(region.allocator, CHOSEN_SIMPLY))
    shares = []
    for demand, (_, network) in zip(trial.demands(FLOW_BYTES), trial.failures(), strict=False):
        steps = [trial.step([demand])] if region is None else trial.steps(region, 1)
        for step in steps:
            before, after = (simulate(step, net).step_time_s for net in (trial.network, network))
            shares.append(after / before)
    if shares:
        mean = float(np.mean(shares))
        yield "" if mean >= least else f"without parts in the mean {mean:.3f} times as long"


#: tries a law: yields what is broken, or nothing, for each case
_Trying = Callable[[_Trial], Iterator[str]]
LAWS: dict[str, _Trying] = {
    "what is sent arrives, as flows and as packets": _arrives,
    "nothing is faster than the NICs": _within_nics,
    "links of twice the rate are no slower": _no_slower_if_faster,
    "a pair takes as long one way as the other": _same_both_ways,
    "servers on the same switches may change places": _equals_change_places,
    "packets are no faster than flows": _packets_no_faster,
    "parts that fail lose no bytes": _lose_no_bytes,
    "no circuit ends at a part that has failed": _are_not_used,
    "nothing is shorter without a part, in the mean": _no_shorter,
    "a controller decides on the circuits of a run": _as_controlled,
}


def laws_of(fabric: Topology) -> dict[str, _Trying]:
    """Return those of the laws that a topology must keep."""
    circuits = fabric.circuits
    applies: dict[_Trying, bool] = {
        _same_both_ways: circuits is None or not circuits.relay,
        _equals_change_places: circuits is None,
        _are_not_used: circuits is not None,
        _as_controlled: circuits is not None and circuits.allocator in ALLOCATORS,
    }
    return {name: law for name, law in LAWS.items() if applies.get(law, True)}
