"""Groups of GPUs that reduce and gather across servers, and the bytes of their collectives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.models.model import Model
from lightloom.parallel import Plan, RankGrid, Workers
from lightloom.parallel.grid import gradient_groups
from lightloom.workload.rings import RingGroups, ring_groups
from lightloom.workload.task_graph import GroupFamily

DENSE, EXPERT, CONTEXT, EMBEDDING = "dp-dense", "dp-expert", "cp", "embedding"
#: TP ranks within workers, for collectives that run alongside computation
TENSOR = "tp"


@dataclass(frozen=True)
class Collectives:
    """Ring groups by name; a name is absent where its groups are single GPUs."""

    groups: dict[str, RingGroups]

    @property
    def families(self) -> list[GroupFamily]:
        """Families in the order of their indices."""
        return [group.family for group in self.groups.values()]

    def index(self, name: str) -> int:
        """Index of a family."""
        return list(self.groups).index(name)


def collectives(model: Model, grid: RankGrid, workers: Workers) -> Collectives:
    """All ring groups that the plan needs.

    Raises
    ------
    PlanError
        If groups cover servers unevenly.
    """
    plan = grid.plan
    ranks = {DENSE: gradient_groups(grid, "dense-gradient")}
    if model.num_moe_layers:
        ranks[EXPERT] = gradient_groups(grid, "expert-dp")
    ranks[CONTEXT] = grid.groups("cp")
    if shares_embedding(model, plan):
        ranks[EMBEDDING] = grid.groups("pp")[:, [0, plan.pp - 1]]
    if plan.overlap_tp:
        ranks[TENSOR] = grid.groups("tp")
    return Collectives(
        {
            name: ring_groups(name, np.asarray(groups), workers)
            for name, groups in ranks.items()
            if groups.shape[1] > 1
        }
    )


def shares_embedding(model: Model, plan: Plan) -> bool:
    """Whether GPUs of the first and of the last stage alone hold copies of a table.

    One that is tied, or that modules of multi-token prediction read, too.

    With DualPipe GPUs of both ends hold both stages, whose gradients they add up as all others.
    """
    is_shared = model.tied_embeddings or model.mtp_layers > 0
    return is_shared and plan.pp > 1 and plan.copies == 1
