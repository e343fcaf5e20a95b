"""Steps as packets where every NIC sprays over several planes, one of which may fail meanwhile."""

import numpy as np
import pytest
from tests.simulate_graphs import Steps, graph, packet

from lightloom.errors import FabricError
from lightloom.simulate import Packets, simulate

US = 1_000_000


def step(servers=4, size=8_000_000):
    tokens = np.full((servers, servers), size)
    np.fill_diagonal(tokens, 0)
    steps = Steps().all_to_all(first=True)
    return graph([steps], members=servers, tokens=[tokens])


def time_us(planes, transport="uet-nscc", **options):
    network = packet(4, servers_per_tor=2, sprayed_planes=planes)
    packets = Packets(transport, **options)
    run = simulate(step(), network, network_model=packets)
    assert run.purpose_bytes == simulate(step(), network).purpose_bytes
    return 1e6 * run.step_time_s


@pytest.mark.parametrize("transport", ["uet-nscc", "ndp"])
def test_planes_together_are_as_fast_as_one_network(transport):
    # links of a part of the rate store and forward each packet for longer
    one, two, eight = (time_us(planes, transport) for planes in (1, 2, 8))
    assert 0.95 * one < two < 1.08 * one
    assert 0.95 * one < eight < 1.2 * one


def test_transports_that_take_overtaking_for_loss_see_one_network():
    assert time_us(8, "dctcp") == time_us(1, "dctcp")


@pytest.mark.parametrize("planes", [2, 8])
@pytest.mark.parametrize("transport", ["uet-nscc", "ndp"])
def test_a_plane_that_fails_costs_its_share_and_microseconds(planes, transport):
    healthy = time_us(planes, transport, repeats="together")
    at = healthy / 2
    # switches know of it long after the step
    failed = time_us(planes, transport, plane_failure=(1, int(at * US), None, 10**12))
    expected = at + (healthy - at) * planes / (planes - 1)
    assert healthy < failed < expected + 60
    # repaired and known before anything is sent: as if nothing had been
    past = time_us(planes, transport, plane_failure=(1, 0, 1, 0))
    assert past == pytest.approx(healthy, rel=0.02)


def test_planes_that_cannot_fail_are_refused():
    for planes, transport in ((1, "uet-nscc"), (2, "dctcp"), (2, "ndp")):
        with pytest.raises(FabricError, match=r"plane 3 cannot fail: expected a plane"):
            time_us(planes, transport, plane_failure=(3, 10, None, 10))
