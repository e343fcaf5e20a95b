"""A scenario with everything looked up: model, GPU, plan, compute times, fabrics, costs."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypedDict

from lightloom.cost import PartsCostModel
from lightloom.demand import DemandSource, open_demand
from lightloom.demand.open import kind_of
from lightloom.errors import DemandError, FabricError, did_you_mean
from lightloom.fabric import Cluster, Fabric, load_fabric
from lightloom.hardware import Gpu, known_error, load_gpu
from lightloom.models import Model, catalog, load_model
from lightloom.models.attention_work import training_flops_per_token
from lightloom.models.next_tokens import with_next_tokens
from lightloom.models.parameters import active_parameters, total_parameters
from lightloom.models.record import model_record, recorded_model
from lightloom.parallel import Plan, StageMemory
from lightloom.parallel.grid import RankGrid
from lightloom.planner.layers import choose_strategies
from lightloom.practice import Sharded
from lightloom.study.compare.compute_note import (
    compute_line,
    compute_warning,
    precision_warning,
)
from lightloom.study.compare.costs import Costs, Rates, costs_by_name
from lightloom.study.compare.fit import FittedPlan, fitted_plan
from lightloom.study.compare.kernels import compute_model, deduplicates
from lightloom.study.compare.racks import installed, used_nics, with_servers
from lightloom.study.compare.repair import repair_of
from lightloom.study.compare.results import Sample
from lightloom.study.compare.scenario import DemandOptions, Scenario, packet_options
from lightloom.trace.step.build import TraceWorkload
from lightloom.units import show_count, show_things
from lightloom.workload.build import Workload, build, rebuild
from lightloom.workload.compute import ComputeModel
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.programs.program import ProgramStep
from lightloom.workload.tokens import demand_shape

#: a step that is ready to run
StepWorkload = Workload | TraceWorkload | ProgramStep

#: fields of the plan that are columns
PLAN_COLUMNS = (
    *("tp", "pp", "dp", "ep", "etp", "cp", "vpp"),
    *("micro_batches", "micro_batch_size", "seq_len", "zero1", "schedule", "overlap_all_to_all"),
)
#: what is said of a plan whose ranks share out more than states of the optimizer
_ZERO: dict[Sharded, str] = {"states": "", "gradients": ", ZeRO-2", "parameters": ", ZeRO-3"}
#: entries of the rank x rank token matrices above which they are not kept (4 bytes each)
MAX_RANK_TOKENS = 400_000_000


@dataclass(frozen=True, kw_only=True)
class PlanCandidate:
    """A plan that a search considered, and the step that it predicts.

    The step is that on a fat-tree, which of one that ``is_screened`` was estimated in closed form;
    ``estimated_s`` are the parts of that estimate, see :class:`.StepEstimate`.
    ``predicted_by_fabric_s`` has steps on fabrics of the comparison.
    """

    DEGREES: ClassVar = (
        *("tp", "pp", "ep", "cp", "etp", "expert_mode", "vpp", "dp"),
        *("micro_batches", "micro_batch_size", "schedule", "strategy"),
    )

    tp: int
    pp: int
    ep: int
    cp: int
    etp: int
    expert_mode: str
    vpp: int
    dp: int
    micro_batches: int
    micro_batch_size: int
    schedule: str
    strategy: str
    dispatcher: str
    sharded: str
    recompute: str
    peak_memory_bytes: float
    predicted_step_time_s: float
    estimated_s: Mapping[str, float] | None
    predicted_by_fabric_s: Mapping[str, float]
    is_screened: bool


class TrainingRates(TypedDict):
    """The throughput of a job, by the names of results; ``None`` where tokens are not known."""

    tokens_per_s: float | None
    tokens_per_s_per_gpu: float | None
    tflops_per_gpu: float | None
    mfu: float | None
    days_per_trillion_tokens: float | None


@dataclass(frozen=True, kw_only=True)
class Job(ABC):
    """One training job on one cluster, and the fabrics to compare for it; ``costs`` by name.

    What it trains is a model (:class:`ModelJob`), a program that was traced
    (:class:`~lightloom.study.compare.traced.TraceJob`), or one that is known by name or by its
    phases (:class:`~lightloom.study.compare.program_job.ProgramJob`).
    """

    scenario: Scenario
    gpu: Gpu
    compute: ComputeModel
    cluster: Cluster
    fabrics: tuple[Fabric, ...]
    rates: Rates
    costs: dict[str, Costs]

    @property
    @abstractmethod
    def name(self) -> str:
        """What is trained."""

    @property
    def of_model(self) -> ModelJob | None:
        """Itself, if it trains a model, whose plan and layers may be changed; else ``None``."""
        return None

    @property
    @abstractmethod
    def has_routing(self) -> bool:
        """Whether there are experts, for which a demand can be drawn."""

    @property
    @abstractmethod
    def is_drawn(self) -> bool:
        """Whether the demand is that of a generator."""

    @property
    @abstractmethod
    def draws(self) -> bool:
        """Whether the demand depends on the seed."""

    @property
    @abstractmethod
    def changes(self) -> bool:
        """Whether the demand differs from step to step."""

    @abstractmethod
    def workload(self, sample: Sample, gpus_per_server: int) -> StepWorkload:
        """The task graph of one step on servers of a given size."""

    def step_key(self, sample: Sample, gpus_per_server: int) -> Hashable | None:  # noqa: ARG002
        """All that such a task graph is made of; ``None`` of one that is not shared."""
        return None

    @abstractmethod
    def scaled(self, workload: StepWorkload, sample: Sample) -> StepWorkload:
        """The step of a workload at the compute speed of ``sample``."""

    @abstractmethod
    def training_rates(self, step_time_s: float) -> TrainingRates:
        """The throughput of steps of this time, in the units in which runs are published."""

    @abstractmethod
    def opening(self) -> list[str]:
        """What is trained, in lines."""

    @abstractmethod
    def details(self, workload: StepWorkload | None) -> list[str]:
        """How it is trained, in lines; more of them once the workload is built."""

    @abstractmethod
    def inputs(self) -> dict[str, Any]:
        """What results say of what is trained, as plain values."""

    @abstractmethod
    def bytes_per_count(self, workload: StepWorkload, table: int) -> float:
        """Bytes of a token copy of a table of demand."""

    def demand_line(self) -> str:
        """What was sampled, and why there may be less of it than was asked for."""
        scenario, samples = self.scenario, self.samples()
        source = scenario.demand.name if self.has_routing else "none (no experts)"
        seeds = len({sample.seed for sample in samples})
        steps = len({sample.step for sample in samples})
        parts = [f"{seeds} seed{'s' * (seeds > 1)} x {steps} step{'s' * (steps > 1)}"]
        if scenario.compute_spread:
            parts.append(f"compute speed +-{scenario.compute_spread:.0%}")
        if (seeds, steps) != (scenario.seeds, scenario.steps):
            alike = "every seed" if self.changes else "every seed and step"
            parts.append(f"the same for {alike}")
        counted = show_things(len(samples), "sample")
        return f"demand: {source}; {counted} per fabric: {', '.join(parts)}"

    def plan_summary(self) -> list[str]:
        """The plan, where it comes from, and its memory, in lines; none of a program."""
        return []

    def warnings(self) -> list[str]:
        """What to know before any result is read."""
        return []

    def losses(self, workload: StepWorkload) -> list[str]:  # noqa: ARG002
        """Tokens of the demand that are not sent, in lines."""
        return []

    def logged(self, workload: StepWorkload) -> dict[str, float]:  # noqa: ARG002
        """What a log that tokens are drawn from has, per layer and expert."""
        return {}

    def plan_columns(self) -> dict[str, object]:
        """The plan as columns of rows; a program's is its own."""
        return {}

    def plan_record(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {}

    def memory_record(self) -> dict[str, Any]:
        """Peak memory by stage as plain values; a program does not say."""
        return {}

    def shape_record(self) -> dict[str, Any]:
        """The field of a scenario that repeats a model whose file may be gone."""
        return {}

    def samples(self) -> list[Sample]:
        """Every seed and step at the nominal compute speed; after the first, its two ends.

        Where nothing is drawn all seeds are alike, and where a matrix or no demand at all stands
        for every step, all steps are: then there is one.
        """
        scenario, spread = self.scenario, self.scenario.compute_spread
        seeds = range(scenario.seed, scenario.seed + (scenario.seeds if self.draws else 1))
        begin = scenario.demand.trained_steps
        steps = range(begin, begin + (scenario.steps if self.changes else 1))
        samples = [Sample(seed, step) for seed in seeds for step in steps]
        if spread:
            first = samples[0]
            # an efficiency of 1.1 takes 1 / 1.1 of the time
            ends = [1 / (1 + spread), 1 / (1 - spread)]
            samples[1:1] = [Sample(first.seed, first.step, scale) for scale in ends]
        return samples

    def paper_cost_usd(self, fabric: Fabric) -> float:
        """What a fabric's network costs by the MixNet paper's counting."""
        bill = fabric.bill_of_materials(self.installed, self.rates.counting.as_in_mixnet_paper())
        return PartsCostModel().capital_cost(bill, self.rates.prices).total_usd

    @property
    def installed(self) -> Cluster:
        """The servers with the GPUs that they have to spare."""
        return installed(self.cluster, self.scenario.cluster)


@dataclass(frozen=True, kw_only=True)
class StepJob(Job):
    """A job whose step is given, and no model of which a plan, FLOPs and tokens would follow."""

    def bytes_per_count(self, workload: StepWorkload, table: int) -> float:
        """Bytes of a count of the first all-to-all of a table of demand."""
        for role in workload.graph.roles:
            program = role.program
            if len(sizes := program.size[program.demand == table]):
                return float(sizes[0])
        return 0.0

    def training_rates(self, step_time_s: float) -> TrainingRates:
        """The throughput of steps of this time, where the tokens of one are known."""
        tokens = self.scenario.step_tokens
        if tokens is None:
            return {
                "tokens_per_s": None, "tokens_per_s_per_gpu": None,
                "tflops_per_gpu": None, "mfu": None,
                "days_per_trillion_tokens": None,
            }  # fmt: skip
        rate = tokens / step_time_s
        return {
            "tokens_per_s": rate, "tokens_per_s_per_gpu": rate / self.scenario.gpus,
            "tflops_per_gpu": None, "mfu": None,
            "days_per_trillion_tokens": 1e12 / rate / 86_400,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ModelJob(Job):
    """The training of a model by a plan.

    ``candidates`` are the best of the ``plans_that_fit`` of a search, the fastest on a fat-tree
    first.
    """

    model: Model
    plan: Plan
    options: WorkloadOptions
    fitted: FittedPlan
    candidates: tuple[PlanCandidate, ...] = ()
    plans_that_fit: int = 0

    @classmethod
    def like(cls, job: ModelJob, **others: Any) -> Self:
        """A job of this kind with the values of ``job``, and ``others`` that it has besides."""
        return cls(**{each.name: getattr(job, each.name) for each in fields(job)}, **others)

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    @property
    def of_model(self) -> Self:
        """Itself."""
        return self

    @property
    def has_routing(self) -> bool:
        """Whether the model has experts."""
        return bool(self.model.num_moe_layers)

    @property
    def is_drawn(self) -> bool:
        """Whether the demand is that of a generator."""
        return kind_of(self.scenario.demand.name) == "regime"

    @property
    def draws(self) -> bool:
        """Whether the demand depends on the seed."""
        if not self.model.num_moe_layers:
            return False
        options = self.scenario.demand
        return options.resample or kind_of(options.name) == "regime"

    @property
    def changes(self) -> bool:
        """Whether the demand differs from step to step."""
        if not self.model.num_moe_layers:
            return False
        return kind_of(self.scenario.demand.name) != "matrix"

    def workload(self, sample: Sample, gpus_per_server: int) -> Workload:
        """The task graph of one step on servers of a given size."""
        options = dataclasses.replace(self.options, rank_level=self._keeps_ranks(gpus_per_server))
        return build(
            self.model,
            self.plan,
            demand=self.demand(sample),
            compute=self.compute,
            gpus_per_server=gpus_per_server,
            options=options,
            step=sample.step,
            compute_scale=sample.compute_scale,
            choose=choose_strategies(self.model, self.plan, options, self.cluster, self.gpu),
        )

    def step_key(self, sample: Sample, gpus_per_server: int) -> Hashable | None:
        """The model, the plan, what computes, the demand, and where a strategy is left open all."""
        scenario, plan = self.scenario, self.plan
        cluster = self.cluster if plan.strategy == "auto" else None
        compute = (str(scenario.cluster.profile), scenario.compute, self.fitted.options)
        what = (self.model, plan, self.options, self.gpu, compute, cluster)
        return (*what, scenario.demand.model_dump_json(), gpus_per_server, sample)

    def demand(self, sample: Sample) -> DemandSource | None:
        """Where the token copies come from; ``None`` for a model without experts."""
        return demand_source(self.scenario, self.model, self.plan, sample.seed)

    def scaled(self, workload: StepWorkload, sample: Sample) -> StepWorkload:
        """The step of a workload at the compute speed of ``sample``."""
        assert isinstance(workload, Workload)
        return rebuild(workload, compute=self.compute, compute_scale=sample.compute_scale)

    def _keeps_ranks(self, gpus_per_server: int) -> bool:
        """Whether token counts between ranks are needed, and small enough to be kept."""
        plan = self.plan
        ranks_per_server = max(1, gpus_per_server // plan.etp)
        blocks = self.model.num_moe_layers * plan.micro_batches * plan.groups_per_stage
        return ranks_per_server > 1 and blocks * plan.ep**2 <= MAX_RANK_TOKENS

    def training_rates(self, step_time_s: float) -> TrainingRates:
        """The throughput of steps of this time, in the units in which runs are published.

        Utilization is of the BF16 peak, whatever the precision, so that it ranks runs by speed.
        """
        gpus = self.scenario.gpus
        tokens_per_s = self.plan.tokens_per_step / step_time_s
        flops = training_flops_per_token(self.model, self.plan.seq_len)
        return {
            "tokens_per_s": tokens_per_s,
            "tokens_per_s_per_gpu": tokens_per_s / gpus,
            "tflops_per_gpu": flops * tokens_per_s / gpus / 1e12,
            "mfu": flops * tokens_per_s / gpus / self.gpu.peak_bf16_flops,
            "days_per_trillion_tokens": 1e12 / tokens_per_s / 86_400,
        }

    @property
    def sharded(self) -> Sharded:
        """What data-parallel ranks share out; without ZeRO nothing more than states is."""
        return self.options.sharded if self.plan.zero1 else "states"

    @property
    def memory(self) -> tuple[StageMemory, ...]:
        """Peak memory of each pipeline stage."""
        return self.fitted.memory

    def opening(self) -> list[str]:
        """The model, and what to know of it."""
        model = self.model
        parameters = show_count(total_parameters(model))
        active = show_count(active_parameters(model, "output"))
        experts = f"{model.num_experts} experts, top-{model.experts_per_token}, "
        return [
            f"{model.name}: {model.num_layers} layers, {experts if model.num_experts else ''}"
            f"{parameters} parameters, {active} active per token",
            *([f"about the model: {'; '.join(model.notes)}"] if model.notes else []),
        ]

    def details(self, workload: StepWorkload | None) -> list[str]:  # noqa: ARG002
        """Plan, memory and compute times."""
        return [*self.plan_summary(), *filter(None, [compute_line(self)])]

    def plan_summary(self) -> list[str]:
        """The plan, where it comes from, and its memory, in lines."""
        plan, fitted = self.plan, self.fitted
        lines = [
            f"plan: TP{plan.tp} PP{plan.pp} EP{plan.ep} DP{plan.dp}"
            + (f" CP{plan.cp}" if plan.cp > 1 else "")
            + (f" VPP{plan.vpp}" if plan.vpp > 1 else "")
            + (f" ETP{plan.etp}" if plan.etp != plan.tp else "")
            + f" (dense DP {plan.dense_dp}{_ZERO[self.sharded]}); "
            f"{show_things(plan.micro_batches, 'micro-batch')} of {plan.micro_batch_size} x "
            f"{plan.seq_len} tokens; {plan.tokens_per_step:,} tokens per step",
            *filter(None, [self._inside_servers()]),
            *([f"plan from: {'; '.join(plan.provenance)}"] if plan.provenance else []),
        ]
        by_stage = " ".join(f"{stage.total_bytes / 1e9:.1f}" for stage in self.memory)
        lines.append(
            f"peak memory per GPU by stage [GB]: {by_stage}; "
            f"{fitted.limit_bytes(self.gpu) / 1e9:.1f} of "
            f"{self.gpu.hbm_capacity_bytes / 1e9:.0f} GB are for the model"
        )
        recompute = fitted.options.recompute
        if fitted.repaired:
            lines.append(
                f"activations recomputed so that the plan fits: {recompute}; without, "
                f"{fitted.repaired}"
            )
        elif recompute != "none":
            lines.append(f"activations recomputed: {recompute}")
        return lines

    def _inside_servers(self) -> str | None:
        """What it means for a job of several servers that every EP group is inside one of them."""
        size, servers = self.plan.ep * self.plan.etp, self.cluster.servers
        if not self.has_routing or size == 1 or servers == 1:
            return None
        group = RankGrid(self.plan).ep_groups()[0, 0]
        per_server = self.cluster.gpus_per_server
        if group[0] // per_server != group[-1] // per_server:
            return None
        return f"EP groups of {size} GPUs are inside servers: no all-to-all of experts leaves them"

    def warnings(self) -> list[str]:
        """A plan that does not fit, times that are assumed, a demand or length that is unusual."""
        warnings = []
        if self.fitted.misfit:
            warnings.append(f"the plan does not fit {self.gpu.title}: {self.fitted.misfit}")
        warnings += filter(None, (compute_warning(self), precision_warning(self)))
        source = self.demand(self.samples()[0])
        if source is not None and (floor := source.provenance.get("imbalance_floor")):
            warnings.append(floor)
        if 0 < self.model.max_positions < self.plan.seq_len:
            warnings.append(
                f"sequences of {self.plan.seq_len:,} tokens are longer than the "
                f"{self.model.max_positions:,} positions of {self.model.name}: as if it had as many"
            )
        return warnings

    def losses(self, workload: StepWorkload) -> list[str]:
        """Copies beyond the capacity of experts."""
        assert isinstance(workload, Workload)
        if workload.folded is None or not workload.folded.dropped_share:
            return []
        return [
            f"capacity factor {self.scenario.demand.capacity_factor:g}: "
            f"{workload.folded.dropped_share:.2%} of the token copies are dropped"
        ]

    def logged(self, workload: StepWorkload) -> dict[str, float]:
        """Copies of a log that tokens are drawn from, per layer and expert."""
        assert isinstance(workload, Workload)
        if workload.folded is None or workload.folded.logged_copies is None:
            return {}
        return {"copies_per_expert": workload.folded.logged_copies}

    def bytes_per_count(self, workload: StepWorkload, table: int) -> float:  # noqa: ARG002
        """Bytes of a token copy that is dispatched."""
        return self.model.expert_hidden * self.options.dispatch_element_bytes

    def inputs(self) -> dict[str, Any]:
        """Model, plan, plans that were considered, and how far predictions are from public runs."""
        plan, model = self.plan, self.model
        error = known_error(has_experts=self.has_routing, precision=self.fitted.options.precision)
        return {
            "model": {
                "name": model.name,
                "parameters": total_parameters(model),
                "active_parameters": active_parameters(model, "output"),
                "sources": model.sources,
            },
            "plan": self.plan_record(),
            "plan_candidates": [dataclasses.asdict(candidate) for candidate in self.candidates],
            "plans_that_fit": self.plans_that_fit,
            "known_error": dataclasses.asdict(error),
            "sequences_per_step": plan.sequences_per_step,
            "tokens_per_step": plan.tokens_per_step,
        }

    def plan_columns(self) -> dict[str, object]:
        """The plan, precision and recomputation as columns of rows."""
        fitted = self.fitted.options
        return {
            **{name: getattr(self.plan, name) for name in PLAN_COLUMNS},
            "precision": fitted.precision,
            "recompute": fitted.recompute,
        }

    def plan_record(self) -> dict[str, Any]:
        """Every field of the plan."""
        return dataclasses.asdict(self.plan) | {"dense_dp": self.plan.dense_dp}

    def memory_record(self) -> dict[str, Any]:
        """Peak memory by stage, and what it costs that the plan fits."""
        return self.fitted.as_dict(self.gpu) | {"repair": repair_of(self)}

    def shape_record(self) -> dict[str, Any]:
        """The shape of a model that is not in the catalog."""
        known = self.scenario.model in catalog()
        return {} if known else {"model_shape": model_record(self.model)}


def model_of(scenario: Scenario) -> Model:
    """The model of a scenario: by its recorded shape, else by its name or file.

    Raises
    ------
    ModelError
        If it is unknown or its file cannot be used.
    """
    assert scenario.model is not None
    if scenario.model_shape is not None:
        return recorded_model(scenario.model_shape, scenario.model)
    return with_next_tokens(load_model(scenario.model), scenario.plan.mtp)


class Equipment(TypedDict):
    """What a job runs on, and what that costs: fields of :class:`Job`."""

    gpu: Gpu
    cluster: Cluster
    fabrics: tuple[Fabric, ...]
    rates: Rates
    costs: dict[str, Costs]


def equipment_of(scenario: Scenario, gpu: Gpu) -> Equipment:
    """The machines, the fabrics and their costs of a scenario whose number of GPUs is known.

    Raises
    ------
    InputError
        If there are no such machines, fabrics or prices.
    """
    rates = Rates.of(scenario)
    cluster, fabrics = cluster_of(scenario, gpu), load_fabrics(scenario)
    costs = costs_by_name(fabrics, installed(cluster, scenario.cluster), gpu, rates)
    return {"gpu": gpu, "cluster": cluster, "fabrics": fabrics, "rates": rates, "costs": costs}


def prepare(scenario: Scenario, fitted: FittedPlan | None = None) -> ModelJob:
    """Look everything up and refuse what cannot be, before anything is simulated.

    Parameters
    ----------
    scenario
        What to compare.
    fitted
        The plan, if it is known; else it is the given or published one, or one by the rule.

    Raises
    ------
    InputError
        One line about the first thing that is wrong.
    """
    packet_options(scenario)
    model = model_of(scenario)
    scenario = with_servers(with_published_gate(scenario, model), model)
    if fitted is not None:
        scenario = with_practice(scenario, fitted)
    gpu = load_gpu(scenario.cluster.gpu)
    options = workload_options(scenario, model)
    equipment = equipment_of(scenario, gpu)
    fitted = fitted or fitted_plan(scenario, model, gpu, options)
    plan = fitted.plan
    compute = compute_model(scenario, model, options, fitted.options)
    demand_source(scenario, model, plan, scenario.seed)
    return ModelJob(
        scenario=scenario,
        model=model,
        plan=plan,
        compute=compute,
        options=options,
        fitted=fitted,
        **equipment,
    )


def workload_options(scenario: Scenario, model: Model) -> WorkloadOptions:
    """Bytes per element: the user's, else those of the model's published run, else the defaults."""
    demand = scenario.demand
    stated = {
        "dispatch_element_bytes": demand.dispatch_element_bytes,
        "combine_element_bytes": demand.combine_element_bytes,
        "dispatch_gradient_element_bytes": demand.dispatch_gradient_element_bytes,
        "combine_gradient_element_bytes": demand.combine_gradient_element_bytes,
        "gradient_bytes": scenario.gradient_bytes,
        "parameter_bytes": scenario.parameter_bytes,
    }
    sizes: dict[str, Any] = {}
    for name, value in stated.items():
        chosen = getattr(model.plan, name, None) if value is None else value
        if chosen is not None:
            sizes[name] = chosen
    traffic = scenario.traffic.model_dump()
    deduplicate = deduplicates(scenario, model)
    return WorkloadOptions(
        **sizes, **traffic, deduplicate=deduplicate, sharded=scenario.memory.sharded
    )


def with_published_gate(scenario: Scenario, model: Model) -> Scenario:
    """The scenario with the balance of the model's published training, where it has none."""
    demand = scenario.demand
    if model.gate is None or demand.source is not None:
        return scenario
    return scenario.with_imbalance(model.gate)


def with_practice(scenario: Scenario, fitted: FittedPlan) -> Scenario:
    """The scenario with what a search chose beside the plan: dispatcher and what ranks share."""
    demand, memory = scenario.demand, scenario.memory
    if fitted.dispatcher is not None:
        demand = demand.model_copy(update={"dispatcher": fitted.dispatcher})
    if fitted.options.sharded != memory.sharded:
        memory = memory.model_copy(update={"sharded": fitted.options.sharded})
    return scenario.model_copy(update={"demand": demand, "memory": memory})


def cluster_of(scenario: Scenario, gpu: Gpu) -> Cluster:
    """The machines of a scenario."""
    options = scenario.cluster
    return Cluster.of(
        gpus=scenario.gpus,
        rate_gbps=options.rate_gbps,
        gpu=gpu.name,
        profile=options.profile,
        gpus_per_server=options.used_gpus_per_server,
        nics_per_server=used_nics(options),
        link_delay_s=options.link_delay_s,
        idle_gpus_per_server=options.spare_gpus_per_server or 0,
    )


def load_fabrics(scenario: Scenario) -> tuple[Fabric, ...]:
    """The fabrics of a scenario, see :func:`fabrics_of`."""
    return fabrics_of(scenario.fabrics, scenario.fabric_options)


def fabrics_of(
    listed: Sequence[str | Fabric], fabric_options: Mapping[str, Mapping[str, Any]]
) -> tuple[Fabric, ...]:
    """The fabrics by name or file, each with its options; those of ``all`` are for every fabric.

    A fabric that is given as an object has its options already.

    Raises
    ------
    FabricError
        If there is none, one is named twice, or options are for a fabric that is not compared.
    """
    if not listed:
        raise FabricError("fabrics: expected at least one name, such as fat-tree,mixnet")
    options = {name: dict(values) for name, values in fabric_options.items()}
    shared = options.pop("all", {})
    called = [name for name in listed if isinstance(name, str)]
    for name, values in options.items():
        if values and name not in called:
            hint = did_you_mean(name, called)
            raise FabricError(
                f"{', '.join(values)}: for the fabric '{name}', which is not compared{hint}; add "
                f"it to the fabrics, or leave the option out"
            )
    fabrics: list[Fabric] = [
        load_fabric(fabric, {**shared, **options.get(fabric, {})})
        if isinstance(fabric, str)
        else fabric
        for fabric in listed
    ]
    names = [fabric.name for fabric in fabrics]
    for name in names:
        if names.count(name) > 1:
            raise FabricError(
                f"two fabrics are called '{name}'; a fabric's own file may have another label"
            )
    return tuple(fabrics)


def demand_source(scenario: Scenario, model: Model, plan: Plan, seed: int) -> DemandSource | None:
    """The demand that the scenario asks for; ``None`` for a model without experts.

    Raises
    ------
    DemandError
        If the source is neither a regime nor a readable file of the right size, or if options of
        the demand are given for a model that has none.
    """
    options = scenario.demand
    if not model.num_moe_layers:
        usual = DemandOptions()
        changed = [name for name, value in usual if getattr(options, name) != value]
        if changed:
            raise DemandError(
                f"{model.name} has no experts, so that nothing would read the demand's "
                f"{', '.join(changed)}; leave it out"
            )
        return None
    if options.trained_steps and kind_of(options.name) != "regime":
        raise DemandError(f"demand '{options.name}' is recorded: leave trained_steps out")
    return open_demand(
        options.name,
        demand_shape(model, plan),
        seed=seed,
        resample=options.resample,
        scale=options.scale,
        capacity_factor=options.capacity_factor,
    )
