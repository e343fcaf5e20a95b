"""The torus: shapes, links and routes by counting; uniform all-to-alls and sends by hand."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulate_graphs import GPU, Steps, graph, one_ring

from lightloom.cost import PartsCostModel
from lightloom.errors import FabricError
from lightloom.fabric import Cluster, Counting, FabricContext, MeanDemand
from lightloom.fabric.context import RingDemand
from lightloom.fabric.torus import Torus
from lightloom.fabric.torus_grid import EDGE, TorusGrid, box_of, most_even
from lightloom.hardware import load_power, load_prices
from lightloom.simulate import simulate
from lightloom.workload.task_graph import Layout

#: bytes per second of a link, seconds of its delay
RATE, LINK_S = 50e9, 1e-6
IDEAL = {"interconnect": "ideal", "link_delay_s": LINK_S}


def cluster(gpus, **others):
    return Cluster.of(gpus=gpus, rate_gbps=400, gpu="h100", **others)


def network(gpus, rings=(), **options):
    torus = Torus(**IDEAL, **options)
    servers = torus.adapt(cluster(gpus)).servers
    layout = Layout.grid(1, 1, servers, 1, np.arange(servers, dtype=np.uint32))
    demands = tuple(RingDemand(np.array(ring, np.uint32), 1.0) for ring in rings)
    context = FabricContext(layout, mean=lambda: MeanDemand(rings=demands))
    return torus.network(cluster(gpus), context)


def all_to_all_s(gpus, size, **options):
    """Every server sends ``size`` bytes to each other one."""
    own = network(gpus, **options)
    count = own.servers
    programs = [Steps().all_to_all(size=size)]
    tokens = np.ones((1, count, count)) - np.eye(count)
    each = graph(programs, members=count, tokens=tokens, gpus_per_worker=1)
    return simulate(each, own).step_time_s


# ---- links and routes


@pytest.mark.parametrize(
    ("gpus", "shape", "servers", "cubes"),
    [
        (8, (2, 2, 2), 1, 0),
        (16, (4, 2, 2), 2, 0),
        (24, (4, 4, 2), 4, 0),
        (48, (4, 4, 4), 8, 1),
        (64, (4, 4, 4), 8, 1),
        (100, (4, 4, 8), 16, 2),
        (512, (8, 8, 8), 64, 8),
        (1024, (8, 8, 16), 128, 16),
        (4096, (16, 16, 16), 512, 64),
    ],
)
def test_a_job_has_whole_cubes_or_a_box_of_one(gpus, shape, servers, cubes):
    torus = Torus()
    adapted = torus.adapt(cluster(gpus))
    grid = torus.grid(adapted)
    assert (grid.shape, grid.servers, grid.cubes) == (shape, servers, cubes)
    assert (adapted.servers, adapted.used_gpus) == (servers, gpus)
    assert torus.adapt(adapted) == adapted


grids = st.builds(
    TorusGrid,
    st.one_of(
        st.tuples(*[st.integers(1, 3).map(lambda cubes: EDGE * cubes)] * 3),
        st.sampled_from([(4, 4, 2), (4, 2, 2)]),
    ),
    st.sampled_from([(2, 2, 2), (2, 2, 1), (1, 1, 1)]),
).filter(lambda grid: grid.servers <= 128)


@given(grids)
@settings(deadline=None, max_examples=40)
def test_every_gpu_has_six_links_and_faces_meet_opposite_ones(grid):
    counts = grid.circuits()
    assert len(set(grid.places)) == grid.servers == len(grid.places)
    ends = np.zeros(grid.servers, int)
    for (a, b), count in counts.items():
        assert a < b
        ends[[a, b]] += count
    lost = sum(
        2 * links
        for length, links in zip(grid.size, grid.links, strict=True)
        if length == 1 and grid.goes_around
    )
    if grid.goes_around:
        assert set(ends) == {grid.ends_per_server - lost}
        # a line of one server has a circuit to itself, which carries nothing
        alone = grid.servers * lost // 2
        assert sum(counts.values()) + alone == grid.electrical + grid.optical
    else:
        assert sum(counts.values()) == grid.electrical
        assert grid.optical == 0


@given(grids, st.data())
@settings(deadline=None, max_examples=60)
def test_routes_are_shortest_in_order_and_over_links(grid, data):
    server = st.integers(0, grid.servers - 1)
    source, target = data.draw(server), data.draw(server)
    if source == target:
        return
    links = grid.circuits()
    apart = []
    for axis, length in enumerate(grid.size):
        distance = abs(grid.places[source][axis] - grid.places[target][axis])
        apart.append(min(distance, length - distance) if grid.goes_around else distance)
    ways = grid.routes(source, target)
    assert len({tuple(way) for way in ways}) == len(ways)
    ties = sum(
        grid.goes_around and length > 2 and 2 * distance == length
        for distance, length in zip(apart, grid.size, strict=True)
    )
    assert len(ways) == 2**ties
    for way in ways:
        assert (way[0], way[-1], len(way)) == (source, target, 1 + sum(apart))
        assert all((min(hop), max(hop)) in links for hop in itertools.pairwise(way))
        axes = [
            next(i for i in range(3) if grid.places[a][i] != grid.places[b][i])
            for a, b in itertools.pairwise(way)
        ]
        assert axes == sorted(axes)


@given(st.integers(1, 500))
def test_shapes_hold_their_gpus(count):
    assert math.prod(most_even(count)) == count
    box = box_of(count)
    assert math.prod(box) >= min(count, 64)
    assert math.prod(box) < 2 * min(count, 64)
    assert max(box) <= EDGE


# ---- times


@pytest.mark.parametrize(
    ("shape", "gpus_per_server"),
    [
        ("4x4x4", 1),
        ("4x4x8", 1),
        ("8x8x8", 8),
        ("8x8x16", 8),
        ("4x4x16", 2),
    ],
)
def test_a_uniform_all_to_all_takes_what_the_longest_lines_carry(shape, gpus_per_server):
    # N servers send B bytes to each other one. An even line of k servers carries, over each of its
    # 2k directed links, k^2 / 8 of what one of its servers sends to another; dimension order makes
    # that N / k pairs of servers: N B k / 8 over each link, of so many parallel ones.
    size = 1_000_000
    torus = Torus(shape=shape, gpus_per_server=gpus_per_server)
    gpus = math.prod(torus.shape)
    grid = torus.grid(torus.adapt(cluster(gpus)))
    assert all(length % 2 == 0 for length in grid.size)
    # around two servers there are twice the links, in both directions of one pair
    busiest = max(
        grid.servers * size * length / 8 / links
        for length, links in zip(grid.size, grid.links, strict=True)
    )
    found = all_to_all_s(gpus, size, shape=shape, gpus_per_server=gpus_per_server)
    hops = sum(length // 2 for length in grid.size)
    # GPUs gather what leaves over the faces of others, and scatter: nothing where each is a server
    inside = (gpus_per_server - 1) / gpus_per_server * (grid.servers - 1) * size
    local_s = 2 * inside / (gpus_per_server * GPU)
    latency_s = hops * LINK_S if gpus_per_server == 1 else (hops + 5) * LINK_S
    assert busiest / RATE <= found - local_s <= busiest / RATE + latency_s


def test_half_of_the_bisection_is_what_a_ring_of_four_takes():
    # By hand: four servers in a line around, 1 MB to each other one, links of one NIC. Each sends
    # 1 MB either way to its neighbors and .5 MB twice over two hops: 1 + 2 * .5 = 2 MB a link.
    grid = TorusGrid((4, 4, 4), (1, 4, 4))
    load = {}
    for a, b in itertools.permutations(range(4), 2):
        ways = grid.routes(a, b)
        for way in ways:
            for hop in itertools.pairwise(way):
                load[hop] = load.get(hop, 0) + 1 / len(ways)
    assert set(load.values()) == {2.0}


def send_s(gpus, to, size):
    own = network(gpus)
    programs = [Steps() for _ in range(own.servers)]
    programs[0].send(to, 0, size)
    programs[to].receive(0, 0)
    return simulate(graph(programs), own).step_time_s


def test_a_send_has_the_links_of_a_face_and_passes_servers():
    # 512 GPUs are 4 x 4 x 4 servers, four links from each to the next; server 1 is the next in x
    size = 100_000_000
    grid = TorusGrid((8, 8, 8), (2, 2, 2))
    face = size / (4 * RATE)
    next_, two_on = grid.numbers[1, 0, 0], grid.numbers[2, 0, 0]
    diagonal = grid.numbers[1, 1, 0]
    assert send_s(512, next_, size) == pytest.approx(face + LINK_S, abs=1e-9)
    # both ways around are as long
    assert send_s(512, two_on, size) == pytest.approx(face / 2 + 2 * LINK_S, abs=1e-9)
    assert send_s(512, diagonal, size) == pytest.approx(face + 2 * LINK_S, abs=1e-9)


def test_a_ring_goes_both_ways_around_all_servers():
    size, gpus = 800_000_000, 64
    everyone = range(8)
    own = network(gpus, rings=[everyone])
    programs = [Steps().ring(0, size).wait(0)]
    found = simulate(graph(programs, members=8, rings=[one_ring(8)]), own).step_time_s
    # 2 (n - 1) / n of the buffer over each hop, half either way; two links of a face, twice
    hop = 2 * 7 / 8 * size / 2
    assert found == pytest.approx(hop / (8 * RATE) + 14 * LINK_S, abs=1e-9)


# ---- parts


def test_the_published_machine_has_48_switches():
    # Jouppi et al., ISCA 2023, section 2: 64 cubes, 48 switches of 128 ports and 8 spare ones.
    bill = Torus().bill_of_materials(cluster(4096))
    (switches,) = bill.switches
    assert (switches.count, switches.ports, switches.used) == (48, 136, 48 * 128)
    assert bill.count("ocs_port") == bill.count("transceiver") == bill.count("fiber") == 48 * 128
    # in a cube four links of each face of 2 x 2 x 2 boxes join eight servers
    assert bill.count("dac") == 64 * 3 * 16
    assert bill.count("nic") == 512 * 24
    assert Torus(ends="chip").bill_of_materials(cluster(4096)).count("nic") == 0


def test_cost_and_power_are_those_of_the_parts():
    bill = Torus(ends="chip").bill_of_materials(cluster(64), Counting())
    prices, powers = load_prices(), load_power()
    model = PartsCostModel()
    total = model.capital_cost(bill, prices).total_usd
    more = Torus(ends="chip").bill_of_materials(cluster(128), Counting())
    assert model.capital_cost(more, prices).total_usd == pytest.approx(2 * total)
    assert model.power(more, powers).total_w == pytest.approx(2 * model.power(bill, powers).total_w)


def test_a_part_of_a_cube_has_copper_alone():
    bill = Torus().bill_of_materials(cluster(32))
    # four servers in a square of eight links a side
    assert {line.component: line.count for line in bill.lines} == {"nic": 32, "dac": 16}
    assert bill.switches == ()


# ---- wrong input


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"shape": "8x8"}, "shape = '8x8': expected GPUs along x, y and z"),
        ({"shape": "8x8x6"}, "shape = '8x8x6': expected GPUs along x, y and z"),
        ({"shape": [4, 4]}, "shape = [4, 4]: expected GPUs along x, y and z"),
        ({"shape": 4}, "shape = 4: expected GPUs along x, y and z"),
        ({"shape": "4x4x3"}, "shape = '4x4x3': expected GPUs along x, y and z"),
        ({"shape": "8x8x2"}, "shape = '8x8x2': expected GPUs along x, y and z"),
        ({"failed": "plane:0"}, "failed: all links are of one torus"),
        ({"failed": "eps:0/1"}, "failed: all links are of one torus"),
    ],
)
def test_what_is_no_torus_is_refused_in_one_line(options, text):
    with pytest.raises(FabricError) as caught:
        Torus(**options)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("gpus", "options", "text"),
    [
        (1024, {"shape": "8x8x8"}, "shape = 8x8x8: 512 GPUs: expected 1,024 or more"),
        (64, {"nics_per_server": 4}, "nics_per_server = 4: a torus has a link at each face"),
        (8, {"shape": "4x2x1"}, "shape = 4x2x1: expected whole servers, boxes of 2x2x2 GPUs"),
        (64, {"gpus_per_server": 6}, "gpus_per_server = 6: expected a box of a cube"),
        (64, {"gpus_per_server": 128}, "gpus_per_server = 128: expected a box of a cube"),
        (8192, {}, "128 cubes have 256 ports on each circuit switch (palomar), which has 128"),
        (64, {"failed": "server:8"}, "expected parts of 8 servers with 24 links"),
        (64, {"failed": "nic:0/24"}, "expected parts of 8 servers with 24 links"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(gpus, options, text):
    with pytest.raises(FabricError) as caught:
        Torus(**options).network(cluster(gpus))
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_larger_switches_join_more_cubes():
    assert Torus(technology="mems-3d").bill_of_materials(cluster(5120)).servers == 640
    assert Torus(ocs_ports=264).bill_of_materials(cluster(8192)).switches[0].count == 48


def test_a_lost_link_is_one_of_a_face():
    size = 100_000_000

    def seconds(failed):
        own = network(512, failed=failed)
        programs = [Steps() for _ in range(own.servers)]
        programs[0].send(1, 0, size)
        programs[1].receive(0, 0)
        return simulate(graph(programs), own).step_time_s

    assert seconds("nic:0/0") == pytest.approx(size / (3 * RATE) + LINK_S, abs=1e-9)
    assert seconds("server:1") == seconds(())


def test_a_shape_is_read_as_the_command_line_gives_it():
    assert Torus(shape="8x8x16").shape == Torus(shape=("8x8x16",)).shape == (8, 8, 16)


# ---- twisted

TWISTED = [(4, 4, 8), (4, 8, 8), (8, 4, 4)]


def links_of(grid):
    """Where one can go from each server, and by how many links."""
    neighbors = {number: {} for number in range(grid.servers)}
    for (a, b), count in grid.circuits().items():
        neighbors[a][b] = neighbors[b][a] = count
    return neighbors


def hops_from(neighbors, source):
    """Links to each server, breadth first."""
    hops, front = {source: 0}, [source]
    while front:
        after = {b: hops[a] + 1 for a in front for b in neighbors[a] if b not in hops}
        hops |= after
        front = list(after)
    return hops


def loads(grid):
    """Bytes over each link of an edge where each server sends one to every other.

    Seen from one server as from any, so that each link carries its share of an edge's.
    """
    carried = [0.0, 0.0, 0.0]
    for target in range(1, grid.servers):
        ways = grid.routes(0, target)
        for way in ways:
            for a, b in itertools.pairwise(grid.places[number] for number in way):
                # a link around a short edge, which comes first, leads along others as well
                edge = next(axis for axis in range(3) if a[axis] != b[axis])
                carried[edge] += 1 / len(ways) / 2
    return carried


@pytest.mark.parametrize("shape", TWISTED)
@pytest.mark.parametrize("box", [(1, 1, 1), (2, 2, 2), (4, 2, 1)])
def test_a_twisted_torus_has_as_many_links_and_the_shortest_ways(shape, box):
    grid, plain = TorusGrid(shape, box, twisted=True), TorusGrid(shape, box)
    neighbors = links_of(grid)
    for counts in neighbors.values():
        assert sum(counts.values()) == grid.ends_per_server
    # around an edge of one server a link joins it to itself, or twisted to another
    if 1 not in grid.size:
        assert sum(grid.circuits().values()) == sum(plain.circuits().values())
    for source in (0, 1, grid.servers // 2 + 1):
        hops = hops_from(neighbors, source)
        for target in range(grid.servers):
            for way in grid.routes(source, target):
                assert (way[0], way[-1]) == (source, target)
                assert len(way) == hops[target] + 1
                assert all(b in neighbors[a] for a, b in itertools.pairwise(way))


@pytest.mark.parametrize(
    ("shape", "plain_hops", "hops", "gain"),
    # the shapes that are given as examples for TPU v4 (docs.cloud.google.com/tpu/docs/v4)
    [((4, 4, 8), 8, 6, 128 / (220 / 3)), ((4, 8, 8), 10, 6, 256 / 184)],
)
def test_of_an_all_to_all_every_link_carries_the_same(shape, plain_hops, hops, gain):
    """All-to-alls of published sizes: the busiest link, and the most links between two."""
    grids = [TorusGrid(shape, (1, 1, 1), twisted) for twisted in (False, True)]
    most = [max(hops_from(links_of(grid), 0).values()) for grid in grids]
    assert most == [plain_hops, hops]
    plain, twisted = map(loads, grids)
    assert max(twisted) == pytest.approx(min(twisted))
    assert max(plain) == pytest.approx(max(shape) * math.prod(shape) / 8)
    assert max(plain) / max(twisted) == pytest.approx(gain)


@pytest.mark.parametrize("k", [4, 8])
def test_planes_between_halves_cut_twice_as_many_links(k):
    def least(twisted):
        grid = TorusGrid((k, k, 2 * k), (1, 1, 1), twisted)
        cuts = []
        for axis, edge in enumerate(grid.shape):
            half = [place[axis] < edge // 2 for place in grid.places]
            cuts.append(sum(n for (a, b), n in grid.circuits().items() if half[a] != half[b]))
        return min(cuts)

    assert (least(False), least(True)) == (2 * k * k, 4 * k * k)


def test_a_twisted_torus_is_faster_and_costs_the_same():
    size = 100_000_000
    own = {"shape": "4x4x8", "nvlink_gbps": 1e6}
    plain, twisted = (all_to_all_s(128, size, twist=on, **own) for on in (False, True))
    # 16 servers: of an all-to-all 8 and 4 1/3 times what one sends another cross the busiest side,
    # a face of four links
    assert plain == pytest.approx(8 * size / (4 * RATE), rel=1e-2)
    assert twisted == pytest.approx(13 / 3 * size / (4 * RATE), rel=1e-2)
    bills = [Torus(shape="4x4x8", twist=on).bill_of_materials(cluster(128)) for on in (False, True)]
    assert bills[0].lines == bills[1].lines


@pytest.mark.parametrize(
    ("gpus", "options"),
    [(512, {}), (16, {}), (64, {"shape": "4x4x4"}), (256, {"shape": "4x4x16"}), (384, {})],
)
def test_only_edges_of_two_lengths_can_be_twisted(gpus, options):
    torus = Torus(twist=True, **options)
    with pytest.raises(FabricError, match=r"torus: twist: a shape of \d+x\d+x\d+ GPUs: expected"):
        torus.network(cluster(gpus))
    assert "a twisted torus of 4x4x8" in Torus(twist=True).network(cluster(128)).notes[0]
