"""Which way of spreading an all-to-all over a server's NICs suits a packet fabric best.

``flat`` sends GPU to GPU, each over its own NIC; ``rail`` first moves to the local GPU on the
destination's rail; ``hierarchical`` gathers, spreads evenly over all NICs and scatters. MixNet's
advantage must not come from a baseline that chose badly, so the best is the default, with reasons.
"""

from __future__ import annotations

from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.network import AllToAll


def best_all_to_all(cluster: Cluster, context: FabricContext | None) -> tuple[AllToAll, str]:
    """Choose for a fabric where a NIC reaches every other NIC at full rate.

    With one EP rank per server tensor parallelism has cut every message into equal parts, one for
    each GPU and bound for the same place in the other server: flat is balanced and rail-aligned
    already. With more, a hot rank's NIC limits flat and rail, whereas hierarchical pays two passes
    over the NVSwitch (gather and scatter) for a balanced load: its time per byte of the busiest
    server is ``1 + 2 r_nic N_nic / (r_nvlink N_gpu)`` of that of the NICs.

    Returns
    -------
    tuple
        The choice and why.
    """
    ranks = 1 if context is None else context.ranks_per_worker
    if context is not None and not _deals_evenly(cluster, context):
        reason = f"{cluster.nics_per_server} NICs cannot be dealt out evenly to a server's EP ranks"
        return "hierarchical", reason
    if ranks == 1:
        return "flat", "one EP rank per server: flat is balanced and on its rail already"
    nics = cluster.nic_gbps * cluster.nics_per_server
    passes = 1 + 2 * nics / (cluster.nvlink_gbps * cluster.gpus_per_server)
    imbalance = None if context is None else context.rank_imbalance
    if imbalance is None:
        reason = f"{ranks} EP ranks per server, their imbalance unknown: spread over all NICs"
        return "hierarchical", reason
    compared = f"busiest NIC x{imbalance:.2f} against x{passes:.2f} for two NVSwitch passes"
    if imbalance > passes:
        return "hierarchical", f"{ranks} EP ranks per server, {compared}"
    return "flat", f"{ranks} EP ranks per server, {compared}"


def _deals_evenly(cluster: Cluster, context: FabricContext) -> bool:
    """Whether each EP rank of a server, or equally many, can have NICs of its own."""
    gpus_per_rank = max(1, context.layout.gpus_per_worker // context.ranks_per_worker)
    ranks = cluster.gpus_per_server // gpus_per_rank
    slots = max(1, min(ranks, cluster.nics_per_server))
    uneven = ranks % slots, cluster.nics_per_server % slots, cluster.gpus_per_server % slots
    return not any(uneven)
