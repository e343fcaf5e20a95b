"""From a trace to the task graph of one step, for all ranks of its job.

Each role's program is what its recorded rank issued: computes with times by the roofline, or as
measured; collectives over groups of workers; messages between roles; waits of streams and of the
program where they were. What one rank computes of experts grows with the rows that it receives.
Priorities are not known, and left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from lightloom.demand.source import DemandSource
from lightloom.errors import InputError
from lightloom.trace.check import MESSAGES
from lightloom.trace.computes import RouterChoice
from lightloom.trace.job import Ints, JobRoles, find_job
from lightloom.trace.step.demand import (
    GroupRows,
    RoleBlocks,
    WorkerRows,
    choice_sizes,
    distinct_ranks,
    find_blocks,
    fold_rows,
)
from lightloom.trace.step.expected import expected_bytes
from lightloom.trace.step.placement import DEMANDS, WorkerPlacement, place
from lightloom.trace.step.programs import RINGS, RoleWriter, StepItems
from lightloom.trace.step.times import OperatorTimes
from lightloom.trace.trace import Trace
from lightloom.units import PS_PER_S
from lightloom.workload.builder import TaskGraphBuilder
from lightloom.workload.compute_kernels import Kernels
from lightloom.workload.task_graph import TaskGraph
from lightloom.workload.traffic import Traffic, sent_traffic, traffic_shares, unmatched

#: relative difference between bytes sent and bytes of the calls that rounding explains
ROUNDING = 1e-5


@dataclass(frozen=True, eq=False)
class TracedStep:
    """What every task graph of a trace's step is made of.

    Attributes
    ----------
    trace, job
        The recording, and the roles of all ranks.
    items
        What each role's recorded rank did, by rank.
    """

    trace: Trace
    job: JobRoles
    items: dict[int, StepItems] = field(repr=False)

    @classmethod
    def of(cls, trace: Trace, step: int | None = None) -> TracedStep:
        """The last whole step of a trace, or another.

        Raises
        ------
        InputError
            If the step was not recorded, or roles are missing.
        """
        job = find_job(trace, step)
        for calls in job.calls.values():
            for call in calls:
                if call.op not in {*RINGS, *DEMANDS, *MESSAGES}:
                    raise InputError(f"call {call.call_id}: {call.op} cannot be simulated")
        items = {
            role.recorded[0]: StepItems.of(
                trace.ranks[role.recorded[0]], job.calls[role.recorded[0]], job.step
            )
            for role in job.roles
        }
        return cls(trace, job, items)

    @property
    def has_routing(self) -> bool:
        """Whether there are all-to-alls with rows, which stem from routers."""
        return any(
            call.routed is not None and call.op == "all_to_all" and any(call.input_splits or ())
            for items in self.items.values()
            for call in items.calls
        )

    def uses(self, dtype: str) -> bool:
        """Whether something is multiplied in a format whose name begins so."""
        return any(
            operator.dtype.startswith(dtype)
            for items in self.items.values()
            for _, compute in items.computes
            for operator in compute.operators
        )

    @property
    def computes(self) -> Counter[str]:
        """Seconds that were measured and operators that were traced, of all recorded ranks."""
        counts: Counter[str] = Counter()
        for items in self.items.values():
            for _, compute in items.computes:
                counts["measured" if compute.duration_s is not None else "traced"] += 1
        return counts


@dataclass(frozen=True)
class TraceWorkload:
    """One step of a traced program, ready to run.

    Attributes
    ----------
    graph
        A role for each kind of rank.
    expected_bytes
        Bytes that all GPUs must send by purpose, by the calls; without those that depend on data.
    traffic
        Bytes that they do send, counted from the graph.
    provenance
        Where demand and compute times come from, in words.
    placement
        Ranks, workers and servers.
    """

    graph: TaskGraph
    expected_bytes: dict[str, float]
    traffic: dict[str, Traffic]
    provenance: dict[str, str]
    placement: WorkerPlacement = field(repr=False)

    def traffic_shares(self, *, network_only: bool = False) -> dict[str, float]:
        """Share of each parallelism in the bytes sent."""
        return traffic_shares(self.traffic, network_only=network_only)

    def worker_names(self) -> dict[int, str]:
        """What each worker is, in words."""
        gpus = self.placement.gpus_per_worker
        names = {}
        for worker, server in enumerate(self.placement.worker_server.tolist()):
            first = worker * gpus
            ranks = f"ranks {first} to {first + gpus - 1}" if gpus > 1 else f"rank {first}"
            names[worker] = f"{ranks} on server {server}"
        return names


class StepBuilder:
    """Builds task graphs of a step on servers of one size; keeps what they share.

    Parameters
    ----------
    step
        What was traced.
    gpus_per_server
        Ranks fill servers in ascending order.

    Raises
    ------
    InputError
        If the ranks of a server cannot be workers; see :func:`.placement.place`.
    """

    def __init__(self, step: TracedStep, gpus_per_server: int) -> None:
        self.step = step
        self.placement = place(step.job, gpus_per_server)
        self.blocks: dict[int, RoleBlocks] = {}
        for number, role in enumerate(self.placement.roles):
            items = step.items[role.recorded]
            computes = tuple(compute for _, compute in items.computes)
            self.blocks[number] = find_blocks(self.placement, items.calls, computes)

    def choice(self) -> tuple[int, RouterChoice]:
        """Ranks of the groups that rows of routers go through, and the sizes of a choice.

        Raises
        ------
        InputError
            If nothing was routed, or routers differ.
        """
        return choice_sizes(self.placement, self.step.trace, self.blocks)

    def build(
        self, kernels: Kernels, scale: float, source: DemandSource | None, step: int
    ) -> TraceWorkload:
        """Build the task graph.

        Parameters
        ----------
        kernels
            Of the GPU.
        scale
            Factor on every compute time.
        source
            What draws rows of routers anew; ``None`` for those that were recorded.
        step
            Training step, for demand that drifts.

        Raises
        ------
        InputError
            If messages of the trace do not match.
        """
        placement, times = self.placement, OperatorTimes(kernels, scale)
        graph = TaskGraphBuilder(placement.worker_server, placement.gpus_per_worker)
        demands, folded = self._families(graph, source, step)
        writers = []
        for number, role in enumerate(placement.roles):
            workers = placement.workers_of(role.ranks)
            items = self.step.items[role.recorded]
            writer = RoleWriter(placement, role, items, self.blocks[number], demands, times)
            writer.write(graph.role(f"ranks like {role.ranks[0]}", workers), 0 if folded else None)
            writers.append(writer)
        if values := self._expert_times(writers, folded, times):
            graph.table("computes of experts", values[0])
        built = graph.build()
        if faults := unmatched(built):
            raise InputError(f"the trace does not fit itself: {faults[0][:300]}")
        workload = TraceWorkload(
            graph=built,
            expected_bytes=expected_bytes(self.step.job),
            traffic=sent_traffic(built),
            provenance=self._provenance(source),
            placement=placement,
        )
        if source is None:
            check_conservation(workload)
        return workload

    def _families(
        self, graph: TaskGraphBuilder, source: DemandSource | None, step: int
    ) -> tuple[dict[int, int], dict[int, WorkerRows]]:
        """Add families and demand tables; index of the table of each family, and its rows."""
        demands: dict[int, int] = {}
        folded: dict[int, WorkerRows] = {}
        every = [
            GroupRows(self.placement, index, self.blocks, self.step.job.calls)
            for index in range(len(self.placement.families))
        ]
        ranks = distinct_ranks(self.placement, every)
        for index, (family, rows) in enumerate(zip(self.placement.families, every, strict=True)):
            graph.family(family.name, family.groups)
            if rows.blocks:
                folded[index] = folded_rows = fold_rows(rows, source, step, ranks)
                demands[index] = graph.demand(
                    family.name,
                    index,
                    folded_rows.counts,
                    ranks_per_member=0 if folded_rows.rank_counts is None else ranks,
                    rank_counts=folded_rows.rank_counts,
                )
        return demands, folded

    def _expert_times(
        self, writers: list[RoleWriter], folded: dict[int, WorkerRows], times: OperatorTimes
    ) -> list[Ints]:
        """Times of computes of experts by worker, ps, ``(workers, entries)``; none without."""
        entries = max((len(writer.scaled) for writer in writers), default=0)
        if not entries:
            return []
        gpus = self.placement.gpus_per_worker
        values = np.zeros((len(self.placement.worker_server), entries), dtype=np.uint64)
        for writer in writers:
            workers = self.placement.workers_of(writer.role.ranks)
            ratios: dict[tuple[int, int], np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = {}
            for entry, (compute, use) in enumerate(writer.scaled):
                key = (use.family, use.block)
                if key not in ratios:
                    ratios[key] = self._loads(writer, folded[use.family], key).reshape(-1, gpus)
                pace = writer.pace(compute)
                seconds = times.scaled(compute, ratios[key].max(axis=1), pace)
                values[workers, entry] = np.round(seconds * PS_PER_S).astype(np.uint64)
        return [values.astype(np.int64)]

    def _loads(
        self, writer: RoleWriter, folded: WorkerRows, key: tuple[int, int]
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """Rows that each rank of a role computes, over those of the recorded rank as recorded."""
        number, block = key
        family = self.placement.families[number]
        place_of = np.full((self.placement.job.world_size, 2), -1)
        groups, size = family.rank_groups.shape
        place_of[family.rank_groups, 0] = np.arange(groups)[:, None]
        place_of[family.rank_groups, 1] = np.arange(size)
        group, position = place_of[writer.role.ranks].T
        received = folded.received[group, block, position].astype(np.float64)
        role = int(self.placement.role_of_rank[writer.role.ranks[0]])
        call = self.blocks[role].blocks[number][block].call
        sent = sum(call.output_splits or ())
        return received / sent if sent else np.ones(len(received))

    def _provenance(self, source: DemandSource | None) -> dict[str, str]:
        notes = {"trace.program": " ".join(self.step.trace.program)}
        notes["trace.calls_hash"] = self.step.trace.calls_hash
        notes["trace.step"] = str(self.step.job.step)
        if source is None:
            return notes | {"demand.rows": "as recorded"}
        return notes | {f"demand.{key}": text for key, text in source.provenance.items()}


def check_conservation(workload: TraceWorkload) -> None:
    """Assert that a graph sends what the calls of its trace send.

    Raises
    ------
    AssertionError
        Our own bug: bytes that differ by more than rounding to whole bytes explains.
    """
    for purpose, expected in workload.expected_bytes.items():
        sent = workload.traffic[purpose].total_bytes if purpose in workload.traffic else 0
        assert abs(sent - expected) <= ROUNDING * expected + 64, (
            f"{purpose}: {sent} bytes are sent, the calls send {expected}"
        )
