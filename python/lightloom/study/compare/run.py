"""Compare fabrics for one training job.

Every sample (seed, step, compute speed) is built once and run on every fabric, so that what
differs between fabrics is the fabric alone. Runs go in parallel, a core each; the interpreter lock
is released while they run. All fabrics are planned and priced before the first run, so that wrong
input is refused before anything is simulated or written.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from lightloom.fabric import Fabric
from lightloom.fabric.network import Network
from lightloom.progress import Monitor, Progress
from lightloom.simulate import Phases, Plugins, PredictorFactory, Run, simulate
from lightloom.simulate.plugins import BUILT_IN
from lightloom.simulate.predictor import factory_of
from lightloom.study.compare.builds import Networks, Workloads
from lightloom.study.compare.job import Job, prepare
from lightloom.study.compare.packets import check_size, phases_by_fabric, prediction
from lightloom.study.compare.policies import variants
from lightloom.study.compare.results import Comparison, Sample
from lightloom.study.compare.scenario import Scenario
from lightloom.study.compare.summary import comparison_of
from lightloom.workload.build import Workload

#: one finished run, flat, with units in its keys
Row = dict[str, object]


@dataclass(frozen=True)
class Attempt:
    """One run to do: a fabric (or a variant of it, such as ``first=block``) on one sample."""

    fabric: Fabric
    sample: Sample
    variant: str = ""
    with_timeline: bool = False

    @property
    def title(self) -> str:
        """What a user sees while it runs."""
        variant = f" {self.variant}" if self.variant else ""
        return f"{self.fabric.name}{variant}, seed {self.sample.seed} step {self.sample.step}"


@dataclass
class Done:
    """An attempt with its run and how long the simulation took."""

    attempt: Attempt
    run: Run
    network: Network
    wall_s: float
    #: the step as fluid flows, where it is packets
    flows: Run | None = None


@dataclass
class _Progress:
    """Adds up the shares of runs that go in parallel."""

    monitor: Monitor[Row]
    total: int
    shares: dict[int, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def update(self, number: int, share: float, activity: str) -> None:
        with self.lock:
            self.shares[number] = share
            done = sum(self.shares.values()) / self.total
            if self.monitor.progress(done, activity) is False:
                self.cancelled.set()

    def watch(self, number: int, activity: str) -> Progress:
        def callback(share: float, _: str = "", /) -> bool:
            self.update(number, share, activity)
            return not self.cancelled.is_set()

        return callback


def compare(
    scenario: Scenario,
    *,
    monitor: Monitor[Row] | None = None,
    with_timeline: bool = False,
    plugins: Plugins = BUILT_IN,
) -> Comparison:
    """Simulate a scenario on all its fabrics.

    Parameters
    ----------
    scenario
        What to compare; its ``seed`` makes the result reproducible.
    monitor
        Takes progress, remarks and the row of each finished run.
    with_timeline
        Keep the timeline of the first sample's runs, for pages and timelines.
    plugins
        What chooses circuits, wherever a fabric's follow the demand, and predicts the demand,
        instead of the fabric's allocator and of the predictor that the scenario names.

    Raises
    ------
    InputError
        If anything in the scenario cannot be used; nothing has run then.
    KeyboardInterrupt
        If it was interrupted, or the monitor returned ``False``; running simulations are stopped
        first.
    """
    watcher: Monitor[Row] = monitor or Monitor()
    _begin(watcher, "reading")
    job = prepare(scenario)
    plugins = Plugins(plugins.allocator, _predictor(scenario, plugins))
    attempts = list(_attempts(job, with_timeline))
    _begin(watcher, "planning fabrics")
    workloads = Workloads(job)
    networks = Networks(job, workloads)
    first = workloads.get(attempts[0].sample, networks.server_size(job.fabrics[0]))
    for attempt in attempts:
        networks.get(attempt.fabric, attempt.variant)
    phases = phases_by_fabric(job, networks)
    flows: dict[int, Run] = {}
    if phases:
        survey = _Runner(
            workloads, networks, _Progress(watcher, len(attempts)), phases, plugins, is_survey=True
        )
        flows = {id(met.attempt): met.run for met in survey.run_all(attempts)}
        watcher.remark(prediction(phases))
        check_size(job.scenario, phases)
    done: list[Done] = []
    runner = _Runner(workloads, networks, _Progress(watcher, len(attempts)), phases, plugins)
    for finished in runner.run_all(attempts):
        finished.flows = flows.get(id(finished.attempt))
        done.append(finished)
        watcher.finished(_row(job, finished))
    # runs end in any order, which must not reach a result
    place = {id(attempt): number for number, attempt in enumerate(attempts)}
    done.sort(key=lambda finished: place[id(finished.attempt)])
    return comparison_of(job, done, first, phases)


def _predictor(scenario: Scenario, plugins: Plugins) -> PredictorFactory | None:
    """What makes predictors; an unknown name is refused before anything runs."""
    given = plugins.predictor or scenario.predictor
    return None if given is None else factory_of(given)


def _begin(monitor: Monitor[Row], activity: str) -> None:
    if monitor.progress(0.0, activity) is False:
        raise KeyboardInterrupt


def _attempts(job: Job, with_timeline: bool) -> Iterator[Attempt]:
    for number, sample in enumerate(job.samples()):
        for fabric in job.fabrics:
            yield Attempt(fabric, sample, with_timeline=with_timeline and number == 0)
            if number == 0:
                for name, variant in variants(fabric, job.scenario.policies).items():
                    yield Attempt(variant, sample, name)


def timeline_workers(workload: Workload) -> tuple[int, ...]:
    """One worker per pipeline stage: the first member of the first expert replica."""
    return tuple(int(role.workers[0]) for role in workload.graph.roles)


class _Runner:
    """Runs attempts on all cores, building their workloads while others run.

    With phases by fabric, flows take as long as packets; in a survey the phases are only
    noted.
    """

    def __init__(
        self,
        workloads: Workloads,
        networks: Networks,
        progress: _Progress,
        phases: Mapping[str, Phases],
        plugins: Plugins,
        *,
        is_survey: bool = False,
    ) -> None:
        self._phases = phases
        self._plugins = plugins
        self._is_survey = is_survey
        self._workloads = workloads
        self._networks = networks
        self._progress = progress
        self._cores = os.cpu_count() or 1

    def run_all(self, attempts: list[Attempt]) -> Iterator[Done]:
        """Yield what is done, in the order in which it ends.

        At most one attempt more than there are cores is prepared, so that memory does not grow
        with their number. On an interrupt the running ones are told to stop and waited for.
        """
        waiting = list(enumerate(attempts))[::-1]
        running: dict[Future[Done], int] = {}
        with ThreadPoolExecutor(max_workers=self._cores) as pool:
            try:
                while waiting or running:
                    while waiting and len(running) <= self._cores:
                        number, attempt = waiting.pop()
                        running[pool.submit(self._prepare(attempt, number))] = number
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        number = running.pop(future)
                        finished = future.result()
                        self._progress.update(number, 1.0, finished.attempt.title)
                        yield finished
                    if self._progress.cancelled.is_set():
                        raise KeyboardInterrupt
            except BaseException:
                self._progress.cancelled.set()
                for future in running:
                    future.cancel()
                raise

    def _prepare(self, attempt: Attempt, number: int) -> Callable[[], Done]:
        """Build what the attempt needs; the result runs it."""
        self._progress.update(number, 0.0, attempt.title)
        size = self._networks.server_size(attempt.fabric)
        workload = self._workloads.get(attempt.sample, size)
        network = self._networks.get(attempt.fabric, attempt.variant)
        workers = timeline_workers(workload) if attempt.with_timeline else ()
        callback = self._progress.watch(number, attempt.title)
        fabric = attempt.fabric
        reconfiguration = fabric.reconfiguration()
        plugins = BUILT_IN
        if reconfiguration is not None:
            allocator = self._plugins.allocator or reconfiguration.allocator
            plugins = Plugins(allocator, self._plugins.predictor)
        phases = self._phases.get(fabric.name)

        def go() -> Done:
            started = time.perf_counter()
            if phases is not None and self._is_survey:
                run = phases.survey(workload.graph, network, progress=callback, plugins=plugins)
            else:
                run = simulate(
                    workload.graph,
                    network,
                    timeline_workers=workers,
                    progress=callback,
                    network_model=phases or "flow",
                    plugins=plugins,
                )
            return Done(attempt, run, network, time.perf_counter() - started)

        return go


def _row(job: Job, done: Done) -> Row:
    """One run as a flat row; the keys are the columns of CSV and Parquet files."""
    run, sample = done.run, done.attempt.sample
    return {
        "model": job.model.name,
        "gpus": job.scenario.gpus,
        "rate_gbps": job.scenario.cluster.rate_gbps,
        "fabric": done.attempt.fabric.name,
        "variant": done.attempt.variant,
        "seed": sample.seed,
        "step": sample.step,
        "compute_scale": sample.compute_scale,
        "network": job.scenario.network,
        "step_time_s": run.step_time_s,
        "tokens_per_s": job.plan.tokens_per_step / run.step_time_s,
        **{f"{name}_s": seconds for name, seconds in run.critical_path_s.items()},
        "events": run.events,
        "run_hash": run.run_hash,
    }
