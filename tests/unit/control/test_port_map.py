"""Port maps from CSV, NetBox and TOML: what they mean, and what is refused in which words."""

from pathlib import Path

import pytest
from tests.control_regions import region_of

from lightloom.control.decisions import RegionDecider
from lightloom.control.port_map import NicPair, NicPorts, PlacedConnect, PortMap, SwitchPort
from lightloom.control.port_map_files import parse_csv_map, parse_toml_map, read_port_map
from lightloom.control.refusals import PortMapError
from lightloom.control.switch import CrossConnect, PortSide, SwitchDescription

CSV = """server,nic,ingress,egress
# comment
a,0,1,9
a,1,2,10
b,0,3,11
b,1,4,12
"""
DUPLEX = "server,nic,port\na,0,1\nb,0,5\n"
PLANES = """server,nic,switch,ingress,egress
a,0,s0,1,5
a,1,s1,1,5
b,0,s0,2,6
b,1,s1,2,6
"""
NETBOX = """side_a_device,side_a_type,side_a_name,side_b_device,side_b_type,side_b_name,status
ocs,dcim.frontport,1,node0,dcim.interface,opt0/tx,connected
node0,dcim.interface,opt0/rx,ocs,dcim.frontport,9,connected
node1,dcim.interface,opt0/tx,ocs,dcim.frontport,2,connected
node1,dcim.interface,opt0/rx,ocs,dcim.frontport,10,Connected
node1,dcim.interface,opt1/tx,ocs,dcim.frontport,3,planned
node1,dcim.interface,eth0,tor,dcim.interface,7,connected
"""


def csv_map(text, *switches):
    return parse_csv_map(text.encode(), "ports.csv", switches or ("ocs",))


def test_a_circuit_is_two_cross_connects_over_crossed_fibers():
    ports = csv_map(CSV)
    assert ports.servers == ("a", "b")
    assert ports.nics_per_server == (2, 2)
    assert (ports.planes, ports.is_duplex, ports.switches) == (None, False, ("ocs",))
    assert ports.owned("ocs") == frozenset({"1", "2", "3", "4", "9", "10", "11", "12"})
    assert ports.cross_connects(NicPair(0, 0, 1, 1)) == (
        PlacedConnect("ocs", CrossConnect("1", "12")),
        PlacedConnect("ocs", CrossConnect("4", "9")),
    )


def test_a_duplex_circuit_is_one_cross_connect_in_either_order():
    ports = csv_map(DUPLEX)
    assert ports.cross_connects(NicPair(0, 0, 1, 0)) == (
        PlacedConnect("ocs", CrossConnect("1", "5")),
    )
    for connect in (CrossConnect("1", "5"), CrossConnect("5", "1")):
        assert ports.observe({"ocs": [connect]}).circuits == {NicPair(0, 0, 1, 0)}
        assert ports.canonical("ocs", connect) == CrossConnect("1", "5")


def test_cross_connects_mean_circuits_strangers_and_crossings():
    ports = csv_map(CSV)
    seen = ports.observe(
        {
            "ocs": [
                CrossConnect("1", "12"),
                CrossConnect("4", "9"),
                CrossConnect("2", "11"),  # one direction only
                CrossConnect("3", "20"),  # to a port of somebody else
                CrossConnect("21", "22"),  # of somebody else
            ]
        }
    )
    assert seen.circuits == {NicPair(0, 0, 1, 1)}
    assert seen.strangers == {PlacedConnect("ocs", CrossConnect("2", "11"))}
    assert seen.crossing == {PlacedConnect("ocs", CrossConnect("3", "20"))}
    loop = ports.observe({"ocs": [CrossConnect("1", "10"), CrossConnect("2", "9")]})
    assert loop.circuits == frozenset()
    assert len(loop.strangers) == 2


def test_light_that_runs_the_wrong_direction_is_no_circuit():
    ports = csv_map(CSV)
    seen = ports.observe({"ocs": [CrossConnect("12", "1"), CrossConnect("9", "4")]})
    assert seen.circuits == frozenset()
    assert len(seen.strangers) == 2


def test_planes():
    ports = csv_map(PLANES, "s0", "s1")
    assert (ports.planes, ports.switches) == ("duplex", ("s0", "s1"))


def crossed_map(receives, servers=2):
    """NIC i of every server sends into switch i, and receives from the switch given for it."""
    return PortMap(
        "ports.csv",
        tuple("abcdef"[:servers]),
        tuple(
            NicPorts(
                server,
                nic,
                SwitchPort(f"s{nic}", f"in{server}"),
                SwitchPort(f"s{far}", f"out{server}"),
            )
            for server in range(servers)
            for nic, far in enumerate(receives)
        ),
    )


