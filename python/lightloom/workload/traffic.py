"""Bytes that a task graph sends, counted from its tasks, and whether they are conserved.

Independent of the closed forms in :mod:`.expected`: this module knows the graph, not the model.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom.workload.task_graph import (
    NO_INDEX,
    Collective,
    Kind,
    Program,
    Role,
    TaskGraph,
)


@dataclass(frozen=True)
class Traffic:
    """Bytes sent by all GPUs in one step: inside servers and across the network."""

    local_bytes: int
    network_bytes: int

    @property
    def total_bytes(self) -> int:
        """Both."""
        return self.local_bytes + self.network_bytes


def sent_traffic(graph: TaskGraph) -> dict[str, Traffic]:
    """Bytes sent in a step by purpose."""
    sums: dict[str, list[int]] = {purpose: [0, 0] for purpose in graph.purposes}
    for index, role in enumerate(graph.roles):
        for name, (local, network) in _sent_by_role(graph, index, role).items():
            sums[name][0] += local
            sums[name][1] += network
    return {name: Traffic(local, network) for name, (local, network) in sums.items()}


def _sent_by_role(graph: TaskGraph, index: int, role: Role) -> dict[str, tuple[int, int]]:
    program, workers = role.program, len(role.workers)
    gpus = workers * graph.gpus_per_worker
    demands = [_moved(graph, index, table) for table in range(len(graph.demands))]
    moved_blocks = [tuple(moved.tolist() for moved in table) for table in demands]
    purposes = [category.purpose for category in graph.categories]
    across: dict[tuple[int, int, int], int] = {}  # of groups, by what they depend on
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    columns = ("kind", "category", "collective", "family", "size", "inside", "demand", "total",
               "entry")  # fmt: skip
    rows = zip(*(getattr(program, name).tolist() for name in columns), strict=True)
    for task, row in enumerate(rows):
        kind, category, collective, family, size, inside, table, total, entry = row
        if kind not in (Kind.COLLECTIVE, Kind.SEND):
            continue
        name = purposes[category]
        assert name is not None
        if kind == Kind.SEND:
            local, network = _send_bytes(graph, role, task, size)
        elif table != NO_INDEX:
            local, network = (size * moved[entry] for moved in moved_blocks[table])
        elif total != NO_INDEX:
            local, network = int(graph.tables[total].values[role.workers, entry].sum()), 0
        else:
            key = (family, collective, size)
            if key not in across:
                across[key] = _group_bytes(graph, role, task, size)
            network = across[key]
            is_all_to_all = collective == Collective.ALL_TO_ALL
            local = size * workers - network if is_all_to_all else inside * gpus
        sums[name][0] += local
        sums[name][1] += network
    return {name: (local, network) for name, (local, network) in sums.items()}


def all_to_all_bytes(graph: TaskGraph, family: int) -> int:
    """Bytes that the all-to-alls over a family of groups send between workers in a step."""
    total = 0
    for index, role in enumerate(graph.roles):
        program = role.program
        here = program.of(Collective.ALL_TO_ALL) & (program.family == family)
        if len(buffers := np.flatnonzero(here & (program.demand == NO_INDEX))):
            total += _group_bytes(graph, role, buffers[0], sum(program.size[buffers].tolist()))
        for table in range(len(graph.demands)):
            blocks = here & (program.demand == table)
            if blocks.any():
                _, across = _moved(graph, index, table)
                moved = across[program.entry[blocks]].tolist()
                sizes = program.size[blocks].tolist()
                total += sum(number * size for number, size in zip(moved, sizes, strict=True))
    return total


def _moved(
    graph: TaskGraph, role: int, table: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Counts of a demand table that stay in members and cross between them, by block.

    The groups are those whose first member has the role.
    """
    demand = graph.demands[table]
    first = np.array([group[0] for group in graph.groups_of(demand)])
    members = np.isin(first, graph.roles[role].workers)
    counts = demand.counts[members].astype(np.int64).sum(axis=0)
    inside = np.trace(counts, axis1=-2, axis2=-1) if counts.size else counts
    across = counts.sum(axis=(-1, -2)) - inside if counts.size else counts
    return inside, across


def _send_bytes(graph: TaskGraph, role: Role, task: int, size: int) -> tuple[int, int]:
    """Bytes that the workers of a role send to peers on their own and on other servers."""
    program = role.program
    table, entry = int(program.table[task]), program.entry[task]
    sizes = [size] * len(role.workers)
    if table != NO_INDEX:
        sizes = graph.tables[table].values[role.workers, entry].tolist()
    servers = graph.worker_server
    peers = (
        servers[[_peer(graph, program, task, int(worker)) for worker in role.workers]]
        if (program.family[task] != NO_INDEX)
        else servers[graph.roles[int(program.peer[task])].workers]
    )
    far = (servers[role.workers] != peers).tolist()
    network = sum(size for size, is_far in zip(sizes, far, strict=True) if is_far)
    return sum(sizes) - network, network


