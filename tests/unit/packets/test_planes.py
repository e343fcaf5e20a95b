"""Several planes from Python: which plane flows take, and what the failure of one costs."""

import numpy as np
import pytest

from lightloom.errors import InputError, StuckError
from lightloom.packets import NetworkTable, PacketScenario, make_flows, simulate_flows
from lightloom.packets.scenario import PLANE_CHOICES

SPAN_S = 4160 * 8 / 400e9


def run(flows, transport="ndp", seed=1, window=None, **network):
    keys = {"topology": "star", "hosts": 16, "rate_gbps": 100.0, "planes": 4, **network}
    own = {} if window is None else {"window": window}
    scenario = PacketScenario(
        network=NetworkTable(**keys), transport={"name": transport, **own}, seed=seed
    )
    return simulate_flows(flows, scenario)


def used_planes(run):
    """Planes to which hosts sent data."""
    links = run.links
    sent = {
        run.nodes[switch].partition("/")[0]
        for switch, sent in zip(links.destination, links.sent_bytes, strict=True)
        if sent > 4096 and "/" in run.nodes[switch]
    }
    return sorted(sent)


def test_choices_are_those_of_the_core():
    assert list(PLANE_CHOICES) == ["hash", "round-robin", "spray"]


def test_flows_of_a_host_take_turns():
    flows = make_flows([1, 1, 1], [2, 3, 4], 100_000)
    assert used_planes(run(flows, plane_choice="round-robin")) == ["plane-1", "plane-2", "plane-3"]


def test_a_flow_keeps_to_one_plane_by_hash_and_uses_all_by_spraying():
    flow = make_flows([0], [1], 1_000_000)
    planes = {tuple(used_planes(run(flow, seed=seed))) for seed in range(1, 13)}
    assert len(planes) > 1
    assert all(len(one) == 1 for one in planes)
    assert len(used_planes(run(flow, plane_choice="spray"))) == 4


def test_spraying_over_four_planes_is_four_times_as_fast_as_one_plane():
    flow = make_flows([0], [1], 489 * 4096)
    sprayed = run(flow, plane_choice="spray", window=1000)
    assert sprayed.slowdown[0] == pytest.approx(1.0, abs=1e-12)
    received_s = (489 + 9) * SPAN_S + 2e-6
    assert sprayed.fct_s[0] == pytest.approx(received_s, abs=2.3e-6)
    pinned = run(flow, plane_choice="hash", window=1000)
    assert pinned.fct_s[0] / sprayed.fct_s[0] == pytest.approx(4.0, rel=0.1)


@pytest.mark.parametrize(("transport", "window"), [("ndp", 90), ("eqds", 90), ("uet-nscc", None)])
def test_without_one_of_four_planes_a_flow_takes_a_third_longer(transport, window):
    """The link of the receiver fails first and is known: its sender uses the other three."""
    flow = make_flows([0], [1], 20_000_000, start_s=[100e-6])
    network = {"plane_choice": "spray", "detection_s": 0.0, "window": window}
    healthy = run(flow, transport, **network)
    broken = run(flow, transport, failures=("nic-1:plane-2/switch@1us",), **network)
    assert used_planes(broken) == ["plane-0", "plane-1", "plane-3"]
    assert broken.fct_s[0] / healthy.fct_s[0] == pytest.approx(4 / 3, rel=0.05)


def test_a_plane_that_fails_during_a_flow_loses_packets_until_all_know():
    flow = make_flows([0], [1], 20_000_000)
    network = {"plane_choice": "spray", "detection_s": 50e-6}
    run_ = run(flow, failures=("nic-1:plane-2/switch@100us",), **network)
    alone_s = run(flow, **network).fct_s[0]
    assert run_.links.drops.sum() > 0
    assert alone_s < run_.fct_s[0] < 3 * alone_s


def test_a_flow_on_a_plane_that_fails_waits_for_its_repair():
    flow = make_flows([0], [1], 10_000_000)
    plane = used_planes(run(flow))[0]
    failure = f"1:{plane}/switch@100us"
    late = run(flow, failures=(f"{failure}+5ms",)).fct_s[0]
    assert 5.1e-3 < late < 5.1e-3 + 2e-3 + run(flow).fct_s[0]
    with pytest.raises(StuckError):
        run(flow, failures=(failure,))


def test_planes_with_leaves_and_trees_carry_what_stars_carry():
    flows = make_flows(np.arange(16), (np.arange(16) + 4) % 16, 200_000)
    for network in ({"topology": "leaf-spine", "hosts_per_leaf": 4}, {"topology": "fat-tree"}):
        for choice in PLANE_CHOICES:
            found = run(flows, plane_choice=choice, **network)
            assert np.isfinite(found.fct_s).all()
            assert (found.slowdown >= 1 - 1e-12).all()


def test_transports_that_keep_order_are_not_sprayed():
    flow = make_flows([0], [1], 100_000)
    with pytest.raises(InputError, match="choose one that tolerates that, such as ndp"):
        run(flow, "dctcp", plane_choice="spray")


@pytest.mark.parametrize("transport", ["uet-nscc", "ndp", "roce"])
def test_nics_find_a_failed_plane_long_before_switches_do(transport):
    flow = make_flows([0], [1], 20_000_000)
    failures = ("nic-1:plane-2/switch@100us",)
    healthy_s = run(flow, transport, plane_choice="spray").fct_s[0]
    failed = run(flow, transport, plane_choice="spray", failures=failures, detection_s=0.1)
    expected_s = 100e-6 + (healthy_s - 100e-6) * 4 / 3
    assert failed.links.drops.sum() > 0
    assert healthy_s < failed.fct_s[0] < expected_s + 60e-6
    late = {"plane_silence_s": 300e-6, "failures": failures, "detection_s": 0.1}
    assert run(flow, "ndp", plane_choice="spray", **late).fct_s[0] > expected_s + 200e-6


def test_silence_is_for_sprayed_planes():
    flow = make_flows([0], [1], 1_000)
    with pytest.raises(InputError, match="plane_silence_s is for packets that are sprayed"):
        run(flow, plane_silence_s=1e-5)
    with pytest.raises(InputError, match="planes are silent after 0 us"):
        run(flow, plane_choice="spray", plane_silence_s=0.0)
