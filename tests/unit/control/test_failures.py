"""What follows from failures, case by case, as pure functions; and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.control_regions import pairs, port_map_of

from lightloom.control.delegates import delegates_as_json, delegates_of, gpu_of_nic
from lightloom.control.failures import (
    EpsRelay,
    GpuPlace,
    GpuReplacement,
    PartKind,
    RegionPart,
    RegionShape,
    check_part,
    failed_ports,
    parse_part,
    respond,
)
from lightloom.control.port_map import SwitchPort
from lightloom.control.switch import PortState, PortStatus
from lightloom.errors import InputError
from lightloom.schedule import Decider, Region

SHAPE = RegionShape([2, 2, 2, 2], eps_nics=2, gpus=8, spares=[GpuPlace(3, 7)], pool=8)
PLANES = RegionShape([2, 2, 2, 2], eps_nics=2, gpus=8, switches=("s0", "s1"))
HELD = pairs("0/0-1/0 0/1-2/0 2/1-3/0 1/1-3/1")


def response_to(*texts, shape=SHAPE, held=HELD):
    return respond([check_part(parse_part(text), shape) for text in texts], shape, held)


@pytest.mark.parametrize("kind", ["nic", "link", "transceiver"])
def test_whatever_ends_a_circuit_takes_one_nic(kind):
    response = response_to(f"{kind}:0/1")
    assert response.excluded.parts == "NIC 0/1"
    assert response.lost == tuple(pairs("0/1-2/0"))
    assert response.sentences() == [
        "excluded: NIC 0/1",
        "circuit 0/1-2/0 is lost; its bytes go over the EPS",
    ]


def test_a_port_is_the_nic_behind_it():
    ports = port_map_of(4, 2, 12)
    for port in ("4", "16"):
        part = check_part(parse_part(f"port:ocs/{port}"), SHAPE, ports)
        assert part == RegionPart(PartKind.NIC, 1, 1)


def test_a_switch_takes_its_plane_or_all_circuits():
    response = response_to("switch:s1", shape=PLANES, held=pairs("0/0-1/0 0/1-1/1"))
    assert response.excluded.parts == "plane 1"
    assert response.lost == tuple(pairs("0/1-1/1"))
    response = response_to("switch:ocs")
    assert len(response.excluded.nics) == 8
    assert set(response.lost) == HELD


def test_one_eps_nic_less_needs_no_relay_two_do():
    assert response_to("eps:0/0").relays == ()
    response = response_to("eps:0/0", "eps:0/1")
    assert response.relays == (EpsRelay(0, 1),)
    assert response.sentences()[-1] == "server 0 reaches the EPS through server 1"


def test_relays_are_shared_among_peers_and_use_only_those_that_reach_the_eps():
    response = response_to("eps:0/0", "eps:0/1", "eps:1/0", "eps:1/1")
    assert dict(response.relays) == {0: 2, 1: 3}
    response = response_to("eps:0/0", "eps:0/1", "nic:0/0", "nic:0/1")
    assert response.isolated == (0,)
    assert response.sentences()[-1] == "server 0 is isolated"


def test_a_gpu_is_replaced_in_the_region_and_then_from_the_pool():
    response = response_to("gpu:1/2", "gpu:0/0")
    assert response.replacements == (
        GpuReplacement(GpuPlace(0, 0), GpuPlace(3, 7)),
        GpuReplacement(GpuPlace(1, 2), GpuPlace(-1, 0)),
    )
    assert response.sentences() == [
        "GPU 0/0 is replaced by GPU 3/7, reached over the EPS",
        "GPU 1/2 is replaced by GPU 0 of the pool, reached over the EPS",
    ]


def test_a_backup_without_eps_is_reached_through_an_optical_peer():
    response = response_to("gpu:0/0", "eps:3/0", "eps:3/1")
    assert response.replacements == (GpuReplacement(GpuPlace(0, 0), GpuPlace(3, 7), 1),)
    assert "reached through server 1" in response.sentences()[-1]


def test_a_server_is_replaced_by_the_pool_alone():
    response = response_to("server:1")
    assert response.excluded.servers == (1,)
    assert [swap.backup.server for swap in response.replacements] == [-1] * 8
    assert not response.unreplaced
    response = response_to("server:1", "server:3")
    assert len(response.unreplaced) == 7  # the spare GPU of server 3 did nothing
    assert response.sentences()[-1] == "GPU 3/6 has no backup"


def test_a_spare_that_fails_needs_no_backup():
    assert response_to("gpu:3/7").replacements == ()


PARTS = st.one_of(
    st.builds(RegionPart, st.just(PartKind.NIC), st.integers(0, 3), st.integers(0, 1)),
    st.builds(RegionPart, st.just(PartKind.EPS_NIC), st.integers(0, 3), st.integers(0, 1)),
    st.builds(RegionPart, st.just(PartKind.GPU), st.integers(0, 3), st.integers(0, 7)),
    st.builds(RegionPart, st.just(PartKind.SERVER), st.integers(0, 3)),
)


@given(st.sets(PARTS, max_size=8))
def test_a_response_is_complete_and_never_uses_what_has_failed(parts):
    response = respond(parts, SHAPE, HELD)
    assert response == respond(sorted(parts, reverse=True), SHAPE, HELD)
    dead = set(response.excluded.servers)
    gpus = {GpuPlace(p.server, p.number) for p in parts if p.kind is PartKind.GPU}
    gpus |= {GpuPlace(server, gpu) for server in dead for gpu in range(8)}
    replaced = {swap.failed for swap in response.replacements} | set(response.unreplaced)
    assert replaced == gpus - {GpuPlace(3, 7)}
    backups = [swap.backup for swap in response.replacements]
    assert len(backups) == len(set(backups))
    assert not set(backups) & gpus
    assert all(backup.server not in dead for backup in backups)
    cut = {relay.server for relay in response.relays} | set(response.isolated)
    for relay in response.relays:
        assert relay.peer not in cut | dead
        alive = HELD - set(response.lost)
        assert any({relay.server, relay.peer} == set(pair.servers) for pair in alive)
    # and the decider accepts it
    region = Region(2, 400, 800, failed=response.excluded, eps_nics=2)
    decider = Decider(4, region, timing=0)
    decision = decider.decide(decider.start(), np.zeros((4, 4), np.uint64))
    for a, x, b, y in decision.nics.tolist():
        assert (a, x) not in response.excluded.nics
        assert (b, y) not in response.excluded.nics
        assert not {a, b} & dead


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nick:1/2", "nick:1/2': expected one of nic, link, transceiver, port, eps, gpu, server"),
        ("nic:1", "nic:1': expected of nic:2/1 (server/NIC), "),
        ("server:x", "server:x': expected of nic:2/1"),
        ("port:13", "port:13': expected of nic:2/1"),
        ("switch:", "switch:': expected of nic:2/1"),
        ("", "': expected one of nic, link"),
        ("nic:1/2", "nic:1/2: server 1 has 2, counted from 0"),
        ("gpu:0/8", "gpu:0/8: server 0 has 8, counted from 0"),
        ("eps:9/0", "eps:9/0: expected a server from 0 to 3"),
        ("switch:osc", "switch:osc: expected a switch of ocs"),
        ("port:ocs/99", "port:ocs/99: no NIC of the region is at this port"),
    ],
)
def test_a_part_that_is_not_there_is_refused(text, message):
    with pytest.raises(InputError) as refusal:
        check_part(parse_part(text), SHAPE, port_map_of(4, 2, 12))
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "text", ["nic:2/1", "eps:0/1", "gpu:2/5", "server:3", "port:ocs/13", "switch:ocs"]
)
def test_parts_are_written_as_they_are_read(text):
    assert str(parse_part(text)) == text


def test_ports_tell_of_failures():
    ports = port_map_of(2, 1, 4)
    statuses = {
        SwitchPort("ocs", "1"): PortStatus("1", power_dbm=-50.0),
        SwitchPort("ocs", "6"): PortStatus("6", state=PortState.FAILED, power_dbm=-50.0),
    }
    assert list(map(str, failed_ports(ports, statuses, -40.0))) == ["nic:0/0", "nic:1/0"]
    assert list(map(str, failed_ports(ports, statuses, float("-inf")))) == ["nic:1/0"]
    assert failed_ports(ports, {}, -40.0) == []


def test_delegates_are_the_gpus_next_to_the_nics():
    assert [gpu_of_nic(nic, 4, 8) for nic in range(4)] == [0, 2, 4, 6]
    delegates = delegates_of(pairs("0/1-2/3 0/2-2/0"), {0: 4, 2: 4}, 8)
    assert delegates.keys() == {(0, 2), (2, 0)}
    assert [tuple(delegate) for delegate in delegates[0, 2]] == [(1, 2, 3, 6), (2, 4, 0, 0)]
    assert [tuple(delegate) for delegate in delegates[2, 0]] == [(3, 6, 1, 2), (0, 0, 2, 4)]
    plain = delegates_as_json(delegates, [EpsRelay(5, 1)])
    assert plain["relays"] == [[5, 1]]
    assert plain["circuits"][0] == [0, 2, [[1, 2, 3, 6], [2, 4, 0, 0]]]
