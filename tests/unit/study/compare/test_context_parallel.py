"""How attention divides a sequence changes nothing of what experts send, and over what."""

import pytest

from lightloom.fabric.all_to_all import all_to_all_candidates
from lightloom.fabric.network import Ocs
from lightloom.simulate import simulate
from lightloom.study.compare import ClusterOptions, DemandOptions, PlanOptions, compare
from lightloom.study.compare.builds import Networks, Workloads
from lightloom.study.compare.job import prepare

RING, ULYSSES = "ring", "ulysses"
FABRICS = ("fat-tree", "mixnet")


def divided(scenario, kind):
    """Experts over all four servers; the two ranks of a sequence are in one."""
    return scenario(
        model="qwen3-30b-a3b",
        gpus=32,
        fabrics=FABRICS,
        cluster=ClusterOptions(rate_gbps=100, gpu="h100"),
        plan=PlanOptions(tp=1, pp=1, cp=2, ep=16, context_parallel=kind, micro_batches=2),
        demand=DemandOptions(source="balanced"),
        seeds=1,
        compute_spread=0.0,
        imbalances=False,
        policies=False,
    )


@pytest.fixture(scope="module")
def jobs(scenario):
    """The job of each kind, its networks, and a run of its step on each fabric."""
    found = {}
    for kind in (RING, ULYSSES):
        job = prepare(divided(scenario, kind))
        workloads = Workloads(job)
        networks = Networks(job, workloads)
        graph = workloads.get(job.samples()[0], 8).graph
        made = {fabric.kind: networks.get(fabric) for fabric in job.fabrics}
        runs = {name: simulate(graph, network) for name, network in made.items()}
        found[kind] = (job, networks, made, runs)
    return found


def test_regions_and_bytes_of_experts_do_not_depend_on_it(jobs):
    _, _, ring, ring_runs = jobs[RING]
    _, _, ulysses, ulysses_runs = jobs[ULYSSES]
    regions = [one["mixnet"].part(Ocs).region_of_server.tolist() for one in (ring, ulysses)]
    assert regions == [[0] * 4, [0] * 4]
    for fabric in FABRICS:
        assert ring_runs[fabric].purpose_bytes["ep"] == ulysses_runs[fabric].purpose_bytes["ep"]
    assert ulysses_runs["mixnet"].purpose_bytes["ep"]["ocs"] > 0
    assert ulysses_runs["mixnet"].purpose_bytes["cp"]["ocs"] == 0


def test_a_packet_fabric_tries_its_strategies(jobs):
    tried = []
    for job, networks, _, _ in jobs.values():
        fabric = job.fabrics[0]
        tried.append(all_to_all_candidates(networks.cluster(fabric), networks.context(fabric)))
    assert tried[0] == tried[1]
    assert len(tried[0]) > 1


def test_a_comparison_shows_it(scenario):
    ring, ulysses = (compare(divided(scenario, kind)) for kind in (RING, ULYSSES))
    ocs = [one.result("mixnet").carried_bytes["ocs"] for one in (ring, ulysses)]
    assert ocs[0] == ocs[1] > 0
    for fabric in FABRICS:
        notes = [one.result(fabric).notes for one in (ring, ulysses)]
        assert "all-to-all " in notes[1][0]
        assert not any("inside" in note for note in notes[1])
