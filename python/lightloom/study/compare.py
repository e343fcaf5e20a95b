"""Compare fabrics for one training job.

Every sample (seed, step, compute speed) is built once and run on every fabric, so that what
differs between fabrics is the fabric alone. Runs go in parallel, a core each; the interpreter lock
is released while they run.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

from lightloom.fabric import Fabric, FabricContext, MixNet
from lightloom.fabric.network import Network
from lightloom.simulate import Run, simulate
from lightloom.study.job import Job, prepare
from lightloom.study.results import Comparison, FabricResult, Sample
from lightloom.study.scenario import Scenario
from lightloom.study.summary import comparison_of
from lightloom.workload.build import Workload


class Monitor:
    """What a caller may want to know on the way; the default looks away."""

    def at(self, share: float, what: str) -> None:
        """``share`` of the work is done; ``what`` is being done."""

    def finished(self, row: dict[str, object]) -> None:
        """One run ended; ``row`` is flat, with units in its keys."""


@dataclass(frozen=True)
class Attempt:
    """One run to do: a fabric (or a variant of it, such as ``first=block``) on one sample."""

    fabric: Fabric
    sample: Sample
    variant: str = ""


@dataclass
class Done:
    """An attempt with its run and how long the simulation took."""

    attempt: Attempt
    run: Run
    network: Network
    wall_s: float


@dataclass
class _Progress:
    """Adds up the shares of runs that go in parallel."""

    monitor: Monitor
    total: int
    shares: dict[int, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def update(self, number: int, share: float, what: str) -> None:
        with self.lock:
            self.shares[number] = share
            self.monitor.at(sum(self.shares.values()) / self.total, what)

    def watch(self, number: int, what: str) -> Callable[[float], bool]:
        def callback(share: float) -> bool:
            self.update(number, share, what)
            return not self.cancelled.is_set()

        return callback


def compare(
    scenario: Scenario, *, monitor: Monitor | None = None, with_timeline: bool = False
) -> Comparison:
    """Simulate a scenario on all its fabrics.

    Parameters
    ----------
    scenario
        What to compare; its ``seed`` makes the result reproducible.
    monitor
        Told about progress and about each finished run.
    with_timeline
        Keep the timeline of the first sample's runs, for pages and traces.

    Raises
    ------
    InputError
        If anything in the scenario cannot be used.
    """
    job = prepare(scenario)
    watcher = monitor or Monitor()
    samples = job.samples()
    total = len(samples) * len(job.fabrics) + sum(len(_variants(f)) for f in job.fabrics)
    progress = _Progress(watcher, total)
    done: list[Done] = []
    first: Workload | None = None
    plans = _Plans(job)
    for number, sample in enumerate(samples):
        step = _Step(plans, sample, with_timeline and number == 0)
        if first is None:
            first = step.workload(job.fabrics[0])
        for finished in _run_all(step, _attempts(job, sample, number == 0), progress):
            done.append(finished)
            watcher.finished(_row(job, finished))
    assert first is not None
    return comparison_of(job, samples, done, first)


def _variants(fabric: Fabric) -> dict[str, Fabric]:
    """Other settings that are reported beside a fabric's own: the first all-to-all both ways."""
    if not isinstance(fabric, MixNet) or fabric.reconfigure == "never":
        return {}
    other = "block" if fabric.first == "reuse" else "reuse"
    return {f"first={other}": fabric.replace(first=other)}


def _attempts(job: Job, sample: Sample, with_variants: bool) -> Iterator[Attempt]:
    for fabric in job.fabrics:
        yield Attempt(fabric, sample)
        if with_variants:
            for name, variant in _variants(fabric).items():
                yield Attempt(variant, sample, name)


