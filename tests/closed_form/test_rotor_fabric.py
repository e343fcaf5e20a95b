"""A fabric that is added from outside: circuits that rotate by the clock, against closed forms."""

import pytest
from tests.rotor_fabric import Rotor, rounds
from tests.simulate_graphs import Steps, graph

from lightloom.errors import FabricError
from lightloom.fabric import FABRICS, Cluster, load_fabric
from lightloom.fabric.interconnect import Interconnect
from lightloom.simulate import Packets, Phases, simulate

SERVERS = 4
HOLD_S, DARK_S, LINK_S = 100e-6, 10e-6, 1e-6
SLOT_S = HOLD_S + DARK_S
PERIOD_S = (SERVERS - 1) * SLOT_S
#: bytes per second of a circuit of 400 Gb/s
CIRCUIT = 50e9
#: payload and wire bytes of a packet
MTU, WIRE = 4096, 4160


@pytest.fixture
def rotor(monkeypatch):
    """Adds the fabric to those that are known by kind."""
    monkeypatch.setitem(FABRICS, Rotor.kind, Rotor)

    def network(**options):
        cluster = Cluster.of(gpus=8 * SERVERS, rate_gbps=400, gpu="h100")
        return load_fabric(
            "rotor", {"link_delay_s": LINK_S, "interconnect": "ideal", **options}
        ).network(cluster)

    return network


def slot_of(other):
    """The slot in which servers 0 and ``other`` are joined."""
    return next(slot for slot, pairs in enumerate(rounds(SERVERS)) if (0, other) in pairs)


def send(other, size, start_s=0.0):
    """Server 0 sends to another one, from some time on."""
    programs = [Steps() for _ in range(SERVERS)]
    programs[0].compute(start_s).send(other, 0, size)
    programs[other].receive(0, 0)
    return graph(programs)


def finished(other, needed_s, start_s):
    """When circuits have been lit for so long: slot by slot."""
    period = int(start_s // PERIOD_S)
    while True:
        lit = period * PERIOD_S + slot_of(other) * SLOT_S + DARK_S
        begin = max(lit, start_s)
        if begin + needed_s <= lit + HOLD_S:
            return begin + needed_s
        needed_s -= max(0.0, lit + HOLD_S - begin)
        period += 1


@pytest.mark.parametrize("other", [1, 2, 3])
@pytest.mark.parametrize("size", [1_000_000, 5_000_000, 12_345_678])
@pytest.mark.parametrize("start_s", [0.0, 55e-6, 400e-6, 1.2345])
def test_bytes_wait_for_the_slot_of_their_pair(rotor, other, size, start_s):
    run = simulate(send(other, size, start_s), rotor())
    expected = finished(other, size / CIRCUIT, start_s) + LINK_S
    assert run.step_time_s == pytest.approx(expected, abs=1e-9)
    assert run.purpose_bytes["pp"]["scheduled"] == size
    assert run.purpose_bytes["pp"]["eps"] == 0


def test_as_packets_they_wait_as_well(rotor):
    per_packet_s = WIRE / CIRCUIT
    per_slot = -(-HOLD_S // per_packet_s)
    for other in (1, 2, 3):
        for packets in (100, 1500):
            graph = send(other, packets * MTU)
            run = simulate(graph, rotor(), network_model=Packets(transport="ideal", full=True))
            slots, left = divmod(packets, per_slot)
            lit = slot_of(other) * SLOT_S + DARK_S + slots * PERIOD_S
            expected = lit + left * per_packet_s + LINK_S
            assert run.step_time_s == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("network_model", ["flow", Packets(transport="ideal", full=True)])
def test_several_rotors_are_as_much_faster(rotor, network_model):
    sizes = 4 * 200 * MTU
    one = simulate(send(1, sizes), rotor(), network_model=network_model)
    four = simulate(send(1, sizes), rotor(uplinks=4), network_model=network_model)
    lit = slot_of(1) * SLOT_S + DARK_S + LINK_S
    # as packets, flows begin on a grid of 100 ns, and four end one at a time
    allowed = 1e-6 if network_model == "flow" else 1e-3
    assert one.step_time_s - lit == pytest.approx(4 * (four.step_time_s - lit), rel=allowed)


def test_small_transfers_take_the_packet_nics(rotor):
    network = rotor(min_bytes=1_000_000)
    small = simulate(send(3, 999_999), network)
    assert small.step_time_s == pytest.approx(999_999 / (7 * CIRCUIT) + 2 * LINK_S, abs=1e-10)
    assert small.purpose_bytes["pp"]["eps"] == 999_999
    large = simulate(send(3, 1_000_000), network)
    assert large.purpose_bytes["pp"]["scheduled"] == 1_000_000
    assert large.step_time_s == simulate(send(3, 1_000_000), rotor()).step_time_s


def test_an_all_to_all_ends_with_the_last_slot_of_a_period(rotor):
    size = 1_000_000
    tokens = [[[size * (a != b) for b in range(SERVERS)] for a in range(SERVERS)]]
    run = simulate(graph([Steps().all_to_all()], members=SERVERS, tokens=tokens), rotor())
    # One delegate has an eighth of what it sends and gets the rest over the NVSwitch first.
    ideal = Interconnect.named("ideal", "h100")
    cluster = Cluster.of(gpus=8, rate_gbps=400, gpu="h100", interconnect=ideal)
    gpu = cluster.nvlink_gbps * 1e9 / 8
    scatter_s = ideal.nvlink_all_to_all_start_up_s + size * 7 / 8 / gpu
    last = PERIOD_S - HOLD_S + size / CIRCUIT + LINK_S + scatter_s
    assert run.step_time_s == pytest.approx(last, abs=1e-9)
    assert run.purpose_bytes["ep"]["scheduled"] == SERVERS * (SERVERS - 1) * size
    (used,) = run.links
    assert (used.name, used.links) == ("scheduled", SERVERS * (SERVERS - 1))
    # Each pair was lit for one slot, but for what of the last one the step did not wait for.
    assert used.carried_bytes == SERVERS * (SERVERS - 1) * size
    assert used.max == pytest.approx(size / CIRCUIT / (last - (PERIOD_S - HOLD_S)))


def test_phases_cannot_stand_for_what_changes_by_the_clock(rotor):
    with pytest.raises(FabricError, match="the circuits of scheduled change by the clock"):
        Phases(rotor(), Packets())


def test_a_wrong_schedule_is_refused(rotor):
    with pytest.raises(FabricError, match="slot 0 has no hold time"):
        simulate(send(1, 1000), rotor(hold_s=0.0))
