"""A fabric of crossbars, from its options to the step, against times by hand."""

import dataclasses

import numpy as np
import pytest
from tests.simulate_graphs import Steps, graph, one_ring

from lightloom.errors import FabricError
from lightloom.fabric import Cluster, FabricContext, MeanDemand, load_fabric
from lightloom.fabric.chronos import METHODS
from lightloom.hardware import decision_times
from lightloom.simulate import Packets, simulate
from lightloom.workload import TaskGraphBuilder
from lightloom.workload.categories import step_categories
from lightloom.workload.task_graph import Collective, Layout

SERVERS = 4
#: bytes per second of the eight NICs of a server
SERVER = 8 * 50e9
LATENCY_S, GUARD_S = 2e-6, 10e-9
SLOT_S = LATENCY_S + GUARD_S


def network(**options):
    cluster = Cluster.of(gpus=8 * SERVERS, rate_gbps=400, gpu="h100")
    own = {"link_delay_s": 1e-6, "interconnect": "ideal", **options}
    layout = Layout.grid(1, 1, SERVERS, 8, np.arange(SERVERS, dtype=np.uint32))
    return load_fabric("chronos", own).network(cluster, FabricContext(layout, mean=MeanDemand))


def ring(size, kind=Collective.ALL_REDUCE):
    programs = [Steps().ring(0, size, kind).wait(0) for _ in range(SERVERS)]
    return graph(programs, rings=[one_ring(SERVERS)])


@pytest.mark.parametrize("chunk", [1_000, 1_000_000, 25_000_000])
def test_a_ring_takes_a_slot_per_step(chunk):
    run = simulate(ring(SERVERS * chunk), network())
    assert run.step_time_s == pytest.approx(6 * (chunk / SERVER + SLOT_S), abs=1e-11)
    once = simulate(ring(SERVERS * chunk), network(held=True))
    assert run.step_time_s - once.step_time_s == pytest.approx(5 * GUARD_S, abs=1e-11)


def test_slots_of_one_length_are_filled_in_part():
    # 20 us, of which 17.99 us carry 7.196 MB: 8 MB take two of them
    found = simulate(ring(SERVERS * 8_000_000), network(slot_s="20 us"))
    assert found.step_time_s == pytest.approx(6 * 2 * 20e-6, abs=1e-11)


#: a uniform all-to-all of 4 servers: three cyclic shifts
TOKENS = np.full((1, SERVERS, SERVERS), 4_000_000)


def all_to_alls(*firsts, tokens=TOKENS):
    program = Steps()
    for first in firsts:
        program.all_to_all(first=first)
    return graph([program], members=SERVERS, tokens=tokens)


@pytest.mark.parametrize(("method", "guard_s"), [("bvn", 10e-9), ("critical", 1e-3), ("auto", 0.0)])
def test_a_dispatch_takes_its_matchings_and_the_time_to_find_them(method, guard_s):
    net = network(method=method, guard_s=guard_s)
    decision_s = decision_times(method).time_s(SERVERS)
    slots_s = 3 * (4_000_000 / SERVER + LATENCY_S + guard_s)
    run = simulate(all_to_alls(True, False), net)
    assert run.step_time_s == pytest.approx(decision_s + 2 * slots_s, abs=2e-11)
    assert run.purpose_bytes["ep"]["crossbar"] == 2 * 12 * 4_000_000


