"""Small jobs on small clusters."""

import numpy as np
import pytest

from lightloom.fabric import Cluster, FabricContext, MeanDemand
from lightloom.fabric.interconnect import Interconnect
from lightloom.workload.task_graph import Layout


@pytest.fixture
def cluster():
    """A thousand GPUs as in the papers, at the rates of the vendors."""
    ideal = Interconnect.named("ideal", "h100")
    return Cluster.of(gpus=1024, rate_gbps=400, gpu="h100", interconnect=ideal)


@pytest.fixture
def job():
    """A function that lays out EP groups of ``members`` servers, one after another."""

    def build(servers, members, *, ranks_per_worker=1, deduplicated=False, **mean):
        layout = Layout.grid(
            stages=1,
            replicas=servers // members,
            members=members,
            gpus_per_worker=8,
            worker_server=np.arange(servers, dtype=np.uint32),
        )
        return FabricContext(layout, ranks_per_worker, deduplicated, lambda: MeanDemand(**mean))

    return build
