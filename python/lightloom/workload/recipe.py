"""What the programs of all stages of a step have in common: sizes, times and where tables are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lightloom.models.model import Model
from lightloom.parallel import Plan
from lightloom.workload.collectives import Collectives
from lightloom.workload.compute import ComputeModel
from lightloom.workload.expert_tables import Variant, taken_share
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.planned import ComputeSpeed, PlannedModel
from lightloom.workload.sizes import Sizes, Times, sizes, times
from lightloom.workload.strategies import LayerStrategies, PieceTables
from lightloom.workload.task_graph import NONE
from lightloom.workload.tokens import ExpertTimes, Tables
from lightloom.workload.weight_gradients import weight_times, without

#: times of a pass of which there is none
NOTHING = Times((), (), 0, 0, 0, 0)


@dataclass(frozen=True)
class ExpertTables:
    """Times of the experts by variant, strategies by layer, tables of pieces by their number.

    See :mod:`.expert_tables` and :mod:`.strategies`.
    """

    times: dict[Variant, ExpertTimes]
    strategies: LayerStrategies
    pieces: dict[int, list[PieceTables]]


@dataclass(frozen=True)
class Recipe:
    """What the programs of all stages have in common.

    ``weights`` are the times of weight gradients and ``inputs`` those of the rest of a backward
    pass, where the schedule splits it; ``taken`` is the share of a GPU that an all-to-all occupies
    while computation overlaps it.
    """

    model: Model
    plan: Plan
    options: WorkloadOptions
    compute: ComputeModel
    compute_scale: float
    collectives: Collectives
    tables: Tables
    experts: ExpertTables
    bytes: Sizes
    forward: Times
    backward: Times
    inputs: Times
    weights: Times
    taken: float


def placed_at(model: Model, layer: int, micro_batch: int) -> dict[str, Any]:
    """Where in the model and the step a task belongs."""
    is_layer = 0 <= layer < model.num_layers
    return {"layer": layer if is_layer else NONE, "micro_batch": micro_batch}


def recipe(
    job: PlannedModel,
    speed: ComputeSpeed,
    collectives: Collectives,
    tables: tuple[Tables, ExpertTables],
    gpus_per_worker: int,
) -> Recipe:
    """Compute every size and time once.

    Parameters
    ----------
    job, speed
        What is trained, and how fast GPUs compute.
    collectives
        How groups lie on servers.
    tables
        Where the numbers of each worker are.
    gpus_per_worker
        GPUs of a worker.
    """
    (model, plan, options), (compute, scale) = job, speed
    forward = times(model, plan, compute, scale, backward=False)
    backward = times(model, plan, compute, scale, backward=True)
    splits = plan.schedule != "1f1b"
    weights = weight_times(model, plan, compute, scale) if splits else NOTHING
    return Recipe(
        model,
        plan,
        options,
        compute,
        scale,
        collectives,
        *tables,
        sizes(model, plan, options, gpus_per_worker),
        forward,
        backward,
        without(backward, weights),
        weights,
        taken_share(plan, compute),
    )
