"""Shared buffers, random losses and unfinished flows from Python."""

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.packets import NetworkTable, PacketScenario, make_flows, simulate_flows
from lightloom.packets.flows import parse_flows


def run(flows, transport="ndp", until_s=None, **network):
    keys = {"topology": "star", "hosts": 16, "rate_gbps": 100.0, **network}
    table = NetworkTable(**keys)
    return simulate_flows(
        flows, PacketScenario(network=table, transport=transport, seed=1, until_s=until_s)
    )


def incast():
    return make_flows(np.arange(1, 9), 0, 1_000_000)


def test_a_smaller_share_of_a_buffer_makes_shorter_queues():
    peaks = [
        run(incast(), shared_buffer_bytes=400_000, alpha=alpha).links.peak_queue_bytes.max()
        for alpha in (0.25, 1.0, 4.0)
    ]
    expected = [400_000 * alpha / (1 + alpha) for alpha in (0.25, 1.0, 4.0)]
    assert peaks == pytest.approx(expected, abs=2 * 4160)


def test_alpha_needs_a_buffer():
    with pytest.raises(InputError, match="give shared_buffer_bytes, too"):
        run(incast(), alpha=2.0)
    with pytest.raises(InputError, match="PFC or early drops"):
        run(incast(), "roce", shared_buffer_bytes=400_000)


def test_no_loss_is_as_ever_and_losses_are_drawn():
    assert run(incast(), loss=0.0).run_hash == run(incast()).run_hash
    lost = run(incast(), loss=0.01)
    assert lost.links.drops.sum() > 0
    assert lost.end_s > run(incast()).end_s


def test_bytes_of_unfinished_flows_are_what_receivers_have():
    flows = make_flows([1, 2, 3], [0, 0, 4], [1_000_000, 1_000_000, 5_000])
    half = run(flows, "ideal", until_s=100e-6)
    assert half.unfinished.tolist() == [0, 1]
    # host 0's link has carried 100 us less the way there: three packets each not more
    rate = 100e9 / 8 * 4096 / 4160
    received = half.unfinished_received_bytes
    assert received.sum() == pytest.approx(rate * (100e-6 - 2e-6), abs=3 * 4096)
    assert abs(int(received[0]) - int(received[1])) <= 4096
    assert len(run(flows, "ideal").unfinished_received_bytes) == 0


def test_priorities_of_other_simulators_are_said_not_to_be_read():
    text = b"2\n0 1 3 100 20000 0.0\n7 1 %d 100 5 0.000001\n"
    assert parse_flows(text % 3, "flow.txt").remarks == ()
    flows = parse_flows(text % 5, "flow.txt")
    (remark,) = flows.remarks
    assert remark.startswith("flow.txt: its priorities (3, 5) are not read")
    assert run(flows).remarks[0] == remark
    matrix = b"Nodes 4\nConnections 2\n0->1 start 0 size 5 prio 1\n1->0 start 0 size 5\n"
    assert "(0, 1)" in parse_flows(matrix, "x.cm").remarks[0]
