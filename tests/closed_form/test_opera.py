"""Opera, from its options to the step, against times by hand."""

import numpy as np
import pytest
from tests.closed_form.test_rack_fabrics import LATENCY_S, NIC, SERVERS, network, send_s

from lightloom.errors import FabricError
from lightloom.fabric import Cluster, load_fabric
from lightloom.simulate import Packets, simulate
from lightloom.workload.programs.phases import Phase, PhaseSequence, phase_graph

#: two fibers at each of four switches; one turns each 100 us and is dark for 10 us
RATE, SWITCHES, SLICE_S, DARK_S = 2 * NIC, 4, 100e-6, 10e-6
#: each switch holds its two matchings once, the fourth has one alone
CYCLE_S = 2 * SWITCHES * SLICE_S


def part(**options):
    return network("opera", **options).parts[0]


def test_large_is_what_takes_a_nic_a_cycle():
    found = part()
    assert found.epoch_ps == round(SWITCHES * SLICE_S * 1e12)
    assert found.dark_ps == round(DARK_S * 1e12)
    assert found.min_bytes == round(NIC * CYCLE_S)
    # the paper has 15 MB: 108 racks, six switches, 10 Gb/s
    cluster = Cluster.of(gpus=8 * 108, rate_gbps=10, gpu="h100", nics_per_server=6)
    paper = load_fabric("opera", {"switches": 6}).network(cluster).parts[0]
    assert paper.min_bytes == pytest.approx(15e6, rel=0.1)
    assert 1 - paper.dark_ps / paper.epoch_ps == pytest.approx(0.983, abs=1e-3)


@pytest.mark.parametrize("to", range(1, SERVERS))
@pytest.mark.parametrize("seed", [0, 7])
def test_small_bytes_leave_at_once_and_large_ones_wait(to, seed):
    size = 8_000_000
    own = {"seed": seed, "relay": False}
    small = send_s(to, size, "opera", bulk_bytes=size + 1, **own)
    # all switches are dark when the step begins, and of 100 us the circuits of four hold 8 MB
    assert small == pytest.approx(DARK_S + size / RATE + LATENCY_S, abs=1e-10)
    large = send_s(to, size, "opera", bulk_bytes=size, **own)
    assert small <= large <= CYCLE_S + small


@pytest.mark.parametrize("seed", [0, 7])
def test_each_pair_has_its_circuit_for_its_share_of_a_cycle(seed):
    size, own = 1_600_000_000, {"seed": seed, "relay": False, "bulk_bytes": 0}
    times = sorted(send_s(to, size, "opera", **own) for to in range(1, SERVERS))
    # one of seven has the switch that never turns
    assert times[0] == pytest.approx(DARK_S + size / RATE + LATENCY_S, abs=1e-10)
    held = (SWITCHES * SLICE_S - DARK_S) / CYCLE_S
    assert times[1:] == pytest.approx([size / (held * RATE)] * (SERVERS - 2), abs=CYCLE_S)


def test_two_hops_take_what_slots_have_room_for():
    size = 400_000_000
    alone, spread = (send_s(1, size, "opera", relay=relay, bulk_bytes=0) for relay in (False, True))
    assert size / (8 * NIC) < spread < alone / 2


def test_racks_have_ports_at_three_switches_or_more():
    def switches(nics, **options):
        cluster = Cluster.of(
            gpus=64, rate_gbps=400, gpu="h100", gpus_per_server=8, nics_per_server=nics
        )
        found = load_fabric("opera", options).network(cluster).parts[0]
        return found.servers_per_rack, sum(count for _, count in found.banks)

    # servers of a rack, and switches
    assert [switches(nics) for nics in (1, 2, 3, 5, 7, 8)] == [
        (3, 3), (2, 4), (1, 3), (1, 5), (1, 7), (1, 4),
    ]  # fmt: skip
    with pytest.raises(FabricError, match="switches = 1: expected 3 or more"):
        switches(1, servers_per_rack=1)
    with pytest.raises(FabricError, match="switches = 2: expected 3 or more"):
        switches(8, switches=2)
    # a rack alone needs none
    assert switches(1, servers_per_rack=8) == (8, 0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bulk_bytes": -1}, "bulk_bytes = -1: expected at least 0"),
        ({"bulk_bytes": 0.5}, "bulk_bytes = 0.5: expected whole bytes"),
        ({"bulk_bytes": "15 ms"}, "bulk_bytes"),
        ({"bulk_bytes": [1]}, "bulk_bytes: expected a number or text with a unit"),
        ({"slice_s": 1e-5}, "slice_s = 10 us: circuits are dark for 10 us"),
        ({"seed": -1}, "seed = -1: expected at least 0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options, text):
    with pytest.raises(FabricError) as caught:
        network("opera", **options)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("transport", ["ideal", "ndp"])
@pytest.mark.parametrize("size", [100_000, 1_000_000])
def test_packets_of_small_transfers_leave_by_turns(size, transport):
    """Four racks of one server, and a circuit for each pair: nothing shares anything.

    All transfers begin when circuits come up. If those of a server filled their circuits one after
    the other, the last one would wait at the NICs for the others, with its circuit idle meanwhile:
    a third of the time of 100 kB.
    """
    rate, racks = NIC, 4
    cluster = Cluster.of(
        gpus=racks, rate_gbps=400, gpu="h100", gpus_per_server=1, nics_per_server=3
    )
    own = {"servers_per_rack": 1, "switches": 3, "link_delay_s": 1e-6, "interconnect": "ideal"}
    joined = load_fabric("opera", own).network(cluster)
    phase = Phase(*np.nonzero(~np.eye(racks, dtype=bool)), np.full(12, size))
    steps = phase_graph(PhaseSequence(racks, (phase,), "transfers"), 1)
    flows = simulate(steps, joined).step_time_s
    assert flows == pytest.approx(DARK_S + size / rate + LATENCY_S, abs=1e-10)
    every = Packets(transport=transport, full=True)
    packets = simulate(steps, joined, network_model=every).step_time_s
    headers, packet_s = 64 / 4096 * size / rate, 4160 / rate
    assert headers < packets - flows < headers + 12 * packet_s
