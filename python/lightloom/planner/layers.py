"""The strategies of the all-to-alls of a step, layer by layer, by the volume of each.

What a plan leaves open is found as :mod:`.all_to_all` finds it for one all-to-all: the strategy
among O1 to O4 (the baseline is another plan, whose TP ranks have the same tokens), its number of
chunks, or both. A layer has the mean volume of its EP groups and micro-batches, of which the
busiest member decides; all groups of a stage run the same program. What is assumed of the network
is that nothing blocks; a comparison tries on every fabric whether one strategy for all layers is
faster there.
"""

from __future__ import annotations

import functools

import numpy as np

from lightloom.fabric.cluster import Cluster
from lightloom.hardware import Gpu
from lightloom.models import Model
from lightloom.parallel import Plan
from lightloom.parallel.overlap import MAX_CHUNKS
from lightloom.planner.all_to_all import AllToAll
from lightloom.planner.cluster import cluster_of
from lightloom.planner.strategy import AllToAllStrategy
from lightloom.planner.volume import AllToAllVolume
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.sizes import sizes
from lightloom.workload.strategies import ChooseStrategies, LayerStrategies, LayerStrategy
from lightloom.workload.tokens import Folded, moe_layers

#: what ``auto`` chooses from, of those that a cluster lets choose
CHOICES = tuple(s for s in AllToAllStrategy if s is not AllToAllStrategy.BASELINE)


def choose_strategies(
    model: Model, plan: Plan, options: WorkloadOptions, cluster: Cluster, gpu: Gpu
) -> ChooseStrategies:
    """Return what finds the strategies that a plan leaves open, once the demand is known.

    Parameters
    ----------
    model, plan, options
        What the step trains, how, and what it moves.
    cluster, gpu
        Where it runs.
    """
    return functools.partial(_choose, model, plan, options, cluster, gpu)


def _choose(
    model: Model,
    plan: Plan,
    options: WorkloadOptions,
    cluster: Cluster,
    gpu: Gpu,
    folded: Folded,
) -> LayerStrategies:
    members = folded.ranks_per_member
    where = cluster_of(cluster, gpu, tp=plan.etp, ep=plan.ep, ranks_per_server=members)
    where = where.model_copy(update={"gpus_per_server": members * plan.etp})
    all_to_all = AllToAll(where, plan.etp, plan.ep)
    layers = [layer for layer, mixes in enumerate(model.moe_layers) if mixes]
    volumes = layer_volumes(model, plan, options, folded)
    return {
        layer: _fastest(all_to_all, plan, volume)
        for layer, volume in zip(layers, volumes, strict=True)
    }


def layer_volumes(
    model: Model, plan: Plan, options: WorkloadOptions, folded: Folded
) -> list[AllToAllVolume]:
    """Return the volume of a dispatch of each MoE layer: means of groups and micro-batches.

    Parameters
    ----------
    model, plan, options
        What the step trains, how, and what it moves.
    folded
        Its demand.
    """
    members = folded.slowest.shape[2]
    itself = np.eye(members, dtype=bool)
    copy_bytes = sizes(model, plan, options, 1).dispatch
    gathered_bytes = model.expert_hidden * options.activation_element_bytes
    early = plan.micro_batches // plan.copies
    volumes = {}
    tokens = folded.tokens.reshape(plan.pp, -1, *folded.tokens.shape[1:])
    slowest = folded.slowest.reshape(plan.pp, -1, *folded.slowest.shape[1:])
    for stage, layers in enumerate(moe_layers(model, plan)):
        for number, layer in enumerate(layers):
            blocks = slice(number * plan.micro_batches, number * plan.micro_batches + early)
            counts = tokens[stage, :, blocks].astype(np.float64)
            across = np.where(itself, 0.0, counts)
            sent, received = across.sum(axis=-1), across.sum(axis=-2)
            inside = np.where(itself, counts, 0.0).sum(axis=-1)
            ranks = folded.ranks_per_member
            volumes[layer] = AllToAllVolume(
                between_bytes=_mean_of_busiest(np.maximum(sent, received)) * copy_bytes / ranks,
                within_bytes=_mean_of_busiest(inside) * copy_bytes / ranks,
                gathered_bytes=_mean_of_busiest(slowest[stage, :, blocks]) * gathered_bytes,
            )
    return [volumes[layer] for layer in sorted(volumes)]


def _mean_of_busiest(counts: np.ndarray) -> float:
    """Mean over groups and blocks of the busiest member."""
    return float(counts.max(axis=-1).mean())


def _fastest(all_to_all: AllToAll, plan: Plan, volume: AllToAllVolume) -> LayerStrategy:
    """The fastest of what the plan leaves open; of equal ones the simpler."""
    known = all_to_all.cluster.choices
    choices = [strategy for strategy in CHOICES if strategy in known] or CHOICES
    open_ = choices if plan.strategy == "auto" else (AllToAllStrategy(plan.strategy),)
    timed = {}
    for strategy in open_:
        if chunks := plan.strategy_chunks if strategy.is_chunked else 0:
            timed[strategy] = (all_to_all.time_s(strategy, volume, chunks), chunks)
        else:
            timed[strategy] = all_to_all.best(strategy, volume, MAX_CHUNKS)
    best = min(open_, key=lambda strategy: timed[strategy][0])
    return LayerStrategy(best.value, timed[best][1], all_to_all.chunk_s(best))
