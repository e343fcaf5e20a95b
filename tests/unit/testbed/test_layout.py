"""Names, addresses and lines of a testbed, without a kernel."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.errors import InputError
from lightloom.testbed import ServerLayout, commands
from lightloom.testbed.parts import parts_of


def layout_of(**changes):
    sizes = {"servers": 4, "nics": 4, "eps_nics": 1, "rate_gbps": 0.4, "eps_gbps": 0.2}
    return ServerLayout(**(sizes | changes))


@st.composite
def layouts(draw):
    nics = draw(st.integers(1, 16))
    return layout_of(
        servers=draw(st.integers(2, 64)), nics=nics, eps_nics=draw(st.integers(1, nics))
    )


@given(layouts())
def test_no_two_nics_share_a_name_an_address_or_a_port(layout):
    """A server whose number runs into another one's in an address of two digits."""
    nics = list(layout.all_nics())
    assert len(nics) == layout.servers * layout.nics
    for name in ("part", "address", "mac", "port"):
        assert len({getattr(nic, name) for nic in nics}) == len(nics), name
    assert len({(nic.server, nic.device) for nic in nics}) == len(nics)
    # what the kernel takes: 15 characters, and bytes
    assert all(len(nic.port) <= 15 for nic in nics)
    assert all(0 <= int(byte) <= 255 for nic in nics for byte in nic.address.split("."))
    assert all(re.fullmatch("02(:[0-9a-f]{2}){5}", nic.mac) for nic in nics)


@given(layouts())
def test_ports_of_the_circuit_switch_are_all_used_once(layout):
    """A controller's port map in which two NICs are at one port."""
    optical = [nic for nic in layout.all_nics() if nic.is_optical]
    assert [layout.ingress_of(nic) for nic in optical] == list(range(1, layout.ports + 1))
    assert [layout.nic_at(layout.ingress_of(nic)) for nic in optical] == optical


def test_the_sum_of_rates_counts_every_nic():
    assert layout_of().sum_gbps == pytest.approx(4 * (3 * 0.4 + 0.2))
    assert layout_of(nics=2, eps_nics=2).sum_gbps == pytest.approx(4 * 2 * 0.2)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"servers": 0}, "servers 0: expected 2 to 64"),
        ({"servers": 65}, "servers 65: expected 2 to 64"),
        ({"nics": 0}, "nics 0: expected 1 to 16"),
        ({"nics": 2, "eps_nics": 3}, "eps_nics 3: expected 1 to 2"),
        ({"eps_nics": 0}, "eps_nics 0: expected 1 to 4"),
        ({"ranks_per_server": 0}, "ranks_per_server 0: expected 1 to 16"),
        ({"rate_gbps": 1e-6}, "rate 1e-06 Gb/s: expected 1 Mb/s to 100 Gb/s"),
        ({"eps_gbps": 1000.0}, "eps_rate 1000 Gb/s: expected 1 Mb/s to 100 Gb/s"),
    ],
)
def test_impossible_sizes_are_refused(changes, expected):
    with pytest.raises(InputError) as problem:
        layout_of(**changes)
    assert str(problem.value) == expected


def test_parts_are_called_as_a_controller_calls_them():
    layout = layout_of()
    (nic,) = parts_of("nic:2/1", layout)
    assert (nic.server, nic.device, nic.port) == (2, "nic1", "s2nic1")
    assert parts_of("nic:2.1", layout) == parts_of("link:2/1", layout) == (nic,)
    (eps,) = parts_of("eps:0/0", layout)
    assert (eps.device, eps.rate_gbps) == ("eps0", 0.2)
    assert [nic.device for nic in parts_of("server:3", layout)] == ["eps0", "nic0", "nic1", "nic2"]
    assert parts_of("switch:ocs", layout) is None


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("nic:4/0", "nic:4/0: expected a server from 0 to 3"),
        ("nic:0/3", "nic:0/3: server 0 has 3 such NICs, counted from 0"),
        ("eps:0/1", "eps:0/1: server 0 has 1 such NICs, counted from 0"),
        ("server:4", "server:4: expected a server from 0 to 3"),
        ("gpu:0/0", "part 'gpu:0/0': expected of nic:2/1"),
        ("switch:b", "part 'switch:b': expected of nic:2/1"),
        ("nick:0/0", "part 'nick:0/0': expected one of nic, "),
        ("nic:0", "part 'nic:0': expected of nic:2/1"),
    ],
)
def test_unknown_parts_are_refused(part, expected):
    with pytest.raises(InputError) as problem:
        parts_of(part, layout_of())
    assert str(problem.value).startswith(expected)
    assert "\n" not in str(problem.value)


def test_a_testbed_without_circuits_has_no_switch_that_could_fail():
    with pytest.raises(InputError, match="expected of nic"):
        parts_of("switch:ocs", layout_of(eps_nics=4))


def test_lines_for_a_small_testbed():
    """What the kernel is told, by hand: two servers, one NIC at each switch."""
    layout = layout_of(servers=2, nics=2)
    assert list(commands.cables(layout, "NS{}".format, optical=True)) == [
        "link add s0nic0 mtu 9000 type veth peer name nic0 address 02:4c:4c:01:00:00 mtu 9000 "
        "netns NS0",
        "link set s0nic0 multicast off up",
        "link add s1nic0 mtu 9000 type veth peer name nic0 address 02:4c:4c:01:01:00 mtu 9000 "
        "netns NS1",
        "link set s1nic0 multicast off up",
    ]
    assert list(commands.mirror_mounts(layout)) == [
        "qdisc add dev s0nic0 clsact",
        "qdisc add dev s1nic0 clsact",
    ]
    assert list(commands.shapers(layout, 1)) == [
        "qdisc add dev eps0 root handle 1: tbf rate 200000000bit burst 25000 limit 16777216",
        "qdisc add dev eps0 parent 1:1 pfifo_fast",
        "qdisc add dev nic0 root handle 1: tbf rate 400000000bit burst 50000 limit 16777216",
        "qdisc add dev nic0 parent 1:1 pfifo_fast",
    ]
    assert list(commands.stations(layout)) == [
        "fdb add 02:4c:4c:00:00:00 dev s0eps0 master static",
        "fdb add 02:4c:4c:00:01:00 dev s1eps0 master static",
    ]


@given(layouts())
def test_every_server_knows_every_other_nic_of_the_same_switch(layout):
    """A NIC that has to ask for an address: a circuit switch floods no question."""
    server = layout.servers - 1
    lines = list(commands.addresses(layout, server))
    known = {tuple(line.split()[2:7:2]) for line in lines if line.startswith("neigh")}
    own = [nic for nic in layout.all_nics() if nic.server == server]
    others = [nic for nic in layout.all_nics() if nic.server != server]
    assert known == {
        (other.address, other.mac, nic.device)
        for nic in own
        for other in others
        if nic.is_optical is other.is_optical
    }
    rules = [line for line in lines if line.startswith("rule")]
    assert {line.split()[3] for line in rules} == {nic.address for nic in own}


def test_a_shaper_may_send_at_once_what_passes_in_a_millisecond():
    """A burst of 70 kB, which let a small all-to-all pass at once; at least two frames."""
    bursts = {
        gbps: int(re.search(r"burst (\d+)", next(commands.shapers(layout, 0)))[1])
        for gbps in (0.001, 0.4, 10.0)
        for layout in [layout_of(eps_gbps=gbps)]
    }
    assert bursts == {0.001: 2 * 9014, 0.4: 50_000, 10.0: 1_250_000}
