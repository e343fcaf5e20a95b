"""All-reduces over the cycles of TopoOpt's finder, from the topology to the simulated time."""

from dataclasses import replace

import numpy as np
import pytest
from tests.simulate_graphs import GBPS, LINK_S, NIC, Steps, graph, one_ring

from lightloom.errors import FabricError
from lightloom.fabric.network import Direct, Network, NvSwitch
from lightloom.schedule import Ring, cycles_in_order, topoopt_topology
from lightloom.simulate import simulate

SIZE = 10**9


def network(servers, degree, **changes):
    """All ports of all servers for one ring."""
    rings = [Ring(range(servers), SIZE)]
    found = topoopt_topology(servers, degree, rings=rings)
    cycles = cycles_in_order(found, rings)
    direct = Direct(
        nic_rate_bps=400 * GBPS,
        link_delay_ps=1_000_000,
        relay_delay_ps=3_000_000,
        circuits=found.circuits,
        route_offsets=found.route_offsets,
        route_servers=found.route_servers,
        cycle_offsets=cycles.offsets,
        cycle_servers=cycles.servers,
        cycle_counts=cycles.counts,
    )
    switch = NvSwitch(gpu_rate_bps=3600 * GBPS, latency_ps=2_000_000)
    direct = replace(direct, **changes)
    return Network(servers, 8, switch, "hierarchical", (direct,))


def run(servers, fabric):
    programs = [Steps().ring(0, SIZE).wait(0)]
    return simulate(graph(programs, replicas=servers, rings=[one_ring(servers)]), fabric)


@pytest.mark.parametrize(("servers", "degree"), [(8, 2), (8, 4), (16, 6), (20, 8), (5, 6), (8, 6)])
def test_all_ports_of_all_servers_are_busy(servers, degree):
    """Each port sends ``2 (n - 1) / n`` of the buffer over the number of ports."""
    steps = 2 * (servers - 1)
    expected = SIZE * steps / servers / (degree * NIC) + steps * LINK_S
    result = run(servers, network(servers, degree))
    assert result.step_time_s == pytest.approx(expected, rel=1e-6)
    assert result.purpose_bytes["dp"]["direct"] == SIZE * steps
    assert result.purpose_bytes["dp"]["relayed"] == 0


def test_two_servers_use_all_their_circuits():
    expected = SIZE / (4 * NIC) + 2 * LINK_S
    assert run(2, network(2, 4)).step_time_s == pytest.approx(expected, rel=1e-6)


def test_without_cycles_one_ring_goes_both_ways():
    nothing = {
        "cycle_offsets": np.zeros(1, np.uint32),
        "cycle_servers": np.zeros(0, np.uint32),
        "cycle_counts": np.zeros(0, np.uint32),
    }
    with_cycles, without = run(8, network(8, 4)), run(8, network(8, 4, **nothing))
    expected = SIZE * 14 / 8 / (2 * NIC) + 14 * LINK_S
    assert without.step_time_s == pytest.approx(expected, rel=1e-6)
    assert without.purpose_bytes == with_cycles.purpose_bytes


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cycle_counts": [1]}, "cycle_counts needs one entry per cycle"),
        ({"cycle_offsets": [0, 8, 17]}, "cycle_offsets exceed cycle_servers"),
        ({"cycle_offsets": [0, 9, 16]}, "cycle [0, 1, 2, 3, 4, 5, 6, 7, 0] is no ring of servers"),
        ({"cycle_counts": [1, 0]}, "cycle [0, 3, 6, 1, 4, 7, 2, 5] has no circuits"),
    ],
)
def test_broken_cycles_are_refused(change, text):
    change = {name: np.array(values, np.uint32) for name, values in change.items()}
    with pytest.raises(FabricError) as caught:
        run(8, network(8, 4, **change))
    assert str(caught.value) == text