class _Plans:
    """Networks of the fabrics; each is planned once, from the job's mean demand."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._contexts: dict[int, FabricContext] = {}
        self._first: dict[int, tuple[Sample, Workload]] = {}
        self._networks: dict[int, tuple[Fabric, Network]] = {}

    def server_size(self, fabric: Fabric) -> int:
        return fabric.adapt(self.job.cluster).gpus_per_server

    def workload(self, sample: Sample, size: int) -> Workload:
        """Build a sample; the first one is kept, since others differ in compute speed alone."""
        first = self._first.get(size)
        if first and (first[0].seed, first[0].step) == (sample.seed, sample.step):
            if first[0] == sample:
                return first[1]
            return self.job.workload(sample, size, like=first[1])
        workload = self.job.workload(sample, size)
        self._first.setdefault(size, (sample, workload))
        return workload

    def network(self, fabric: Fabric) -> Network:
        # Variants are made anew for each attempt, so the key's object is kept with the network.
        if id(fabric) not in self._networks:
            size = self.server_size(fabric)
            if size not in self._contexts:
                self._contexts[size] = self.job.context(size, self.workload)
            network = fabric.network(self.job.cluster, self._contexts[size])
            self._networks[id(fabric)] = (fabric, network)
        return self._networks[id(fabric)][1]


class _Step:
    """One sample's workloads, built once for every size of server."""

    def __init__(self, plans: _Plans, sample: Sample, with_timeline: bool) -> None:
        self._plans = plans
        self._sample = sample
        self._with_timeline = with_timeline
        self._built: dict[int, Workload] = {}

    def workload(self, fabric: Fabric) -> Workload:
        size = self._plans.server_size(fabric)
        if size not in self._built:
            self._built[size] = self._plans.workload(self._sample, size)
        return self._built[size]

    def prepare(self, attempt: Attempt) -> Callable[[Callable[[float], bool]], Done]:
        """Build what the attempt needs; the result runs it."""
        workload = self.workload(attempt.fabric)
        network = self._plans.network(attempt.fabric)
        keep = self._with_timeline and not attempt.variant
        workers = timeline_workers(workload) if keep else ()

        def go(callback: Callable[[float], bool]) -> Done:
            started = time.perf_counter()
            run = simulate(workload.graph, network, timeline_workers=workers, progress=callback)
            return Done(attempt, run, network, time.perf_counter() - started)

        return go


def timeline_workers(workload: Workload) -> tuple[int, ...]:
    """One worker per pipeline stage: the first member of the first expert replica."""
    layout = workload.graph.layout
    return tuple(stage * layout.replicas * layout.members for stage in range(layout.stages))


def _run_all(step: _Step, attempts: Iterator[Attempt], progress: _Progress) -> Iterator[Done]:
    """Run attempts in parallel; yields in the order in which they end.

    On an interrupt the running simulations are told to stop and waited for.
    """
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        futures: dict[Future[Done], int] = {}
        try:
            for attempt in attempts:
                number = len(progress.shares)
                name = f"{attempt.fabric.name}, seed {attempt.sample.seed}"
                progress.update(number, 0.0, name)
                go = step.prepare(attempt)
                futures[pool.submit(go, progress.watch(number, name))] = number
            for future in as_completed(futures):
                finished = future.result()
                progress.update(futures[future], 1.0, finished.attempt.fabric.name)
                yield finished
        except BaseException:
            progress.cancelled.set()
            for future in futures:
                future.cancel()
            raise


def _row(job: Job, done: Done) -> dict[str, object]:
    run, sample = done.run, done.attempt.sample
    tokens = job.plan.tokens_per_step
    return {
        "model": job.model.name,
        "gpus": job.scenario.gpus,
        "rate_gbps": job.scenario.cluster.rate_gbps,
        "fabric": done.attempt.fabric.name,
        "variant": done.attempt.variant,
        "seed": sample.seed,
        "step": sample.step,
        "compute_scale": sample.compute_scale,
        "step_time_s": run.step_time_s,
        "tokens_per_s": tokens / run.step_time_s,
        **{f"{name}_s": seconds for name, seconds in run.critical_path_s.items()},
        "events": run.events,
        "trace_hash": run.trace_hash,
    }


__all__ = ["Attempt", "Done", "FabricResult", "Monitor", "compare", "timeline_workers"]
