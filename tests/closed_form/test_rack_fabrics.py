"""Fabrics of racks, from their options to the step, against times by hand."""

import math

import numpy as np
import pytest
from tests.simulate_graphs import Steps, graph, one_ring

from lightloom.errors import FabricError
from lightloom.fabric import Cluster, FabricContext, MeanDemand, load_fabric
from lightloom.simulate import Packets, Phases, simulate
from lightloom.workload.programs.phases import Phase, PhaseSequence, phase_graph
from lightloom.workload.task_graph import Layout

SERVERS = 8
#: bytes per second of a NIC
NIC = 50e9
#: three links of 1 us
LATENCY_S = 3e-6


def network(kind, servers=SERVERS, **options):
    cluster = Cluster.of(gpus=8 * servers, rate_gbps=400, gpu="h100")
    own = {"link_delay_s": 1e-6, "interconnect": "ideal", **options}
    layout = Layout.grid(1, 1, servers, 8, np.arange(servers, dtype=np.uint32))
    return load_fabric(kind, own).network(cluster, FabricContext(layout, mean=MeanDemand))


def send_s(to, size, kind, **options):
    """When server 0 has sent bytes to another one, from the start of the step on."""
    programs = [Steps() for _ in range(SERVERS)]
    programs[0].send(to, 0, size)
    programs[to].receive(0, 0)
    return simulate(graph(programs), network(kind, **options)).step_time_s


@pytest.mark.parametrize("shift", range(1, SERVERS))
@pytest.mark.parametrize("size", [1_000_000, 40_000_000])
def test_bytes_wait_for_the_slots_of_their_pair(shift, size):
    # Four switches of two fibers share seven shifts: 1 and 5, 2 and 6, 3 and 7, and 4 alone.
    rate, dark_s, slot_s = 2 * NIC, 10e-6, 100e-6
    lasts_s = size / rate
    if shift == 4:
        expected = dark_s + lasts_s
    else:
        slots = math.ceil(lasts_s / (slot_s - dark_s) - 1e-9)
        rest_s = lasts_s - (slots - 1) * (slot_s - dark_s)
        expected = (2 * (slots - 1) + (shift > 4)) * slot_s + dark_s + rest_s
    found = send_s(shift, size, "rotornet", relay=False)
    assert found == pytest.approx(expected + LATENCY_S, abs=1e-10)


@pytest.mark.parametrize("shift", range(1, SERVERS))
def test_average_circuits_are_as_fast_as_their_share_of_a_cycle(shift):
    # Shift 4 has a switch alone, which never turns; others have one for 90 us of each 200 us.
    rate = 2 * NIC * (1 if shift == 4 else 0.45)
    found = send_s(shift, 40_000_000, "rotornet", relay=False, slots="average")
    assert found == pytest.approx(40_000_000 / rate + LATENCY_S, rel=1e-6)
    exact = send_s(shift, 40_000_000, "rotornet", relay=False)
    assert abs(exact - found) <= 200e-6


def all_to_all_run(kind, skew, more=0, **options):
    """The run of bytes from each of 16 servers to each other, more from some racks to others."""
    servers, each = 16, 4
    rack = np.arange(servers) // each
    size = 1_000_000 * (1 + skew * np.add.outer(5 * rack, 3 * rack) % 4) + more
    source, destination = np.nonzero(~np.eye(servers, dtype=bool))
    phase = Phase(source, destination, size[source, destination])
    steps = phase_graph(PhaseSequence(servers, (phase, phase), "transfers"), 1)
    cluster = Cluster.of(
        gpus=servers, rate_gbps=400, gpu="h100", gpus_per_server=1, nics_per_server=1
    )
    own = {"servers_per_rack": each, "link_delay_s": 1e-6, "interconnect": "ideal", **options}
    return simulate(steps, load_fabric(kind, own).network(cluster))


