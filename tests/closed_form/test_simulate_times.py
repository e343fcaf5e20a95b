"""Simulated times against closed forms, through the whole Python interface."""

import numpy as np
import pytest
from tests.simulate_graphs import (
    GPU,
    LINK_S,
    LOCAL_S,
    NIC,
    Steps,
    direct,
    graph,
    mixnet,
    one_ring,
    packet,
)

from lightloom.simulate import simulate
from lightloom.workload.task_graph import Collective

exactly = pytest.approx


def test_a_send_takes_size_over_rate_plus_latency():
    programs = [Steps().send(1, 0, 10**9), Steps().receive(0, 0)]
    run = simulate(graph(programs), packet(2))
    assert run.step_time_s == exactly(1e9 / (8 * NIC) + 2 * LINK_S, rel=1e-9)


@pytest.mark.parametrize(("other", "links"), [(1, 2), (2, 4), (4, 6)])
def test_latency_is_that_of_the_links_crossed(other, links):
    programs = [Steps().send(1, 0, 0), Steps().receive(0, 0)]
    small = graph(programs)
    small.layout.worker_server[1] = other
    run = simulate(small, packet(8, servers_per_tor=2, servers_per_pod=4))
    assert run.step_time_s == exactly(links * LINK_S)


@pytest.mark.parametrize("n", [2, 3, 8])
@pytest.mark.parametrize(
    ("kind", "passes"),
    [(Collective.ALL_REDUCE, 2), (Collective.REDUCE_SCATTER, 1), (Collective.ALL_GATHER, 1)],
)
def test_a_ring_of_n(n, kind, passes):
    programs = [Steps().ring(0, 10**9, kind).wait(0)]
    run = simulate(graph(programs, replicas=n, rings=[one_ring(n)]), packet(n))
    wanted = passes * (n - 1) / n * 1e9 / (8 * NIC) + passes * (n - 1) * 2 * LINK_S
    assert run.step_time_s == exactly(wanted, rel=1e-8)


@pytest.mark.parametrize(("stages", "batches"), [(2, 2), (4, 8), (8, 5)])
def test_the_bubble_of_1f1b(stages, batches):
    """(p-1)/m of the ideal time (Narayanan et al. 2021, section 2.2)."""
    forward, backward = 1e-3, 2e-3
    programs = []
    for stage in range(stages):
        steps = Steps()

        def play(is_forward, batch, stage=stage, steps=steps):
            source, target = (stage - 1, stage + 1) if is_forward else (stage + 1, stage - 1)
            tag = 2 * batch + is_forward
            if 0 <= source < stages:
                steps.receive(source, tag)
            steps.compute(forward if is_forward else backward)
            if 0 <= target < stages:
                steps.send(target, tag, 0)

        warm_up = min(stages - 1 - stage, batches)
        for batch in range(warm_up):
            play(True, batch)
        for batch in range(batches):
            if warm_up + batch < batches:
                play(True, warm_up + batch)
            play(False, batch)
        programs.append(steps)
    run = simulate(graph(programs), packet(stages))
    ideal = batches * (forward + backward)
    assert run.step_time_s == exactly(ideal * (1 + (stages - 1) / batches), rel=0.02)
    assert run.mean_s["bubble"] == exactly(ideal * (stages - 1) / batches, rel=0.02)


def test_an_all_to_all_of_one_pair():
    run = simulate(
        graph([Steps().all_to_all()], members=2, tokens=[[[0, 10**9], [0, 0]]]), packet(2)
    )
    assert run.step_time_s == exactly(1e9 / (8 * NIC) + 2 * LINK_S, rel=1e-9)


def test_the_busiest_server_bounds_an_all_to_all():
    tokens = np.random.default_rng(5).integers(0, 10**8, (1, 6, 6))
    run = simulate(graph([Steps().all_to_all()], members=6, tokens=tokens), packet(6))
    off = tokens[0] * (1 - np.eye(6, dtype=int))
    bound = max(off.sum(0).max(), off.sum(1).max()) / (8 * NIC) + 2 * LINK_S
    # Max-min fair sharing may leave a little over the bound, never below it.
    assert bound * (1 - 1e-9) <= run.step_time_s <= 1.5 * bound


def test_gather_all_to_all_scatter():
    """Two delegates for 8 GPUs each take in 3/4 of half of the bytes."""
    small = graph([Steps().all_to_all()], members=2, tokens=[[[0, 8 * 10**8], [0, 0]]])
    run = simulate(small, packet(2, "hierarchical", nics=2))
    hop = LOCAL_S + 3e8 / GPU
    assert run.step_time_s == exactly(2 * hop + 4e8 / NIC + 2 * LINK_S, rel=1e-8)
    assert run.purpose_bytes["ep"] == {
        "nvswitch": 12 * 10**8,
        "eps": 8 * 10**8,
        "ocs": 0,
        "direct": 0,
        "relayed": 0,
    }


def test_a_relay_adds_its_delay_and_carries_the_bytes_again():
    tokens = np.zeros((1, 3, 3))
    tokens[0, 0, 2] = 8 * 10**8
    network = direct(3, [(0, 1, 2), (1, 2, 2)], [(0, 1), (1, 0), (1, 2), (2, 1), (0, 1, 2)])
    run = simulate(graph([Steps().all_to_all()], members=3, tokens=tokens), network)
    hop = LOCAL_S + 3e8 / GPU
    wanted = 2 * hop + 4e8 / NIC + 2 * LINK_S + 3e-6
    assert run.step_time_s == exactly(wanted, rel=1e-8)
    assert run.carried_bytes["direct"] == run.carried_bytes["relayed"] == 8 * 10**8


def _pairs(*pairs):
    tokens = np.zeros((4, 4))
    for a, b in pairs:
        tokens[a, b] = tokens[b, a] = 6 * 10**7
    return tokens


@pytest.mark.parametrize("between_s", [0.0, 0.01, 0.02, 0.03, 0.04])
def test_switching_is_hidden_as_far_as_compute_reaches(between_s):
    steps = Steps().all_to_all(0, first=True).compute(between_s).all_to_all(1)
    tokens = [_pairs((0, 1), (2, 3)), _pairs((0, 2), (1, 3))]
    run = simulate(graph([steps], members=4, tokens=tokens), mixnet(4))
    exposed = run.critical_path_s["reconfiguration"]
    # Scatter of the first all-to-all hides a little more.
    assert exposed == exactly(max(0.0, 0.025 - between_s), abs=1e-4)
    assert run.circuits.exposed_s == exactly(exposed)
    assert run.circuits.hidden_s + run.circuits.exposed_s == exactly(0.025)
    assert run.mean_s["reconfiguration"] == exactly(exposed)


def test_blocking_the_first_all_to_all_exposes_the_whole_delay():
    tokens = [_pairs((0, 1), (2, 3))]
    small = graph([Steps().all_to_all(0, first=True)], members=4, tokens=tokens)
    reuse, block = (simulate(small, mixnet(4, first=first)) for first in ("reuse", "block"))
    assert reuse.critical_path_s["reconfiguration"] == 0
    assert block.critical_path_s["reconfiguration"] == exactly(0.025)
    # All six circuits of a server then serve its one peer, with the EPS in addition.
    eight_nics = 6e7 / (8 * NIC)
    assert 0.025 + eight_nics < block.step_time_s < 0.025 + 2 * eight_nics
