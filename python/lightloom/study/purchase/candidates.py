"""The candidates of a purchase: GPUs x rate x plan x fabric x design x all-to-all.

A design moves at most two of a fabric's knobs (NICs of a server, planes, oversubscription, ports of
switches, degree; and servers of a region) from where they are by default. What a user has set
stays. Prices are exact before anything is simulated.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightloom.errors import FabricError, HardwareError, InputError, PlanError
from lightloom.fabric import Cluster, Fabric, MixNet
from lightloom.models import Model
from lightloom.parallel import Plan
from lightloom.practice import AllToAllOverlap
from lightloom.progress import Progress
from lightloom.study.compare.budget import Budget
from lightloom.study.compare.builds import Networks, Workloads
from lightloom.study.compare.costs import Costs, costs_of
from lightloom.study.compare.fills import Steps, with_micro_batches
from lightloom.study.compare.fit import FittedPlan
from lightloom.study.compare.job import ModelJob, load_fabrics, model_of, prepare
from lightloom.study.compare.plan_candidates import Candidates
from lightloom.study.compare.plan_search import PLAIN, title
from lightloom.study.compare.racks import with_servers
from lightloom.study.compare.scenario import Scenario
from lightloom.study.purchase.bound import ServerPaces, StepBound
from lightloom.study.purchase.options import PurchaseOptions

#: layers x micro-batches x GPUs of a step that is simulated with all of them
MOST_WORK = 4_000_000
#: knobs of a design that are moved together at most
MOST_MOVED = 2


@dataclass(frozen=True)
class PlanChoice:
    """The plans of a number of GPUs, and how many there were.

    ``misfit`` says why there is none.
    """

    gpus: int
    fitted: tuple[FittedPlan, ...]
    considered: int
    fitting: int
    misfit: str = ""


@dataclass
class Site:
    """A job on one number of GPUs at one rate by one plan, on which fabrics are tried.

    Attributes
    ----------
    job
        Model, plan, machines.
    steps
        Predicts steps from few layers and micro-batches.
    bounds
        Lower bounds of its whole step.
    whole, factor
        What is simulated as its whole step, and by how much longer that is: a long step has fewer
        micro-batches, and the closed form says how much longer it is with all of them.
    """

    job: ModelJob
    steps: Steps
    bounds: StepBound
    whole: ModelJob
    factor: float = 1.0

    @property
    def plan(self) -> str:
        """The degrees of the plan."""
        return title(self.job.plan)

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.job.plan.tokens_per_step

    def bound_s(self, fabric: Fabric) -> float:
        """A time that no network of the fabric's servers makes a step shorter than, s."""
        paces = ServerPaces.of(fabric.adapt(self.job.cluster), fabric.kind)
        return self.factor * self.bounds.step_time_s(paces)


@dataclass(frozen=True, eq=False)
class Candidate:
    """One cluster that may be bought, with its price.

    Attributes
    ----------
    number
        Place among all candidates.
    site
        GPUs, rate and plan.
    fabric, options
        The network, and what of it differs from the defaults.
    costs
        What network and cluster cost and draw.
    """

    number: int
    site: Site
    fabric: Fabric
    options: Mapping[str, Any]
    costs: Costs

    @property
    def usd(self) -> float:
        """Price of network, servers and GPUs."""
        return self.costs.cluster.total_usd


