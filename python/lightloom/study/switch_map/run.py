"""Simulates a map: workloads once per rate and variant, and few delays on each curve."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightloom.errors import FabricError, InputError
from lightloom.fabric import Fabric, MixNet
from lightloom.hardware import bring_ups, switch_names, switch_technology
from lightloom.progress import Monitor
from lightloom.simulate.plugins import BUILT_IN
from lightloom.study.compare import strategies
from lightloom.study.compare.builds import Networks, Workloads
from lightloom.study.compare.costs import costs_of
from lightloom.study.compare.job import ModelJob, prepare
from lightloom.study.compare.plan_search import planned_jobs
from lightloom.study.compare.runner import Attempt, Row, Runner, RunProgress, Tally, run_all
from lightloom.study.compare.scenario import Scenario
from lightloom.study.switch_map.curve import refined
from lightloom.study.switch_map.options import MapOptions
from lightloom.study.switch_map.results import MapCurve, Product, RivalFabric, SwitchMap

#: what is changed of the job, in words: fields of its demand and plan
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "balanced load": {"demand": {"source": "balanced"}},
    "skewed load": {"demand": {"source": "skewed"}},
    "pairs that stand out": {"demand": {"source": "pair"}},
    "all-to-alls in chunks": {"plan": {"overlap_all_to_all": "chunks"}},
    "one copy per server": {"demand": {"deduplicate": True}},
    "a copy for each expert": {"demand": {"deduplicate": False}},
}


def switch_map(
    scenario: Scenario,
    options: MapOptions | None = None,
    *,
    monitor: Monitor[Row] | None = None,
) -> SwitchMap:
    """Find for which circuit switches a reconfigurable fabric pays.

    Parameters
    ----------
    scenario
        The job, as for a comparison; ``fabrics`` are what ``mixnet`` is held against.
    options
        Rates, degrees and how exact.
    monitor
        Takes the job's summary, progress and remarks.

    Raises
    ------
    InputError
        If anything cannot be used; nothing has run then.
    """
    options = options or MapOptions()
    watcher: Monitor[Row] = monitor or Monitor()
    single = _single(scenario, options)
    first = _at_rate(single, options.rates[-1])
    job = planned_jobs(first, watcher)[0]
    jobs = {rate: prepare(_at_rate(single, rate), job.fitted) for rate in options.rates}
    for prepared in jobs.values():
        _check_degrees(prepared, options)
    watcher.begun(job.opening() + job.plan_summary(), job.warnings())
    varied = list(_variants(first, job)) if options.variants else []
    steps = len(jobs) * len(options.degrees) + len(varied)
    work = _Work(watcher, steps, options)
    curves = [
        curve for prepared in jobs.values() for curve in work.curves(prepared, "", options.degrees)
    ]
    variants = [
        curve
        for name, prepared in varied
        for curve in work.curves(prepared, name, options.degrees[-1:])
    ]
    return SwitchMap(
        {
            "scenario": first.model_dump(mode="json", exclude_defaults=True),
            "options": options.model_dump(mode="json"),
            "simulations": work.simulations,
        },
        tuple(curves),
        tuple(variants),
        tuple(products(job)),
        {name: (title, time.value) for name, (title, time) in bring_ups().items()},
        tuple(job.opening() + job.plan_summary()),
        tuple(job.warnings()),
    )


def _single(scenario: Scenario, options: MapOptions) -> Scenario:
    if scenario.model is None and scenario.model_shape is None:
        raise InputError("a map is of a model's job; give a model")
    if not options.rates or not options.degrees:
        raise InputError("a map needs a rate and a degree; give one of each at least")
    others = tuple(name for name in options.fabrics if name != "mixnet")
    if not others:
        raise InputError("fabrics: name one that mixnet is held against, such as fat-tree")
    return scenario.model_copy(
        update={"fabrics": ("mixnet", *others), "seeds": 1, "steps": 1, "compute_spread": 0.0,
                "fail": ()}
    )  # fmt: skip


def _at_rate(scenario: Scenario, rate_gbps: float) -> Scenario:
    cluster = scenario.cluster.model_copy(update={"rate_gbps": float(rate_gbps)})
    return scenario.model_copy(update={"cluster": cluster})


def _check_degrees(job: ModelJob, options: MapOptions) -> None:
    """Refuse degrees that a server's NICs do not allow, before anything is simulated."""
    for degree in options.degrees:
        if degree >= job.cluster.nics_per_server:
            raise FabricError(
                f"degree {degree}: a server has {job.cluster.nics_per_server} NICs, of which one "
                "at least is on packet switches; expected fewer optical ports"
            )


