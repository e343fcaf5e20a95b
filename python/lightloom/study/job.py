"""A scenario with everything looked up: model, GPU, plan, compute times, fabrics, prices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lightloom.demand import DemandSource, open_demand
from lightloom.errors import FabricError, InputError, did_you_mean
from lightloom.fabric import Cluster, Fabric, FabricContext, job_context, load_fabric
from lightloom.hardware import Gpu, Powers, Prices, load_gpu, load_power, load_prices
from lightloom.models import Model, load_model
from lightloom.parallel import MemoryOptions, Plan, StageMemory, choose_plan, memory_per_stage
from lightloom.parallel.memory import does_not_fit
from lightloom.study.results import Sample
from lightloom.study.scenario import Scenario
from lightloom.workload.build import Workload, build, rebuild
from lightloom.workload.compute import ComputeModel
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.tokens import demand_shape

#: entries of the rank x rank token matrices above which they are not kept (4 bytes each)
MAX_RANK_TOKENS = 400_000_000
#: samples over which the demand is averaged for topologies that are fixed for the whole job
CONTEXT_SAMPLES = 4


@dataclass(frozen=True)
class Job:
    """One training job on one cluster, and the fabrics to compare for it."""

    scenario: Scenario
    model: Model
    gpu: Gpu
    plan: Plan
    compute: ComputeModel
    cluster: Cluster
    fabrics: tuple[Fabric, ...]
    memory: tuple[StageMemory, ...]
    prices: Prices
    powers: Powers

    def samples(self) -> list[Sample]:
        """Every seed and step at the nominal compute speed, then the first at the two ends."""
        first, spread = self.scenario.seed, self.scenario.compute_spread
        samples = [
            Sample(seed, step)
            for seed in range(first, first + self.scenario.seeds)
            for step in range(self.scenario.steps)
        ]
        if spread:
            samples += [Sample(first, 0, 1 / (1 + spread)), Sample(first, 0, 1 / (1 - spread))]
        return samples

    def workload(
        self, sample: Sample, gpus_per_server: int, like: Workload | None = None
    ) -> Workload:
        """The task graph of one step on servers of a given size.

        ``like`` is the workload of the same seed and step at another compute speed, if it is
        there: its demand need not be drawn again.
        """
        if like is not None:
            return rebuild(like, compute=self.compute, compute_scale=sample.compute_scale)
        demand = self.scenario.demand
        options = WorkloadOptions(
            dispatch_element_bytes=demand.dispatch_element_bytes,
            combine_element_bytes=demand.combine_element_bytes,
            deduplicate=demand.deduplicate,
            rank_level=self._keeps_ranks(gpus_per_server),
        )
        return build(
            self.model,
            self.plan,
            demand=demand_source(self.scenario, self.model, self.plan, sample.seed),
            compute=self.compute,
            gpus_per_server=gpus_per_server,
            options=options,
            step=sample.step,
            compute_scale=sample.compute_scale,
        )

    def context(
        self, gpus_per_server: int, workload: Callable[[Sample, int], Workload]
    ) -> FabricContext:
        """The job as fabrics may know it in advance: the mean of the nominal samples.

        At most :data:`CONTEXT_SAMPLES` of them, evenly spread, since each has to be built;
        ``workload`` builds one or knows it already.
        """
        nominal = [sample for sample in self.samples() if sample.compute_scale == 1.0]
        stride = -(-len(nominal) // CONTEXT_SAMPLES)
        chosen = nominal[::stride]
        return job_context(workload(sample, gpus_per_server).graph for sample in chosen)

    def _keeps_ranks(self, gpus_per_server: int) -> bool:
        """Whether token counts between ranks are needed, and small enough to be kept."""
        plan = self.plan
        ranks_per_server = max(1, gpus_per_server // plan.etp)
        blocks = self.model.num_moe_layers * plan.micro_batches * plan.groups_per_stage
        return ranks_per_server > 1 and blocks * plan.ep**2 <= MAX_RANK_TOKENS

    def does_not_fit(self) -> str | None:
        """One line if the plan exceeds the GPU's memory."""
        reserve = MemoryOptions().reserve
        return does_not_fit(list(self.memory), self.gpu.hbm_capacity_bytes, reserve)


def prepare(scenario: Scenario) -> Job:
    """Look everything up and refuse what cannot be, before anything is simulated.

    Raises
    ------
    InputError
        One line about the first thing that is wrong.
    """
    if scenario.network == "packet":
        raise InputError("--network packet: not there yet; use flow")
    model = load_model(scenario.model)
    gpu = load_gpu(scenario.cluster.gpu)
    options = MemoryOptions(recompute=scenario.recompute)
    plan = choose_plan(
        model,
        scenario.gpus,
        gpu_memory_bytes=gpu.hbm_capacity_bytes,
        overrides=scenario.plan.model_dump(exclude_none=True),
        gpus_per_server=scenario.cluster.gpus_per_server,
        memory=options,
    )
    compute = ComputeModel.load(
        scenario.cluster.gpu, scenario.cluster.profile, recompute=scenario.recompute
    )
    fabrics = load_fabrics(scenario)
    prices, powers = load_prices(scenario.prices), load_power(scenario.power)
    demand_source(scenario, model, plan, scenario.seed)
    return Job(
        scenario=scenario,
        model=model,
        gpu=gpu,
        plan=plan,
        compute=compute,
        cluster=_cluster(scenario, gpu),
        fabrics=fabrics,
        memory=tuple(memory_per_stage(model, plan, options)),
        prices=prices,
        powers=powers,
    )


def _cluster(scenario: Scenario, gpu: Gpu) -> Cluster:
    own = scenario.cluster
    return Cluster.of(
        gpus=scenario.gpus,
        nic_gbps=own.rate_gbps,
        gpu=gpu.name,
        gpus_per_server=own.gpus_per_server,
        nics_per_server=own.nics_per_server,
        link_delay_s=own.link_delay_s,
    )


def load_fabrics(scenario: Scenario) -> tuple[Fabric, ...]:
    """The fabrics by name or file, each with the options that the scenario has for it.

    Raises
    ------
    FabricError
        If there is none, one is named twice, or options are for a fabric that is not compared.
    """
    if not scenario.fabrics:
        raise FabricError("--fabrics: expected at least one name, such as fat-tree,mixnet")
    options = {name: dict(values) for name, values in scenario.fabric_options.items()}
    shared = options.pop("all", {})
    fabrics: list[Fabric] = []
    for name in scenario.fabrics:
        own = options.pop(name, {})
        fabrics.append(load_fabric(name, {**shared, **own}))
    for name, values in options.items():
        hint = did_you_mean(name, scenario.fabrics)
        raise FabricError(
            f"options {', '.join(values)} are for '{name}', which is not compared{hint}; "
            f"add it to --fabrics"
        )
    names = [fabric.name for fabric in fabrics]
    for name in names:
        if names.count(name) > 1:
            raise FabricError(f"fabric '{name}' is named twice; give one of them a label")
    return tuple(fabrics)


def demand_source(scenario: Scenario, model: Model, plan: Plan, seed: int) -> DemandSource | None:
    """The demand that the scenario asks for; ``None`` for a model without experts.

    Raises
    ------
    DemandError
        If the source is neither a regime nor a readable file of the right size.
    """
    if not model.num_moe_layers:
        return None
    options = scenario.demand
    return open_demand(
        options.source,
        demand_shape(model, plan),
        seed=seed,
        resample=options.resample,
        scale=options.scale,
    )
