"""Times of weight gradients alone, where a schedule computes them apart from input gradients.

The weight gradient of a linear layer is the product of its input and the gradient of its output,
added to the accumulated gradient; nothing else of a backward pass can wait. So the input part is
the whole backward pass less these products.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.models.model import Model
from lightloom.parallel import Plan
from lightloom.units import to_ps
from lightloom.workload.compute import ComputeModel
from lightloom.workload.projections import expert_projections, projections
from lightloom.workload.sizes import Times

#: tokens, inputs and outputs of a linear layer on one GPU
_Sizes = tuple[float, float, float]


def weight_times(model: Model, plan: Plan, compute: ComputeModel, scale: float) -> Times:
    """Picoseconds of the weight gradients of one micro-batch, part by part."""
    tokens = plan.micro_batch_size * plan.seq_len / plan.cp
    tp, hidden = plan.tp, model.hidden_size
    routed = tokens / (tp if plan.sequence_parallel else 1)

    def added(*layers: _Sizes, linear: bool = True) -> int:
        seconds = sum(compute.weight_gradient(*layer, linear=linear) for layer in layers)
        return to_ps(scale * seconds)

    def feed_forward(width: float) -> tuple[_Sizes, ...]:
        up = (2 if model.gated_ffn else 1) * width
        return (tokens, hidden, up), (tokens, width, hidden)

    def router() -> tuple[_Sizes, ...]:
        choices = model.num_experts + model.zero_experts
        return ((routed, hidden, choices),) if model.num_moe_layers else ()

    return Times(
        attention=tuple(
            added(*(layer.sizes for layer in projections(variant, tokens, tp)))
            for variant in model.variants
        ),
        dense_ffn=tuple(added(*feed_forward(width / tp)) for width in model.ffn_widths),
        gate=added(*router(), linear=False) + added(*expert_projections(model, routed)),
        shared_experts=(
            added(*feed_forward(model.shared_expert_ffn_size / tp))
            if model.shared_expert_ffn_size
            else 0
        ),
        embedding=0,
        head=(1 + model.mtp_layers) * added((tokens, hidden, model.vocab_size / tp), linear=False)
        + (model.mtp_layers * added((tokens, 2 * hidden, hidden / tp)) if model.mtp_layers else 0),
    )


def expert_weight_seconds(
    model: Model, plan: Plan, compute: ComputeModel, tokens: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Seconds of the weight gradients of a GPU's experts, for token copies of any shape."""
    experts = model.num_experts // plan.ep
    width = model.expert_ffn_size // plan.etp
    up = (2 if model.gated_ffn else 1) * width
    tokens_each = tokens / experts
    products = sum(
        compute.expert_weight_gradients(tokens_each, k, n)
        for k, n in ((model.expert_hidden, up), (width, model.expert_hidden))
    )
    return np.asarray(experts * products, dtype=np.float64)


def without(backward: Times, weights: Times) -> Times:
    """A backward pass less its weight gradients."""
    rest: dict[str, Any] = {}
    for field in dataclasses.fields(Times):
        whole, apart = getattr(backward, field.name), getattr(weights, field.name)
        if isinstance(whole, tuple):
            # a step without weight gradients apart has none of any attention
            pairs = zip(whole, apart or (0,) * len(whole), strict=True)
            rest[field.name] = tuple(whole - part for whole, part in pairs)
        else:
            rest[field.name] = whole - apart
    return Times(**rest)
