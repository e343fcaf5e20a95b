"""What is said before a run of its packet-hops and flows, and what is then counted.

A forecast of time is the one over a rate: it can be as good as these counts, and no better.
"""

import numpy as np
import pytest
from tests.laws.networks import network_of
from tests.simulate_graphs import Steps, graph, packet

from lightloom.packets import NetworkTable, PacketScenario, make_flows, simulate_flows
from lightloom.packets.forecast import forecast
from lightloom.simulate import Packets, Phases, simulate

SERVERS = 8
NETWORKS = {
    "switch": packet(SERVERS),
    "tree": packet(SERVERS, servers_per_tor=2),
    "pods": packet(SERVERS, nics=4, servers_per_tor=2, servers_per_pod=4),
    "rail": packet(SERVERS, rails=8),
}
#: what it trims in an incast is sent again, which nobody knows beforehand
BOUND = {"eqds": 2.5}
TRANSPORTS = ("ideal", "roce", "dctcp", "swift", "ndp", "eqds")


def tokens_of(kind, rng):
    """Tokens that each server sends to each other."""
    if kind == "small":
        tokens = rng.integers(1, 2_000, (SERVERS, SERVERS))
    elif kind == "incast":
        tokens = np.zeros((SERVERS, SERVERS), dtype=np.int64)
        tokens[1:, 0] = rng.integers(1_000, 500_000, SERVERS - 1)
    else:
        tokens = rng.integers(100_000, 600_000, (SERVERS, SERVERS))
    np.fill_diagonal(tokens, 0)
    return tokens


def step_of(kind, rng):
    steps = Steps()
    if kind != "step":
        blocks = [tokens_of(kind, rng)]
    else:
        blocks = [tokens_of(each, rng) for each in ("small", "big", "incast", "big")]
    for block in range(len(blocks)):
        steps = steps.all_to_all(block, first=True).compute(rng.uniform(0, 1e-4))
    return graph([steps], members=SERVERS, tokens=blocks)


@pytest.mark.parametrize("kind", ["small", "big", "incast", "step"])
@pytest.mark.parametrize("network", NETWORKS)
def test_counts_of_a_whole_step_are_within_a_factor_of_two(network, kind):
    rng = np.random.default_rng([list(NETWORKS).index(network), len(kind)])
    for _ in range(3):
        packets = Packets(str(rng.choice(TRANSPORTS)), repeats="together", record=True)
        step = step_of(kind, rng)
        phases = Phases.counting(NETWORKS[network], packets)
        phases.survey(step, NETWORKS[network])
        run = simulate(step, NETWORKS[network], network_model=packets)
        bound = BOUND.get(packets.transport, 2)
        assert 1 / bound < phases.all_hops / run.packet_hops < 2, packets.transport
        assert 0.5 < phases.all_flows / len(run.recording) < 2, packets.transport


@pytest.mark.parametrize("kind", ["small", "big"])
@pytest.mark.parametrize("fabric", ["helios", "rotornet", "x-nest-plus"])
def test_counts_between_racks_are_within_a_factor_of_two(fabric, kind):
    rng = np.random.default_rng([3, len(fabric), len(kind)])
    network, step = network_of(fabric, SERVERS, SERVERS), step_of(kind, rng)
    packets = Packets("dctcp")
    phases = Phases.counting(network, packets)
    phases.survey(step, network)
    run = simulate(step, network, network_model=packets)
    assert 0.5 < phases.all_hops / run.packet_hops < 2
    # what waits for a circuit goes in packets, each a flow of its own
    assert phases.all_flows > phases.all_hops / 40


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_flows_are_as_many_packet_hops_as_was_said(transport, monkeypatch):
    expected = []

    def noted(hops, *arguments):
        expected.append(hops)
        return forecast(hops, *arguments)

    monkeypatch.setattr("lightloom.packets.run.forecast", noted)
    rng, hosts = np.random.default_rng(len(transport)), 16
    network = NetworkTable(hosts=hosts, rate_gbps=100)
    scenario = PacketScenario(network=network, transport=transport, seed=1)
    for largest, receivers in ((2_000, hosts), (1_000_000, hosts), (200_000, 1)):
        source = rng.integers(1, hosts, 60)
        destination = (source + rng.integers(1, hosts, 60)) % hosts if receivers > 1 else 0 * source
        flows = make_flows(source, destination, rng.integers(1, largest, 60))
        run = simulate_flows(flows, scenario)
        assert 0.5 < expected[-1] / run.data_hops <= 1
