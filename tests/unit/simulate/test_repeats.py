"""Whole steps as packets, in which what repeats is simulated once."""

import itertools

import numpy as np
import pytest
from tests.simulate_graphs import Steps, graph, mixnet, packet

from lightloom.simulate import Packets, simulate
from lightloom.workload import Block, TaskGraphBuilder
from lightloom.workload.categories import step_categories

#: nothing of them is drawn but paths, by the NICs at the ends of a flow
TRANSPORTS = ("ideal", "roce", "dctcp", "hpcc", "swift")
#: servers of 8 NICs
FABRICS = {
    "switch": packet(16),
    "tree": packet(16, servers_per_tor=4),
    "pods": packet(16, servers_per_tor=2, servers_per_pod=8),
    "rail": packet(16, rails=8, servers_per_tor=16),
}
SERVERS = np.arange(16).reshape(4, 4)
#: groups of 4 below one ToR of the tree, and with a server below each
GROUPS = {"near": SERVERS, "far": SERVERS.T}
CASES = list(itertools.product(TRANSPORTS, FABRICS, GROUPS))


def layers(groups, count, size, spread=0.0, seed=0):
    """All-to-alls of groups of servers, layer by layer, of sizes that are equal or drawn."""
    number, members = groups.shape
    draw = np.random.default_rng(seed)
    shape = number, 1, members, members
    tokens = (size * draw.uniform(1 - spread, 1 + spread, shape)).astype(np.uint32)
    tokens[..., np.eye(members, dtype=bool)] = 0
    built = TaskGraphBuilder(np.arange(groups.size), 8, step_categories())
    built.family("ep", groups)
    built.demand("tokens", 0, tokens)
    program = built.role("all", np.arange(groups.size, dtype=np.uint32))
    for layer in range(count):
        program.compute("attention", duration_ps=30_000_000)
        program.all_to_all(0, Block(0, 0, 1, layer % 2 == 1, layer == 0), "ep")
    return built.build()


def both(step, network, transport):
    """A step of which everything is simulated, and with what repeats simulated once."""
    packets = [Packets(transport, full=True, repeats=repeats) for repeats in ("each", "once")]
    return [simulate(step, network, network_model=each) for each in packets]


@pytest.mark.parametrize(("transport", "fabric", "kind"), CASES)
def test_repeated_layers_are_simulated_once(transport, fabric, kind):
    step = layers(GROUPS[kind], 12, 200_000)
    each, once = both(step, FABRICS[fabric], transport)
    assert once.run_hash == each.run_hash
    assert once.packet_hops == pytest.approx(each.packet_hops, rel=0.01)
    # where paths meet by chance, members end apart and begin the next layer otherwise
    is_apart = fabric == "pods" or (fabric, kind) == ("tree", "far")
    most = 1.0 if is_apart else 0.5
    assert once.simulated_packet_hops <= most * each.packet_hops


@pytest.mark.parametrize(("transport", "fabric", "kind"), CASES)
def test_uneven_layers_take_as_long_where_some_of_them_are_known(transport, fabric, kind):
    step = layers(GROUPS[kind], 4, 300_000, 0.4, seed=len(transport) + len(fabric))
    each, once = both(step, FABRICS[fabric], transport)
    assert once.run_hash == each.run_hash
    assert once.simulated_packet_hops <= each.simulated_packet_hops


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_layers_take_as_long_in_one_network(transport):
    # there simultaneous events have another order in each layer, and flows begin at any time
    step, network = layers(GROUPS["near"], 4, 4_000_000), FABRICS["switch"]
    together, once = (
        simulate(step, network, network_model=Packets(transport, repeats=repeats))
        for repeats in ("together", "once")
    )
    assert once.step_time_s == pytest.approx(together.step_time_s, rel=0.01)
    assert once.packet_hops == pytest.approx(together.packet_hops, rel=0.01)
    assert together.simulated_packet_hops == together.packet_hops


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_meets_later_is_simulated_together(transport):
    # two pairs, and a pair across both that begins while they send
    def pair(peer, delay_s, size=2_000_000):
        steps = Steps().compute(delay_s) if delay_s else Steps()
        return steps.send(peer, 0, size).receive(peer, 0)

    delays = (0.0, 10e-6, 0.0, 10e-6)
    programs = [pair(number ^ 1, delay) for number, delay in enumerate(delays)]
    for number, peer in ((1, 2), (2, 1)):
        programs[number].compute(5e-6).send(peer, 1, 500_000).receive(peer, 1)
    step = graph(programs)
    each, once = both(step, FABRICS["tree"], transport)
    assert once.run_hash == each.run_hash


@pytest.mark.parametrize("transport", ["ideal", "dctcp"])
def test_circuits_that_change_are_part_of_what_repeats(transport):
    draw = np.random.default_rng(3)
    tokens = draw.integers(0, 300_000, (4, 8, 8))
    tokens[:, np.eye(8, dtype=bool)] = 0
    steps = Steps()
    for block in (0, 1, 0, 2, 0, 1, 3, 0):
        steps.compute(30e-6).all_to_all(block, first=block == 0)
    step = graph([steps], members=8, tokens=tokens)
    each, once = both(step, mixnet(8, fixed_s=20e-6), transport)
    assert once.circuits.reconfigurations > 0
    assert once.run_hash == each.run_hash


def test_seeds_draw_other_paths_once_and_for_all():
    step = layers(GROUPS["far"], 2, 400_000)
    found = []
    for seed in (1, 2, 1):
        packets = Packets("roce", seed=seed)
        found.append(simulate(step, FABRICS["tree"], network_model=packets).run_hash)
    assert found[0] == found[2] != found[1]
