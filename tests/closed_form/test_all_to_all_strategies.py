"""Bytes and times of each all-to-all strategy, with and without de-duplication."""

import dataclasses

import numpy as np
import pytest
from tests.simulate_graphs import EXPERTS, GPU, LINK_S, LOCAL_S, NIC, packet

from lightloom.fabric.network import StartUp
from lightloom.simulate import simulate
from lightloom.workload import Block, TaskGraphBuilder
from lightloom.workload.categories import step_categories

exactly = pytest.approx

#: ranks of each of two servers, tokens that a rank has for the other server, bytes of each
RANKS, TOKENS, SIZE = 8, 1000, 10_000
STRATEGIES = ("flat", "rail", "hierarchical")


def all_to_all(copies, *, deduplicated, hot=False, transposed=False):
    """Every token of a server goes to ``copies`` ranks of the other one, to the first if hot.

    Otherwise the copies of rank ``r`` go to ranks ``r``, ``r + 1`` and so on.
    """
    ranks = np.zeros((2 * RANKS, 2 * RANKS), np.uint32)
    for sender in range(2 * RANKS):
        other = RANKS * (1 - sender // RANKS)
        for copy in range(copies):
            ranks[sender, other + (copy if hot else (sender + copy) % RANKS)] += TOKENS
    between = RANKS * TOKENS * (1 if deduplicated else copies)
    on_arrival = RANKS * TOKENS * (copies - 1) if deduplicated else 0
    members = np.array([[on_arrival, between], [between, on_arrival]])
    built = TaskGraphBuilder(np.arange(2), 8, step_categories())
    built.family("ep", np.arange(2).reshape(1, 2))
    built.demand(
        "tokens",
        EXPERTS,
        members[None, None],
        ranks_per_member=RANKS,
        rank_counts=ranks[None, None],
        deduplicated=deduplicated,
    )
    program = built.role("stage 0", np.arange(2, dtype=np.uint32))
    program.all_to_all(EXPERTS, Block(0, 0, SIZE, transposed, False), "ep")
    return built.build()


def run(strategy, copies, **options):
    found = simulate(all_to_all(copies, **options), packet(2, strategy))
    carried = found.purpose_bytes["ep"]
    return found.step_time_s - 2 * LINK_S, carried["eps"], carried["nvswitch"]


@pytest.mark.parametrize("copies", [1, 2, 4, 8])
def test_copies_of_a_token_cross_the_network_each(copies):
    rank = TOKENS * copies * SIZE
    for strategy in ("flat", "rail"):
        seconds, network, _ = run(strategy, copies, deduplicated=False)
        assert network == 2 * RANKS * rank
        assert seconds == exactly(rank / NIC)
    _, _, inside = run("flat", copies, deduplicated=False)
    assert inside == 0
    # All copies but those for the own index move to another rail first.
    _, _, inside = run("rail", copies, deduplicated=False)
    assert inside == 2 * RANKS * TOKENS * (copies - 1) * SIZE


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("copies", [1, 2, 4, 8])
def test_a_token_crosses_the_network_once_on_its_rail(copies, transposed):
    seconds, network, inside = run("rail", copies, deduplicated=True, transposed=transposed)
    assert network == 2 * RANKS * TOKENS * SIZE
    assert inside == 2 * RANKS * TOKENS * (copies - 1) * SIZE
    assert seconds == exactly(TOKENS * SIZE / NIC)


@pytest.mark.parametrize("deduplicated", [False, True])
@pytest.mark.parametrize("copies", [1, 2, 4, 8])
def test_delegates_gather_spread_and_scatter(copies, deduplicated):
    seconds, network, _ = run("hierarchical", copies, deduplicated=deduplicated)
    server = RANKS * TOKENS * SIZE * (1 if deduplicated else copies)
    assert network == 2 * server
    hop = LOCAL_S + server / 8 * 7 / 8 / GPU
    assert seconds == exactly(2 * hop + server / 8 / NIC, rel=1e-6)


def test_a_hot_rank_limits_all_but_what_is_spread_or_sent_once():
    once = TOKENS * SIZE / NIC
    for strategy in ("flat", "rail"):
        assert run(strategy, 2, deduplicated=False, hot=True)[0] == exactly(RANKS * once)
    # Each sender has its own NIC, each token one crossing; copies go over NVSwitch meanwhile.
    assert run("rail", 2, deduplicated=True, hot=True)[0] == exactly(once)
    hierarchical = run("hierarchical", 2, deduplicated=False, hot=True)[0]
    assert 2 * once < hierarchical < 3 * once


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("copies", [1, 2, 4, 8])
@pytest.mark.parametrize("hot", [False, True])
def test_deduplicated_bytes_never_exceed_plain_ones(strategy, copies, hot):
    plain = run(strategy, copies, deduplicated=False, hot=hot)
    once = run(strategy, copies, deduplicated=True, hot=hot)
    assert once[1] <= plain[1]
    assert once[0] <= plain[0] * (1 + 1e-9)


def test_start_up_grows_with_peers_where_ranks_are_mixed():
    start_up = StartUp(all_to_all_ps=22_000_000, peer_ps=1_000_000, mixed_ps=80_000_000)
    for strategy, wanted in (("flat", 110e-6), ("rail", 103e-6), ("hierarchical", 23e-6)):
        network = dataclasses.replace(packet(2, strategy), start_up=start_up)
        graph = all_to_all(2, deduplicated=False)
        with_it = simulate(graph, network).step_time_s
        assert with_it - simulate(graph, packet(2, strategy)).step_time_s == exactly(wanted)
