"""The job of :mod:`lightloom.testbed.replay` in the simulator: same demand, rates and delays.

The rates are those of the testbed's NICs less the headers of frames. Ranks agree on each
all-to-all, so that all begin it together. What the runtime takes for that, to begin and to decide
is measured and given, as start-up and computation; everything else is simulated: how flows share
NICs, which circuits are chosen, when they change, and what of that is exposed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.control.emulator.timing import SettleTime, parts_of_settling
from lightloom.fabric.network import Eps, Network, NvSwitch, Ocs, Part, StartUp
from lightloom.schedule import SwitchTiming
from lightloom.simulate import Run, Timeline, simulate
from lightloom.testbed.layout import MTU_BYTES, ServerLayout
from lightloom.testbed.replay import (
    WARM_UP,
    ReplayedAllToAll,
    ReplayedSteps,
    ReplayJob,
    RuntimeDelays,
)
from lightloom.units import to_ps
from lightloom.workload import Block, TaskGraphBuilder
from lightloom.workload.categories import step_categories
from lightloom.workload.task_graph import TaskGraph

#: share of a frame that is a program's: less Ethernet, IPv4, TCP and its time stamps (RFC 7323)
GOODPUT = (MTU_BYTES - 20 - 20 - 12) / (MTU_BYTES + 14)
#: bytes that stay in a server move as fast as memory is copied, which hides behind the network
_MEMORY_BPS = 32_000_000_000


def simulated(
    job: ReplayJob, layout: ServerLayout, *, policy: str, settle: SettleTime, delays: RuntimeDelays
) -> ReplayedSteps:
    """Simulate a job on the network of a testbed; what its steps take after the first ones.

    Parameters
    ----------
    job
        What is sent and computed.
    layout
        Of the testbed.
    policy
        ``break-even``, ``never`` or ``packets``.
    settle
        How long mirrors take, in the mean.
    delays
        Of the runtime.
    """
    network = _network(layout, policy, settle, delays)
    run = simulate(_graph(job, delays), network, timeline_workers=range(job.ranks))
    return _steps(job, run)


def _graph(job: ReplayJob, delays: RuntimeDelays) -> TaskGraph:
    servers = range(job.ranks)
    built = TaskGraphBuilder(servers, 1, step_categories())
    experts = built.family("ep", [servers])
    ring = built.family("dp", [servers])
    demand = built.demand("tokens", experts, np.array(job.counts)[np.newaxis])
    program = built.role("trainer", servers)

    def agree(layer: int, step: int) -> None:
        program.all_gather(ring, 8 * job.ranks**2, "agreement", layer=layer, micro_batch=step)
        rest_s = max(0.0, delays.agree - (job.ranks - 1) * _message_s(job.ranks, delays))
        program.compute("gate", rest_s, layer=layer, micro_batch=step)

    def move(layer: int, step: int, *, back: bool, first: bool = False) -> None:
        agree(layer, step)
        if first:
            program.compute("gate", delays.decide, layer=layer, micro_batch=step)
        block = Block(demand, layer, job.row_bytes, transposed=back, first=first)
        program.all_to_all(experts, block, "ep", layer=layer, micro_batch=step)

    for step in range(job.steps):
        for layer in range(job.layers):
            program.compute("attention", job.attention_s, layer=layer, micro_batch=step)
            move(layer, step, back=False, first=True)
            program.compute("expert", job.experts_s, layer=layer, micro_batch=step)
            move(layer, step, back=True)
        for layer in reversed(range(job.layers)):
            move(layer, step, back=False)
            program.compute("expert", 2 * job.experts_s, layer=layer, micro_batch=step)
            move(layer, step, back=True)
            program.compute("attention", 2 * job.attention_s, layer=layer, micro_batch=step)
        agree(0, step)
        program.all_reduce(ring, job.sum_bytes, "dp", micro_batch=step)
    return built.build()


def _message_s(ranks: int, delays: RuntimeDelays) -> float:
    """Of each step of a ring, of which a sum of almost nothing has two rounds."""
    return max(0.0, delays.sum - delays.agree) / (2 * (ranks - 1))


def _network(
    layout: ServerLayout, policy: str, settle: SettleTime, delays: RuntimeDelays
) -> Network:
    servers = layout.servers
    fixed_s, per_pair_s = parts_of_settling(settle)
    parts: list[Part] = [
        Eps(
            nics=layout.eps_nics,
            nic_rate_bps=round(layout.eps_gbps * 1e9 * GOODPUT),
            link_delay_ps=0,
            servers_per_tor=servers,
            servers_per_pod=servers,
        )
    ]
    if policy != "packets":
        parts.append(
            Ocs(
                ports=layout.optical_nics,
                nic_rate_bps=round(layout.rate_gbps * 1e9 * GOODPUT),
                circuit_delay_ps=0,
                region_of_server=np.zeros(servers, np.uint32),
                allocator="best",
                split=True,
                when=policy,
                first="block",
                timing=SwitchTiming(fixed_s, per_pair_s, delays.control),
            )
        )
    return Network(
        servers,
        1,
        NvSwitch(_MEMORY_BPS, 0),
        "hierarchical",
        tuple(parts),
        start_up=StartUp(
            message_ps=to_ps(_message_s(servers, delays)), all_to_all_ps=to_ps(delays.move)
        ),
    )


def _steps(job: ReplayJob, run: Run) -> ReplayedSteps:
    """What steps take, from the spans of all workers."""
    spans = worker_spans(run.timeline, job.ranks)
    each, counted = 4 * job.layers, job.steps - WARM_UP
    moved, ends = [], []
    for of_all in zip(*spans, strict=True):
        end = max(span.end_s for span in of_all)
        if of_all[0].name == "dp":
            ends.append(end)
        else:
            together = max(span.start_s for span in of_all)
            moved.append((of_all[0].layer, end - together))
    names = ["all_to_all", "combine"] * job.layers + ["gradient"] * (2 * job.layers)
    return ReplayedSteps(
        (ends[-1] - ends[-1 - counted]) / counted,
        tuple(
            ReplayedAllToAll(name, layer, moved_s)
            for name, (layer, moved_s) in zip(names, moved[-each:], strict=True)
        ),
        *_changes(job, run, ends[-1 - counted]),
    )


def _changes(job: ReplayJob, run: Run, since_s: float) -> tuple[float, float]:
    """Reconfigurations of a step and what they exposed, after the first steps."""
    counted = job.steps - WARM_UP
    changes = sum(s.ready_s > s.time_s for s in run.snapshots if s.time_s >= since_s)
    timeline = run.timeline
    names = np.array(timeline.categories)[timeline.category]
    late = (names == "reconfiguration") & (timeline.start_s >= since_s)
    exposed_s = float((timeline.end_s - timeline.start_s)[late].sum()) / job.ranks
    return changes / counted, exposed_s / counted


class _Moved(NamedTuple):
    """A collective of a worker, from when its circuits were there."""

    name: str
    layer: int
    start_s: float
    end_s: float


def worker_spans(timeline: Timeline, workers: int) -> list[list[_Moved]]:
    """The collectives of each worker, in order."""
    names = np.array(timeline.categories)[timeline.category]
    found: list[list[_Moved]] = [[] for _ in range(workers)]
    for place in np.argsort(timeline.start_s, kind="stable"):
        spans = found[timeline.worker[place]]
        start, end = float(timeline.start_s[place]), float(timeline.end_s[place])
        if names[place] == "reconfiguration" and spans and spans[-1].end_s == start:
            spans.pop()  # the wait for others, before that for circuits
        elif names[place] in ("ep", "dp"):
            spans.append(_Moved(str(names[place]), int(timeline.layer[place]), start, end))
    return found
