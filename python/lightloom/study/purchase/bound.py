"""A time that no network of a rate can make a step shorter than, from its task graph.

Programs are played in order, each role by one worker that stands for all: a stream computes, waits
for what it started and for messages of other roles, and an all-to-all of experts ends no sooner
than its last member has come and the busiest server has sent, or received, its bytes over all of
its NICs. What is left out makes a step longer alone: rings between servers, latencies and start-up
times, what shares a link, and circuits.

Of computation that differs between the workers of a group the least counts for who goes on, and the
most for an all-to-all, which waits for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.fabric import Cluster
from lightloom.units import PS_PER_S
from lightloom.workload.task_graph import (
    ASYNCHRONOUS,
    NO_INDEX,
    Collective,
    DemandTable,
    Kind,
    Program,
    Role,
    TaskGraph,
)

Floats = npt.NDArray[np.float64]
#: fabrics whose GPUs send over more than the NICs of their server
BESIDE_NICS = ("mixnet-optical-io", "torus")


@dataclass(frozen=True)
class ServerPaces:
    """What a server moves at most: bytes per second over its NICs, and of a GPU inside it.

    Infinite for what is not bounded.
    """

    nics: float
    inside: float

    @classmethod
    def of(cls, cluster: Cluster, kind: str = "") -> ServerPaces:
        """The paces of the servers of a fabric of a kind."""
        inside = cluster.nvswitch()
        nics = np.inf if kind in BESIDE_NICS else cluster.nics_per_server * cluster.nic_rate_bps / 8
        return cls(float(nics), max(inside.gpu_rate_bps, inside.collective_rate_bps) / 8)


@dataclass(frozen=True)
class _Tasks:
    """The program of a role as lists: what each task takes at least, s.

    ``most_s`` is what it takes the slowest worker of every group.
    """

    kind: list[int]
    stream: list[int]
    handle: list[int]
    is_asynchronous: list[bool]
    #: whether all members of the groups of experts meet
    is_meeting: list[bool]
    message: list[tuple[int, int]]
    least_s: Floats
    most_s: Floats
    #: bytes that the busiest server sends, and the busiest GPU moves inside it
    sent: Floats
    inside: Floats


class StepBound:
    """Lower bounds of one task graph, by :meth:`step_time_s`."""

    def __init__(self, graph: TaskGraph) -> None:
        self._graph = graph
        busiest = [_busiest(graph, demand) for demand in graph.demands]
        self._roles = [self._tasks(number, role, busiest) for number, role in
                       enumerate(graph.roles)]  # fmt: skip

    def step_time_s(self, paces: ServerPaces) -> float:
        """The shortest time that the step can take on servers of these paces, s."""
        takes = [
            np.maximum(tasks.sent / paces.nics, tasks.inside / paces.inside)
            for tasks in self._roles
        ]
        players = [_Player(tasks, more) for tasks, more in zip(self._roles, takes, strict=True)]
        sent: dict[tuple[int, int, int], float] = {}
        open_ = dict(enumerate(players))
        while open_:
            before = [player.place for player in open_.values()]
            for number, player in list(open_.items()):
                if player.play(number, sent):
                    del open_[number]
            if before == [player.place for player in open_.values()]:
                # messages that cross each other on several streams: nobody waits for the first
                next(iter(open_.values())).skip()
        return max((player.end_s for player in players), default=0.0)

    def _tasks(self, number: int, role: Role, busiest: list[Floats]) -> _Tasks:
        program = role.program
        least, most = self._computing(role)
        sent, inside = np.zeros(len(program)), np.zeros(len(program))
        collective = program.kind == Kind.COLLECTIVE
        fixed = collective & (program.table == NO_INDEX)
        inside[fixed] = program.inside[fixed]
        meets = np.zeros(len(program), dtype=bool)
        if self._graph.regional_family is not None:
            meets = program.of(Collective.ALL_TO_ALL)
            meets &= program.family == self._graph.regional_family
            for index, by_block in enumerate(busiest):
                of_table = meets & (program.demand == index)
                sent[of_table] = by_block[program.entry[of_table]] * program.size[of_table]
        return _Tasks(
            program.kind.tolist(),
            program.stream.tolist(),
            program.handle.tolist(),
            ((program.flags & ASYNCHRONOUS) != 0).tolist(),
            meets.tolist(),
            _messages(program, number),
            least,
            most,
            sent,
            inside,
        )

    def _computing(self, role: Role) -> tuple[Floats, Floats]:
        """What computation takes the fastest worker, and the slowest of every group, s."""
        program = role.program
        computes = program.kind == Kind.COMPUTE
        least = np.where(computes, program.size.astype(np.float64), 0.0)
        most = least.copy()
        groups = self._groups_of(role)
        for index, table in enumerate(self._graph.tables):
            of_table = computes & (program.table == index)
            if of_table.any():
                values = table.values[role.workers].astype(np.float64)
                entries = program.entry[of_table]
                least[of_table] = values.min(axis=0)[entries]
                slowest = [table.values[group].max(axis=0).astype(np.float64) for group in groups]
                most[of_table] = np.min(slowest, axis=0)[entries] if groups else least[of_table]
        return least / PS_PER_S, most / PS_PER_S

    def _groups_of(self, role: Role) -> list[Any]:
        """Groups of experts among the workers of a role."""
        family = self._graph.regional_family
        if family is None:
            return []
        groups = self._graph.families[family].groups()
        return [group for group in groups if np.isin(group, role.workers).all()]


def _busiest(graph: TaskGraph, demand: DemandTable) -> Floats:
    """Counts that the busiest server of a group sends or receives: the least of the groups."""
    groups = graph.families[demand.family].groups()
    counts = demand.counts.astype(np.float64)
    busiest = np.full(demand.blocks, np.inf)
    for number, group in enumerate(groups):
        servers = graph.worker_server[group]
        away = counts[number] * (servers[:, None] != servers[None, :])
        by_server = [
            (away[:, is_own].sum(axis=(1, 2)), away[:, :, is_own].sum(axis=(1, 2)))
            for is_own in (servers == server for server in np.unique(servers))
        ]
        most = np.max([np.maximum(out, into) for out, into in by_server], axis=0)
        busiest = np.minimum(busiest, most)
    return busiest


def _messages(program: Program, own: int) -> list[tuple[int, int]]:
    """Peer role and tag of each message; nobody's where it goes to a member of a group."""
    to_role = program.family == NO_INDEX
    peers = np.where(to_role, program.peer.astype(np.int64), -1 - own)
    return list(zip(peers.tolist(), program.tag.tolist(), strict=True))