def test_crossed_fibers():
    ports = crossed_map([1, 0])
    assert ports.planes == "crossed"
    assert ports.cross_connects(NicPair(0, 0, 1, 1)) == (
        PlacedConnect("s0", CrossConnect("in0", "out1")),
        PlacedConnect("s1", CrossConnect("in1", "out0")),
    )


@pytest.mark.parametrize("receives", [[1, 0, 2], [1, 0, 3, 2, 4]])
def test_the_last_of_an_odd_number_of_crossed_fibers_is_not(receives):
    ports, last = crossed_map(receives), len(receives) - 1
    assert ports.planes == "crossed"
    assert ports.cross_connects(NicPair(0, last, 1, last)) == (
        PlacedConnect(f"s{last}", CrossConnect("in0", "out1")),
        PlacedConnect(f"s{last}", CrossConnect("in1", "out0")),
    )


@pytest.mark.parametrize("receives", [[1, 2, 0], [0, 2, 1], [0, 1, 3, 2], [2, 1, 0]])
def test_fibers_that_are_crossed_otherwise_are_refused(receives):
    with pytest.raises(PortMapError, match=r"NICs 2j and 2j \+ 1 crossed and the last of an odd"):
        crossed_map(receives)


def test_all_nics_of_an_odd_number_are_used():
    ports = crossed_map([1, 0, 2], servers=6)
    circuits = RegionDecider(region_of(), ports).start()
    assert ports.observe(observed_of(ports, circuits)).circuits == circuits
    ends = [end for c in circuits for end in ((c.server, c.nic), (c.peer, c.peer_nic))]
    assert sorted(ends) == [(server, nic) for server in range(6) for nic in range(3)]


def observed_of(ports, circuits):
    """What the switches hold that have made these circuits."""
    connects = {switch: [] for switch in ports.switches}
    for circuit in circuits:
        for placed in ports.cross_connects(circuit):
            connects[placed.switch].append(placed.cross_connect)
    return connects


def test_netbox_cables_in_either_direction_are_nics():
    ports = csv_map(NETBOX)
    assert ports.servers == ("node0", "node1")
    assert ports.nics == (
        NicPorts(0, 0, SwitchPort("ocs", "1"), SwitchPort("ocs", "9")),
        NicPorts(1, 0, SwitchPort("ocs", "2"), SwitchPort("ocs", "10")),
    )


def test_netbox_interfaces_are_numbered_in_natural_order():
    rows = [f"n{server},eth{nic},ocs,{port}" for server, nic, port in ((0, 10, 1), (0, 9, 2))]
    ports = csv_map("side_a_device,side_a_name,side_b_device,side_b_name\n" + "\n".join(rows))
    assert [(entry.nic, entry.ingress.port) for entry in ports.nics] == [(0, "2"), (1, "1")]


