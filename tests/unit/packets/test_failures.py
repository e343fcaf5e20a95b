"""Failures of links and switches during a run, from their texts to completion times."""

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.packets import NetworkTable, PacketScenario, make_flows, simulate_flows
from lightloom.packets.failures import failed_links
from lightloom.packets.graph import NetworkGraph
from lightloom.packets.settings import topology_of

NETWORK = {"topology": "leaf-spine", "hosts": 8, "hosts_per_leaf": 4, "spines": 2}


def network(**keys):
    return NetworkTable(rate_gbps=100.0, **NETWORK, **keys)


def links_of(*failures):
    return failed_links(failures, NetworkGraph(topology_of(network())))


def scenario(**keys):
    return PacketScenario(network=network(**keys), transport="dctcp", seed=1)


def flows():
    return make_flows(source=[0, 1, 2, 3], destination=[4, 5, 6, 7], size_bytes=20_000_000)


def test_a_link_fails_both_ways_and_a_switch_with_all_of_its_links():
    first, second = links_of("leaf-0:spine-1@2ms+5ms", "spine-1@300us")
    assert first[:2] == (2 * 10**9, 7 * 10**9)
    assert second[:2] == (3 * 10**8, None)
    link, of_switch = first[2], second[2]
    assert (len(link), len(of_switch)) == (2, 4), "a link each way; two leaves"
    assert set(link) < set(of_switch)
    assert link[0] ^ link[1] == 1, "the two directions of one link"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spine-1", "expected WHAT@START or WHAT@START+FOR, such as leaf-0:spine-1@2ms+5ms"),
        ("spine-1@", "expected WHAT@START"),
        ("@2ms", "expected WHAT@START"),
        ("spine-1@2ms+", "expected WHAT@START"),
        ("spine-9@2ms", "there is no node 'spine-9'; did you mean"),
        ("leaf-0:leaf-1@2ms", "no link joins leaf-0 and leaf-1"),
        ("spine-1@2 parsecs", "as a time such as"),
        ("spine-1@2ms+0ms", "more than 0 s until it is repaired"),
        ("spine-1@9999s", "expected a start from 0 to 1000 s"),
    ],
)
def test_wrong_failures_are_refused_in_one_line(text, message):
    with pytest.raises(InputError) as caught:
        links_of(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_flows_finish_over_the_other_spine_later():
    healthy = simulate_flows(flows(), scenario())
    keys = {"failures": ["spine-0@200us"], "detection_s": "100 us"}
    failed = simulate_flows(flows(), scenario(**keys))
    assert np.isfinite(failed.fct_s).all()
    assert failed.fct_s.max() > healthy.fct_s.max()
    assert failed.links.drops.sum() > healthy.links.drops.sum()
    assert simulate_flows(flows(), scenario(**keys)).run_hash == failed.run_hash


def test_a_failure_after_the_end_changes_no_completion():
    late = simulate_flows(flows(), scenario(failures="spine-0@900ms"))
    assert np.array_equal(late.fct_s, simulate_flows(flows(), scenario()).fct_s)
