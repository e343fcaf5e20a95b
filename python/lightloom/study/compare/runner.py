"""Runs of a comparison, on all cores: what is run, and what came of it."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Literal

from lightloom.fabric import Fabric
from lightloom.fabric.network import Network
from lightloom.progress import Monitor, Progress
from lightloom.simulate import Packets, Phases, Plugins, Run, simulate
from lightloom.simulate.plugins import BUILT_IN
from lightloom.study.compare.builds import FewReplicas, Networks, Workloads
from lightloom.study.compare.few_replicas import is_alike, with_absent
from lightloom.study.compare.job import StepWorkload
from lightloom.study.compare.results import Sample
from lightloom.study.compare.shared_work import usable_cores
from lightloom.study.compare.variants import OWN, FabricVariant

#: one finished run, flat, with units in its keys
Row = dict[str, object]


@dataclass(frozen=True)
class Attempt:
    """One run to do: a fabric, with what its variant changes, on one sample.

    ``imbalance`` names another load than the scenario's, such as ``balanced``.
    """

    fabric: Fabric
    sample: Sample
    variant: FabricVariant = OWN
    with_timeline: bool = False
    imbalance: str = ""

    @property
    def is_scaled(self) -> bool:
        """Whether it is at another compute speed than the nominal one."""
        return self.sample.compute_scale != 1.0

    @property
    def title(self) -> str:
        """What a user sees while it runs."""
        words = [self.fabric.name, self.variant.key, self.imbalance and f"{self.imbalance} load"]
        what = " ".join(word for word in words if word)
        return f"{what}, seed {self.sample.seed} step {self.sample.step}"


@dataclass
class Done:
    """An attempt with its run and how long the simulation took.

    The run is an estimate where only a part of the step was simulated (:mod:`.part_step`).
    """

    attempt: Attempt
    run: Run
    network: Network
    wall_s: float
    is_estimate: bool = False
    #: the step as fluid flows, where it is packets
    flows: Run | None = None


#: how long the run of an attempt takes, in any unit
CostOf = Callable[[Attempt], float]


@dataclass
class Tally:
    """Work that is done of a total, by attempt; each has the unit of its costs."""

    total: float
    done: dict[int, tuple[Attempt, float]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def share(self) -> float:
        """What is done, of all."""
        return min(1.0, sum(cost for _, cost in self.done.values()) / self.total)


@dataclass(frozen=True)
class RunProgress:
    """Adds up the work of runs that go in parallel.

    A run counts as much as it takes: its cost times a ``factor``, which is that of runs on a part
    of the step, and zero for those that are too short to count.
    """

    monitor: Monitor[Row]
    tally: Tally
    cost: CostOf = lambda _: 1.0
    factor: float = 1.0

    @property
    def cancelled(self) -> threading.Event:
        """Set where the monitor wants to stop."""
        return self.tally.cancelled

    def update(self, attempt: Attempt, share: float) -> None:
        """Note the share that is done of an attempt."""
        tally = self.tally
        with tally.lock:
            # an attempt that is kept has a number of its own
            tally.done[id(attempt)] = attempt, share * self.factor * self.cost(attempt)
            if self.monitor.progress(tally.share, attempt.title) is False:
                tally.cancelled.set()

    def times(self, factor: float) -> RunProgress:
        """For runs alongside the others, of a share of a step."""
        return dataclasses.replace(self, factor=factor)

    def watch(self, attempt: Attempt) -> Progress:
        """Return what a simulation calls with the share that it has done."""

        def callback(share: float, _: str = "", /) -> bool:
            self.update(attempt, share)
            return not self.cancelled.is_set()

        return callback


def timeline_workers(workload: StepWorkload) -> tuple[int, ...]:
    """One worker per pipeline stage: the first member of the first expert replica."""
    return tuple(int(role.workers[0]) for role in workload.graph.roles)


@dataclass(frozen=True)
class Runner:
    """Prepares attempts of one job, whose workloads and networks it has.

    With phases by fabric, flows take as long as packets; in a survey the phases are only
    noted. With ``whole``, the steps of fabrics that have phases are packets throughout. Fabrics
    in ``taken`` have workloads of their own. With ``few``, a few replicas stand for all where a
    fabric has them alike.
    """

    workloads: Workloads
    networks: Networks
    progress: RunProgress
    plugins: Plugins
    phases: Mapping[str, Phases] = field(default_factory=dict)
    is_survey: bool = False
    whole: Packets | None = None
    taken: Mapping[str, Workloads] = field(default_factory=dict)
    few: FewReplicas | None = None

    def prepare(self, attempt: Attempt) -> Callable[[], Done]:
        """Build what the attempt needs; the result runs it."""
        self.progress.update(attempt, 0.0)
        size = self.networks.server_size(attempt.fabric)
        few = self.few if is_alike(attempt.fabric) else None
        compared = self.taken.get(attempt.fabric.name, few.workloads if few else self.workloads)
        workload = attempt.variant.workloads(compared).get(attempt.sample, size)
        network = self.networks.get(attempt.fabric)
        graph = attempt.variant.graph(workload.graph, network)
        workers = timeline_workers(workload) if attempt.with_timeline else ()
        callback = self.progress.watch(attempt)
        fabric = attempt.fabric
        reconfiguration = fabric.reconfiguration()
        plugins = BUILT_IN
        if reconfiguration is not None:
            allocator = self.plugins.allocator or reconfiguration.allocator
            plugins = Plugins(allocator, self.plugins.predictor)
        phases = self.phases.get(fabric.name)
        model: Literal["flow"] | Packets | Phases = "flow"
        if phases is not None:
            model = self.whole or phases
        if isinstance(model, Packets) and model.record:
            is_own = attempt.with_timeline and attempt.variant is OWN and not attempt.imbalance
            model = dataclasses.replace(model, record=is_own)

        def go() -> Done:
            started = time.perf_counter()
            if phases is not None and self.is_survey:
                run = phases.survey(graph, network, progress=callback, plugins=plugins)
            else:
                run = simulate(
                    graph,
                    network,
                    timeline_workers=workers,
                    progress=callback,
                    network_model=model,
                    plugins=plugins,
                )
            wall_s = time.perf_counter() - started
            if few:
                run = with_absent(run, few.job.absent)
            return Done(attempt, run, network, wall_s, is_estimate=few is not None)

        return go


@dataclass(frozen=True)
class _Known:
    """Takes the place of a run that is known."""

    done: Done

    def __call__(self) -> Done:
        return self.done


def run_all(
    work: Sequence[tuple[Runner, Attempt]],
    progress: RunProgress,
    known: Callable[[Attempt], Done | None] = lambda _: None,
) -> Iterator[Done]:
    """Yield what is done, in the order in which it ends; ``known`` is what need not run.

    At most one attempt more than there are cores is prepared, so that memory does not grow with
    their number. On an interrupt the running ones are told to stop and waited for.
    """
    cores = usable_cores()
    waiting = list(work)[::-1]
    running: dict[Future[Done], Runner] = {}
    with ThreadPoolExecutor(max_workers=cores) as pool:
        try:
            while waiting or running:
                while waiting and len(running) <= cores:
                    runner, attempt = waiting.pop()
                    same = known(attempt)
                    go = runner.prepare(attempt) if same is None else _Known(same)
                    running[pool.submit(go)] = runner
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    runner = running.pop(future)
                    finished = future.result()
                    runner.progress.update(finished.attempt, 1.0)
                    yield finished
                if progress.cancelled.is_set():
                    raise KeyboardInterrupt
        except BaseException:
            progress.cancelled.set()
            for future in running:
                future.cancel()
            raise