def test_toml_and_csv_say_the_same(tmp_path: Path):
    rows = [line.split(",") for line in CSV.splitlines()[2:]]
    text = "".join(
        f'[[nic]]\nserver = "{server}"\nnic = {nic}\ningress = "{i}"\negress = "{e}"\n'
        for server, nic, i, e in rows
    )
    (tmp_path / "ports.toml").write_text(text)
    (tmp_path / "ports.csv").write_text(CSV)
    maps = [read_port_map(tmp_path / f"ports.{kind}", ["ocs"]) for kind in ("toml", "csv")]
    assert maps[0].nics == maps[1].nics
    (tmp_path / "ports.txt").write_text(CSV)
    with pytest.raises(PortMapError, match=r"expected a port map that ends in .csv or .toml$"):
        read_port_map(tmp_path / "ports.txt", ["ocs"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            CSV + "a,0,7,15\n",
            "ports.csv: NIC 0 of a is there 2 times; keep one",
        ),
        (
            CSV + "c,0,1,15\n",
            "ports.csv: port 1 of ocs is there twice: for NIC 0 of a and for NIC 0 of c",
        ),
        (
            CSV + "c,0,7,7\n",
            "ports.csv: NIC 0 of c has one port for both directions and NIC 0 of a has two; "
            "expected the same of all",
        ),
        (CSV + "c,1,7,15\n", "ports.csv: c has NICs 1: expected 0 to 0"),
        (
            CSV + "c,0,7,\n",
            "ports.csv, line 7: NIC 0 of c has no egress port; a NIC needs both directions",
        ),
        (CSV + "c,x,7,8\n", "ports.csv, line 7, cell 2: expected a number, got 'x'"),
        (
            "server,nic,switch,ingress,egress\na,0,osc,1,9\n",
            "ports.csv, line 2: switch 'osc': expected one of ocs",
        ),
        (
            "server,nic,ingres,egress\na,0,1,9\n",
            "ports.csv, line 1: no column is called 'ingres'; expected a header with the columns "
            "server, nic, switch, ingress, egress, egress_switch, port; did you mean 'ingress'?",
        ),
        ("server,nic,port\n", "ports.csv: no NIC is connected to a circuit switch"),
        ("", "ports.csv: the file is empty; expected a table of NICs and switch ports"),
        (
            "server,nic,port,ingress\na,0,1,2\n",
            "ports.csv, line 2: expected either port, or ingress and egress",
        ),
        (
            "side_a_device,side_a_name,side_b_device,side_b_name\nn,e0,tor,1\n",
            "ports.csv: no connected cable ends at ocs; do the names of the switches agree with "
            "NetBox?",
        ),
        (
            "side_a_device,side_a_name,side_b_device,side_b_name\nn,e0,ocs,1\nn,e0,ocs,2\n",
            "ports.csv, line 2: interface 'e0' of n has two cables; name the two fibers of a NIC "
            "with /tx and /rx",
        ),
        (
            "side_a_device,side_a_name,side_b_device,side_b_name\nocs,1,ocs,2\n",
            "ports.csv, line 2: the cable joins two circuit switches; expected a server",
        ),
    ],
)
def test_a_wrong_map_is_refused_in_one_line(text, message):
    with pytest.raises(PortMapError) as refusal:
        csv_map(text)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "server,nic,ingress,egress\na,0,1,2\n",
            "ports.csv, line 2: switch is missing; expected one of s0, s1",
        ),
        (
            "server,nic,switch,ingress,egress\na,0,s0,1,2\nb,0,s1,1,2\n",
            "ports.csv: NIC 0 of b sends into s1, that of another server sends into s0: with "
            "several switches, NIC i of every server belongs to switch i",
        ),
        (
            "server,nic,switch,ingress,egress\na,0,s0,1,2\na,1,s1,1,2\na,2,s1,3,4\n",
            "ports.csv: 3 NICs per server on 2 switches: expected one switch, or one per NIC",
        ),
        (
            "server,nic,switch,ingress,egress\na,0,s0,1,2\na,1,s1,1,2\nb,0,s0,3,4\n",
            "ports.csv: planes expect as many NICs at every server",
        ),
        (
            "server,nic,switch,ingress,egress,egress_switch\na,0,s0,1,2,s1\n",
            "ports.csv: no NIC sends into s1, but one receives from it",
        ),
    ],
)
def test_switches_that_are_no_planes_are_refused(text, message):
    with pytest.raises(PortMapError) as refusal:
        csv_map(text, "s0", "s1")
    assert str(refusal.value) == message


def test_toml_is_strict():
    with pytest.raises(PortMapError, match=r"^m: nic.0.server is missing; add it"):
        parse_toml_map(b"[[nic]]\nnic = 0\n", "m", ["ocs"])
    with pytest.raises(PortMapError, match=r"^m: unknown key 'nic.0.ingres'; did you mean"):
        parse_toml_map(b'[[nic]]\nserver="a"\nnic=0\ningres="1"\n', "m", ["ocs"])


def description(sides):
    return SwitchDescription("Polatis", "x", "1", (2, 2), sides)


def test_ports_are_checked_against_the_switch():
    nics = (NicPorts(0, 0, SwitchPort("ocs", "1"), SwitchPort("ocs", "3")),)
    ports = PortMap("m", ("a",), nics)
    sides = {"1": PortSide.INGRESS, "2": PortSide.INGRESS, "3": PortSide.EGRESS}
    ports.check_switch("ocs", description(sides))
    ports.check_switch("ocs", description(dict.fromkeys(sides, PortSide.ANY)))
    ports.check_switch("another", description({}))
    with pytest.raises(PortMapError) as refusal:
        ports.check_switch("ocs", description({"1": PortSide.INGRESS}))
    assert str(refusal.value) == "m: NIC 0 of a: ocs (Polatis 2x2) has no port '3'"
    swapped = {"1": PortSide.EGRESS, "3": PortSide.INGRESS}
    with pytest.raises(PortMapError) as refusal:
        ports.check_switch("ocs", description(swapped))
    assert str(refusal.value) == (
        "m: NIC 0 of a: port 1 of ocs is on the egress side, expected the ingress side; are the "
        "two fibers swapped?"
    )
