"""The outcome of a simulated step, in seconds and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.fabric.network import Ocs
from lightloom.simulate.decisions import DecisionLog, decision_log
from lightloom.simulate.recording import RecordedStep, recorded_step
from lightloom.units import PS_PER_S


@dataclass(frozen=True)
class LinkUse:
    """Use of one class of links over the step.

    ``mean`` is the bytes of all links over what they could have carried (circuits: while up);
    ``max`` that of the busiest.
    """

    name: str
    links: int
    carried_bytes: int
    mean: float
    max: float


@dataclass(frozen=True)
class CircuitUse:
    """What the circuit policy did.

    Attributes
    ----------
    decisions, reconfigurations
        How often circuits were decided, and how often any changed.
    skipped
        Decisions not taken, as another group of the same servers used the circuits.
    pairs_changed
        Port pairs switched, over all reconfigurations.
    delay_s, exposed_s
        Switching delay once per all-to-all that it is for, and the part of it for which the mean
        member of an EP group waited.
    saved_s
        Sum over reconfigurations: by how much less the upcoming all-to-alls take at line rate than
        with the circuits that were there.
    makespan_s, bound_s
        Sums over decisions: the time at line rate of what was decided for, and what no circuits
        can beat.
    relayed, one_hop
        Where servers may relay: all-to-alls that relays served, and those for which it did not pay.
    allocations, shared
        Requests to the allocator, and those served from an equal earlier one.
    """

    decisions: int
    reconfigurations: int
    skipped: int
    pairs_changed: int
    delay_s: float
    exposed_s: float
    saved_s: float
    makespan_s: float
    bound_s: float
    relayed: int
    one_hop: int
    allocations: int
    shared: int

    @property
    def hidden_s(self) -> float:
        """Switching delay that was hidden behind compute."""
        return max(0.0, self.delay_s - self.exposed_s)

    @property
    def shared_ratio(self) -> float:
        """Part of the requests to the allocator that were served from an equal earlier one."""
        return self.shared / self.allocations if self.allocations else 0.0


@dataclass(frozen=True)
class Timeline:
    """Spans of selected workers, one row each, in the order in which they ended.

    Attributes
    ----------
    worker
        Worker, ``(n,)``.
    stream
        Stream of the worker (0: the main one): what it does or waits for. One more than the last
        stream: messages and asynchronous collectives, which run alongside.
    start_s, end_s
        Seconds since the start of the step.
    waited_s
        The first part of it, in which the worker waited for others of the same collective.
    category
        Index into ``categories``.
    layer, micro_batch
        Of the task; 65535 where none.
    categories
        Names of the categories.
    """

    worker: npt.NDArray[np.uint32]
    stream: npt.NDArray[np.uint8]
    start_s: npt.NDArray[np.float64]
    end_s: npt.NDArray[np.float64]
    waited_s: npt.NDArray[np.float64]
    category: npt.NDArray[np.uint8]
    layer: npt.NDArray[np.uint16]
    micro_batch: npt.NDArray[np.uint16]
    categories: tuple[str, ...]


@dataclass(frozen=True)
class CriticalSpans:
    """What happened along the critical path, span by span.

    Attributes
    ----------
    category
        Index into ``categories``, ``(n,)``.
    end_s
        Seconds since the start of the step; a span begins where the one before it ends, and the
        last one ends with the step.
    categories
        Names of the categories.
    """

    category: npt.NDArray[np.uint8]
    end_s: npt.NDArray[np.float64]
    categories: tuple[str, ...]


@dataclass(frozen=True)
class BytesInFlight:
    """Bytes sent between workers and not yet received, over time.

    Attributes
    ----------
    interval_s
        Length of an interval; the last one ends with the step.
    mean_bytes
        By purpose: mean over each interval.
    """

    interval_s: float
    mean_bytes: dict[str, npt.NDArray[np.uint64]]


@dataclass(frozen=True)
class CircuitTimeline:
    """When which circuits were up, for the regions of the selected workers; one row per span.

    ``count`` parallel circuits joined ``server_a`` and ``server_b`` from ``up_s`` to ``down_s``.
    """

    server_a: npt.NDArray[np.uint32]
    server_b: npt.NDArray[np.uint32]
    count: npt.NDArray[np.uint16]
    up_s: npt.NDArray[np.float64]
    down_s: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Snapshot:
    """One decision of the circuit policy, for the group of a selected worker.

    Attributes
    ----------
    time_s, ready_s
        When switching began and when the circuits were up.
    group
        EP group, ``stage * replicas + replica``.
    layer, micro_batch
        Of the all-to-all that it is for.
    servers
        ``(n,)``.
    demand
        Bytes, ``(n, n)``, row = source.
    circuits
        Parallel circuits, ``(n, n)``.
    makespan_s
        Of the demand over these circuits at line rate.
    chosen
        Allocator whose circuits these are.
    """

    time_s: float
    ready_s: float
    group: int
    layer: int
    micro_batch: int
    servers: npt.NDArray[np.uint32]
    demand: npt.NDArray[np.uint64]
    circuits: npt.NDArray[np.uint16]
    makespan_s: float
    chosen: str


@dataclass(frozen=True)
class Run:
    """The outcome of one step.

    Attributes
    ----------
    step_time_s
        From the start until the last worker is done.
    critical_path_s
        Seconds per category along the chain of causes that ends with the last worker: a waiting
        worker's time is charged to what its releaser did. Sums to the step time.
    mean_s
        Seconds per category, mean over workers; sums to the step time. All-to-alls and rings
        include the wait for their members, but not for those that are late at random, which is
        ``straggler``; ``bubble`` is waiting for the pipeline and for the end of the step.
    role_s
        The same per role (pipeline stage), mean over its workers.
    straggler_wait_s
        The part of ``mean_s["ep"]`` (and ``"reconfiguration"``) before the last member arrived:
        the wait for other servers, where ``mean_s["straggler"]`` is that for ranks of the same.
    purpose_bytes
        Bytes by purpose (tp, ep, pp, dp, cp) and carrier (nvswitch, eps, ocs, direct, relayed).
        Relayed bytes are counted once more per relay.
    circuits
        What the circuit policy did.
    links
        Use of each class of links.
    run_hash
        Hash of everything that happened; equal inputs have equal hashes.
    events, flows, tasks
        How much was simulated.
    packet_hops
        Packets that left a link, once for each, if the step ran as packets.
    simulated_packet_hops
        Those that were simulated: the others repeat what had happened alike.
    flow_work
        What the flow simulation did for it.
    timeline, circuit_timeline, snapshots
        For the workers asked for; empty otherwise.
    critical_spans, in_flight
        Recorded with the timeline; None without one.
    decisions
        Every decision with what it started from, if asked for and there are circuits to decide.
    recording
        The flows and what they waited for, if asked for of a step as packets.
    """

    step_time_s: float
    critical_path_s: dict[str, float]
    mean_s: dict[str, float]
    role_s: dict[str, dict[str, float]]
    straggler_wait_s: float
    purpose_bytes: dict[str, dict[str, int]]
    circuits: CircuitUse
    links: tuple[LinkUse, ...]
    run_hash: str
    events: int
    flows: int
    tasks: int
    packet_hops: int
    simulated_packet_hops: int
    flow_work: dict[str, int]
    timeline: Timeline
    circuit_timeline: CircuitTimeline
    snapshots: tuple[Snapshot, ...]
    decisions: DecisionLog | None = None
    critical_spans: CriticalSpans | None = None
    in_flight: BytesInFlight | None = None
    recording: RecordedStep | None = None

    @property
    def carried_bytes(self) -> dict[str, int]:
        """Bytes by carrier, all purposes together."""
        rows = list(self.purpose_bytes.values())
        return {carrier: sum(row[carrier] for row in rows) for carrier in rows[0]} if rows else {}

    def reconfiguration_summary(self) -> dict[str, float]:
        """What the circuit policy did, flat; empty where there are no circuits to decide."""
        use = self.circuits
        relaying: dict[str, float] = {}
        if use.relayed or use.one_hop:
            relaying = {"relayed_exchanges": use.relayed, "one_hop_exchanges": use.one_hop}
        if use.decisions == 0:
            return relaying
        return {
            "decisions": use.decisions,
            "reconfigurations": use.reconfigurations,
            "skipped": use.skipped,
            "pairs_changed": use.pairs_changed,
            "delay_s": use.delay_s,
            "hidden_s": use.hidden_s,
            "exposed_s": use.exposed_s,
            "makespan_over_bound": use.makespan_s / use.bound_s if use.bound_s else 1.0,
            "shared_ratio": use.shared_ratio,
            **relaying,
        }


def run_of(outcome: dict[str, Any], custom_allocator: str | None, ocs: Ocs | None) -> Run:
    """Convert what the core returned; ``custom_allocator`` names a user's."""
    values = dict(outcome)
    spans, in_flight = outcome["critical_spans"], outcome["in_flight"]
    names, roles = outcome["timeline"]["categories"], values.pop("roles")
    totals = [sum(column) for column in zip(*(spent for _, _, spent in roles), strict=True)]
    workers = sum(workers for _, workers, _ in roles)
    straggler_wait_ps = values.pop("straggler_wait_ps")
    mean_s = _by_category(names, totals, workers)
    for name, late_s in _by_category(names, values.pop("late_ps"), workers).items():
        if late_s:
            mean_s[name] -= late_s
            mean_s["straggler"] = mean_s.get("straggler", 0.0) + late_s
    for row in outcome["snapshots"]:
        if custom_allocator is not None and row["chosen"] != "static":
            row["chosen"] = custom_allocator
    parts = {
        "circuits": CircuitUse(**outcome["circuits"]),
        "links": tuple(LinkUse(**row) for row in outcome["links"]),
        "timeline": Timeline(**outcome["timeline"]),
        "circuit_timeline": CircuitTimeline(**outcome["circuit_timeline"]),
        "snapshots": tuple(Snapshot(**row) for row in outcome["snapshots"]),
        "decisions": decision_log(outcome["decisions"], ocs),
        "critical_spans": None if spans is None else CriticalSpans(**spans),
        "recording": recorded_step(outcome["recording"]),
        "in_flight": None if in_flight is None else BytesInFlight(**in_flight),
    }
    return Run(
        mean_s=mean_s,
        role_s={name: _by_category(names, spent, number) for name, number, spent in roles},
        straggler_wait_s=straggler_wait_ps / workers / PS_PER_S,
        **{**values, **parts},
    )


def _by_category(
    names: Sequence[str], picoseconds: Sequence[int], workers: int
) -> dict[str, float]:
    values = zip(names, picoseconds, strict=True)
    return {name: value / workers / PS_PER_S for name, value in values}
