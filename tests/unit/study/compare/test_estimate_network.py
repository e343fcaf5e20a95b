"""Rings in closed form take what they take when they are simulated."""

import random

import pytest

from lightloom.fabric import Cluster
from lightloom.study.collective import CollectiveScenario, run_collectives
from lightloom.study.compare.estimate_network import NetworkPaces, ServerSpan

PASSES = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1}


def estimated(collective, size, span, paces):
    if collective == "all-reduce":
        return paces.all_reduce(size, span)
    return paces.ring(size, span, PASSES[collective])


@pytest.mark.parametrize("collective", PASSES)
@pytest.mark.parametrize("servers", [1, 2, 3, 8, 64])
def test_rings_take_what_is_simulated(collective, servers):
    """Of small buffers an all-reduce is a tree; an estimate has paths of four links always."""
    draw = random.Random(servers)
    sizes = tuple(int(10 ** draw.uniform(4, 9.5)) for _ in range(4))
    gpus = 8 * servers
    cluster = {"rate_gbps": 400.0, "gpu": "h100"}
    found = run_collectives(
        CollectiveScenario(
            collective=collective,
            gpus=gpus,
            fabrics=("fat-tree",),
            cluster=cluster,
            size_bytes=sizes,
        )
    )
    paces = NetworkPaces(Cluster.of(gpus=gpus, **cluster))
    span = ServerSpan(8, servers)
    for size, one in zip(sizes, found, strict=True):
        assert estimated(collective, size, span, paces) == pytest.approx(one.time_s, rel=0.1)


def test_rings_keep_their_laws():
    """More bytes or servers take longer, and neither level alone is faster."""
    draw = random.Random(5)
    for _ in range(300):
        servers, on_server = draw.randint(2, 200), draw.randint(1, 8)
        size, more = 10 ** draw.uniform(2, 10), draw.uniform(1, 1.001)
        cluster = Cluster.of(gpus=8 * servers + 8, rate_gbps=400, gpu="h100")
        paces = NetworkPaces(cluster)
        span = ServerSpan(on_server, servers)
        for collective, passes in PASSES.items():
            time = estimated(collective, size, span, paces)
            longer = estimated(collective, size * more, span, paces)
            assert time <= longer <= time * more * (1 + 1e-12)
            farther = ServerSpan(on_server, servers + 1)
            # switches inside servers may bound an all-reduce over any number of them
            assert time <= estimated(collective, size, farther, paces)
            around = passes * size * (1 - 1 / span.on_server / span.servers)
            nic = 8 * around / on_server / cluster.nic_rate_bps
            inside = around * (1 - 1 / on_server) * 8 / cluster.nvswitch().collective_rate_bps
            assert time > max(nic, inside)
