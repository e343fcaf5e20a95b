"""What holds for every step: ledgers that balance, hashes that repeat, rates that help."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulate_graphs import Steps, direct, graph, mixnet, one_ring, packet

from lightloom.simulate import simulate

MEMBERS = 4
tokens = st.lists(st.integers(0, 3_000_000), min_size=2 * 16, max_size=2 * 16).map(
    lambda values: np.array(values).reshape(2, MEMBERS, MEMBERS)
)
durations = st.lists(st.floats(0, 3e-4), min_size=1, max_size=4)


def full_mesh(servers):
    pairs = [(a, b) for a in range(servers) for b in range(servers) if a != b]
    return direct(servers, [(a, b, 1) for a, b in pairs if a < b], pairs)


NETWORKS = {
    "flat": lambda: packet(8),
    "oversubscribed": lambda: packet(8, servers_per_tor=2, tor_uplink_bps=2_000_000_000_000),
    "rail": lambda: packet(8, "rail", rails=8, servers_per_tor=4),
    "hierarchical": lambda: packet(8, "hierarchical", nics=4),
    "mixnet": lambda: mixnet(8),
    "mixnet, two regions": lambda: mixnet(
        8, region_of_server=np.array([0, 0, 1, 1, 2, 2, 3, 3], np.uint32)
    ),
    "mixnet, blocking": lambda: mixnet(8, first="block", keep_unchanged=False, allocator="paper"),
    "mixnet, per layer": lambda: mixnet(8, when="per-layer"),
    "mixnet, break-even": lambda: mixnet(8, when="break-even", fixed_s=1e-3),
    "mixnet, oracle": lambda: mixnet(8, when="oracle", fixed_s=1e-4, keep_unchanged=False),
    "mixnet, fixed": lambda: mixnet(8, when="never", split=False),
    "direct": lambda: full_mesh(8),
}


def step(blocks, work):
    """Two stages of one EP group each, with pipeline sends and a gradient ring."""
    first, second = Steps(), Steps()
    for number, seconds in enumerate(work):
        second.receive(0, number)
        for steps in (first, second):
            steps.compute(seconds)
            steps.all_to_all(number % 2, first=True, size=2)
            steps.compute(seconds / 3)
            steps.all_to_all(number % 2, transposed=True, size=3)
        first.send(1, number, 10**5)
    for steps in (first, second):
        steps.ring(0, 10**6, inside=1000).wait(0)
    return graph([first, second], members=MEMBERS, tokens=blocks, rings=[one_ring(8)])


def ep_bytes(blocks, count):
    off = 1 - np.eye(MEMBERS, dtype=int)
    return sum(int((blocks[n % 2] * off).sum()) * 5 * 2 for n in range(count))


@pytest.mark.parametrize("name", NETWORKS)
@settings(max_examples=15, deadline=None)
@given(blocks=tokens, work=durations)
def test_bytes_are_conserved_and_runs_repeat(name, blocks, work):
    network = NETWORKS[name]()
    run = simulate(step(blocks, work), network)
    again = simulate(step(blocks, work), network, share_equal_work=False)
    assert run.run_hash == again.run_hash
    assert run.step_time_s == again.step_time_s
    assert run.mean_s == again.mean_s
    between = {k: v for k, v in run.purpose_bytes["ep"].items() if k not in ("nvswitch", "relayed")}
    assert sum(between.values()) == ep_bytes(blocks, len(work))
    assert sum(run.critical_path_s.values()) == pytest.approx(run.step_time_s)
    assert sum(run.mean_s.values()) == pytest.approx(run.step_time_s)
    compute = sum(seconds * 4 / 3 for seconds in work)
    assert run.step_time_s >= compute
    assert 0 <= run.circuits.exposed_s <= run.circuits.delay_s + 1e-9
    for links in run.links:
        assert 0 <= links.mean <= links.max * (1 + 1e-6)
        assert links.max <= 1 + 1e-6


@pytest.mark.parametrize("name", ["flat", "hierarchical", "mixnet", "mixnet, fixed"])
@settings(max_examples=15, deadline=None)
@given(blocks=tokens)
def test_twice_the_rate_is_never_slower_for_one_all_to_all(name, blocks):
    network = NETWORKS[name]()
    small = graph([Steps().all_to_all(0, first=True)], members=MEMBERS, tokens=blocks)
    parts = tuple(
        dataclasses.replace(part, nic_rate_bps=2 * part.nic_rate_bps) for part in network.parts
    )
    fast = dataclasses.replace(network, parts=parts)
    assert simulate(small, fast).step_time_s <= simulate(small, network).step_time_s + 1e-12


@settings(max_examples=15, deadline=None)
@given(blocks=tokens, work=durations)
def test_switching_at_once_exposes_nothing(blocks, work):
    graph_of = step(blocks, work)
    slow = mixnet(8)
    quick = mixnet(8, fixed_s=0)
    fast, late = simulate(graph_of, quick), simulate(graph_of, slow)
    assert fast.critical_path_s["reconfiguration"] == 0
    assert fast.circuits.exposed_s == 0
    # Slower switching may reorder who shares a link with whom, but is no gain.
    assert late.step_time_s >= fast.step_time_s * 0.9
