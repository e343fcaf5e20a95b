"""Steps as packets, and as flows that take as long as their phases take as packets."""

import numpy as np
import pytest
from tests.simulate_graphs import LINK_S, NIC, Steps, graph, mixnet, packet

from lightloom.errors import FabricError, InputError
from lightloom.simulate import Packets, Phases, simulate
from lightloom.simulate import run as module

#: payload of a packet and what is around it, bytes
MTU, HEADER = 4096, 64


def all_to_all(tokens):
    steps = Steps().all_to_all(first=True)
    return graph([steps], members=len(tokens), tokens=[tokens])


def uneven(members, scale=100_000):
    tokens = scale * (1 + np.arange(members * members).reshape(members, members) * 7 % 5)
    np.fill_diagonal(tokens, 0)
    return tokens


def test_one_pair_takes_what_store_and_forward_takes():
    # eight NICs with ten packets each, over two links
    pair = all_to_all(np.array([[0, 8 * 10 * MTU], [0, 0]]))
    run = simulate(pair, packet(2), network_model=Packets("ideal"))
    expected = (10 + 1) * (MTU + HEADER) / NIC + 2 * LINK_S
    assert run.step_time_s == pytest.approx(expected, rel=1e-9)
    assert run.packet_hops > 8 * 10 * 2
    assert simulate(pair, packet(2)).packet_hops == 0


def test_phases_take_what_packets_take():
    step, network = all_to_all(uneven(4)), packet(4)
    for transport in ("ideal", "dctcp", "mptcp"):
        packets = Packets(transport)
        whole = simulate(step, network, network_model=packets)
        phases = Phases(network, packets)
        run = simulate(step, network, network_model=phases)
        # sizes of flows are whole bytes
        assert run.step_time_s == pytest.approx(whole.step_time_s, abs=4 / NIC)
        assert run.purpose_bytes == whole.purpose_bytes
        count = phases.counts()["ep"]
        assert (count.distinct, count.simulated, phases.pending) == (1, 1, (0, 0))
        assert count.minimum == count.mean == count.maximum > 1


def test_circuits_carry_packets():
    step, network = all_to_all(uneven(4)), mixnet(4)
    flows = simulate(step, network)
    run = simulate(step, network, network_model="packet")
    assert run.purpose_bytes == flows.purpose_bytes
    # connections of DCTCP begin with ten packets: some round trips of 10 us in all
    assert 1 < run.step_time_s / flows.step_time_s < 1.3


def test_large_steps_have_to_be_asked_for(monkeypatch):
    step = all_to_all(uneven(4))
    monkeypatch.setattr(module, "MAX_PACKET_HOPS", 100)
    with pytest.raises(InputError, match="packet-hops, over 1e\\+02: simulate its phases"):
        simulate(step, packet(4), network_model="packet")
    assert simulate(step, packet(4), network_model=Packets(full=True)).step_time_s > 0


def test_what_cannot_be_is_refused():
    with pytest.raises(FabricError, match="transport = 'tcp': expected one of ideal"):
        simulate(all_to_all(uneven(2)), packet(2), network_model=Packets("tcp"))
    with pytest.raises(FabricError, match="mtu 70000 B"):
        Phases(packet(2), Packets("ideal", mtu_bytes=70_000))
    with pytest.raises(InputError, match="0 phases to simulate"):
        Phases(packet(2), Packets(), 0)
    unknown = Phases(packet(2), Packets(), purposes=["all"])
    with pytest.raises(InputError, match="purpose 'all': expected tp, ep, pp, dp, cp"):
        unknown.survey(all_to_all(uneven(2)), packet(2))


def test_interrupts_keep_what_was_simulated():
    blocks = [uneven(4, 200_000), uneven(4, 300_000)]
    step = graph([Steps().all_to_all(first=True).all_to_all(1)], members=4, tokens=blocks)
    phases = Phases(packet(4), Packets("ideal"))
    phases.survey(step, packet(4))
    assert phases.pending[0] == 2
    shares = []

    def stop_later(share):
        shares.append(share)
        return share < 0.3

    with pytest.raises(KeyboardInterrupt):
        phases.simulate(stop_later)
    assert phases.counts()["ep"].simulated == 1
    assert phases.pending[0] == 1
    assert shares == sorted(shares)