@pytest.mark.parametrize("skew", [0, 1, 3])
@pytest.mark.parametrize("kind", ["rotornet", "opera", "helios", "x-nest-plus"])
def test_servers_that_are_alike_are_simulated_together(kind, skew):
    """Some bytes more for each pair tell all servers apart: the same times, and more work.

    RotorLB then relays whole transfers rather than as much of each.
    """
    alike = all_to_all_run(kind, skew)
    apart = all_to_all_run(kind, skew, more=np.arange(256).reshape(16, 16))
    assert alike.flows == apart.flows == 2 * 16 * 15
    error = 2e-2 if kind in ("rotornet", "opera") else 2e-3
    assert alike.step_time_s == pytest.approx(apart.step_time_s, rel=error)
    assert 4 * alike.flow_work["flows_touched"] <= apart.flow_work["flows_touched"]
    for use, other in zip(alike.links, apart.links, strict=True):
        assert use.name == other.name
        assert use.carried_bytes == pytest.approx(other.carried_bytes, rel=5e-2)


@pytest.mark.parametrize("model", ["flow", Packets("ideal")])
def test_rings_wait_for_circuits_too(model):
    # all to their next: each over its own circuit of the same shift
    edge = 28_000_000
    steps = Steps().ring(1, edge * 4 // 7).wait(1)
    ring = graph([steps], members=SERVERS, rings=[one_ring(SERVERS)])
    found = simulate(ring, network("rotornet", relay=False), network_model=model).step_time_s
    alone = send_s(1, edge, "rotornet", relay=False)
    # some steps' latencies, and 1.6 % of headers
    assert alone <= found < 1.02 * alone + 14 * LATENCY_S


def test_two_hops_spread_a_pair_over_all_circuits():
    alone = send_s(1, 400_000_000, "rotornet", relay=False)
    spread = send_s(1, 400_000_000, "rotornet")
    # one of eight fibers half of the time, against nearly all fibers by two hops each
    assert alone > 2 * spread
    assert spread > 400_000_000 / (8 * NIC) + LATENCY_S


def test_helios_begins_on_the_core_and_moves_to_circuits():
    # The only switch begins with a circuit to one of seven servers; the others have two NICs' rate
    # over the core, which is more, until the first epoch has been measured.
    dark_s, epoch_s, size = 1e-3, 2e-3, 10_000_000_000
    own = {"switches": 1, "packet_uplinks": 2, "dark_s": dark_s, "epoch_s": epoch_s}
    times = sorted(send_s(to, size, "helios", **own) for to in range(1, SERVERS))
    core, circuit = 2 * NIC, NIC
    at_once = dark_s + (size - dark_s * core) / circuit + LATENCY_S
    measured = epoch_s + dark_s + (size - (epoch_s + dark_s) * core) / circuit + LATENCY_S
    assert times[-1] == pytest.approx(at_once, abs=1e-9)
    assert times[:-1] == pytest.approx([measured] * (SERVERS - 2), abs=1e-9)


def test_x_nest_plus_takes_two_circuits_before_electrical_links():
    # k = 4, eight racks: two pods; server 0 and 5 differ in pod and position.
    own = {"dark_s": 1e-3, "epoch_s": 10.0, "hello_s": 0.0}
    size = 10_000_000_000
    fibers = 4 * 8 // 4
    direct, far = (send_s(to, size, "x-nest-plus", **own) for to in (4, 5))
    # The two core switches of a position join two pods alone; servers have eight NICs.
    assert direct == pytest.approx(1e-3 + size / (8 * NIC) + LATENCY_S, abs=1e-9)
    assert fibers * NIC == 8 * NIC
    assert far >= direct


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        ("x-nest-plus", {"k": 5}, "k = 5: expected an even number, 4 or more"),
        ("x-nest-plus", {"k": 2}, "k = 2: expected an even number, 4 or more"),
        ("x-nest-plus", {"epoch_s": 0.01}, "epoch_s = 10 ms: circuits are dark for 15 ms"),
        ("helios", {"epoch_s": 0.01}, "epoch_s = 10 ms: circuits are dark for 15 ms"),
        ("rotornet", {"slot_s": 1e-5}, "slot_s = 10 us: circuits are dark for 10 us"),
        ("rotornet", {"switches": 3}, "switches = 3: expected a divisor of the 8 NICs"),
        ("rotornet", {"servers_per_rack": 9, "switch_ports": 64}, "a rack needs 128 ports"),
        ("rotornet", {"ocs_ports": 4, "servers_per_rack": 1}, "8 racks: circuit switches"),
        ("rotornet", {"slots": "average"}, "slots = average: expected relay = off"),
        ("rotornet", {"slots": "mean"}, "slots"),
        ("helios", {"servers_per_rack": 9, "switch_ports": 64}, "a rack needs 128 ports"),
        ("x-nest-plus", {"switch_ports": 32}, "ports"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(kind, options, text):
    with pytest.raises(FabricError) as caught:
        network(kind, **options)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_more_racks_than_pods_hold_are_refused():
    with pytest.raises(FabricError, match="k = 4: 16 racks of 1 servers do not hold 17"):
        network("x-nest-plus", servers=17, k=4)


@pytest.mark.parametrize(
    ("kind", "options", "most"),
    [
        # what does not fit a slot by a packet waits for the next one of its pair
        ("rotornet", {"relay": False}, 1.05),
        ("rotornet", {}, 1.2),
        ("opera", {}, 1.2),
        ("opera", {"bulk_bytes": 0}, 1.2),
        ("helios", {"dark_s": 1e-4, "epoch_s": 1e-3}, 1.1),
        ("x-nest-plus", {"dark_s": 1e-4, "epoch_s": 1e-3, "hello_s": 0.0}, 1.25),
    ],
)
def test_packets_take_about_as_long_as_flows(kind, options, most):
    tokens = np.full((SERVERS, SERVERS), 10_000_000, np.uint32)
    np.fill_diagonal(tokens, 0)
    step = graph([Steps().all_to_all(first=True)], members=SERVERS, tokens=[tokens])
    racks = network(kind, **options)
    flows = simulate(step, racks)
    packets = simulate(step, racks, network_model=Packets("ideal"))
    assert packets.purpose_bytes == flows.purpose_bytes
    assert packets.packet_hops > SERVERS * (SERVERS - 1) * 10_000_000 / 4096 * 3
    assert 0.95 < packets.step_time_s / flows.step_time_s < most
    again = simulate(step, racks, network_model=Packets("ideal"))
    assert again.run_hash == packets.run_hash
    with pytest.raises(FabricError, match="change by the clock"):
        Phases(racks, Packets("ideal"))


@pytest.mark.parametrize("kind", ["rotornet", "opera", "helios", "x-nest-plus"])
def test_a_bill_counts_both_ends_of_every_link(kind):
    cluster = Cluster.of(gpus=8 * SERVERS, rate_gbps=400, gpu="h100")
    bill = load_fabric(kind).bill_of_materials(cluster)
    optical = bill.count("ocs_port")
    assert optical == {"rotornet": 64, "opera": 64, "helios": 48, "x-nest-plus": 64 * 4}[kind]
    electrical = {"helios": 16, "x-nest-plus": 2 * 4 * 2}.get(kind, 0)
    assert bill.count("nic") == 64
    assert bill.count("eps_port") == 64 + optical + 2 * electrical
    assert bill.count("transceiver") == 2 * (64 + electrical) + optical
    assert bill.count("fiber") == 64 + electrical + optical


@pytest.mark.parametrize(("servers", "k"), [(16, 4), (17, 6), (36, 6), (64, 8), (256, 16)])
def test_pods_are_as_few_as_hold_the_racks(servers, k):
    cluster = Cluster.of(gpus=8 * servers, rate_gbps=400, gpu="h100")
    fabric = load_fabric("x-nest-plus")
    part = fabric.network(cluster).parts[0]
    if servers != k * k:
        return
    # The paper's counts: 2qk core switches of k ports, k^2 / 4 electrical links in each of k pods.
    q = k // 4
    core = sum(count for racks, count in part.banks if racks[1] - racks[0] == k)
    pods = sum(count for racks, count in part.banks if racks[1] - racks[0] == 1)
    assert (core, pods) == (2 * q * k, 2 * q * k)
    assert len(part.cables) == k * k**2 // 4
    assert {len(racks) for racks, _ in part.banks} == {k}
