"""What a step trains and how fast GPUs compute, as all parts of a task graph take it."""

from __future__ import annotations

from typing import NamedTuple

from lightloom.models.model import Model
from lightloom.parallel import Plan
from lightloom.workload.compute import ComputeModel
from lightloom.workload.options import WorkloadOptions


class PlannedModel(NamedTuple):
    """A model, the plan that trains it, and what else is open."""

    model: Model
    plan: Plan
    options: WorkloadOptions


class ComputeSpeed(NamedTuple):
    """Times of operators, and a factor on all of them."""

    compute: ComputeModel
    scale: float