class _Player:
    """Plays the program of a role as far as messages allow."""

    def __init__(self, tasks: _Tasks, takes: Floats) -> None:
        self._tasks = tasks
        self._least = (tasks.least_s + takes).tolist()
        self._most = (tasks.most_s + takes).tolist()
        #: clock of each stream, of every worker and of the slowest of every group
        self._clock: dict[int, float] = {}
        self._slowest: dict[int, float] = {}
        self._done: dict[int, float] = {}
        self.place = 0

    @property
    def end_s(self) -> float:
        """When the last stream ends."""
        return max([*self._clock.values(), *self._slowest.values()], default=0.0)

    def skip(self) -> None:
        """Take the message that is waited for as there."""
        self.place += 1

    def play(self, own: int, sent: dict[tuple[int, int, int], float]) -> bool:
        """Go on until a message is missing; whether the program has ended."""
        tasks, clock, slowest = self._tasks, self._clock, self._slowest
        kinds, done = tasks.kind, self._done
        for place in range(self.place, len(kinds)):
            kind, stream, handle = kinds[place], tasks.stream[place], tasks.handle[place]
            now, last = clock.get(stream, 0.0), slowest.get(stream, 0.0)
            if kind == Kind.SEND:
                peer, tag = tasks.message[place]
                sent[own, peer, tag] = now
                continue
            if kind == Kind.RECEIVE:
                peer, tag = tasks.message[place]
                if peer >= 0 and (peer, own, tag) not in sent:
                    self.place = place
                    return False
                now = max(now, sent.get((peer, own, tag), 0.0))
            elif kind == Kind.WAIT:
                now = max(now, done.get(handle, 0.0))
            else:
                begin = now
                if kind == Kind.COLLECTIVE and tasks.is_meeting[place]:
                    begin = max(now, last)
                ends = begin + self._least[place]
                if handle != NO_INDEX:
                    done[handle] = ends
                if tasks.is_asynchronous[place]:
                    continue
                last = max(last + self._least[place], now + self._most[place])
                now = ends
            clock[stream], slowest[stream] = now, max(last, now)
        self.place = len(kinds)
        return True