def _group_bytes(graph: TaskGraph, role: Role, task: int, size: int) -> int:
    """Bytes that the workers of a role send to others of their groups."""
    family = int(role.program.family[task])
    if family == NO_INDEX:
        return 0
    rings = graph.families[family]
    offsets = rings.offsets.astype(np.int64)
    lengths = offsets[1:] - offsets[:-1]
    length = np.repeat(lengths, lengths)[np.isin(rings.workers, role.workers)]
    collective = role.program.collective[task]
    if collective == Collective.BROADCAST:
        # all but the last of each group pass the buffer on
        return round(size * float(((length - 1) / np.maximum(length, 1)).sum()))
    passes = 2 if collective == Collective.ALL_REDUCE else 1
    gpus = length * (1 + int(role.program.peers[task]))
    shares = np.where(length > 1, passes * (1 - 1 / gpus), 0)
    return round(size * float(shares.sum()))


def traffic_shares(traffic: dict[str, Traffic], *, network_only: bool = False) -> dict[str, float]:
    """Share of each purpose in all bytes sent, or in those that cross the network.

    The counting of MixNet's Figure 2, which includes bytes inside servers, is the default.
    """
    sizes = {
        name: item.network_bytes if network_only else item.total_bytes
        for name, item in traffic.items()
    }
    total = sum(sizes.values())
    return {name: size / total if total else 0.0 for name, size in sizes.items()}


def unmatched(graph: TaskGraph) -> list[str]:
    """What breaks conservation: bytes sent that nobody receives, collectives that not all join.

    Returns
    -------
    One line per fault; empty if every send has its receive and the other way round, every
    collective is joined alike by all its members and every handle awaited once.
    """
    faults = []
    sends: Counter[tuple[int, int, int]] = Counter()
    receives: Counter[tuple[int, int, int]] = Counter()
    for index, role in enumerate(graph.roles):
        program = role.program
        for task in np.flatnonzero(program.kind == Kind.SEND):
            ends = _message_ends(graph, index, int(task))
            sends.update((here, there, int(program.tag[task])) for here, there in ends)
        for task in np.flatnonzero(program.kind == Kind.RECEIVE):
            ends = _message_ends(graph, index, int(task))
            receives.update((there, here, int(program.tag[task])) for here, there in ends)
        named = program.handle != NO_INDEX
        waits = program.kind == Kind.WAIT
        started = Counter(program.handle[named & ~waits].tolist())
        awaited = Counter(program.handle[waits].tolist())
        if started != awaited or any(count > 1 for count in started.values()):
            faults.append(f"role {role.name}: handles {started} are awaited as {awaited}")
    if sends != receives or any(count > 1 for count in sends.values()):
        faults.append(f"sends {sends - receives} and receives {receives - sends} do not match")
    return faults + _unequal_collectives(graph)


def _message_ends(graph: TaskGraph, role: int, task: int) -> list[tuple[int, int]]:
    """Who sends to or receives from whom: roles, or workers where a peer is a place in a group.

    Workers are counted from -1 downwards, so that they are no roles.
    """
    program = graph.roles[role].program
    if program.family[task] == NO_INDEX:
        return [(role, int(program.peer[task]))]
    workers = graph.roles[role].workers.tolist()
    return [(-1 - worker, -1 - _peer(graph, program, task, worker)) for worker in workers]


def _peer(graph: TaskGraph, program: Program, task: int, worker: int) -> int:
    """The worker at a message's other end, named by its place in a group."""
    family = graph.families[int(program.family[task])]
    position = int(np.flatnonzero(family.workers == worker)[0])
    group = int(np.searchsorted(family.offsets, position, side="right")) - 1
    return int(family.workers[int(family.offsets[group]) + int(program.peer[task])])


def _unequal_collectives(graph: TaskGraph) -> list[str]:
    """Families whose members would join another collective, or one of another size."""
    role_of = np.zeros(len(graph.worker_server), dtype=np.int64)
    for index, role in enumerate(graph.roles):
        role_of[role.workers] = index
    faults = []
    for number, family in enumerate(graph.families):
        joined = [_joined(role.program, number) for role in graph.roles]
        for group in family.groups():
            roles = {int(role) for role in role_of[group]}
            if len({joined[role] for role in roles}) > 1:
                names = [graph.roles[role].name for role in sorted(roles)]
                faults.append(f"family {family.name}: roles {names} join different collectives")
                break
    return faults


def _joined(program: Program, family: int) -> tuple[tuple[int, ...], ...]:
    """What a program joins over a family, in order."""
    here = (program.kind == Kind.COLLECTIVE) & (program.family == family)
    columns = (program.collective, program.size, program.inside, program.demand, program.entry)
    return tuple(zip(*(column[here].tolist() for column in columns), strict=True))