@pytest.mark.parametrize("size", [40_000, 4_000_000, 100_000_000])
def test_a_little_imbalance_costs_as_little(size):
    """Shifts last as long as their largest pairs, so that 3 % more of each is 3 % at most."""
    noise = np.random.default_rng(1).integers(0, 3 * size // 100, TOKENS.shape, endpoint=True)
    times = [
        simulate(all_to_alls(True, False, tokens=tokens), network()).step_time_s
        for tokens in (np.full_like(TOKENS, size), size + noise)
    ]
    assert times[0] <= times[1] <= 1.03 * times[0]


def test_the_method_is_chosen_for_each_all_to_all():
    """Never later than by one method for all of them."""
    skewed = np.random.default_rng(2).integers(0, 40_000_000, TOKENS.shape)
    graph = all_to_alls(True, False, tokens=skewed)
    chosen = simulate(graph, network()).step_time_s
    assert all(chosen <= simulate(graph, network(method=method)).step_time_s for method in METHODS)


def test_a_ring_in_the_background_holds_up_an_all_to_all_by_a_latency():
    """And loses that and the guard time itself."""
    alone_s = simulate(ring(SERVERS * 25_000_000), network()).step_time_s
    program = Steps().ring(0, SERVERS * 25_000_000).compute(100e-6).all_to_all(first=False).wait(0)
    both = graph([program], members=SERVERS, tokens=TOKENS, rings=[one_ring(SERVERS)])
    all_to_all_s = 3 * (4_000_000 / SERVER + SLOT_S)
    found = simulate(both, network(method="bvn"))
    assert found.step_time_s == pytest.approx(alone_s + all_to_all_s + SLOT_S, abs=1e-10)


def test_nics_that_send_early_lose_the_latency_once():
    found = simulate(all_to_alls(False), network(aligned=True, decision_s=0))
    bytes_s = 3 * (4_000_000 / SERVER + GUARD_S)
    assert found.step_time_s == pytest.approx(bytes_s + LATENCY_S, abs=1e-11)


def test_a_failed_plane_slows_all_slots_and_a_spare_one_replaces_it():
    plain, lost, spare = (
        simulate(ring(SERVERS * 7_000_000), network(**options)).step_time_s
        for options in ({}, {"failed": "plane:3"}, {"failed": "plane:3", "spare_planes": 1})
    )
    assert spare == plain
    sending_s = 6 * 7_000_000 / SERVER
    assert lost - plain == pytest.approx(sending_s / 7, abs=1e-11)


def test_as_packets_it_is_the_same():
    flows = simulate(all_to_alls(True, False), network())
    packets = simulate(all_to_alls(True, False), network(), network_model=Packets(full=True))
    assert packets.run_hash == flows.run_hash


def test_stragglers_delay_what_they_take_part_in():
    late = [
        simulate(all_to_alls(False), network(straggler_s="1 ms", straggler_seed=seed)).step_time_s
        for seed in range(200)
    ]
    plain = simulate(all_to_alls(False), network()).step_time_s
    # the last of four exponential times: 25/12 of the mean
    assert np.mean(late) - plain == pytest.approx(25 / 12 * 1e-3, rel=0.15)


def test_a_core_that_is_given_nonsense_says_what():
    net = network()
    part = net.parts[0]
    wrong = dataclasses.replace(net, parts=(dataclasses.replace(part, failed=((9, 0),)),))
    with pytest.raises(FabricError, match="NIC 0 of server 9 has failed, but there are 4 servers"):
        simulate(ring(400), wrong)


#: servers under one crossbar of four ports, of eight in two tiers
LEAF, ALL = 2, 8


def tiers(**options):
    """Eight servers on crossbars of four ports: a latency of 4 us over both tiers."""
    cluster = Cluster.of(gpus=8 * ALL, rate_gbps=400, gpu="h100")
    own = {"link_delay_s": 1e-6, "interconnect": "ideal", "crossbar_ports": 4, **options}
    layout = Layout.grid(1, 1, ALL, 8, np.arange(ALL, dtype=np.uint32))
    return load_fabric("chronos", own).network(cluster, FabricContext(layout, mean=MeanDemand))


def rings(*collectives):
    """Rings of servers, each after the time that its members compute: (members, bytes, seconds)."""
    step = TaskGraphBuilder(range(ALL), 8, step_categories())
    groups = [step.family(f"dp {n}", [members]) for n, (members, *_) in enumerate(collectives)]
    for server in range(ALL):
        program = step.role(f"server {server}", [server])
        for group, (members, size, ready_s) in zip(groups, collectives, strict=True):
            if server in members:
                program.compute("attention", duration_ps=round(ready_s * 1e12))
                program.ring(Collective.ALL_REDUCE, group, size, "dp")
    return step.build()


def random_rings(seed):
    """Rings of pairs under one crossbar, of halves and of all, in any order."""
    rng = np.random.default_rng(seed)
    members = [range(0, 2), range(4, 6), range(2, 4), range(0, 4), range(4, 8), range(8)]
    return rings(
        *(
            (members[rng.integers(len(members))], int(rng.integers(1, 40_000_000)), time_s)
            for time_s in rng.uniform(0, 1e-3, size=12)
        )
    )


def step_s(step, **options):
    return simulate(step, tiers(**options)).step_time_s


@pytest.mark.parametrize("slots", [{}, {"slot_s": "50 us"}])
@pytest.mark.parametrize("seed", range(5))
def test_tiers_of_equal_slots_are_one_tier(slots, seed):
    lower = {"lower_slots_s": "50 us"} if slots else {}
    step = random_rings(seed)
    alike = step_s(step, **slots, **lower, latency_s="4 us", lower_latencies_s="4 us")
    assert alike == step_s(step, **slots, latency_s="4 us") == step_s(step, **slots)


def test_a_tier_has_slots_of_its_own():
    near, far = rings((range(LEAF), 8_000_000, 0.0)), rings((range(1, 1 + LEAF), 8_000_000, 0.0))
    chunk_s = 4_000_000 / SERVER
    options = {"lower_latencies_s": "2 us"}
    assert step_s(near, **options) == pytest.approx(2 * (chunk_s + 2e-6 + GUARD_S), abs=1e-11)
    assert step_s(far, **options) == pytest.approx(2 * (chunk_s + 4e-6 + GUARD_S), abs=1e-11)
    # 10 us of sending: slots of 20 us below take one, of 9 us above two of each
    slots = {"slot_s": "9.01 us", "lower_slots_s": "20 us"}
    assert step_s(near, **slots) == pytest.approx(2 * 20e-6, abs=1e-11)
    assert step_s(far, **slots) == pytest.approx(2 * 2 * 9.01e-6, abs=1e-11)


def test_an_error_of_the_sync_signal_lengthens_the_guard_time():
    step = rings((range(ALL), 8_000_000, 0.0))
    assert step_s(step, sync_error_s=0) == step_s(step)
    longer_s = step_s(step, sync_error_s="50 ns") - step_s(step)
    assert longer_s == pytest.approx(2 * (ALL - 1) * 2 * 50e-9, abs=1e-11)


def test_messages_of_control_take_their_share_of_the_time():
    step = rings((range(ALL), 8_000_000, 0.0))
    steps = 2 * (ALL - 1)
    waits_s = steps * (4e-6 + GUARD_S)
    assert step_s(step, control_share=0) == step_s(step)
    times = [step_s(step, control_share=share) - waits_s for share in (0.0, 0.2, 0.5)]
    assert times[1:] == pytest.approx([times[0] / 0.8, times[0] / 0.5], abs=steps * 1e-12)


@pytest.mark.parametrize("slots", [{}, {"slot_s": "50 us"}])
@pytest.mark.parametrize("seed", range(8))
def test_a_slot_that_is_delayed_for_all_never_makes_a_step_shorter(slots, seed):
    step = random_rings(seed)
    late = {"straggler_s": "100 us", "straggler_seed": seed + 1, **slots}
    for_members, for_all = (step_s(step, **late, delayed=who) for who in ("members", "all"))
    assert step_s(step, **slots) <= for_members <= for_all
    with pytest.raises(FabricError, match="give straggler_s, too"):
        step_s(step, **slots, delayed="all")


def test_waits_for_late_members_have_a_place_of_their_own():
    step = rings((range(ALL), 8_000_000, 1e-3), (range(ALL), 80_000_000, 1e-3))
    punctual = simulate(step, tiers())
    late = simulate(step, tiers(straggler_s="100 us"))
    assert late.mean_s["dp"] == pytest.approx(punctual.mean_s["dp"], rel=1e-9)
    waited_s = late.step_time_s - punctual.step_time_s
    assert late.mean_s["straggler"] == pytest.approx(waited_s, rel=1e-9)
    assert sum(late.mean_s.values()) == pytest.approx(late.step_time_s, rel=1e-9)
    mean_s = {name: seconds for name, seconds in punctual.mean_s.items() if seconds}
    assert "straggler" not in mean_s


def test_tiers_are_refused_that_are_not_there():
    with pytest.raises(FabricError, match="lower_slots_s: 2 values for crossbars of 2 tiers: expe"):
        tiers(lower_slots_s="20 us,30 us")
    with pytest.raises(FabricError, match="lower_slots_s = 3 us is over before data arrives"):
        tiers(lower_slots_s="3 us")
    with pytest.raises(
        FabricError, match="its crossbars have one tier; leave lower_latencies_s out"
    ):
        network(lower_latencies_s="3 us")