class Space:
    """All candidates of a job within the options; raises for a job that cannot be.

    Parameters
    ----------
    scenario
        The job; its GPUs, rate and fabrics are those of the options.
    options
        Candidates, goal and limits.
    """

    def __init__(self, scenario: Scenario, options: PurchaseOptions) -> None:
        if scenario.model is None and scenario.model_shape is None:
            raise InputError("advice is for a model's job; give a model")
        self.options = options
        single = {"seeds": 1, "steps": 1, "compute_spread": 0.0, "fail": (), "designs": "default",
                  "network": "flow", "packets": None, "fabrics": options.fabrics}  # fmt: skip
        self.scenario = scenario.model_copy(update=single)
        self.model: Model = model_of(self.scenario)
        self.refused: list[tuple[str, str]] = []
        load_fabrics(self.scenario)

    def at(self, gpus: int, rate_gbps: float) -> Scenario:
        """The scenario of a number of GPUs and a rate."""
        cluster = self.scenario.cluster.model_copy(update={"rate_gbps": float(rate_gbps)})
        return self.scenario.model_copy(update={"gpus": gpus, "cluster": cluster})

    def plans(self, gpus: int) -> PlanChoice:
        """The stated plan and the fastest of others by a closed form of the step on a fat-tree."""
        try:
            return self._plans(gpus)
        except PlanError as error:
            return PlanChoice(gpus, (), 0, 0, str(error))

    def _plans(self, gpus: int) -> PlanChoice:
        scenario = with_servers(self.at(gpus, self.options.rates_gbps[0]), self.model)
        known = Candidates(scenario, self.model, practice=False)
        stated = known.published() if scenario.plan.source != "search" else None
        chosen = [] if stated is None else [stated]
        degrees = scenario.plan
        if stated is not None and degrees.tp and degrees.pp and degrees.ep:
            return PlanChoice(gpus, (stated,), 1, 1)
        considered, fitting = sum(1 for _ in known.plans()), known.fitting()
        ranked = known.estimated(fitting, known.estimates(PLAIN.adapt(known.machines)))
        for choice in ranked:
            if len(chosen) >= self.options.plans:
                break
            if title(choice.plan) not in [title(fitted.plan) for fitted in chosen]:
                chosen.append(choice.fitted)
        if not chosen:
            prepare(scenario)  # says what is wrong with the closest
        return PlanChoice(gpus, tuple(chosen), considered, len(fitting))

    def sites(self, gpus: int, fitted: FittedPlan, watch: Progress) -> list[Site]:
        """The job by one plan at every rate; its task graphs are built once."""
        sites: list[Site] = []
        bounds: StepBound | None = None
        count = micro_batches_of(self.model.num_layers, fitted.plan)
        factor = self._factor(gpus, fitted, count)
        for rate in self.options.rates_gbps:
            job = prepare(self.at(gpus, rate), fitted)
            whole = with_micro_batches(job, count)
            if bounds is None:
                size = job.cluster.gpus_per_server
                bounds = StepBound(Workloads(whole).get(whole.samples()[0], size).graph)
            sites.append(Site(job, Steps(Budget(job).fills, watch), bounds, whole, factor))
        return sites

    def _factor(self, gpus: int, fitted: FittedPlan, micro_batches: int) -> float:
        """How many times longer a step is than with so many micro-batches, in closed form."""
        if micro_batches == fitted.plan.micro_batches:
            return 1.0
        scenario = with_servers(self.at(gpus, self.options.rates_gbps[0]), self.model)
        known = Candidates(scenario, self.model, practice=False)
        estimates = known.estimates(PLAIN.adapt(known.machines))
        few = dataclasses.replace(fitted.plan, micro_batches=micro_batches)
        short = estimates.of(dataclasses.replace(fitted, plan=few))
        return estimates.of(fitted).step_time_s / short.step_time_s

    def of(self, site: Site, first: int) -> Iterator[Candidate]:
        """Candidates of a site, numbered from ``first``."""
        listed = self.scenario.fabric_options
        job, number = site.job, first
        for fabric in job.fabrics:
            fixed = {**listed.get("all", {}), **listed.get(fabric.name, {})}
            for options in _designs(fabric, job, fixed):
                try:
                    moved = fabric.replace(**options) if options else fabric
                    costs = costs_of(moved, job.installed, job.gpu, job.rates)
                    found = site.steps.candidates(moved)
                except (FabricError, HardwareError) as error:
                    self.refused.append((fabric.name, str(error)))
                    continue
                settled_by = [({s.option: s.value}, each) for s, each in found.items()]
                for more, settled in settled_by or [({}, moved)]:
                    yield Candidate(number, site, settled, {**options, **more}, costs)
                    number += 1


def micro_batches_of(layers: int, plan: Plan) -> int:
    """Micro-batches of the step that is simulated as a whole one: all, or whole fills of them.

    Parameters
    ----------
    layers
        Of the model.
    plan
        With all micro-batches.
    """
    unit = plan.pp * plan.copies
    fills = max(1, MOST_WORK // (layers * plan.gpus * unit))
    return min(plan.micro_batches, fills * unit)


def _designs(
    fabric: Fabric, job: ModelJob, fixed: Mapping[str, object]
) -> Iterator[dict[str, Any]]:
    """Options of each design: none, one or two knobs moved."""
    knobs = {
        name: values
        for name, values in _knobs(fabric, fabric.adapt(job.cluster), job).items()
        if name not in fixed
    }
    for count in range(MOST_MOVED + 1):
        for names in itertools.combinations(knobs, count):
            for values in itertools.product(*(knobs[name] for name in names)):
                options = dict(zip(names, values, strict=True))
                try:
                    moved = fabric.replace(**options)
                    moved.bill_of_materials(job.installed, job.rates.counting)
                except FabricError:
                    continue  # such as more planes than NICs
                yield options


def _knobs(fabric: Fabric, cluster: Cluster, job: ModelJob) -> dict[str, Sequence[Any]]:
    """What a buyer may choose; of regional circuits also how many servers share a switch."""
    knobs = dict(fabric.knobs(cluster))
    if isinstance(fabric, MixNet) and job.has_routing:
        plan = job.plan
        group = max(1, plan.ep * plan.etp // cluster.gpus_per_server)
        if 2 * group <= cluster.servers and group > 1:
            knobs["region_servers"] = [2 * group]
    return knobs


class WholeSteps:
    """Whole steps of candidates: their task graphs are built once for each plan."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Workloads, Networks]] = {}

    def prepared(self, candidate: Candidate) -> tuple[Any, Any]:
        """The task graph and the network of a candidate's whole step.

        Raises
        ------
        FabricError
            If the fabric cannot carry the job.
        """
        job, key = candidate.site.whole, id(candidate.site)
        if key not in self._kept:
            workloads = Workloads(job)
            self._kept[key] = workloads, Networks(job, workloads)
        workloads, networks = self._kept[key]
        size = networks.server_size(candidate.fabric)
        network = networks.get(candidate.fabric)
        return workloads.get(job.samples()[0], size).graph, network


def with_overlap(site: Site, overlap: AllToAllOverlap, chunks: int) -> ModelJob:
    """The job of a site whose plan hides its all-to-alls in another way.

    Raises
    ------
    InputError
        If the plan cannot.
    """
    fitted = site.job.fitted
    plan = dataclasses.replace(fitted.plan, overlap_all_to_all=overlap, overlap_chunks=chunks)
    return prepare(site.job.scenario, dataclasses.replace(fitted, plan=plan))
