"""A fabric without a job: the network of one that fills the servers."""

from __future__ import annotations

import numpy as np

from lightloom.fabric.base import Fabric
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.network import Network
from lightloom.workload.task_graph import Layout

#: servers of an EP group at most, which circuits join
GROUP = 8


def network_alone(fabric: Fabric, cluster: Cluster) -> Network:
    """The network of a job that fills the servers, EP groups of up to eight of them.

    Raises
    ------
    FabricError
        If there is none for as many servers.
    """
    machines = fabric.adapt(cluster)
    servers = machines.servers
    members = next(size for size in range(min(GROUP, servers), 0, -1) if servers % size == 0)
    layout = Layout.grid(
        stages=1,
        replicas=servers // members,
        members=members,
        gpus_per_worker=machines.gpus_per_server,
        worker_server=np.arange(servers, dtype=np.uint32),
    )
    return fabric.network(cluster, FabricContext(layout))
