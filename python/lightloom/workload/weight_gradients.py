"""Times of weight gradients alone, where a schedule computes them apart from input gradients.

The weight gradient of a linear layer is the product of its input and the gradient of its output,
added to the accumulated gradient; nothing else of a backward pass can wait. So the input part is
the whole backward pass less these products.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from lightloom.models.model import Model
from lightloom.parallel import Plan
from lightloom.units import to_ps
from lightloom.workload.compute import ComputeModel
from lightloom.workload.projections import projections
from lightloom.workload.sizes import Times

#: tokens, inputs and outputs of a linear layer on one GPU
_Sizes = tuple[float, float, float]


def weight_times(model: Model, plan: Plan, compute: ComputeModel, scale: float) -> Times:
    """Picoseconds of the weight gradients of one micro-batch, part by part."""
    tokens = plan.micro_batch_size * plan.seq_len / plan.cp
    tp, hidden = plan.tp, model.hidden_size
    dense = model.num_moe_layers < model.num_layers
    routed = tokens / (tp if plan.sequence_parallel else 1)

    def added(*layers: _Sizes, linear: bool = True) -> int:
        seconds = sum(compute.weight_gradient(*layer, linear=linear) for layer in layers)
        return to_ps(scale * seconds)

    def feed_forward(width: float) -> tuple[_Sizes, ...]:
        up = (2 if model.gated_ffn else 1) * width
        return (tokens, hidden, up), (tokens, width, hidden)

    return Times(
        attention=tuple(
            added(*(layer.sizes for layer in projections(variant, tokens, tp)))
            for variant in model.variants
        ),
        dense_ffn=added(*feed_forward(model.ffn_size / tp)) if dense else 0,
        gate=(
            added((routed, hidden, model.num_experts), linear=False) if model.num_moe_layers else 0
        ),
        shared_experts=(
            added(*feed_forward(model.shared_expert_ffn_size / tp))
            if model.shared_expert_ffn_size
            else 0
        ),
        embedding=0,
        head=added((tokens, hidden, model.vocab_size / tp), linear=False),
    )


def expert_weight_seconds(
    model: Model, plan: Plan, compute: ComputeModel, tokens: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Seconds of the weight gradients of a GPU's experts, for token copies of any shape."""
    experts = model.num_experts // plan.ep
    width = model.expert_ffn_size // plan.etp
    up = (2 if model.gated_ffn else 1) * width
    each = tokens / experts
    products = sum(
        compute.expert_weight_gradients(each, k, n)
        for k, n in ((model.hidden_size, up), (width, model.hidden_size))
    )
    return np.asarray(experts * products, dtype=np.float64)


def without(backward: Times, weights: Times) -> Times:
    """A backward pass less its weight gradients."""
    parts = (field.name for field in dataclasses.fields(Times) if field.name != "attention")
    rest = {name: getattr(backward, name) - getattr(weights, name) for name in parts}
    # a step without weight gradients apart has none of any attention
    apart = weights.attention or (0,) * len(backward.attention)
    pairs = zip(backward.attention, apart, strict=True)
    return Times(attention=tuple(whole - part for whole, part in pairs), **rest)
