"""A bound holds for every network: random jobs, plans, loads, rates and fabrics."""

import dataclasses

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.simulate import simulate
from lightloom.study.compare.builds import Networks, Workloads
from lightloom.study.compare.job import prepare
from lightloom.study.compare.scenario import Scenario
from lightloom.study.purchase.bound import ServerPaces, StepBound

FABRICS = ("fat-tree", "oversub", "rail-only", "dual-plane", "mixnet", "rotornet")


def random_job(seed):
    """A job that can be: others are drawn again."""
    random = np.random.default_rng(seed)
    while True:
        overlap = str(random.choice(["none", "chunks", "batch"]))
        plan = {
            "tp": int(random.choice([1, 2, 4])),
            "pp": int(random.choice([1, 2, 4])),
            "ep": int(random.choice([4, 8])),
            "vpp": int(random.choice([1, 2])),
            "micro_batches": int(random.choice([4, 8])),
            "overlap_all_to_all": overlap,
        }
        if overlap == "chunks":
            plan["overlap_chunks"] = 2
        try:
            return prepare(
                Scenario(
                    model=str(random.choice(["mixtral-8x7b", "qwen3-30b-a3b"])),
                    gpus=int(random.choice([32, 64])),
                    cluster={
                        "rate_gbps": float(random.choice([50, 100, 400])),
                        "gpu": str(random.choice(["a100", "h100"])),
                    },
                    demand={"source": str(random.choice(["balanced", "skewed"]))},
                    plan=plan,
                    fabrics=FABRICS,
                    seeds=1,
                    memory_check=False,
                )
            )
        except InputError:
            continue


@pytest.mark.parametrize("seed", range(8))
def test_no_network_is_faster_than_the_bound(seed):
    job = random_job(seed)
    workloads = Workloads(job)
    networks, sample = Networks(job, workloads), job.samples()[0]
    graph = workloads.get(sample, job.cluster.gpus_per_server).graph
    bound = StepBound(graph)
    for fabric in job.fabrics:
        paces = ServerPaces.of(fabric.adapt(job.cluster), fabric.kind)
        least_s = bound.step_time_s(paces)
        simulated_s = simulate(graph, networks.get(fabric)).step_time_s
        # whole picoseconds are rounded up
        assert 0 < least_s <= simulated_s * (1 + 1e-9), fabric.name


def test_a_bound_falls_with_the_rate_and_says_something():
    job = random_job(3)
    graph = Workloads(job).get(job.samples()[0], job.cluster.gpus_per_server).graph
    bound, paces = StepBound(graph), ServerPaces.of(job.cluster)
    bounds = [
        bound.step_time_s(dataclasses.replace(paces, nics=factor * paces.nics))
        for factor in (0.1, 1.0, 10.0, np.inf)
    ]
    assert bounds == sorted(bounds, reverse=True)
    networks = Networks(job, Workloads(job))
    assert bounds[1] > 0.5 * simulate(graph, networks.get(job.fabrics[0])).step_time_s
