"""How switches choose among equal paths: the keys of a scenario and what they do."""

import pytest

from lightloom.errors import InputError
from lightloom.packets import NetworkTable, PacketScenario, make_flows, simulate_flows
from lightloom.packets.scenario import ROUTINGS


def times_us(seed=1, **network):
    """Four flows of 100 packets run at line rate over four spines."""
    keys = {"hosts": 8, "topology": "leaf-spine", "hosts_per_leaf": 4, "spines": 4}
    table = NetworkTable(rate_gbps=100, **keys, **network)
    flows = make_flows([0, 1, 2, 3], [4, 5, 6, 7], 100 * 4096, [0.0] * 4)
    run = simulate_flows(flows, PacketScenario(network=table, transport="ideal", seed=seed))
    return (run.fct_s * 1e6).tolist()


def test_flows_collide_by_hash_and_not_by_load():
    # 103 packets of 4,160 B in turn over four links of 1 us, and an acknowledgment back
    alone = 103 * 0.3328 + 4 * 0.00512 + 8
    for routing in ("adaptive", "flowlet"):
        assert times_us(routing=routing) == pytest.approx([alone] * 4, rel=1e-9)
    assert max(max(times_us(seed)) for seed in range(1, 6)) > alone + 90 * 0.3328


def test_ecmp_is_the_default():
    assert times_us() == times_us(routing="ecmp")
    assert list(ROUTINGS) == ["ecmp", "adaptive", "flowlet", "valiant", "ugal-l", "ugal-g"]


def test_a_gap_is_for_flowlets():
    expected = "flowlet_gap_s is for the routing flowlet, not adaptive; leave it out"
    with pytest.raises(InputError, match=expected):
        times_us(routing="adaptive", flowlet_gap_s=1e-6)
    assert times_us(routing="flowlet", flowlet_gap_s=0) == times_us(routing="adaptive")
