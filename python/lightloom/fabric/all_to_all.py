"""Which strategy spreads an all-to-all over a server's NICs best.

``flat`` sends GPU to GPU, each over its own NIC. ``rail`` stays on a rail between servers: copies
first move to the local GPU on the destination's rail (PXN), or where tokens are de-duplicated,
one goes along the rail of its sender and is copied on arrival (DeepEP). ``hierarchical`` gathers,
spreads evenly over all NICs and scatters. MixNet's advantage must not come from a baseline that
chose badly: :func:`all_to_all_candidates` are the strategies worth a simulation,
:func:`best_all_to_all` is an estimate without one.
"""

from __future__ import annotations

from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.schedule.named_sets import ALL_TO_ALL_STRATEGIES


def all_to_all_candidates(
    cluster: Cluster, context: FabricContext | None, planes: int = 1
) -> tuple[str, ...]:
    """Strategies of a packet fabric that can differ for a job, the estimated best first.

    They decide about more than the all-to-alls: with hierarchical all workers of a server share its
    NICs for pipeline sends and gradients as well, with the others each uses those of its own GPUs.

    Returns
    -------
    tuple
        A single strategy where all others are as fast or cannot be used.
    """
    if context is None:
        return ("hierarchical",)
    first, _ = best_all_to_all(cluster, context, planes)
    groups, ranks = _groups_per_server(cluster, context), context.ranks_per_worker
    if not _deals_evenly(cluster, context):
        return (first,)
    if context.layout.members == 1:
        # rail and flat differ between servers alone
        usable = ["flat", "hierarchical"] if groups > 1 or ranks > 1 else ["flat"]
    elif ranks > 1:
        across = crosses_planes(context, planes)
        usable = [name for name in ALL_TO_ALL_STRATEGIES if not (across and name == "flat")]
    elif context.deduplicated:
        # what ranks send each other is unknown, so that no copy can go to each
        usable = ["rail", "hierarchical"]
    elif groups > 1:
        usable = ["flat", "hierarchical"]
    else:
        usable = ["flat"]
    return (first, *(strategy for strategy in usable if strategy != first))


def crosses_planes(context: FabricContext | None, planes: int) -> bool:
    """Whether GPU to GPU would lead from one plane to another, which nothing joins."""
    if planes == 1 or context is None or context.layout.members == 1:
        return False
    return context.ranks_per_worker > 1


def best_all_to_all(
    cluster: Cluster, context: FabricContext | None, planes: int = 1
) -> tuple[str, str]:
    """Choose for a fabric where a NIC reaches every other NIC at full rate.

    With one EP rank that fills its server, tensor parallelism has cut every message into equal
    parts, one for each GPU and bound for the same place in the other server: flat is balanced and
    rail-aligned already. With several ranks, tokens that go once to each server keep the rail of
    their sender; senders have equally many tokens, so that their NICs are balanced. Without that a
    hot rank's NIC limits flat and rail; with several EP groups in a server, each has only its own
    NICs although the others' may idle. Hierarchical pays two passes over the NVSwitch (gather and
    scatter) for a balanced load on all NICs: its time per byte of the busiest server is
    ``1 + 2 r_nic N_nic / (r_nvlink N_gpu)`` of theirs. Over several planes flat does not exist.

    Returns
    -------
    tuple
        The choice and why.
    """
    ranks = 1 if context is None else context.ranks_per_worker
    groups = 1 if context is None else _groups_per_server(cluster, context)
    if context is not None and not _deals_evenly(cluster, context):
        reason = f"{cluster.nics_per_server} NICs cannot be dealt out evenly to a server's EP ranks"
        return "hierarchical", reason
    if context is not None and context.layout.members == 1:
        return "flat", "every EP group is inside a server: no NIC takes part"
    if context is not None and context.deduplicated:
        return "rail", "tokens cross the network once to a server, on the rail of their sender"
    if ranks == groups == 1:
        return "flat", "one EP rank per server: flat is balanced and on its rail already"
    if crosses_planes(context, planes):
        return "rail", f"{planes} planes, which a NIC reaches one of"
    passes = 1 + 2 * _nic_over_nvlink(cluster)
    # with one rank per server there is nothing to be uneven, so that no demand is looked at
    imbalance = 1.0 if context is None or ranks == 1 else context.mean().rank_imbalance
    who = f"{ranks * groups} EP ranks per server"
    if groups > 1:
        who += f" in {groups} EP groups"
    if imbalance is None:
        return "hierarchical", f"{who}, their imbalance unknown: spread over all NICs"
    busiest = imbalance * groups
    compared = f"busiest NIC x{busiest:.2f} against x{passes:.2f} for two NVSwitch passes"
    return ("hierarchical" if busiest > passes else "flat"), f"{who}, {compared}"


def _nic_over_nvlink(cluster: Cluster) -> float:
    """Rate of all NICs of a server over that of its GPUs into the NVSwitch, as they are reached."""
    nics = cluster.nic_rate_bps * cluster.nics_per_server
    return nics / (cluster.nvswitch().gpu_rate_bps * cluster.gpus_per_server)


def _groups_per_server(cluster: Cluster, context: FabricContext) -> int:
    """EP groups that a full server takes part in."""
    return max(1, cluster.gpus_per_server // max(1, context.layout.gpus_per_worker))


def _deals_evenly(cluster: Cluster, context: FabricContext) -> bool:
    """Whether each EP rank of a server, or equally many, can have NICs of its own."""
    gpus_per_rank = max(1, context.layout.gpus_per_worker // context.ranks_per_worker)
    ranks = cluster.gpus_per_server // gpus_per_rank
    slots = max(1, min(ranks, cluster.nics_per_server))
    uneven = ranks % slots, cluster.nics_per_server % slots, cluster.gpus_per_server % slots
    return not any(uneven)
