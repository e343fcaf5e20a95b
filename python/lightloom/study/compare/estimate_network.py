"""What operations of a network take that no plan overloads (a fat-tree), in closed form.

The paces are those of a simulation; flows that share a NIC are taken to share it evenly, and an
all-to-all lasts as long as its busiest NIC, or as what stays inside its busiest server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lightloom.demand.folding import FoldedTokens
from lightloom.fabric import Cluster
from lightloom.fabric.network import NvSwitch
from lightloom.parallel import Plan, RankGrid, place_workers
from lightloom.parallel.grid import gradient_groups, servers_of_groups
from lightloom.units import PS_PER_S
from lightloom.workload.rings import share_inside

Floats = npt.NDArray[np.float64]

#: links from NIC to NIC through a fat-tree
HOPS = 4
#: share of a ring's bandwidth that a tree has, as in the core (``ways.rs``)
TREE = 0.92
#: bytes of chunks of switches that add up, as in the core
CHUNKS = (128 << 10, 64 << 10, 32 << 10, 16 << 10)


class ServerSpan(NamedTuple):
    """GPUs of a group that share a server, and servers of the group."""

    on_server: int
    servers: int


@dataclass(frozen=True)
class GroupLayout:
    """Where the groups of a plan are.

    ``members`` are servers of an EP group, each with ``ranks`` of its ranks on ``gpus`` GPUs;
    ``spans`` are GPUs of a group on a server, and servers of it, by kind of groups; ``crosses``
    says whether a stage of the pipeline is on other servers than the next one.
    """

    members: int
    ranks: int
    gpus: int
    spans: Mapping[str, ServerSpan]
    crosses: bool

    @classmethod
    def of(cls, plan: Plan, gpus_per_server: int) -> GroupLayout:
        """The layout of a plan.

        Raises
        ------
        PlanError
            If its groups do not align with servers.
        """
        grid = RankGrid(plan)
        workers = place_workers(grid, gpus_per_server)
        kinds = {kind: gradient_groups(grid, kind) for kind in ("dense-gradient", "expert-dp")}
        kinds["cp"] = grid.groups("cp")
        members = workers.server.shape[2]
        stages = workers.server[:2, 0, 0]
        return cls(
            members=members,
            ranks=plan.ep // members,
            gpus=workers.gpus_per_worker,
            spans={
                kind: ServerSpan(*servers_of_groups(kind, groups, gpus_per_server))
                for kind, groups in kinds.items()
            },
            crosses=bool(stages[0] != stages[-1]),
        )


@dataclass(frozen=True)
class GroupLoads:
    """Token copies of an EP group, for each token that one of its ranks routes.

    Attributes
    ----------
    slowest
        What the busiest rank computes.
    by_member, by_rank
        What leaves or enters the busiest server, and the NICs of the busiest rank: of its own
        copies, or of those on its rail where tokens go once to each server.
    inside_member, inside_rank
        What stays inside a server: of all its ranks, and of the busiest one.
    by_layer
        What the busiest rank computes in each layer that was drawn, over ``slowest``.
    once
        Whether tokens go once to each server.
    """

    slowest: float
    by_member: float = 0.0
    by_rank: float = 0.0
    inside_member: float = 0.0
    inside_rank: float = 0.0
    by_layer: Floats = field(default_factory=lambda: np.ones(1))
    once: bool = False

    @classmethod
    def of(cls, folded: FoldedTokens, tokens: int, *, once: bool) -> GroupLoads:
        """Means over the layers and micro-batches of a demand of so many tokens per rank."""
        counts = folded.tokens.astype(np.float64)
        to_itself = np.einsum("...ii->...i", counts)
        between = counts * (1 - np.eye(counts.shape[-1]))
        assert folded.rank_tokens is not None
        ranks = folded.rank_tokens.astype(np.float64)
        each = ranks.shape[-1] // counts.shape[-1]
        #: from and to members and places within them, ``(..., members, places, members, places)``
        cells = ranks.reshape(*ranks.shape[:-2], -1, each, counts.shape[-1], each)
        same = np.einsum("...mamb->...mab", cells)
        if once:
            rail, moved = _along_rails(cells, between), cells.sum(axis=-4)
            inside = _busiest(moved.swapaxes(-2, -3), each)
        else:
            across = ranks.sum(-1) - same.sum(-1).reshape(*ranks.shape[:-1])
            into = ranks.sum(-2) - same.sum(-2).reshape(*ranks.shape[:-1])
            rail = np.maximum(across, into)
            inside = _busiest(same, each)
        slowest = folded.received.max(axis=-1).mean(axis=1)
        return cls(
            slowest=float(slowest.mean()) / tokens,
            by_layer=slowest / slowest.mean(),
            by_member=float(_peak(np.maximum(between.sum(-1), between.sum(-2)))) / tokens,
            by_rank=float(_peak(rail)) / tokens,
            inside_member=float(_peak(to_itself)) / tokens,
            inside_rank=float(_peak(inside)) / tokens,
            once=once,
        )


def _peak(by_place: Floats) -> float:
    """The largest of the last axis, in the mean over the others of layers and micro-batches."""
    flat = by_place.reshape(*by_place.shape[:2], -1)
    return float(flat.max(axis=-1).mean())


def _busiest(pairs: Floats, places: int) -> Floats:
    """What each place of a member sends to other places, or receives from them."""
    others = pairs * (1 - np.eye(places))
    busiest: Floats = np.maximum(others.sum(-1), others.sum(-2))
    return busiest


def _along_rails(cells: Floats, between: Floats) -> Floats:
    """Tokens by the rail of their sender, of which a member sends or receives most."""
    homes = cells.sum(axis=-1)
    share = homes / np.maximum(homes.sum(axis=-2, keepdims=True), 1.0)
    rails = between[..., :, np.newaxis, :] * share
    sent, received = rails.sum(axis=-1), rails.sum(axis=-3).swapaxes(-1, -2)
    busiest: Floats = np.maximum(sent, received)
    return busiest


class SwitchSums(NamedTuple):
    """Switches of a server that add up, as in the core (``SwitchSums`` of ``network.rs``)."""

    rate: float
    latency_s: float
    channels: int
    overhead_bytes: int

    @classmethod
    def of(cls, inside: NvSwitch) -> SwitchSums | None:
        """Those of a server, if they do."""
        if not inside.reduce_rate_bps:
            return None
        start_s = inside.reduce_latency_ps / PS_PER_S
        chunks = (inside.reduce_channels, inside.reduce_chunk_overhead)
        return cls(inside.reduce_rate_bps / 8, start_s, *chunks)

    def seconds(self, buffer_bytes: float, span: ServerSpan) -> float:
        """Time of the part inside servers of adding up a buffer per GPU."""
        gpus, servers = span
        steps = 2 if servers == 1 else 4
        moved = min(
            (buffer_bytes + steps * min(buffer_bytes, self.channels * gpus * chunk))
            * (1 + self.overhead_bytes / chunk)
            for chunk in CHUNKS
        )
        return self.latency_s + moved * (gpus + 1) / gpus / self.rate


class NetworkPaces:
    """Seconds of operations on a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        inside, start_up = cluster.nvswitch(), cluster.start_up()
        self._copy_rate = inside.gpu_rate_bps / 8
        self._copy_s = inside.latency_ps / PS_PER_S
        self._gather_rate = inside.collective_rate_bps / 8
        gather_ps = inside.gather_latency_ps
        self._gather_s = (inside.latency_ps if gather_ps is None else gather_ps) / PS_PER_S
        self._peer_s = inside.gather_peer_ps / PS_PER_S
        self._sums = SwitchSums.of(inside)
        #: of a GPU's share of the NICs
        per_gpu = cluster.nics_per_server / cluster.gpus_per_server
        self._nic_rate = cluster.nic_rate_bps / 8 * per_gpu
        self._path_s = HOPS * cluster.link_delay_s
        self._message_s = start_up.message_ps / PS_PER_S
        self._all_to_all_s = start_up.all_to_all_ps / PS_PER_S
        self._all_to_all_peer_s = start_up.peer_ps / PS_PER_S
        self._mixed_s = start_up.mixed_ps / PS_PER_S
        self._gpus_per_server = cluster.gpus_per_server

    def gather(self, size_bytes: float, peers: int) -> float:
        """A collective inside a server in which each GPU moves so many bytes."""
        if not size_bytes:
            return 0.0
        return self.gather_start_s(peers) + size_bytes / self._gather_rate

    def add_up(self, size_bytes: float, peers: int) -> float:
        """An all-reduce inside a server: so many bytes around a ring, or less by switches."""
        ring = self.gather(size_bytes, peers)
        if not (self._sums and peers and size_bytes):
            return ring
        buffer_bytes = size_bytes * (peers + 1) / (2 * peers)
        return min(ring, self._sums.seconds(buffer_bytes, ServerSpan(peers + 1, 1)))

    def gather_start_s(self, peers: int) -> float:
        """What a collective inside a server takes that moves nothing."""
        return self._gather_s + peers * self._peer_s

    def ring(self, buffer_bytes: float, span: ServerSpan, passes: int) -> float:
        """A ring over a buffer per GPU, passed once (gather, scatter) or twice (both)."""
        on_server, servers = span
        if not buffer_bytes:
            return 0.0
        if servers == 1:
            moved = passes * buffer_bytes * share_inside(on_server, servers)
            return self.gather(moved, on_server - 1)
        hops = (on_server - 1) * self._peer_s
        step = self._message_s + self._path_s + hops
        steps = passes * (servers - 1)
        return self._begun(span) + passes * self._around(buffer_bytes, span) + steps * step

    def all_reduce(self, buffer_bytes: float, span: ServerSpan) -> float:
        """A ring that is passed twice, a tree over several GPUs of each server, or switches."""
        on_server, servers = span
        if servers == 1:
            moved = 2 * buffer_bytes * share_inside(on_server, servers)
            return self.add_up(moved, on_server - 1)
        ring = self.ring(buffer_bytes, span, 2)
        if not buffer_bytes or on_server == 1:
            return ring
        steps = 2 * (servers.bit_length() - 1) * (self._message_s + self._path_s)
        moved = 2 * buffer_bytes * share_inside(on_server, servers) / self._gather_rate
        #: of two servers, each sends its sum once
        ranks = on_server * servers
        sent = buffer_bytes * (1 if servers == 2 else 2 * (1 - 1 / ranks)) / on_server
        across = sent / self._nic_rate
        taken = max(moved, across) / TREE
        tree = self._begun(span) + taken + steps + (on_server - 1) * self._peer_s
        if not self._sums:
            return min(ring, tree)
        latency_s = self._sums.latency_s
        inside = self._sums.seconds(buffer_bytes, span) - latency_s
        return min(ring, tree, latency_s + max(inside, across) + steps)

    def _begun(self, span: ServerSpan) -> float:
        """What a ring takes inside servers before its bytes."""
        return self.gather_start_s(span.on_server - 1) if span.on_server > 1 else 0.0

    def _around(self, buffer_bytes: float, span: ServerSpan) -> float:
        """What bytes take that go once around several servers, over NVSwitch and NICs at once."""
        on_server, servers = span
        across = buffer_bytes / on_server * (1 - 1 / (on_server * servers))
        moved = buffer_bytes * share_inside(on_server, servers)
        return max(moved / self._gather_rate, across / self._nic_rate)

    def send(self, bytes_per_gpu: float, *, crosses: bool) -> float:
        """A message to the next stage."""
        if not crosses:
            return self._copy_s + bytes_per_gpu / self._copy_rate
        return self._message_s + self._path_s + bytes_per_gpu / self._nic_rate

    def cut_all_to_all(self, bytes_per_gpu: float, span: ServerSpan) -> float:
        """An all-to-all of equal parts of a buffer per GPU."""
        on_server, servers = span
        if servers == 1:
            kept = 1 / on_server
            return self._all_to_all_s + self._copied(bytes_per_gpu * (1 - kept))
        across = bytes_per_gpu * (1 - 1 / servers) / self._nic_rate
        peers = self._all_to_all_peer_s * (servers - 1)
        return self._all_to_all_s + peers + self._path_s + across

    def all_to_all(self, loads: GroupLoads, layout: GroupLayout, moved: float) -> float:
        """An all-to-all of experts, by the strategy that a fat-tree takes.

        Parameters
        ----------
        loads, layout
            What the ranks of the group send each other, and where they are.
        moved
            Bytes of a copy of each token that a rank routes.
        """
        per_rank = layout.gpus / layout.ranks
        groups = max(1, self._gpus_per_server // layout.gpus)
        wire = moved * loads.by_rank / per_rank / self._nic_rate
        if layout.ranks == 1:
            inside = self._copied(moved * loads.inside_member / layout.gpus)
        else:
            inside = self._copied(moved * loads.inside_rank / per_rank)
        if layout.members == 1:
            return self._copied(moved * loads.inside_member / layout.gpus)
        mixed = self._mixed_s if layout.ranks > 1 else 0.0
        peers = layout.members - 1
        even = moved * loads.by_member / layout.gpus
        spread = math.inf
        if loads.once:
            # along the rails of senders, where there are several ranks
            wire = wire if layout.ranks > 1 else even / self._nic_rate
        else:
            if layout.ranks * groups > 1:
                spread = self._spread(loads, layout, moved, groups)
            peers *= layout.ranks
        start_up = self._all_to_all_s + mixed + peers * self._all_to_all_peer_s
        return min(spread, start_up + max(self._path_s + wire, inside))

    def _spread(self, loads: GroupLoads, layout: GroupLayout, moved: float, groups: int) -> float:
        """An all-to-all over all NICs of a server, gathered before and scattered after."""
        even = moved * loads.by_member / layout.gpus
        # a delegate is a GPU of any group of the server, else it has its own part already
        received = even / groups if groups > 1 else even * (1 - 1 / layout.gpus)
        copied = 2 * self._copied(received)
        inside = self._copied(moved * loads.inside_member / layout.gpus)
        start_up = self._all_to_all_s + (layout.members - 1) * self._all_to_all_peer_s
        return start_up + max(copied + self._path_s + even / self._nic_rate, inside)

    def _copied(self, bytes_per_gpu: float) -> float:
        return self._copy_s + bytes_per_gpu / self._copy_rate if bytes_per_gpu else 0.0
