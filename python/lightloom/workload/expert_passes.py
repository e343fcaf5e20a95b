"""Times of passes of the experts at a job's loads, each computed once for all tables of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.models.model import Model
from lightloom.parallel import Plan
from lightloom.parallel.pipeline import Part
from lightloom.workload.compute import ComputeModel
from lightloom.workload.weight_gradients import expert_weight_seconds

Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ExpertPasses:
    """Passes of the experts of a model, computed by :meth:`seconds`.

    Attributes
    ----------
    model, plan, compute
        What is trained, how, and how fast.
    scale
        Factor on all times.
    loads
        Token copies of the busiest rank of each member, and of the mean rank of its group,
        ``(groups, blocks, members)``. Times grow with tokens, so the busiest GPU is the slowest.
    """

    model: Model
    plan: Plan
    compute: ComputeModel
    scale: float
    loads: tuple[npt.NDArray[Any], npt.NDArray[Any]]
    _found: dict[tuple[Part | None, bool], tuple[Seconds, Seconds]] = field(
        default_factory=dict, repr=False
    )

    def seconds(self, part: Part | None, *, chunk: bool = False) -> tuple[Seconds, Seconds]:
        """Return the times of a pass until the busiest rank is done, and at the mean load.

        Parameters
        ----------
        part
            Part of a backward pass; ``None`` is a forward pass.
        chunk
            Of a chunk of the tokens instead of all.
        """
        if (part, chunk) not in self._found:
            if part == "input":
                whole, weight = (self.seconds(part, chunk=chunk) for part in ("whole", "weight"))
                self._found[part, chunk] = (whole[0] - weight[0], whole[1] - weight[1])
            else:
                until, even = (self._pass(part, chunk, load) for load in self.loads)
                self._found[part, chunk] = (until, even)
        return self._found[part, chunk]

    def _pass(self, part: Part | None, chunk: bool, load: npt.NDArray[Any]) -> Seconds:
        model, plan, compute = self.model, self.plan, self.compute
        tokens = load / plan.overlap_chunks if chunk else load
        if part == "weight":
            return self.scale * expert_weight_seconds(model, plan, compute, tokens)
        return self.scale * expert_seconds(model, plan, compute, tokens, backward=part is not None)


def expert_seconds(
    model: Model,
    plan: Plan,
    compute: ComputeModel,
    tokens: npt.NDArray[Any],
    *,
    backward: bool,
) -> Seconds:
    """Seconds of one pass of the experts for token counts of the slowest GPUs.

    With full recomputation, backward is without the forward pass before it.
    """
    experts = model.num_experts // plan.ep

    def once(back: bool) -> Seconds:
        seconds = compute.experts(model, tokens, experts, plan.etp, back)
        return np.asarray(seconds, dtype=np.float64)

    again = backward and compute.recompute == "full"
    return once(backward) - once(False) if again else once(backward)
