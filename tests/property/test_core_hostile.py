"""What hostile calls have found in the core; ``tests/fuzz`` makes random ones."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.fuzz.outcomes import refusal

from lightloom import _core
from lightloom.schedule import RelayCost, Ring, core_requests

U64 = np.uint64


def test_what_is_wrong_with_an_attribute_is_said_after_its_name():
    numbers = np.zeros(2, np.uint64)
    request = core_requests.CircuitRequest(
        np.zeros((2, 2)), numbers.astype(np.uint32), None, None, 1, numbers, True
    )
    with pytest.raises(TypeError) as caught:
        _core.schedule_port_bound(request)
    assert str(caught.value) == (
        "CircuitRequest.demand: expected a matrix of uint64, got float64 of shape [2, 2]"
    )
    request = request._replace(demand=np.zeros((3, 2), np.uint64))
    with pytest.raises(ValueError, match=r"^demand: expected 2 x 2 values, got 3 x 2$"):
        _core.schedule_port_bound(request)


def test_a_path_over_a_server_that_is_not_there_is_refused():
    nothing = np.zeros((0, 0), np.uint64)
    charges = RelayCost.free()
    request = core_requests.RoutingRequest(nothing, nothing.astype(np.uint16), 1, 1, charges)
    paths = np.array([[255, -1, 4, 1]], np.int32)
    with pytest.raises(ValueError, match=r"^a path over server 255: expected 0 to below 0$"):
        _core.schedule_relay_as(request, paths, np.ones(1), 0.0)


def test_views_are_as_good_as_copies():
    matrix = np.arange(16, dtype=np.uint64).reshape(4, 4)
    for view in (matrix.T, matrix[::-1], matrix[::2, ::2], np.asfortranarray(matrix)):
        args = (0, False, "bvn", None, 1, None)
        seen = _core.schedule_decompose(view, *args)
        copied = _core.schedule_decompose(np.ascontiguousarray(view), *args)
        assert seen["length_bytes"] == copied["length_bytes"]
        assert (seen["slots"][0] == copied["slots"][0]).all()


PAIR = np.array([[0, 1], [1, 0]])
MANY = 2**40


def epochs(switches, epoch_bytes, delay_bytes):
    return {"switches": switches, "epoch_bytes": epoch_bytes, "delay_bytes": delay_bytes}


def rotor(switches, slot_bytes, delay_bytes, held):
    options = {"slot_bytes": slot_bytes, "delay_bytes": delay_bytes, "held": held, "relay": held}
    return {"switches": switches, "cycling": "shared", **options}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("helios", (epochs(MANY, 100, 0),)),
        ("helios_matchings", (epochs(MANY, 100, 0),)),
        ("helios_step", (None, epochs(MANY, 100, 0), None)),
        ("xnest_plus", (epochs(MANY, 100, 0), "pairings")),
        ("xnest_plan", (MANY, "pairings", "greedy", None)),
        ("rotornet", (rotor(MANY, None, 0, True),)),
    ],
)
def test_more_switches_than_any_planner_takes_are_refused(name, arguments):
    call = getattr(_core, f"schedule_{name}")
    with pytest.raises(ValueError, match=rf"^{MANY} switches: expected at most 1024$"):
        call(PAIR.astype(U64), *arguments)


def test_a_schedule_that_claims_many_switches_is_refused():
    claim = SimpleNamespace(
        slots=(np.array([[1, 0]], np.int32), np.ones(1, U64)), switches=MANY,
        switch_of_slot=np.zeros(1, np.int32), transfers=None, delay_bytes=0, partial=False,
        length_bytes=1, lower_bound_bytes=1,
    )  # fmt: skip
    with pytest.raises(ValueError, match=rf"^{MANY} switches: expected at most 1024$"):
        _core.schedule_check_decomposition(PAIR.astype(U64), claim)


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_a_claimed_round_robin_needs_two_nodes_and_as_many_switches_as_there_can_be(nodes):
    claim = SimpleNamespace(
        turns=np.zeros(1, U64), holds_bytes=np.ones(1, U64), moves=np.zeros((0, 6), U64),
        length_bytes=1, largest_line_bytes=0, switches=MANY if nodes == 3 else 1, slot_bytes=None,
        delay_bytes=0, held=False, relay=False, cycling="shared",
    )  # fmt: skip
    expected = [
        "a rotor needs 2 nodes, a switch and slots of a byte or more",
        None,
        f"{MANY} switches: expected at most 1024",
    ]
    demand = np.zeros((nodes, nodes), U64)
    assert refusal(_core.schedule_check_rotornet, demand, claim) == expected[nodes - 1]


@pytest.mark.parametrize(
    ("call", "arguments", "text"),
    [
        ("helios", (epochs(1, 100, 0),), "16384 epochs of 100 bytes do not serve"),
        (
            "rotornet",
            (rotor(1, 100, 0, False),),
            "65536 slots of 100 bytes, or 1048576 moves, do not serve",
        ),
    ],
)
def test_what_takes_long_is_refused_at_once(call, arguments, text):
    demand = PAIR.astype(U64) * U64(10**9)
    line = refusal(getattr(_core, f"schedule_{call}"), demand, *arguments)
    assert line == f"{text} this demand"


def map_pair(count, ports, numa_nodes):
    """Map parallel circuits of two servers to NICs."""
    circuits, none = PAIR.astype(np.uint16) * np.uint16(count), np.zeros((0, 4), np.uint32)
    working = np.ones((2, ports), np.bool_)
    return _core.schedule_map_nics(
        circuits, np.full(2, ports, np.uint32), working, numa_nodes, none
    )


def test_nodes_beyond_nics_change_nothing_and_are_bounded():
    found = [map_pair(2, 3, nodes).tolist() for nodes in (3, 4, 1_024)]
    assert found[0] == found[1] == found[2] == [[0, 0, 1, 0], [0, 1, 1, 1]]
    for nodes in (0, 1_025, 2**32 - 1):
        text = rf"^numa_nodes: expected 1 to 1024, got {nodes}$"
        with pytest.raises(ValueError, match=text):
            map_pair(2, 3, nodes)


def test_a_server_of_most_nics_is_mapped_at_once():
    """Some 10^5 steps, not one per pair of NICs."""
    found = map_pair(65_535, 65_535, 2)
    assert (np.sort(found[:, 1]) == np.arange(65_535)).all()


def test_vertices_are_numbered_without_large_gaps():
    edges = np.array([[0, 65_599]], np.uint32)
    assert _core.schedule_color_edges(edges, None).tolist() == [0]
    with pytest.raises(ValueError, match=r"vertices below 65600, as there are 1 edges$"):
        _core.schedule_color_edges(edges + np.uint32(1), None)


@pytest.mark.parametrize(
    ("servers", "degree"), [(2**20 + 1, 1), (2, 2**16 + 1), (2**20, 17), (2**32 - 1, 2**32 - 1)]
)
def test_a_topology_has_a_bounded_number_of_ports(servers, degree):
    none = np.zeros(0, np.uint32)
    demand = none, none, none.astype(U64)
    request = servers, degree, 2**32 - 1, [], "one", demand, none
    line = f"{servers} servers with {degree} ports each: expected at most 1048576 with 65536 each"
    assert refusal(_core.schedule_topoopt, *request) == f"{line}, 16777216 in all"


def test_any_number_of_routes_may_be_asked_for():
    ends = np.array([0, 1], np.uint32)
    demand = ends, ends[::-1].copy(), np.ones(2, U64)
    request = 3, 2, 2**32 - 1, [], "one", demand, ends[:0]
    assert len(_core.schedule_topoopt(*request)["route_servers"]) >= 4


def test_phases_may_have_any_number_but_are_those_of_all_entries():
    ends, last = np.array([0, 1, 2], np.uint32), 2**32 - 1
    rings = [Ring([0, 1, 2], 2**64 - 1, last), Ring([0, 2], 1, 7)]

    def request(phases):
        sizes = np.array([1, 2**64 - 1, 2**63], U64)
        phases = np.array(phases, np.uint32)
        return 3, 4, 2, rings, "one", (ends, ends[[1, 2, 0]], sizes), phases

    found = _core.schedule_topoopt(*request([last, 0, last]))
    assert found["busiest_bytes"].shape == (4,)
    assert np.isfinite(found["busiest_bytes"]).all()
    line = "2 phases for 3 entries of demand"
    assert refusal(_core.schedule_topoopt, *request([last, 0])) == line


def test_phases_are_at_most_sixty_four():
    """Each is compared with all others: a thousand took minutes."""
    ends, sizes = np.zeros(65, np.uint32), np.ones(65, U64)
    phases = np.arange(65, dtype=np.uint32)
    rings = [Ring([0, 1], 1, phase) for phase in range(65)]
    many = 2, 1, 2, [], "one", (ends, ends + 1, sizes), phases
    line = "65 phases of {}: expected 64 at most"
    assert refusal(_core.schedule_topoopt, *many) == line.format("demand")
    many = 2, 1, 2, rings, "one", (ends, ends + 1, sizes), phases[:0]
    assert refusal(_core.schedule_topoopt, *many) == line.format("rings")


def test_a_hybrid_schedule_without_a_delay_has_no_more_slots_than_pairs():
    """The longest hold of equal rates is taken, not one byte 2^40 times."""
    demand = np.array([[2**40, 1], [0, 2**39]], U64)
    ports = {"delay_bytes": 0, "circuit_bps": 4, "eps_bps": 1}
    for method in ("eclipse", "balanced"):
        found = _core.schedule_hybrid_plan(demand, ports, method, None, False)
        assert 1 <= len(found["holds_bytes"]) <= 4
        assert found["length_bytes"] < 1.1 * found["lower_bound_bytes"]


@pytest.mark.parametrize("alpha", [1e101, 1e308])
def test_dirichlet_parameters_are_bounded(alpha):
    def request(largest):
        values = np.array([[[largest, largest]]])
        none = np.zeros(1, U64)
        return {
            "ranks": 1, "experts": 2, "copies_per_rank": 4, "tokens_per_rank": 4,
            "shares_key": (0, 0), "routing_key": (0, 1), "group": 0, "step": 0, "layers": none,
            "micro_batches": 1, "spans": None, "alpha": values,
        }  # fmt: skip

    assert _core.demand_draw(request(1e100)).sum() == 4
    with pytest.raises(ValueError, match=r"^Dirichlet parameters: expected at most 1e100$"):
        _core.demand_draw(request(alpha))


def test_the_name_of_a_topology_is_quoted_in_one_line():
    network = {
        "hosts": 2, "rate_bps": 10**9, "link_delay_ps": 0, "planes": 1, "plane_choice": "hash",
        "shape": {"topology": "a\nb"},
    }  # fmt: skip
    text = r"shape.topology: unknown variant `a\nb`, expected one of `fat-tree`"
    assert refusal(_core.packet_topology, network).startswith(text)


def test_demand_of_a_region_is_aligned_as_other_arrays_are():
    view = np.frombuffer(b"0" * 33, np.uint8)[1:].view(U64).reshape(2, 2)
    assert not view.flags.aligned
    assert refusal(_core.Upcoming, view, 0) == "expected an aligned array; make a copy of it"


@pytest.mark.parametrize("previous", [[[0, 0], [1, 0]], [[1, 0], [0, 0]]])
def test_held_circuits_are_as_many_each_way(previous):
    """Trails of one-way circuits were undone and made again without end."""
    demand = np.array([[36_000, 52_000], [100, 0]], U64)
    ports, eps = np.ones(2, np.uint32), np.full(2, 10**9, U64)
    request = core_requests.CircuitRequest(
        demand, ports, None, np.array(previous, np.uint16), 400 * 10**9, eps, True
    )
    text = "previous: expected as many circuits each way, and none from a server to itself"
    assert refusal(_core.schedule_allocate, "greedy", request, 0.0) == text
    assert refusal(_core.schedule_port_bound, request) == text
