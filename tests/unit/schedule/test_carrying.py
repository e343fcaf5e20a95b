"""Bytes of ranks on NICs: nothing is lost, NICs share evenly, and a simulated run has the same."""

import itertools
from collections import Counter

import numpy as np
import pytest
from tests.simulate_graphs import GBPS, Steps, graph, mixnet

from lightloom.errors import DemandError, InputError
from lightloom.schedule import Decider, Policy, Region, RelayCost
from lightloom.schedule.carrying import AllToAllPlanner, JobNics, NicPlace
from lightloom.simulate import simulate


def planner_of(servers, nics, *, relaying=False, split=True, ranks=2, failed=()):
    cost = RelayCost(nvswitch_gbps=None, relay_delay_s=0.0) if relaying else None
    region = Region(nics, 400.0, 200.0, split=split, eps_nics=2)
    decider = Decider(servers, region, policy=Policy(relaying=cost), timing=0.001)
    places = JobNics(ranks, (nics,) * servers, 2, frozenset(failed))
    return AllToAllPlanner(places, decider), decider


def random_demand(rng, ranks):
    demand = rng.integers(0, 10**6, size=(ranks, ranks), dtype=np.uint64)
    demand[rng.random((ranks, ranks)) < 0.3] = 0
    return demand


def check_whole(parts, demand, ranks_per_server):
    """Each byte between servers is in one part, and parts of a pair of ranks follow each other."""
    next_of = Counter()
    for part in parts:
        assert next_of[part.source, part.destination] == part.offset
        next_of[part.source, part.destination] += part.size_bytes
        servers = part.source // ranks_per_server, part.destination // ranks_per_server
        assert (part.hops[0].sender.server, part.hops[-1].receiver.server) == servers
        for first, second in itertools.pairwise(part.hops):
            assert first.receiver.server == second.sender.server
        assert all(hop.sender.is_optical == hop.receiver.is_optical for hop in part.hops)
    for (source, destination), size in np.ndenumerate(demand):
        inside = source // ranks_per_server == destination // ranks_per_server
        assert next_of[source, destination] == (0 if inside else size)


@pytest.mark.parametrize("relaying", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_every_byte_is_in_one_part(seed, relaying):
    rng = np.random.default_rng(seed)
    planner, decider = planner_of(6, 2, relaying=relaying)
    demand = random_demand(rng, 12)
    circuits = decider.start().nics
    parts = planner.plan(demand, circuits)
    check_whole(parts, demand, 2)
    lit = {tuple(map(int, row)) for row in circuits}
    for hop in (hop for part in parts for hop in part.hops if hop.sender.is_optical):
        (a, _, i), (b, _, j) = hop
        assert (a, i, b, j) in lit or (b, j, a, i) in lit
    assert any(len(part.hops) == 2 for part in parts) <= relaying
    own = [part for server in range(6) for part in planner.plan(demand, circuits, server=server)]
    assert sorted(own) == sorted(parts)


def sent_and_received(parts):
    """The bytes that each NIC sends and receives, relayed ones each time."""
    sums = {}
    for part in parts:
        for hop in part.hops:
            sums.setdefault(hop.sender, [0, 0])[0] += part.size_bytes
            sums.setdefault(hop.receiver, [0, 0])[1] += part.size_bytes
    return sums


def test_relays_are_taken_where_they_pay():
    planner, decider = planner_of(6, 2, relaying=True, ranks=1)
    demand = np.full((6, 6), 10**8, np.uint64)
    parts = planner.plan(demand, decider.start().nics)
    assert max(len(part.hops) for part in parts) == 2


def test_nics_of_a_path_differ_by_a_byte_at_most():
    planner, decider = planner_of(2, 4, split=False, ranks=3)
    demand = random_demand(np.random.default_rng(5), 6)
    sums = sent_and_received(planner.plan(demand, decider.start().nics))
    for server in (0, 1):
        sent = [sums[NicPlace(server, True, nic)][0] for nic in range(4)]
        assert max(sent) - min(sent) <= 1
        assert sum(sent) == demand[server * 3 :, (1 - server) * 3 :][:3, :3].sum()


def test_without_circuits_all_is_packets():
    planner = AllToAllPlanner(JobNics(2, (3, 3), 2), None)
    demand = random_demand(np.random.default_rng(1), 4)
    parts = planner.plan(demand)
    check_whole(parts, demand, 2)
    assert not any(hop.sender.is_optical for part in parts for hop in part.hops)


def test_failed_nics_carry_nothing():
    failed = {NicPlace(0, False, 0), NicPlace(1, True, 1)}
    planner, decider = planner_of(4, 3, failed=failed)
    demand = random_demand(np.random.default_rng(2), 8)
    parts = planner.plan(demand, decider.start().nics)
    check_whole(parts, demand, 2)
    assert not failed & sent_and_received(parts).keys()


def test_a_server_without_packet_nics_is_reached_through_its_peer():
    failed = {NicPlace(3, False, 0), NicPlace(3, False, 1)}
    planner, _ = planner_of(4, 2, failed=failed)
    circuits = [(0, 0, 3, 0), (1, 0, 2, 0)]
    demand = random_demand(np.random.default_rng(3), 8)
    with pytest.raises(InputError, match=r"nothing joins servers [0-3] and [0-3]"):
        planner.plan(demand, circuits)
    parts = planner.plan(demand, circuits, relays={3: 0})
    check_whole(parts, demand, 2)
    assert not failed & sent_and_received(parts).keys()


def test_another_shape_is_refused():
    planner, _ = planner_of(4, 2)
    with pytest.raises(DemandError, match=r"expected 8 x 8, got \(4, 4\)"):
        planner.plan(np.zeros((4, 4), np.uint64))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("relaying", [False, True])
def test_a_simulated_run_carries_the_same_bytes(seed, relaying):
    """All NICs of a kind, and the busiest server, to the byte; relays where they pay."""
    servers = 6
    rng = np.random.default_rng(seed)
    tokens = rng.integers(10**5, 10**7, size=(servers, servers), dtype=np.uint64)
    np.fill_diagonal(tokens, 0)
    # the NVSwitch of eight GPUs at 3,600 Gb/s each
    cost = RelayCost(nvswitch_gbps=8 * 3600, chunk_bytes=1 << 20, relay_delay_s=1e-6)
    cost = cost if relaying else None
    network = mixnet(servers, ports=2, relaying=(1 << 20, 1_000_000) if relaying else None)
    step = graph([Steps().all_to_all()], members=servers, tokens=tokens[np.newaxis])
    run = simulate(step, network, timeline_workers=[0])
    region = Region(2, 400.0, 800.0, eps_nics=2)
    decider = Decider(servers, region, policy=Policy(relaying=cost), timing=0.025)
    planner = AllToAllPlanner(JobNics(1, (2,) * servers, 2), decider)
    circuits = decider.hold(run.snapshots[-1].circuits).nics
    parts = planner.plan(tokens, circuits)
    sums = sent_and_received(parts)
    links = {use.name: use for use in run.links}
    optical = sum(sent for nic, (sent, _) in sums.items() if nic.is_optical)
    assert links["circuit"].carried_bytes == optical
    for name, direction in (("server_up", 0), ("server_down", 1)):
        by_server = [
            sum(sums.get(NicPlace(server, False, nic), (0, 0))[direction] for nic in range(2))
            for server in range(servers)
        ]
        assert links[name].carried_bytes == sum(by_server)
        capacity = 2 * 400 * GBPS / 8 * run.step_time_s
        assert links[name].max * capacity == pytest.approx(max(by_server), rel=1e-9)
