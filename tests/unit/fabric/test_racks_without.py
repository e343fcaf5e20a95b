"""Racks that lack parts, and what X-NEST and Flexfly are as options of X-NEST+."""

import numpy as np
import pytest
from tests.closed_form.test_rack_fabrics import SERVERS, network, send_s
from tests.simulate_graphs import Steps, graph

from lightloom.errors import FabricError
from lightloom.fabric import Cluster, load_fabric
from lightloom.simulate import simulate

RACKS = ("rotornet", "opera", "helios", "x-nest-plus")
FAST = {
    "rotornet": {},
    "opera": {},
    "helios": {"dark_s": 1e-5, "epoch_s": 1e-4},
    "x-nest-plus": {"dark_s": 1e-5, "epoch_s": 1e-4, "hello_s": 1e-5},
}


def part(kind, **options):
    return network(kind, **options).parts[0]


def switches(kind, **options):
    return sum(count for _, count in part(kind, **options).banks)


def all_to_all(kind, **options):
    """All servers send to each other: the step, and the bytes that crossed racks."""
    programs = [Steps().all_to_all(size=1000)]
    tokens = np.full((1, SERVERS, SERVERS), 500) * (1 - np.eye(SERVERS, dtype=int))
    own = network(kind, **FAST[kind], **options)
    run = simulate(graph(programs, members=SERVERS, tokens=tokens), own)
    between = {k: v for k, v in run.purpose_bytes["ep"].items() if k not in ("nvswitch", "relayed")}
    return run.step_time_s, sum(between.values())


@pytest.mark.parametrize("kind", RACKS)
def test_a_lost_circuit_switch_is_one_less(kind):
    assert switches(kind, failed="plane:0") == switches(kind) - 1
    assert part(kind, failed="server:3") == part(kind)


@pytest.mark.parametrize("kind", ["helios", "x-nest-plus"])
def test_a_lost_port_leaves_its_switch_to_the_others(kind):
    whole, without = part(kind), part(kind, failed="nic:1/0")
    ports = [sum(len(racks) * count for racks, count in one.banks) for one in (whole, without)]
    assert ports[0] - ports[1] == 1
    assert switches(kind, failed="nic:1/0") == switches(kind)
    own = [sum(count for racks, count in one.banks if 1 in racks) for one in (whole, without)]
    assert own[0] - own[1] == 1


@pytest.mark.parametrize("kind", ["rotornet", "opera"])
def test_a_rotor_without_a_port_is_taken_out(kind):
    assert part(kind, failed="nic:1/0") == part(kind, failed="plane:0")


@pytest.mark.parametrize("kind", RACKS)
@pytest.mark.parametrize("failed", ["plane:1", "nic:2/1"])
def test_bytes_arrive_whatever_is_lost(kind, failed):
    whole_s, sent = all_to_all(kind)
    without_s, also_sent = all_to_all(kind, failed=failed)
    assert also_sent == sent == SERVERS * (SERVERS - 1) * 500_000
    # circuits that are decided on otherwise may be better by chance
    assert without_s > 0.8 * whole_s


@pytest.mark.parametrize("kind", RACKS)
@pytest.mark.parametrize("failed", ["plane:99", "nic:0/99", "nic:99/0", "server:8"])
def test_parts_that_are_not_there_are_refused_in_one_line(kind, failed):
    with pytest.raises(FabricError, match=r"failed: .*: expected parts of 8 servers") as caught:
        network(kind, failed=failed)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", RACKS)
def test_nics_of_a_packet_fabric_are_no_part_of_racks(kind):
    with pytest.raises(FabricError, match="all NICs are on rack switches"):
        load_fabric(kind, {"failed": "eps:0/1"})


# ---- X-NEST and Flexfly


@pytest.mark.parametrize("variant", ["x-nest", "flexfly"])
def test_pods_of_older_networks_have_electrical_links_alone(variant):
    own = part("x-nest-plus", variant=variant)
    # k = 4: two pods of four racks, all of a pod joined; two core switches at each position
    assert len(own.cables) == 2 * 6
    assert own.banks == tuple(((place, place + 4), 2) for place in range(4))
    assert own.rules.policy == ("helios" if variant == "flexfly" else "x-nest-plus")
    cluster = Cluster.of(gpus=8 * SERVERS, rate_gbps=400, gpu="h100")
    bill = load_fabric("x-nest-plus", {"variant": variant}).bill_of_materials(cluster)
    # two circuits of eight fibers at each rack, electrical links of two NICs' rate
    assert bill.count("ocs_port") == 8 * 2 * 8
    assert bill.count("eps_port") == 64 + 8 * 2 * 8 + 2 * 12 * 2


@pytest.mark.parametrize("variant", ["x-nest", "flexfly"])
def test_bytes_within_a_pod_are_electrical_and_between_pods_optical(variant):
    own = {"variant": variant, "dark_s": 1e-3, "epoch_s": 10.0, "hello_s": 0.0}
    size, nic = 10_000_000_000, 50e9
    within, across, far = (send_s(to, size, "x-nest-plus", **own) for to in (1, 4, 5))
    # one electrical link of a quarter of the NICs, and circuits of all of them, dark at first
    assert within == pytest.approx(size / (2 * nic) + 3e-6, abs=1e-9)
    assert across == pytest.approx(1e-3 + size / (8 * nic) + 3e-6, abs=1e-9)
    assert far == pytest.approx(1e-3 + size / (2 * nic) + 3e-6, abs=1e-9)


@pytest.mark.parametrize("variant", ["x-nest", "flexfly"])
@pytest.mark.parametrize("pod", [1, 2, 3])
def test_circuits_follow_bytes_to_other_positions(variant, pod):
    """What needs an electrical link as well counts for circuits that would take it."""
    options = {"variant": variant, "dark_s": 1e-5, "epoch_s": 1e-3, "hello_s": 0.0, "fibers": 1}
    size, nic = 20_000_000_000, 50e9
    programs = [Steps() for _ in range(16)]
    receiver = 4 * pod + 1
    programs[0].send(receiver, 0, size)
    programs[receiver].receive(0, 0)
    run = simulate(graph(programs), network("x-nest-plus", servers=16, halves=False, **options))
    # both circuits of a position join the two pods as soon as that is measured
    assert run.step_time_s == pytest.approx(size / (2 * nic), rel=0.02)


def test_circuits_in_pods_are_refused_where_there_are_none():
    with pytest.raises(FabricError, match="r = 2: x-nest has no circuits within pods") as caught:
        load_fabric("x-nest-plus", {"variant": "x-nest", "r": 2})
    assert "\n" not in str(caught.value)
    with pytest.raises(FabricError, match="variant = xnest: expected one of"):
        load_fabric("x-nest-plus", {"variant": "xnest"})


def test_the_rule_of_hops_runs_in_the_fabric():
    by_hops, sent = all_to_all("x-nest-plus", rule="hops")
    by_weight, also_sent = all_to_all("x-nest-plus")
    assert sent == also_sent
    assert by_hops < 1.2 * by_weight
    assert part("x-nest-plus", rule="hops").rules.rule == "hops"
