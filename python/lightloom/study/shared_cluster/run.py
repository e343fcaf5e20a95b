"""Simulate several jobs on one cluster, each alone and all together.

Jobs have servers of their own and share the network. Each trains step after step, as many as fill
the time in which all train, so that no job is without the others while it is measured. A
fabric is planned for all jobs at once and is the same for a job alone, on the same servers: what
differs is what the others send.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from lightloom.errors import InputError
from lightloom.fabric import Cluster, Fabric, FabricContext, job_context
from lightloom.fabric.network import Eps, Network
from lightloom.progress import Monitor
from lightloom.simulate import Run, simulate
from lightloom.study.compare.job import Job, load_fabrics, prepare
from lightloom.study.compare.program_job import given_job
from lightloom.study.compare.runner import Row
from lightloom.study.compare.scenario import Scenario
from lightloom.study.compare.shared_work import usable_cores
from lightloom.study.shared_cluster.jobs_file import SharedCluster
from lightloom.study.shared_cluster.placement import (
    PLACEMENTS,
    Placement,
    Servers,
    check_given,
    place,
)
from lightloom.study.shared_cluster.results import JobOutcome, PlacementOutcome, SharedResult
from lightloom.units import show_things
from lightloom.workload.side_by_side import END_OF_STEP, repeated, side_by_side
from lightloom.workload.task_graph import TaskGraph

#: steps of the job whose steps are longest, and of any other at most
LEAST_STEPS, MOST_STEPS = 3, 50
#: by how much more than the longest job the others train, as that may be slowed more than they are
MARGIN = 1.25


@dataclass(frozen=True)
class _Cases:
    """The jobs on the servers of one fabric."""

    jobs: Sequence[Job]
    graphs: Sequence[TaskGraph]
    sizes: Sequence[int]
    cluster: Cluster

    @property
    def roles(self) -> list[range]:
        """The roles of each job where all are side by side."""
        ends = np.cumsum([0, *(len(graph.roles) for graph in self.graphs)]).tolist()
        return [range(first, end) for first, end in pairwise(ends)]


@dataclass(frozen=True)
class _Placed:
    """A placement: the servers of each job, and the fabric as planned for all of them."""

    placement: str
    servers: Sequence[Servers]
    network: Network


@dataclass(frozen=True)
class _Planned:
    """A fabric, the jobs on its servers, and those of each placement."""

    fabric: Fabric
    cases: _Cases
    servers: Mapping[str, Sequence[Servers]]

    @cached_property
    def contexts(self) -> dict[str, FabricContext]:
        """All jobs as a fabric may know them in advance, by placement."""
        return {name: _context(self.cases, servers) for name, servers in self.servers.items()}

    @cached_property
    def candidates(self) -> list[Fabric]:
        """The fabric with each way to spread all-to-alls that it leaves open."""
        context = next(iter(self.contexts.values()))
        return [*self.fabric.candidates(self.cases.cluster, context).values()] or [self.fabric]

    def placed(self, fabric: Fabric) -> list[_Placed]:
        """The placements on a candidate."""
        return [
            _Placed(name, servers, fabric.network(self.cases.cluster, self.contexts[name]))
            for name, servers in self.servers.items()
        ]


def share(shared: SharedCluster, *, monitor: Monitor[Row] | None = None) -> SharedResult:
    """Simulate jobs that share a cluster, for each fabric and placement.

    Parameters
    ----------
    shared
        The jobs and the cluster.
    monitor
        Takes the summary, progress and remarks.

    Raises
    ------
    InputError
        If anything cannot be used; nothing has run then.
    KeyboardInterrupt
        If it was interrupted, or the monitor returned ``False``.
    """
    watcher: Monitor[Row] = monitor or Monitor()
    jobs = [_prepared(number, job.scenario) for number, job in enumerate(shared.jobs, 1)]
    _check_alike(jobs, shared)
    fabrics = load_fabrics(shared.jobs[0].scenario)
    summary = _summary(shared, jobs)
    watcher.begun(summary, _warnings(shared, jobs))
    remarks: list[str] = []
    planned = [_planned(shared, jobs, fabric, remarks) for fabric in fabrics]
    for remark in remarks:
        watcher.remark(remark)
    each = len(jobs) + shared.starts
    total = sum(len(there.servers) * each + len(there.candidates) * len(jobs) for there in planned)
    pool = _Pool(watcher, total)
    outcomes: list[PlacementOutcome] = []
    for there in planned:
        outcomes += _of_fabric(shared, there, pool)
    for text in _too_long(outcomes):
        remarks.append(text)
        watcher.remark(text)
    inputs = {
        "cluster": shared.jobs[0].scenario.cluster.model_dump(mode="json"),
        "gpus": shared.gpus or sum(job.scenario.gpus for job in jobs),
        "jobs": [
            {"name": job.name, "gpus": made.scenario.gpus, **made.inputs()}
            for job, made in zip(shared.jobs, jobs, strict=True)
        ],
    }
    return SharedResult(inputs, tuple(outcomes), tuple(summary), tuple(remarks))


def _too_long(outcomes: Sequence[PlacementOutcome]) -> list[str]:
    """Jobs whose steps are too long beside those of others, in a sentence each."""
    jobs = {job.job: None for outcome in outcomes for job in outcome.jobs if not job.steps}
    return [
        f"a step of {job} is longer than {MOST_STEPS} steps of another job: it is in part without"
        " that job, and looks less slowed than it is"
        for job in jobs
    ]


def _check_alike(jobs: Sequence[Job], shared: SharedCluster) -> None:
    """Refuse jobs that divide the servers of the cluster in different ways."""
    first = jobs[0].scenario.cluster.used_gpus_per_server
    for named, job in zip(shared.jobs, jobs, strict=True):
        size = job.scenario.cluster.used_gpus_per_server
        if size != first:
            raise InputError(
                f"job {named.name} uses {size} GPUs of a server, {shared.jobs[0].name} {first}: "
                "set cluster.spare_gpus_per_server for all"
            )


def _warnings(shared: SharedCluster, jobs: Sequence[Job]) -> list[str]:
    """What to know of each job before any result is read."""
    return [
        f"{named.name}: {warning}"
        for named, job in zip(shared.jobs, jobs, strict=True)
        for warning in job.warnings()
    ]


def _summary(shared: SharedCluster, jobs: Sequence[Job]) -> list[str]:
    """The jobs, a line each."""
    lines = []
    for named, job in zip(shared.jobs, jobs, strict=True):
        plan = next((line for line in job.plan_summary() if line.startswith("plan: ")), "")
        words = plan.removeprefix("plan: ").partition(" (")[0]
        lines.append(f"{named.name}: {job.scenario.gpus} GPUs{words and f', {words}'}")
    return lines


def _prepared(number: int, scenario: Scenario) -> Job:
    """Job number so and so, looked up; what is wrong with it says so."""
    try:
        return given_job(scenario) or prepare(scenario)
    except InputError as error:
        raise InputError(f"job {number}: {error}") from None


def _planned(
    shared: SharedCluster, jobs: Sequence[Job], fabric: Fabric, remarks: list[str]
) -> _Planned:
    """The jobs on the servers of a fabric, and the placements that there are."""
    size = fabric.adapt(jobs[0].cluster).gpus_per_server
    sizes = [-(-job.scenario.gpus // size) for job in jobs]
    servers = sum(sizes) if shared.gpus is None else -(-shared.gpus // size)
    if sum(sizes) > servers:
        raise InputError(
            f"gpus = {shared.gpus}: jobs need {show_things(sum(sizes), 'server')} of {size} GPUs on"
            f" {fabric.name}, the cluster has {servers}"
        )
    # what a job leaves of its last server is idle
    cluster = dataclasses.replace(jobs[0].cluster, gpus=servers * size)
    graphs = [job.workload(job.samples()[0], size).graph for job in jobs]
    fabric = _spreading_alike(fabric, graphs)
    cases = _Cases(jobs, graphs, sizes, cluster)
    if shared.has_servers:
        given = [job.servers or () for job in shared.jobs]
        return _Planned(fabric, cases, {"given": check_given(given, sizes, servers)})
    placed: dict[str, Sequence[Servers]] = {}
    for placement in shared.placements:
        try:
            chosen = place(placement, sizes, servers, _unit(placement, fabric, cases))
        except InputError as error:
            if shared.placements != PLACEMENTS:
                raise
            remarks.append(f"{fabric.name}: left out: {error}")
            continue
        same = next((name for name, other in placed.items() if _are_equal(other, chosen)), None)
        if same is not None:
            remarks.append(f"{fabric.name}: placement {placement} is as {same}")
            continue
        placed[placement] = chosen
    return _Planned(fabric, cases, placed)


def _are_equal(some: Sequence[Servers], others: Sequence[Servers]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(some, others, strict=True))


def _spreading_alike(fabric: Fabric, graphs: Sequence[TaskGraph]) -> Fabric:
    """The fabric, with all-to-alls over delegates where jobs have different ranks in a server."""
    ranks = {max([1, *(d.ranks_per_member for d in graph.demands)]) for graph in graphs}
    if len(ranks) < 2 or fabric.parameters().get("all_to_all") != "best":
        return fabric
    return fabric.replace(all_to_all="hierarchical")


def _unit(placement: Placement, fabric: Fabric, cases: _Cases) -> int:
    """Servers of a ToR or a region of a fabric."""
    if placement == "region":
        return int(fabric.parameters().get("region_servers") or 1)
    if placement != "tor":
        return 1
    packed = place("packed", cases.sizes, sum(cases.sizes), 1)
    eps = fabric.network(cases.cluster, _context(cases, packed)).part(Eps)
    return 1 if eps is None else eps.servers_per_tor


def _context(cases: _Cases, servers: Sequence[Servers]) -> FabricContext:
    """All jobs as a fabric may know them in advance."""
    return job_context([side_by_side(cases.graphs, servers)])


class _Pool:
    """Runs simulations on all cores, in the order of their results, and says how far they are."""

    def __init__(self, watcher: Monitor[Row], total: int) -> None:
        self._watcher, self._total, self._done = watcher, total, 0

    def map(self, title: str, calls: Sequence[Callable[[], Run]]) -> list[Run]:
        runs = []
        with ThreadPoolExecutor(max_workers=usable_cores()) as pool:
            futures = [pool.submit(call) for call in calls]
            try:
                for future in futures:
                    if self._watcher.progress(self._done / self._total, title) is False:
                        raise KeyboardInterrupt
                    runs.append(future.result())
                    self._done += 1
            except BaseException:
                for future in futures:
                    future.cancel()
                raise
        return runs


def _of_fabric(shared: SharedCluster, planned: _Planned, pool: _Pool) -> list[PlacementOutcome]:
    """All placements on a fabric."""
    cases, name = planned.cases, planned.fabric.name
    tried = {}
    for fabric in planned.candidates:
        placed = planned.placed(fabric)
        calls = [_alone(cases, placed[0], job, 1) for job in range(len(cases.jobs))]
        runs = pool.map(f"{name}: a step of each job", calls)
        tried[tuple(run.step_time_s for run in runs)] = placed
    # that on which GPUs wait the least
    times_s = min(tried, key=lambda times: float(np.dot(times, cases.sizes)))
    placed = tried[times_s]
    steps = steps_of(times_s)
    draws = start_times(times_s, shared.starts, shared.jobs[0].scenario.seed)
    outcomes = []
    for there in placed:
        calls = [_alone(cases, there, job, count) for job, count in enumerate(steps)]
        calls += [_together(cases, there, steps, starts_s) for starts_s in draws]
        runs = pool.map(f"{name}, {there.placement}", calls)
        alone, together = runs[: len(steps)], runs[len(steps) :]
        ends_alone = [step_ends(run, [range(len(run.role_s))])[0] for run in alone]
        measured = [
            undisturbed(starts_s, step_ends(run, cases.roles), ends_alone)
            for starts_s, run in zip(draws, together, strict=True)
        ]
        outcomes.append(_outcome(shared, name, cases, there, measured))
    return _with_best_alone(outcomes)


def steps_of(times_s: Sequence[float]) -> list[int]:
    """Steps of each job, so that none ends long before the others.

    Parameters
    ----------
    times_s
        Time of a step of each.
    """
    train_s = MARGIN * LEAST_STEPS * max(times_s)
    return [
        LEAST_STEPS if time_s == max(times_s) else min(MOST_STEPS, 1 + math.ceil(train_s / time_s))
        for time_s in times_s
    ]


def start_times(times_s: Sequence[float], draws: int, seed: int) -> list[list[float]]:
    """When jobs begin, ``[draw][job]``: at once, and then anywhere in their first step.

    Parameters
    ----------
    times_s
        Time of a step of each.
    draws, seed
        How many, and of which random stream.
    """
    random = np.random.default_rng([seed, 38])
    drawn = [(random.random(len(times_s)) * times_s).tolist() for _ in range(draws - 1)]
    return [[0.0] * len(times_s), *drawn]


def _alone(cases: _Cases, placed: _Placed, job: int, steps: int) -> Callable[[], Run]:
    """Run one job on its servers, with no other."""
    graph = side_by_side([repeated(cases.graphs[job], steps)], [placed.servers[job]])
    return _run(graph, placed.network)


def _together(
    cases: _Cases, placed: _Placed, steps: Sequence[int], starts_s: Sequence[float]
) -> Callable[[], Run]:
    """Run all jobs on their servers."""
    graphs = [
        repeated(graph, count, start_s)
        for graph, count, start_s in zip(cases.graphs, steps, starts_s, strict=True)
    ]
    return _run(side_by_side(graphs, placed.servers), placed.network)


def _run(graph: TaskGraph, network: Network) -> Callable[[], Run]:
    workers = [int(role.workers[0]) for role in graph.roles]
    return lambda: simulate(graph, network, timeline_workers=workers)


def step_ends(run: Run, roles: Sequence[range]) -> list[list[float]]:
    """When each step of each job ended, in seconds: when it had in all of its roles.

    Parameters
    ----------
    run
        Of jobs side by side, with a timeline of a worker of every role.
    roles
        Of each job.
    """
    timeline = run.timeline
    mark = timeline.categories.index(END_OF_STEP)
    is_mark = (timeline.category == mark) & (timeline.end_s - timeline.start_s > 0)
    workers, ends = timeline.worker[is_mark], timeline.end_s[is_mark]
    # the recorded workers, role by role
    of_role = np.unique(timeline.worker)
    return [
        np.max([np.sort(ends[workers == of_role[role]]) for role in own], axis=0).tolist()
        for own in roles
    ]


@dataclass(frozen=True)
class Measured:
    """Steps of a job during which all others train: how many, their time, and that alone."""

    steps: int
    together_s: float
    alone_s: float


def undisturbed(
    starts_s: Sequence[float],
    together: Sequence[Sequence[float]],
    alone: Sequence[Sequence[float]],
) -> list[Measured]:
    """Measure the steps of each job that lie in the time in which all jobs train.

    Where a job has no such step, the one is taken of which most lies in that time.

    Parameters
    ----------
    starts_s
        When each job begins.
    together, alone
        When each of its steps ends, with all others and with none; alone it begins at once.
    """
    first_s, last_s = max(starts_s), min(ends[-1] for ends in together)
    measured = []
    for start_s, ends, ends_alone in zip(starts_s, together, alone, strict=True):
        begins = np.array([start_s, *ends[:-1]])
        overlap = np.minimum(ends, last_s) - np.maximum(begins, first_s)
        inside = np.flatnonzero(overlap >= np.subtract(ends, begins) * (1 - 1e-9))
        chosen = inside if inside.size else np.array([int(np.argmax(overlap))])
        first, last = int(chosen[0]), int(chosen[-1])
        before_s = ends_alone[first - 1] if first else 0.0
        count = last - first + 1
        measured.append(
            Measured(
                len(inside),
                (ends[last] - float(begins[first])) / count,
                (ends_alone[last] - before_s) / count,
            )
        )
    return measured


def _outcome(
    shared: SharedCluster,
    fabric: str,
    cases: _Cases,
    placed: _Placed,
    measured: Sequence[Sequence[Measured]],
) -> PlacementOutcome:
    """What became of the jobs: means over the draws of ``measured[draw][job]``."""
    jobs = []
    for number, job in enumerate(cases.jobs):
        draws = [draw[number] for draw in measured]
        alone_s = float(np.mean([draw.alone_s for draw in draws]))
        slower = [draw.together_s / draw.alone_s for draw in draws]
        together_s = alone_s * float(np.mean(slower))
        jobs.append(
            JobOutcome(
                job=shared.jobs[number].name,
                gpus=job.scenario.gpus,
                servers=tuple(placed.servers[number].tolist()),
                alone_s=alone_s,
                together_s=together_s,
                worst_s=alone_s * max(slower),
                best_alone_s=alone_s,
                steps=sum(draw.steps for draw in draws),
                tokens_per_s=job.training_rates(together_s)["tokens_per_s"],
            )
        )
    return PlacementOutcome(fabric, placed.placement, tuple(jobs), placed.network.all_to_all)


def _with_best_alone(outcomes: Sequence[PlacementOutcome]) -> list[PlacementOutcome]:
    """The placements on a fabric, whose jobs know how fast they are alone on the best of them."""
    alone = zip(*((job.alone_s for job in outcome.jobs) for outcome in outcomes), strict=True)
    best = [min(times) for times in alone]
    return [
        dataclasses.replace(
            outcome,
            jobs=tuple(
                dataclasses.replace(job, best_alone_s=best_s)
                for job, best_s in zip(outcome.jobs, best, strict=True)
            ),
        )
        for outcome in outcomes
    ]