def _variants(scenario: Scenario, job: ModelJob) -> Iterator[tuple[str, ModelJob]]:
    """The jobs that differ in one respect; those that cannot be are left out."""
    if not job.has_routing:
        return
    for name, changed in VARIANTS.items():
        tables = {key: getattr(scenario, key).model_copy(update=dict(fields))
                  for key, fields in changed.items()}  # fmt: skip
        other = scenario.model_copy(update=tables)
        if other == scenario:
            continue
        fitted = job.fitted
        if "plan" in changed:
            plan = dataclasses.replace(fitted.plan, overlap_all_to_all="chunks", overlap_chunks=4)
            fitted = dataclasses.replace(fitted, plan=plan)
        try:
            prepared = prepare(other, fitted)
        except InputError:
            continue
        is_same = prepared.options.deduplicate == job.options.deduplicate
        if is_same and "deduplicate" in str(changed):
            continue
        yield name, prepared


@dataclass
class _Work:
    """Simulates curves, and counts the simulations."""

    watcher: Monitor[Row]
    steps: int
    options: MapOptions
    done: int = 0
    simulations: int = 0

    def curves(self, job: ModelJob, variant: str, degrees: Sequence[int]) -> list[MapCurve]:
        """The curves of a job, whose workload is built once."""
        site = _Site(self, job, Workloads(job))
        rivals = site.rivals()
        curves = []
        for degree in degrees:
            curves.append(site.curve(variant, degree, rivals))
            self.done += 1
        return curves

    def progress(self, activity: str) -> None:
        """Say how far the work is, and stop where that is wanted."""
        if self.watcher.progress(self.done / self.steps, activity) is False:
            raise KeyboardInterrupt


@dataclass
class _Site:
    """One job: its workload, and networks of the fabrics for it."""

    work: _Work
    job: ModelJob
    workloads: Workloads

    def _steps(self, fabrics: Sequence[Fabric]) -> list[float]:
        """Step times of fabrics, in their order."""
        networks = Networks(self.job, self.workloads)
        sample = self.job.samples()[0]
        attempts = [Attempt(fabric, sample) for fabric in fabrics]
        progress = RunProgress(Monitor(), Tally(len(attempts)))
        runner = Runner(self.workloads, networks, progress, BUILT_IN)
        self.work.progress(f"{fabrics[0].name} at {self.job.scenario.cluster.rate_gbps:g} Gb/s")
        steps: dict[int, float] = {}
        for finished in run_all([(runner, attempt) for attempt in attempts], progress):
            steps[id(finished.attempt)] = finished.run.step_time_s
        self.work.simulations += len(attempts)
        return [steps[id(attempt)] for attempt in attempts]

    def settled(self, fabric: Fabric) -> tuple[Fabric, float]:
        """The fastest candidate of a fabric that leaves settings open, and its step."""
        networks = Networks(self.job, self.workloads)
        candidates = list(strategies.candidates(fabric, networks).values()) or [fabric]
        steps = self._steps(candidates)
        best = min(range(len(candidates)), key=lambda number: steps[number])
        return candidates[best], steps[best]

    def rivals(self) -> tuple[RivalFabric, ...]:
        """The fabrics that are not reconfigured."""
        steps = []
        for fabric in self.job.fabrics:
            if isinstance(fabric, MixNet):
                continue
            _, step_s = self.settled(fabric)
            costs = self.job.costs[fabric.name]
            steps.append(
                RivalFabric(fabric.name, step_s, costs.network.total_usd, costs.cluster.total_usd)
            )
        return tuple(steps)

    def curve(self, variant: str, degree: int, rivals: tuple[RivalFabric, ...]) -> MapCurve:
        """The reconfigurable fabric with a number of optical ports."""
        job = self.job
        stated = next(candidate for candidate in job.fabrics if isinstance(candidate, MixNet))
        base = stated.replace(ports=degree, link_up_s=0.0, per_pair_s=0.0, label=stated.name)
        fabric, _ = self.settled(_with_delay(base, 0.0))
        (never_s,) = self._steps([fabric.replace(when="never", label=stated.name)])
        curve = refined(
            lambda delays: self._steps([_with_delay(fabric, delay) for delay in delays]),
            never_s,
            self.work.options.tolerance,
        )
        bill = fabric.bill_of_materials(job.installed, job.rates.counting)
        ports = sum(line.count for line in bill.lines if line.component == "ocs_port")
        costs = costs_of(fabric, job.cluster, job.gpu, job.rates)
        ports_usd = costs.network.by_component_usd["ocs_port"]
        return MapCurve(
            variant,
            job.scenario.cluster.rate_gbps,
            degree,
            curve,
            ports,
            ports_usd / ports,
            costs.network.total_usd - ports_usd,
            costs.cluster.total_usd - ports_usd,
            rivals,
        )


def _with_delay(fabric: Fabric, delay_s: float) -> Fabric:
    """The fabric whose switches take a time, and links none."""
    return fabric.replace(fixed_s=delay_s, label=fabric.name)


def products(job: ModelJob) -> Iterator[Product]:
    """Circuit switches with a reported delay, and what a port costs in the job's prices."""
    rate = job.scenario.cluster.rate_gbps
    for name in switch_names():
        technology = switch_technology(name)
        if technology.delay_max_s is None:
            continue
        price = job.rates.prices.circuit_switch(name, rate).get("ocs_port_usd")
        yield Product(
            name, technology.title, technology.availability, technology.delay_max_s, price
        )
