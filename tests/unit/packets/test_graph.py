"""Networks link by link: files of links and circuits, routes by names."""

import pytest

from lightloom.errors import InputError
from lightloom.packets import NetworkTable, PacketScenario, make_flows, simulate_flows
from lightloom.packets.graph import NetworkGraph, read_circuits, read_links, routes_of
from lightloom.packets.settings import topology_of

RING = "a,b,rate_gbps,delay_us\n0,n,,\n1,e,200,\nw,2,,3\nn,e,,\nn,e,,\ne,w,,\n"


def line(call, *arguments):
    with pytest.raises(InputError) as caught:
        call(*arguments)
    return str(caught.value)


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "x.csv"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def ring(tmp_path):
    path = tmp_path / "ring.csv"
    path.write_text(RING)
    return NetworkTable(hosts=3, rate_gbps=100, links=path)


def test_links_of_a_file(file):
    found = read_links(file(RING), 3, 100.0, 1e-6)
    assert found["switches"] == ["n", "e", "w"]
    first, second, rates_bps, delays_ps = zip(*found["links"], strict=True)
    assert first == (0, 1, 5, 3, 3, 4)
    assert second == (3, 4, 2, 4, 4, 5)
    assert [rate // 10**9 for rate in rates_bps] == [100, 200, 100, 100, 100, 100]
    assert [delay // 10**6 for delay in delays_ps] == [1, 1, 3, 1, 1, 1]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("", "0 links; expected 1 to 65,536"),
        ("0,s,1,1\n3,s,1,1", "line 3: host 3: expected 0 to 2, or the name of a switch"),
        ("0,s,1,1\n9999999999999999,s,1,1", "line 3: host 9999999999999999: expected 0 to 2, or "
         "the name of a switch"),
        ("0,-1,1,1", "line 2: node -1: expected the number of a host, or a name of up to 64 "
         "characters that begins with a letter and has no spaces"),
        ("0,s s,1,1", "line 2: node s s: expected the number of a host, or a name of up to 64 "
         "characters that begins with a letter and has no spaces"),
        ("s,s,1,1", "line 2: both ends are node s; expected another b"),
        ("0,s,0,1", "line 2: rate_gbps 0: expected 0.001 to 100,000"),
        ("0,s,fast,1", "line 2, cell 3: expected a number, got fast"),
        ("0,s,1,-1", "line 2: delay_us -1: expected 0 to 1e+06"),
        ("0,s,1,1e300", "line 2: delay_us 1e+300: expected 0 to 1e+06"),
        ("0,s,1", "line 2: 3 cells, expected 4 as in the header"),
    ],
)  # fmt: skip
def test_wrong_links(file, rows, expected):
    path = file(f"a,b,rate_gbps,delay_us\n{rows}\n")
    text = line(read_links, path, 3, 100.0, 1e-6).replace("'", "")
    assert text.removeprefix(str(path)).lstrip(":, ") == expected


def test_routes_by_names(ring):
    graph = NetworkGraph(topology_of(ring))
    flows = make_flows([0, 0], [2, 1], 1, routes=["0 n e w 2", ""])
    starts, links = routes_of(flows, graph)
    # a duplex link is two; of the two between n and e the first is taken
    assert (starts.tolist(), links.tolist()) == ([0, 4, 4], [0, 6, 10, 4])
    assert graph.between("e", "n") == [7, 9]


def test_names_of_ready_made_topologies():
    def links(text, **network):
        graph = NetworkGraph(topology_of(NetworkTable(hosts=16, rate_gbps=100, **network)))
        return len(graph.route(text))

    assert links("0 tor-0 agg-1 core-3 agg-3 tor-2 4") == 6
    assert links("0 leaf-0 spine-3 leaf-1 9", topology="leaf-spine", hosts_per_leaf=8) == 4
    assert links("3 switch 9", topology="star") == 2
    assert links("0 nvswitch-0 1 rail-1 9", topology="rail") == 4


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ("0 n x w 2", "flows: flow 0: route 0 n x w 2: there is no node x"),
        ("0 n w 2", "flows: flow 0: route 0 n w 2: no link joins n and w"),
        ("n e w 2", "flows: flow 0: route n e w 2: expected the nodes from 0 to 2, both included"),
        ("0 n e", "flows: flow 0: route 0 n e: expected the nodes from 0 to 2, both included"),
        ("0", "flows: flow 0: route 0: expected the nodes from 0 to 2, both included"),
    ],
)
def test_wrong_routes(ring, route, expected):
    flows = make_flows(0, 2, 1, routes=[route])
    assert line(routes_of, flows, NetworkGraph(topology_of(ring))).replace("'", "") == expected
    with pytest.raises(InputError):
        simulate_flows(flows, PacketScenario(network=ring, transport="ideal", seed=1))


def test_routes_are_texts():
    for routes in (["0 1"], [5, 6], ["0 1", None]):
        wrong = line(lambda routes=routes: make_flows([0, 1], 2, 5, routes=routes))
        assert wrong == "flows: routes: expected a text for each of 2 flows"


def test_circuits_change_all_links_both_ways(file, ring):
    path = file("a,b,dark_us,up_us\nn,e,7,\ne,w,1,2\nw,e,3,4\n")
    changes = read_circuits(path, NetworkGraph(topology_of(ring)))
    us = 10**6
    assert changes == [
        *((us, link, True) for link in (10, 11)), *((2 * us, link, False) for link in (10, 11)),
        *((3 * us, link, True) for link in (11, 10)), *((4 * us, link, False) for link in (11, 10)),
        *((7 * us, link, True) for link in (6, 8, 7, 9)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("n,e,5,9\ne,n,9,10", "line 3: e and n are dark at 9 us already"),
        ("n,e,5,\nn,e,7,", "line 3: n and e are dark at 7 us already"),
        ("n,e,5,5", "line 2: up_us 5: expected a time after dark_us 5, up to 1e+09, or an empty "
         "cell for never"),
        ("n,e,-1,5", "line 2: dark_us -1: expected 0 to 1e+09"),
        ("n,e,nan,5", "line 2, cell 3: expected a number, got nan"),
        ("n,w,1,5", "line 2: no link joins n and w"),
        ("n,x,1,5", "line 2: there is no node x"),
    ],
)  # fmt: skip
def test_wrong_circuits(file, ring, rows, expected):
    path = file(f"a,b,dark_us,up_us\n{rows}\n")
    text = line(read_circuits, path, NetworkGraph(topology_of(ring))).replace("'", "")
    assert text.removeprefix(str(path)).lstrip(":, ") == expected
