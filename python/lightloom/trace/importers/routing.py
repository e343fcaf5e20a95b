"""What a routing log says of the load of experts, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.demand import RoutingLog, imbalance_of


@dataclass(frozen=True)
class LayerLoad:
    """How unevenly the tokens of a layer chose experts, over all steps and ranks of a log.

    Attributes
    ----------
    layer
        As the log numbers it.
    copies
        Token copies: choices of an expert.
    experts
        Of the layer; where the log does not say, as many as the largest number tells.
    used
        Experts that a token chose.
    largest
        Load of the most loaded expert over the mean load.
    top_share
        What the quarter of experts with the largest loads hold of all.
    """

    layer: int
    copies: int
    experts: int
    used: int
    largest: float
    top_share: float


def layer_loads(log: RoutingLog) -> list[LayerLoad]:
    """Loads of each layer, in order.

    Layers that no token passed are left out.
    """
    experts = log.experts if log.experts is not None else log.largest_expert + 1
    counts = {layer: np.zeros(experts, dtype=np.int64) for layer in log.layers}
    for (_, _, layer), calls in log.calls.items():
        for choices in calls:
            counts[layer] += np.bincount(choices.ravel(), minlength=experts)
    rows = []
    for layer, loads in counts.items():
        if loads.any():
            uneven = imbalance_of(loads)
            used = int((loads > 0).sum())
            rows.append(
                LayerLoad(
                    layer, int(loads.sum()), experts, used, uneven.max_over_mean, uneven.top_share
                )
            )
    return rows
