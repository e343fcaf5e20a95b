"""What recomputation costs that a plan needs to fit, and the sentence that says so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.practice import Recompute
from lightloom.units import PS_PER_S
from lightloom.workload.compute import ComputeModel
from lightloom.workload.expert_passes import expert_seconds
from lightloom.workload.sizes import times

if TYPE_CHECKING:
    from lightloom.study.compare.job import ModelJob


def layer_seconds(job: ModelJob, recompute: Recompute) -> float:
    """Computation of one micro-batch in all layers, forward and backward, s; loads as balanced."""
    compute = replace(job.compute, recompute=recompute)
    forward = _passed(job, compute, backward=False)
    again = forward if recompute == "full" else 0.0
    return forward + again + _passed(job, compute, backward=True)


def _passed(job: ModelJob, compute: ComputeModel, *, backward: bool) -> float:
    model, plan = job.model, job.plan
    times_ps = times(model, plan, compute, 1.0, backward=backward)
    widths = dict(zip(model.ffn_widths, times_ps.dense_ffn, strict=True))
    total = 0.0
    for layer, is_mixture in enumerate(model.moe_layers):
        total += times_ps.attention[model.attention_index(layer)]
        dense = widths.get(model.ffn_width(layer), 0)
        total += times_ps.gate + times_ps.shared_experts if is_mixture else dense
    total /= PS_PER_S
    if model.num_moe_layers:
        copies = np.array([plan.tokens_per_ep_rank * model.experts_per_token])
        seconds = expert_seconds(model, plan, compute, copies, backward=backward)
        total += model.num_moe_layers * float(seconds.sum())
    return total


def repair_of(job: ModelJob) -> dict[str, Any] | None:
    """What the plan needed and what its recomputation costs; ``None`` where it fits as it is."""
    without = job.fitted.without
    if without is None:
        return None
    level, first = job.fitted.options.recompute, without.options.recompute
    needed = max(stage.total_bytes for stage in without.memory)
    longer = layer_seconds(job, level) / layer_seconds(job, first) - 1
    before = "without recomputation" if first == "none" else f"with {first} recomputation"
    return {
        "recompute": first,
        "needed_bytes": needed,
        "longer": longer,
        "sentence": f"The plan needs {needed / 1e9:.1f} GB per GPU {before}, where "
        f"{job.fitted.limit_bytes(job.gpu) / 1e9:.1f} GB are for the model: it runs with {level} "
        f"recomputation, so that its layers compute {100 * longer:.0f} % longer.",
    }
