"""Steps as packets, and as flows that take as long as their phases take as packets."""

import dataclasses

import numpy as np
import pytest
from tests.simulate_graphs import GBPS, LINK_S, NIC, Steps, graph, mixnet, packet

from lightloom.errors import FabricError, InputError
from lightloom.fabric.network import Scheduled
from lightloom.simulate import Packets, Phases, simulate
from lightloom.simulate import run as module
from lightloom.workload import Block, TaskGraphBuilder
from lightloom.workload.categories import step_categories

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
    unknown = Phases(packet(2), Packets(), purposes=["all"])
    with pytest.raises(InputError, match="purpose 'all': expected tp, ep, pp, dp, cp"):
        unknown.survey(all_to_all(uneven(2)), packet(2))


def all_to_alls(tors, size):
    """A group with one server of each ToR for each of so many servers of a ToR, all at once."""
    servers = np.arange(tors * tors).reshape(tors, tors)
    tokens = np.full((tors, tors), size, np.uint32)
    np.fill_diagonal(tokens, 0)
    built = TaskGraphBuilder(np.arange(tors * tors), 8, step_categories())
    built.family("ep", servers.T)
    built.demand("tokens", 0, np.broadcast_to(tokens, (tors, 1, tors, tors)))
    program = built.role("all", np.arange(tors * tors, dtype=np.uint32))
    program.all_to_all(0, Block(0, 0, 1, False, True), "ep")
    return built.build()


def three_times(step, network, transport):
    """Seconds as flows, by phases, and whole."""
    packets = Packets(transport, full=True)
    models = ("flow", Phases(network, packets), packets)
    return [simulate(step, network, network_model=model).step_time_s for model in models]


@pytest.mark.parametrize("transport", ["roce", "dctcp", "ideal"])
def test_groups_that_share_uplinks_collide_in_whole_steps_alone(transport):
    # 8 groups of 8 servers over 8 ToRs, 1:1: flows of a group alone hardly meet, of all they do
    tree = packet(64, servers_per_tor=8)
    flows, phases, whole = three_times(all_to_alls(8, 2_000_000), tree, transport)
    assert flows < phases < 1.1 * flows
    assert 2 * phases < whole < 4 * phases


@pytest.mark.parametrize("transport", ["roce", "dctcp", "ideal", "ndp"])
def test_groups_that_share_no_link_take_as_long_in_whole_steps(transport):
    # every rail is one switch
    rail = packet(64, rails=8, servers_per_tor=64)
    _, phases, whole = three_times(all_to_alls(8, 200_000), rail, transport)
    # NDP draws paths by flow
    assert whole == pytest.approx(phases, rel=1e-3)


def test_steps_over_circuits_that_follow_the_clock_are_counted_before_they_run():
    schedule = Scheduled(
        nic_rate_bps=400 * GBPS,
        link_delay_ps=1_000_000,
        circuits=np.array([[0, 0, 1, 1]], np.uint32),
        dark_ps=np.array([10_000], np.uint64),
        hold_ps=np.array([10_000_000], np.uint64),
    )
    pair = all_to_all(np.array([[0, 8 * 10 * MTU], [0, 0]]))
    network = dataclasses.replace(packet(2, "hierarchical"), parts=(schedule,))
    assert simulate(pair, network, network_model=Packets("ideal")).packet_hops > 0
    with pytest.raises(FabricError, match="change by the clock"):
        Phases(network, Packets("ideal"))


def test_phases_that_are_counted_are_never_simulated():
    step = graph([Steps().all_to_all(first=True)], members=4, tokens=[uneven(4, 200_000)])
    counted, all_of_them = Phases.counting(packet(4), Packets()), Phases(packet(4), Packets())
    for phases in (counted, all_of_them):
        phases.survey(step, packet(4))
    assert (counted.only_counts, all_of_them.only_counts) == (True, False)
    assert (counted.pending[0], all_of_them.pending[0]) == (0, 1)
    assert counted.all_hops == all_of_them.all_hops > 0
    for none in (0, -1):
        with pytest.raises(InputError, match=f"sample = {none}: expected 1 phase or more"):
            Phases(packet(4), Packets(), none)


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
