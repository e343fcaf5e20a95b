"""From model, plan, demand and compute times to the task graph of one training step."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from lightloom.demand.source import DemandSource
from lightloom.errors import InputError, PlanError
from lightloom.models.model import Model
from lightloom.parallel import (
    MemoryOptions,
    Plan,
    RankGrid,
    StageMemory,
    Workers,
    check_model,
    memory_per_stage,
    place_workers,
)
from lightloom.workload.builder import TaskGraphBuilder
from lightloom.workload.categories import step_categories
from lightloom.workload.collectives import CONTEXT, Collectives, collectives
from lightloom.workload.compute import ComputeModel
from lightloom.workload.compute_attention import has_all_scores
from lightloom.workload.expected import expected_bytes
from lightloom.workload.expert_passes import ExpertPasses
from lightloom.workload.expert_tables import add_variants
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.planned import ComputeSpeed, PlannedModel
from lightloom.workload.priorities import with_priorities
from lightloom.workload.program import write_stage
from lightloom.workload.recipe import ExpertTables, recipe
from lightloom.workload.strategies import (
    ChooseStrategies,
    LayerStrategies,
    SentDemand,
    add_pieces,
    layer_strategies,
)
from lightloom.workload.task_graph import GroupFamily, TaskGraph
from lightloom.workload.tokens import Folded, Tables, add_tables, fold_demand
from lightloom.workload.traffic import Traffic, sent_traffic, traffic_shares, unmatched

#: relative difference between bytes sent and bytes implied that rounding to whole bytes explains;
#: token copies are counted, so that dispatch and combine must agree to the byte
ROUNDING = {"tp": 1e-5, "ep": 0.0, "pp": 1e-5, "dp": 1e-5, "cp": 1e-5}


@dataclass(frozen=True)
class Workload:
    """One training step, ready to run.

    Attributes
    ----------
    graph
        A role per stage, families of EP groups and rings, token counts.
    expected_bytes
        Bytes that all GPUs must send in the step by purpose (``tp ep pp dp cp``), in closed form.
    traffic
        Bytes that they do send, counted from the graph.
    memory
        Peak memory per GPU of each stage.
    provenance
        Where plan, demand, compute times and options come from, in words.
    strategies
        How the all-to-alls of each MoE layer run.
    workers, folded
        Placement and demand, kept for :func:`rebuild`.
    """

    model: Model
    plan: Plan
    options: WorkloadOptions
    graph: TaskGraph
    expected_bytes: dict[str, float]
    traffic: dict[str, Traffic]
    memory: list[StageMemory]
    provenance: dict[str, str]
    strategies: LayerStrategies
    workers: Workers = field(repr=False)
    folded: Folded | None = field(repr=False)

    def traffic_shares(self, *, network_only: bool = False) -> dict[str, float]:
        """Share of each parallelism in the bytes sent (MixNet, Figure 2)."""
        return traffic_shares(self.traffic, network_only=network_only)

    def worker_names(self) -> dict[int, str]:
        """What each worker is, in words."""
        servers, names = self.workers.server, {}
        for worker, server in enumerate(servers.ravel().tolist()):
            stage, replica, member = np.unravel_index(worker, servers.shape)
            names[worker] = (
                f"stage {stage} · {self.workers.gpus_per_worker} GPUs of server {server} "
                f"(replica {replica}, EP member {member})"
            )
        return names


def build(  # noqa: PLR0913
    model: Model,
    plan: Plan,
    *,
    demand: DemandSource | None,
    compute: ComputeModel,
    gpus_per_server: int = 8,
    options: WorkloadOptions | None = None,
    step: int = 0,
    compute_scale: float = 1.0,
    choose: ChooseStrategies | None = None,
) -> Workload:
    """Build the task graph of one training step.

    Parameters
    ----------
    model, plan
        What to train, and how the ranks share it.
    demand
        Token copies by (replica, MoE layer, micro-batch, step), of the shape that
        :func:`~lightloom.workload.demand_shape` says; ``None`` for a model without experts.
    compute
        Times of operators; it also says what the backward pass computes again.
    gpus_per_server
        Ranks fill servers in ascending order.
    options
        Bytes per element and overlaps.
    step
        Training step, for demand that drifts.
    compute_scale
        Factor on every compute time, 1.1 for a GPU that is 10 % slower than assumed.
    choose
        What finds the strategies of all-to-alls that the plan leaves open.

    Raises
    ------
    PlanError
        If the plan does not divide the model or align with servers, or leaves open what nothing
        chooses.
    DemandError
        If the demand is for another shape.
    InputError
        If an option is out of range.
    """
    options = options or WorkloadOptions()
    check_model(plan, model)
    _check_early_gradients(plan, options)
    workers = place_workers(RankGrid(plan), gpus_per_server)
    sent = SentDemand()
    notes: dict[str, str] = {}
    if model.num_moe_layers:
        if demand is None:
            raise InputError(f"{model.name} has experts: a demand source is needed")
        folded = fold_demand(model, plan, workers, demand, options, step=step)
        notes = {f"demand.{key}": text for key, text in demand.provenance.items()}
        if folded.dropped_share:
            notes["demand.dropped"] = f"{folded.dropped_share:.3%} of the token copies"
        sent = SentDemand(folded, layer_strategies(model, plan, options, folded, choose))
    job, speed = PlannedModel(model, plan, options), ComputeSpeed(compute, compute_scale)
    return _assemble(job, workers, sent, speed, notes)


def rebuild(workload: Workload, *, compute: ComputeModel, compute_scale: float = 1.0) -> Workload:
    """The same step with other compute times; its demand is not drawn and folded again.

    Raises
    ------
    InputError
        If the scale is not a positive number.
    """
    job = PlannedModel(workload.model, workload.plan, workload.options)
    notes = {key: text for key, text in workload.provenance.items() if key.startswith("demand.")}
    sent = SentDemand(workload.folded, workload.strategies)
    speed = ComputeSpeed(compute, compute_scale)
    return _assemble(job, workload.workers, sent, speed, notes)


def _check_early_gradients(plan: Plan, options: WorkloadOptions) -> None:
    """Refuse what would have no effect: gradients have to be there when the all-to-all begins."""
    if not options.early_gradients:
        return
    if plan.schedule == "zero-bubble":
        raise PlanError(
            "early-gradients with schedule zero-bubble: gradients of weights are computed later; "
            "leave one of them out"
        )
    if not plan.overlap_gradients:
        raise PlanError(
            "early-gradients without overlap-gradients: gradients wait for the end of the step; "
            "leave one of them out"
        )


def _assemble(
    job: PlannedModel,
    workers: Workers,
    sent: SentDemand,
    speed: ComputeSpeed,
    demand_notes: dict[str, str],
) -> Workload:
    """Everything that follows once the demand is folded, and how it is sent is known."""
    model, plan, options = job
    folded, compute, scale = sent.folded, *speed
    if not 0 < scale < float("inf"):
        raise InputError(f"compute scale = {scale}: expected a number above 0")
    groups = collectives(model, RankGrid(plan), workers)
    graph = _graph(job, workers, sent, speed, groups)
    recompute = compute.recompute == "full"
    spanned = groups.groups[CONTEXT].servers if CONTEXT in groups.groups else 1
    workload = Workload(
        model=model,
        plan=plan,
        options=options,
        graph=graph,
        expected_bytes=expected_bytes(
            model, plan, options, folded, recompute=recompute, context_servers=spanned
        ),
        traffic=sent_traffic(graph),
        memory=memory_per_stage(model, plan, _memory_options(model, options, compute)),
        provenance={**_provenance(plan, compute, options), **demand_notes},
        strategies=sent.strategies,
        workers=workers,
        folded=folded,
    )
    check_conservation(workload)
    return workload


def check_conservation(workload: Workload) -> None:
    """Assert that what is sent is received, and is what the model implies.

    Raises
    ------
    AssertionError
        Our own bug: a send without receive, or bytes that differ from the closed form by more
        than rounding to whole bytes explains.
    """
    faults = unmatched(workload.graph)
    assert not faults, faults
    for name, expected in workload.expected_bytes.items():
        sent = workload.traffic[name].total_bytes
        assert abs(sent - expected) <= ROUNDING[name] * expected, (
            f"{name}: {sent} bytes are sent, the model implies {expected}"
        )


def _graph(
    job: PlannedModel,
    workers: Workers,
    sent: SentDemand,
    speed: ComputeSpeed,
    groups: Collectives,
) -> TaskGraph:
    """The task graph of a step: a role per stage, workers laid out as [stage][replica][member]."""
    model, plan, options = job
    folded = sent.folded
    stages, replicas, members = workers.server.shape
    graph = TaskGraphBuilder(workers.server.ravel(), workers.gpus_per_worker, step_categories())
    for ring in groups.families:
        graph.add_family(ring)
    everyone = np.arange(workers.server.size, dtype=np.uint32)
    ends = np.arange(0, everyone.size + 1, members, dtype=np.uint32)
    family = graph.add_family(GroupFamily("ep", ends, everyone))
    tables, experts = Tables(family), ExpertTables({}, {}, {})
    if folded is not None:
        loads = (folded.slowest, folded.mean_load())
        passes = ExpertPasses(model, plan, *speed, loads)
        tables = add_tables(graph, family, job, passes, folded)
        variants = add_variants(graph, tables, passes)
        pieces = add_pieces(graph, passes, options, sent)
        experts = ExpertTables(variants, sent.strategies, pieces)
    common = recipe(job, speed, groups, (tables, experts), workers.gpus_per_worker)
    for stage, of_stage in enumerate(everyone.reshape(stages, replicas * members)):
        write_stage(common, stage, graph.role(f"stage {stage}", of_stage))
    built = graph.build()
    return built if options.priorities == "none" else with_priorities(built, options.priorities)


def _memory_options(model: Model, options: WorkloadOptions, compute: ComputeModel) -> MemoryOptions:
    unfused = compute.attention_kernels == "unfused"
    return MemoryOptions(
        recompute=compute.recompute,
        precision=compute.precision,
        state_precision=compute.state_precision,
        keeps_scores=unfused and has_all_scores(model),
        sharded=options.sharded,
        parameter_bytes=options.parameter_bytes,
        gradient_bytes=options.gradient_bytes,
    )


def _provenance(plan: Plan, compute: ComputeModel, options: WorkloadOptions) -> dict[str, str]:
    notes = {"plan": "; ".join((plan.describe(), *plan.provenance))}
    notes |= {f"compute.{key}": str(text) for key, text in compute.provenance.items()}
    notes["compute.recompute"] = compute.recompute
    for option in dataclasses.fields(options):
        notes[f"workload.{option.name}"] = str(getattr(options, option.name))
    return notes
