"""Tuned designs: each fabric with the knobs that train the most per dollar of the cluster.

A verdict between defaults is one between whatever the defaults are. Here the knobs of a fabric
(:meth:`~lightloom.fabric.Fabric.knobs`: planes, ratio, switches, optical NICs, NICs per
server) are moved one after another, and a move is kept if tokens per dollar of the whole
cluster grow. Steps are predicted from few layers and micro-batches (``fills.py``). What the user
has set stays.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from lightloom.cost import pareto_front
from lightloom.errors import FabricError
from lightloom.fabric import Fabric
from lightloom.progress import Monitor
from lightloom.study.compare.budget import Budget
from lightloom.study.compare.costs import costs_by_name, costs_of
from lightloom.study.compare.fills import Steps
from lightloom.study.compare.job import Job, load_fabrics
from lightloom.study.compare.shared_work import usable_cores

#: a move is kept if tokens per dollar grow by more than this share
WORTH = 1e-4


@dataclass(frozen=True)
class Design:
    """A fabric with some of its knobs moved.

    Attributes
    ----------
    fabric, options
        Its name, and the knobs that differ from the defaults.
    step_time_s
        Predicted; of use to compare designs alone.
    network_cost_usd, cluster_cost_usd
        Of the network, and with servers and GPUs.
    is_chosen
        Whether it is the one that is compared with other fabrics.
    is_on_front
        Whether no other design of any fabric is both faster and cheaper.
    """

    fabric: str
    options: dict[str, Any]
    step_time_s: float
    network_cost_usd: float
    cluster_cost_usd: float
    is_chosen: bool = False
    is_on_front: bool = False

    @property
    def step_usd(self) -> float:
        """What is to be as small as possible: the time of a step times the price."""
        return self.step_time_s * self.cluster_cost_usd


def tuned(jobs: Sequence[Job], monitor: Monitor[Any]) -> tuple[list[Job], list[Design]]:
    """Jobs with the best design of each of their fabrics, and all that were tried.

    Parameters
    ----------
    jobs
        Those of one scenario: one for each plan, with the fabrics that have it.
    monitor
        Takes progress.

    Raises
    ------
    KeyboardInterrupt
        If the monitor returned ``False``.
    """
    tried = [design for job in jobs for design in _tried(job, monitor)]
    front = set(pareto_front([(d.cluster_cost_usd, 1 / d.step_time_s) for d in tried]))
    designs = [dataclasses.replace(d, is_on_front=n in front) for n, d in enumerate(tried)]
    chosen = {design.fabric: design.options for design in designs if design.is_chosen}
    return [with_options(job, chosen) for job in jobs], designs


def with_options(job: Job, chosen: Mapping[str, Mapping[str, Any]]) -> Job:
    """The job with the chosen options of its fabrics, by name."""
    listed: list[str | Fabric] = list(job.scenario.fabrics)
    options = dict(job.scenario.fabric_options)
    for place, fabric in enumerate(load_fabrics(job.scenario)):
        moved, listed_as = chosen.get(fabric.name), listed[place]
        if moved and isinstance(listed_as, str):
            options[listed_as] = {**options.get(listed_as, {}), **moved}
        elif moved:
            listed[place] = fabric.replace(**moved)
    tables = {"fabrics": tuple(listed), "fabric_options": options, "designs": "default"}
    scenario = job.scenario.model_copy(update=tables)
    names = {fabric.name for fabric in job.fabrics}
    fabrics = tuple(fabric for fabric in load_fabrics(scenario) if fabric.name in names)
    costs = costs_by_name(fabrics, job.installed, job.gpu, job.rates)
    return dataclasses.replace(job, scenario=scenario, fabrics=fabrics, costs=costs)


def _tried(job: Job, monitor: Monitor[Any]) -> list[Design]:
    """All designs of the fabrics of one job."""
    options = job.scenario.fabric_options
    tuning = _Tuning(job, monitor)
    with ThreadPoolExecutor(max_workers=usable_cores()) as pool:
        futures = [
            pool.submit(
                tuning.tune, fabric, {**options.get("all", {}), **options.get(fabric.name, {})}
            )
            for fabric in job.fabrics
        ]
        try:
            return [design for future in futures for design in future.result()]
        except BaseException:
            tuning.stopped.set()
            raise


class _Tuning:
    """Designs of one job, each predicted once."""

    def __init__(self, job: Job, monitor: Monitor[Any]) -> None:
        self._job, self._monitor = job, monitor
        self._lock = threading.Lock()
        self._count, self._expected = 0, sum(map(self._knob_values, job.fabrics))
        self.stopped = threading.Event()
        self._steps = Steps(Budget(job).fills, self._watch)

    def _knob_values(self, fabric: Fabric) -> int:
        """Designs of a fabric, or a few more than will be tried."""
        knobs = fabric.knobs(fabric.adapt(self._job.cluster))
        return 1 + sum(map(len, knobs.values()))

    def _watch(self, *_: object) -> bool:
        return not self.stopped.is_set()

    def tune(self, fabric: Fabric, fixed: Mapping[str, Any]) -> list[Design]:
        """Move the knobs of a fabric in turn, but those that are ``fixed``."""
        best = self._design(fabric, {})
        tried = [best]
        for name in fabric.knobs(fabric.adapt(self._job.cluster)):
            if name in fixed:
                continue
            current = fabric.replace(**best.options)
            values = current.knobs(current.adapt(self._job.cluster)).get(name, ())
            for value in values:
                options = {**best.options, name: value}
                try:
                    moved = fabric.replace(**options)
                    design = self._design(moved, options)
                except FabricError:
                    continue
                tried.append(design)
                if design.step_usd < best.step_usd * (1 - WORTH):
                    best = design
        return [dataclasses.replace(design, is_chosen=design is best) for design in tried]

    def _design(self, fabric: Fabric, options: dict[str, Any]) -> Design:
        costs = costs_of(fabric, self._job.installed, self._job.gpu, self._job.rates)
        step_s = self._steps.step_time_s(fabric)
        with self._lock:
            self._count += 1
            share = min(1.0, self._count / self._expected)
            if self._monitor.progress(share, f"tuning designs, {self._count} tried") is False:
                self.stopped.set()
                raise KeyboardInterrupt
        return Design(
            fabric=fabric.name,
            options=options,
            step_time_s=step_s,
            network_cost_usd=costs.network.total_usd,
            cluster_cost_usd=costs.cluster.total_usd,
        )
