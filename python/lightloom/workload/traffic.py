"""Bytes that a task graph sends, counted from its tasks, and whether they are conserved.

Independent of the closed forms in :mod:`.expected`: this module knows the graph, not the model.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from lightloom.workload.task_graph import Category, Kind, Layout, Program, Ring, TaskGraph

#: categories that move bytes, by their names in results
PURPOSES = ("tp", "ep", "pp", "dp", "cp")


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
    """Bytes sent in a step by purpose: ``tp``, ``ep``, ``pp``, ``dp``, ``cp``."""
    sums: dict[str, list[int]] = {purpose: [0, 0] for purpose in PURPOSES}
    for stage, program in enumerate(graph.programs):
        for name, (local, network) in _sent_by_stage(graph, stage, program).items():
            sums[name][0] += local
            sums[name][1] += network
    return {name: Traffic(local, network) for name, (local, network) in sums.items()}


def _sent_by_stage(graph: TaskGraph, stage: int, program: Program) -> dict[str, tuple[int, int]]:
    columns = program.columns()
    layout = graph.layout
    workers = layout.replicas * layout.members
    groups = slice(stage * layout.replicas, (stage + 1) * layout.replicas)
    tokens = graph.blocks.tokens[groups].astype(np.int64).sum(axis=0)
    inside = np.trace(tokens, axis1=-2, axis2=-1) if tokens.size else tokens
    across = tokens.sum(axis=(-1, -2)) - inside if tokens.size else tokens
    gathered = _gathered(graph, groups)
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for index, kind in enumerate(columns["kind"].tolist()):
        name = Category(columns["category"][index]).name.lower()
        size, local = int(columns["bytes"][index]), int(columns["local_bytes"][index])
        peer = int(columns["peer"][index])
        if kind == Kind.LOCAL:
            sums[name][0] += size * workers * layout.gpus_per_worker
        elif kind == Kind.EXPERT_TP:
            sums[name][0] += gathered[int(columns["block"][index])]
        elif kind == Kind.ALL_TO_ALL:
            block = int(columns["block"][index])
            sums[name][0] += size * int(inside[block])
            sums[name][1] += size * int(across[block])
        elif kind == Kind.SEND:
            far = _far_sends(layout, stage, peer)
            sums[name][0] += size * (workers - far)
            sums[name][1] += size * far
        elif kind == Kind.RING:
            sums[name][0] += local * workers * layout.gpus_per_worker
            sums[name][1] += _ring_bytes(graph, stage, peer, size, int(columns["flags"][index]))
    return {name: (local, network) for name, (local, network) in sums.items()}


def _gathered(graph: TaskGraph, groups: slice) -> list[int]:
    """Bytes of one expert-TP collective of these groups, by block."""
    total = graph.blocks.expert_tp_total
    return [] if total is None else [int(x) for x in total[groups].sum(axis=(0, 2))]


def _far_sends(layout: Layout, stage: int, peer: int) -> int:
    """Workers of a stage whose partner in another stage is on another server."""
    servers = layout.worker_server.reshape(layout.stages, -1)
    return int((servers[stage] != servers[peer]).sum())


def _ring_bytes(graph: TaskGraph, stage: int, scope: int, size: int, ring: int) -> int:
    """Bytes that the workers of a stage send round their rings."""
    rings = graph.scopes[scope]
    offsets = rings.offsets.astype(np.int64)
    lengths = offsets[1:] - offsets[:-1]
    length = np.repeat(lengths, lengths)
    per_stage = graph.layout.replicas * graph.layout.members
    length = length[rings.workers // per_stage == stage]
    passes = 2 if ring == Ring.ALL_REDUCE else 1
    shares = passes * (length - 1) / np.maximum(length, 1)
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
    """What breaks conservation: bytes sent that nobody receives, rings that not all join.

    Returns
    -------
    One line per fault; empty if every send has its receive and the other way round, every ring
    is joined alike by all its members and awaited once.
    """
    faults = []
    sends: Counter[tuple[int, int, int]] = Counter()
    receives: Counter[tuple[int, int, int]] = Counter()
    for stage, program in enumerate(graph.programs):
        columns = program.columns()
        kinds = columns["kind"]
        for index in np.flatnonzero(kinds == Kind.SEND):
            sends[stage, int(columns["peer"][index]), int(columns["tag"][index])] += 1
        for index in np.flatnonzero(kinds == Kind.RECEIVE):
            receives[int(columns["peer"][index]), stage, int(columns["tag"][index])] += 1
        started = Counter(columns["tag"][kinds == Kind.RING].tolist())
        awaited = Counter(columns["tag"][kinds == Kind.WAIT].tolist())
        if started != awaited or any(count > 1 for count in started.values()):
            faults.append(f"stage {stage}: rings {started} are awaited as {awaited}")
    if sends != receives or any(count > 1 for count in sends.values()):
        faults.append(f"sends {sends - receives} and receives {receives - sends} do not match")
    return faults + _unequal_rings(graph)


def _unequal_rings(graph: TaskGraph) -> list[str]:
    """Rings whose members would join with another size, kind or handle."""
    joined: dict[int, dict[int, tuple[int, ...]]] = defaultdict(dict)
    for stage, program in enumerate(graph.programs):
        columns = program.columns()
        for index in np.flatnonzero(columns["kind"] == Kind.RING):
            scope, handle = int(columns["peer"][index]), int(columns["tag"][index])
            size, flags = int(columns["bytes"][index]), int(columns["flags"][index])
            joined[scope].setdefault(stage, ())
            joined[scope][stage] += (handle, flags, size)
    per_stage = graph.layout.replicas * graph.layout.members
    faults = []
    for scope, by_stage in joined.items():
        offsets = graph.scopes[scope].offsets.tolist()
        for start, end in itertools.pairwise(offsets):
            stages = {int(w) // per_stage for w in graph.scopes[scope].workers[start:end]}
            if len({by_stage.get(stage) for stage in stages}) > 1:
                faults.append(f"scope {scope}: stages {sorted(stages)} join different rings")
                break
    return faults
