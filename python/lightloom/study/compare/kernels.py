"""How GPUs compute a scenario's model, and how they send copies of its tokens."""

from __future__ import annotations

from lightloom.errors import DemandError, InputError
from lightloom.models import Model
from lightloom.parallel import MemoryOptions
from lightloom.practice import Dispatcher
from lightloom.study.compare.scenario import Scenario
from lightloom.workload.compute import ComputeModel
from lightloom.workload.compute_attention import has_all_scores
from lightloom.workload.compute_dispatch import Dispatch
from lightloom.workload.options import WorkloadOptions


def compute_model(
    scenario: Scenario, model: Model, options: WorkloadOptions, memory: MemoryOptions
) -> ComputeModel:
    """Times of operators, in the formats and with the recomputation of the memory.

    Raises
    ------
    InputError
        If kernels are asked for that the model has no use for, or were not measured.
    """
    kinds = {variant.attention.kind for variant in model.variants}
    wanted = scenario.compute.attention_kernels
    if wanted in ("flash-2", "fp8") and "gqa" not in kinds:
        raise InputError(
            f"compute.attention_kernels = {wanted}: {model.name} has no attention that it computes;"
            " leave it out"
        )
    keeps_scores(scenario, model)
    return ComputeModel.load(
        scenario.cluster.gpu,
        scenario.cluster.profile,
        recompute=memory.recompute,
        precision=memory.precision,
        **scenario.compute.model_dump(exclude={"precision", "state_precision"}),
        state_precision=memory.state_precision,
        dispatch=dispatch_of(scenario, model, options),
    )


def keeps_scores(scenario: Scenario, model: Model) -> bool:
    """Whether all scores of attention are in memory, and kept unless they are computed again.

    Raises
    ------
    InputError
        If the model has attention that has none of all pairs of tokens, or GPUs share a sequence.
    """
    wanted = scenario.compute.attention_kernels
    if wanted == "unfused" and not has_all_scores(model):
        raise InputError(
            f"compute.attention_kernels = {wanted}: {model.name} has attention that is not of all"
            " pairs of tokens; leave it out"
        )
    if wanted == "unfused" and (scenario.plan.cp or 1) > 1:
        # as Transformer Engine (``get_attention_backend``)
        raise InputError(
            f"compute.attention_kernels = {wanted}: frameworks share no sequence among GPUs with"
            f" it; leave it out, or give no plan.cp = {scenario.plan.cp}"
        )
    return wanted == "unfused"


def dispatcher_of(scenario: Scenario, model: Model) -> Dispatcher:
    """The user's dispatcher; else that of the published training, else the one that suits it."""
    options = scenario.demand
    if options.dispatcher is not None:
        return options.dispatcher
    if options.deduplicate is not None:
        return "flex" if options.deduplicate else "alltoall"
    return model.dispatcher or ("flex" if model.num_groups > model.top_groups else "alltoall")


def deduplicates(scenario: Scenario, model: Model) -> bool:
    """Whether a token crosses the network once to each server.

    Raises
    ------
    DemandError
        If the dispatcher sends every copy.
    """
    wanted = scenario.demand.deduplicate
    sends_once = dispatcher_of(scenario, model) == "flex"
    if wanted and not sends_once:
        raise DemandError(
            "deduplicate with dispatcher alltoall: it sends every copy; use dispatcher flex, or "
            "leave deduplicate out"
        )
    return sends_once if wanted is None else wanted


def dispatch_of(scenario: Scenario, model: Model, options: WorkloadOptions) -> Dispatch:
    """What sending copies of tokens takes on GPUs."""
    return Dispatch(
        dispatcher=dispatcher_of(scenario, model),
        dropless=scenario.demand.capacity_factor is None,
        element_bytes=(
            options.dispatch_element_bytes,
            options.combine_element_bytes,
            options.combine_gradient_element_bytes,
            options.dispatch_gradient_element_bytes,
        ),
    )
