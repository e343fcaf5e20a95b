"""Laws that a topology must keep, tried on demands drawn at random: a suite made from the file.

What is sent arrives; nothing is faster than the NICs; faster links are never slower; a pair takes
as long one way as the other; servers on the same switches may change places; packets are no faster
than fluid flows. Sixteen servers take part at most, spread over all. No law can say whether the
topology is the one that was meant.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom.errors import FabricError
from lightloom.fabric.base import Fabric
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.network import Network, SwitchGraph
from lightloom.fabric.topology import Topology
from lightloom.progress import Progress
from lightloom.simulate import Packets, Run, simulate
from lightloom.workload.builder import Block, TaskGraphBuilder
from lightloom.workload.categories import step_categories

#: servers that take part, and demands that are drawn
MAX_MEMBERS, DRAWS = 16, 5
#: bytes of a pair at most, of flows and of packets
FLOW_BYTES, PACKET_BYTES = 100_000_000, 100_000
#: share of a time that rounding to whole bytes and picoseconds may be
ROUNDING = 1e-6

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
    for number, (name, law) in enumerate(LAWS.items()):
        if progress is not None and progress(number / len(LAWS), name) is False:
            raise KeyboardInterrupt
        cases = list(law(trial))
        laws.append(Law(name, len(cases), next((text for text in cases if text), None)))
    return laws


class _Trial:
    """A topology, some of its servers, and demands between them."""

    def __init__(self, fabric: Topology, cluster: Cluster, seed: int) -> None:
        network = fabric.network(cluster)
        part = network.part(SwitchGraph)
        assert part is not None
        self.network, self.part, self.seed = network, part, seed
        count = min(MAX_MEMBERS, cluster.servers)
        # two of each switch where there are more than take part, so that some share one
        pairs = np.linspace(0, cluster.servers - 2, count // 2).round().astype(int)
        spread = {int(s) for first in pairs for s in (first, first + 1)}
        self.servers = list(range(count)) if count == cluster.servers else sorted(spread)
        self.gpus_per_server = cluster.gpus_per_server
        self.nic_bytes_per_s = cluster.nics_per_server * cluster.nic_rate_bps / 8
        graph = fabric.graph(cluster.servers)
        self.rows = [sorted(graph.server_links[server].tolist()) for server in self.servers]

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
        step = TaskGraphBuilder(self.servers, self.gpus_per_server, step_categories())
        members = np.arange(len(self.servers))
        family = step.family("ep", [members.tolist()])
        step.demand("bytes", family, demand[None, None].astype(np.uint32))
        step.role("all", members).all_to_all(family, Block(0, 0, 1, False, True), "ep")
        on = network or self.network
        if packets:
            every = Packets(transport="ideal", full=True)
            return simulate(step.build(), on, network_model=every)
        return simulate(step.build(), on)

    def pair(self, a: int, b: int, size: int) -> _Demand:
        """Bytes of one pair alone."""
        demand = np.zeros((len(self.servers), len(self.servers)), np.int64)
        demand[a, b] = size
        return demand

    def faster(self) -> Network:
        """The network with links of twice the rate."""
        bundles = self.part.bundles.copy()
        bundles[:, 3] *= 2
        part = dataclasses.replace(
            self.part, port_rate_bps=2 * self.part.port_rate_bps, bundles=bundles
        )
        return dataclasses.replace(self.network, parts=(part,))


def _arrives(trial: _Trial) -> Iterator[str]:
    for size, packets in ((FLOW_BYTES, False), (PACKET_BYTES, True)):
        for demand in trial.demands(size):
            run = trial.run(demand, packets=packets)
            sent = int(demand.sum())
            carried = {use.name: use.carried_bytes for use in run.links}
            ends = carried["server_up"], carried["server_down"], run.carried_bytes["eps"]
            yield "" if set(ends) == {sent} else f"{sent:,} bytes sent, {ends} carried"


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
    last = len(trial.servers) - 1
    for other in sorted({1, last}):
        demand = trial.pair(0, other, PACKET_BYTES)
        flows, packets = (trial.run(demand, packets=as_packets) for as_packets in (False, True))
        fine = packets.step_time_s >= flows.step_time_s * (1 - ROUNDING)
        yield "" if fine else f"{packets.step_time_s:g} s of packets, {flows.step_time_s:g} s"


#: what tries each law: yields what is broken, or nothing, for each case
LAWS: dict[str, Callable[[_Trial], Iterator[str]]] = {
    "what is sent arrives, as flows and as packets": _arrives,
    "nothing is faster than the NICs": _within_nics,
    "links of twice the rate are no slower": _no_slower_if_faster,
    "a pair takes as long one way as the other": _same_both_ways,
    "servers on the same switches may change places": _equals_change_places,
    "packets are no faster than flows": _packets_no_faster,
}
