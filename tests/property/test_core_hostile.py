"""Whatever the core is given, it returns, or refuses it in one line; it never panics.

``LIGHTLOOM_SOAK=100 pytest tests/property/test_core_hostile.py`` (``make soak``) takes a hundred
times as many examples.
"""

import dataclasses
import inspect
import os
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.simulate_graphs import Steps, direct, mixnet, one_ring, packet
from tests.simulate_graphs import graph as build_graph

from lightloom import _core
from lightloom.demand.deduplicate import GateRequest
from lightloom.demand.generator import DrawRequest
from lightloom.packets.requests import (
    CircuitColumns,
    FlowColumns,
    LinkColumns,
    OperationColumns,
    PacketTopologyRequest,
    RunRequest,
)
from lightloom.schedule import choices, requests
from lightloom.schedule.topoopt import Ring

#: how many times the examples of a test run, and whether they differ from run to run
SOAK = int(os.environ.get("LIGHTLOOM_SOAK", "0"))


def hostile(examples):
    """Settings of a test: the same examples every time, unless soaking."""
    return settings(
        max_examples=examples * max(1, SOAK),
        derandomize=not SOAK,
        deadline=20_000,
        suppress_health_check=list(HealthCheck),
    )


DTYPES = [np.bool_, np.uint16, np.uint32, np.int32, np.uint64, np.int64, np.float64]
EXTREME = [0, 1, 2, 3, 5, 255, 65_535, 2**31 - 1, 2**32 - 1, 2**53, 2**62, 2**63, 2**64 - 1]
#: few of these are refused at once
SMALL = st.integers(0, 4)
NUMBERS = st.one_of(SMALL, st.sampled_from([-1, *EXTREME]))
#: sizes that may be used as they are: larger ones are for memory and time, not for panics
SIZES = st.integers(0, 5)


@st.composite
def arrays(draw, dtype=None, dimensions=None):
    """Small arrays of any values, now and then of another kind, shape or memory layout."""
    kind = np.dtype(draw(st.sampled_from(DTYPES)) if dtype is None or draw(RARE) else dtype)
    count = draw(st.integers(0, 3)) if dimensions is None or draw(RARE) else dimensions
    side = draw(SIZES)
    shape = tuple(draw(SIZES) if draw(RARE) else side for _ in range(count))
    cells = int(np.prod(shape))
    values = draw(st.lists(NUMBERS, min_size=cells, max_size=cells))
    if kind.kind == "f":
        flat = np.array([float(value) for value in values], dtype=kind)
    else:
        flat = np.array([value % 2**64 for value in values], dtype=np.uint64).astype(kind)
    found = flat.reshape(shape)
    if draw(RARE) and count:
        found = np.repeat(found, 2, axis=-1)[..., ::-2]
    return found


RARE = st.integers(0, 9).map(lambda value: value == 0)


def rows(dtype, columns):
    return st.one_of(
        arrays(dtype, 2),
        st.lists(st.lists(NUMBERS, min_size=columns, max_size=columns), max_size=4).map(
            lambda cells: (
                (np.array(cells, dtype=object) % 2**64)
                .astype(np.uint64)
                .astype(dtype)
                .reshape(-1, columns)
            )
        ),
    )


def optional(values):
    return st.one_of(st.none(), values)


MATRIX = arrays(np.uint64, 2)
CIRCUITS = arrays(np.uint16, 2)
SWITCH = st.booleans()
CHARGES = st.builds(requests.RelayCharges, optional(NUMBERS), NUMBERS, NUMBERS, optional(NUMBERS))


@st.composite
def symmetric(draw):
    """Circuits of a few servers, as many each way."""
    servers = draw(SIZES)
    cells = st.one_of(SMALL, st.sampled_from([255, 65_535])) if draw(RARE) else SMALL
    circuits = np.zeros((servers, servers), np.uint16)
    for a in range(servers):
        for b in range(a):
            circuits[a, b] = circuits[b, a] = draw(cells)
    return circuits


ANY_CIRCUITS = st.one_of(CIRCUITS, symmetric())
WORKING = arrays(np.bool_, 2)
REQUEST = st.builds(
    requests.CircuitRequest,
    MATRIX,
    arrays(np.uint32, 1),
    optional(arrays(np.bool_, 2)),
    optional(CIRCUITS),
    NUMBERS,
    arrays(np.uint64, 1),
    SWITCH,
)
ROUTING = st.builds(requests.RoutingRequest, MATRIX, CIRCUITS, NUMBERS, NUMBERS, CHARGES)
EPOCHS = st.builds(requests.EpochOptions, SIZES, NUMBERS, NUMBERS)
ROTOR = st.builds(
    requests.RotorOptions,
    SIZES,
    optional(NUMBERS),
    NUMBERS,
    SWITCH,
    SWITCH,
    st.sampled_from(["x", *choices("cycling")]),
)
CHUNKS = st.builds(
    requests.ChunkRequest, SMALL, SMALL, arrays(np.uint64, 2), NUMBERS, NUMBERS, NUMBERS
)
HYBRID_PORTS = st.builds(requests.HybridPorts, NUMBERS, NUMBERS, NUMBERS)
CONTROLLERS = st.builds(
    requests.ControllerOptions,
    st.sampled_from(["x", "helios", "xnest-plus", "rotornet"]),
    st.sampled_from(["x", *choices("estimator")]),
    NUMBERS,
    optional(NUMBERS),
)
SHAPE = st.builds(requests.FabricShape, NUMBERS, NUMBERS, optional(NUMBERS), optional(NUMBERS))
INDICES = arrays(np.int32, 1)
ODD_SETS = st.lists(st.tuples(st.lists(NUMBERS, max_size=4), NUMBERS), max_size=3)
READINGS = st.sampled_from(list(choices("reading")))
DRAW = st.builds(
    DrawRequest,
    SMALL,
    SMALL,
    NUMBERS,
    NUMBERS,
    st.tuples(NUMBERS, NUMBERS),
    st.tuples(NUMBERS, NUMBERS),
    NUMBERS,
    NUMBERS,
    arrays(np.uint64, 1),
    SMALL,
    optional(arrays(np.uint64, 1)),
    arrays(np.float64, 3),
)
CALLS = {
    "schedule_allocate": (
        st.sampled_from(list(choices("allocator"))),
        REQUEST,
        st.sampled_from([-1.0, 0.0, 0.1, float("nan"), float("inf")]),
    ),
    "schedule_allocate_each": (
        st.sampled_from(["greedy", "static"]),
        REQUEST,
        arrays(np.uint64, 3),
    ),
    "schedule_route": (REQUEST, CIRCUITS),
    "schedule_makespan": (REQUEST, CIRCUITS),
    "schedule_port_bound": (REQUEST,),
    "schedule_line_bound": (REQUEST,),
    "schedule_changed_pairs": (CIRCUITS, CIRCUITS),
    "schedule_map_nics": (CIRCUITS, arrays(np.uint32, 1), WORKING, NUMBERS, rows(np.uint32, 4)),
    "schedule_assign_planes": (
        ANY_CIRCUITS,
        WORKING,
        SWITCH,
        st.integers(0, 2_000),
        optional(rows(np.uint32, 4)),
    ),
    "schedule_plan_batches": (
        rows(np.uint32, 4),
        rows(np.uint32, 4),
        arrays(np.bool_, 1),
        st.integers(0, 20),
    ),
    "schedule_assign_to_planes": (ANY_CIRCUITS, WORKING, SWITCH, st.integers(0, 2_000)),
    "schedule_check_planes": (ANY_CIRCUITS, WORKING, SWITCH, rows(np.uint32, 4)),
    "schedule_topoopt": (
        st.builds(
            requests.TopologyRequest,
            SIZES,
            SIZES,
            SIZES,
            st.lists(st.builds(Ring, st.lists(NUMBERS, max_size=4), NUMBERS), max_size=3),
            st.sampled_from(["x", *choices("strides")]),
            arrays(np.uint32, 1),
            arrays(np.uint32, 1),
            arrays(np.uint64, 1),
        ),
    ),
    "schedule_decompose": (
        MATRIX,
        NUMBERS,
        SWITCH,
        st.sampled_from(list(choices("permutation method"))),
        optional(st.floats()),
        SIZES,
        optional(st.tuples(arrays(np.int32, 2), arrays(np.uint64, 1), SIZES)),
    ),
    "schedule_decomposition_bound": (MATRIX, NUMBERS, SWITCH, SIZES),
    "schedule_check_decomposition": (
        MATRIX,
        st.builds(
            SimpleNamespace,
            slots=optional(
                st.builds(
                    SimpleNamespace, matchings=arrays(np.int32, 2), hold_bytes=arrays(np.uint64, 1)
                )
            ),
            transfers=optional(rows(np.uint64, 4)),
            length_bytes=NUMBERS,
            delay_bytes=NUMBERS,
            partial=SWITCH,
        ),
    ),
    "schedule_transfer_slots": (NUMBERS, NUMBERS, rows(np.uint64, 4)),
    "schedule_color_edges": (rows(np.uint32, 2), optional(SMALL)),
    "schedule_check_coloring": (rows(np.uint32, 2), NUMBERS, INDICES),
    "schedule_route_permutation": (INDICES, SHAPE),
    "schedule_check_route": (
        INDICES,
        SHAPE,
        st.builds(requests.FabricPaths, INDICES, INDICES, INDICES, INDICES, INDICES),
    ),
    "schedule_assign": (arrays(np.int64, 2),),
    "schedule_check_assignment": (
        arrays(np.int64, 2),
        st.builds(
            requests.AssignmentClaim, INDICES, NUMBERS, arrays(np.int64, 1), arrays(np.int64, 1)
        ),
    ),
    "schedule_match_general": (arrays(np.int64, 2),),
    "schedule_check_general": (
        arrays(np.int64, 2),
        st.builds(requests.MatchingClaim, INDICES, NUMBERS, arrays(np.int64, 1), ODD_SETS),
    ),
    "schedule_relay": (ROUTING,),
    "schedule_relay_as": (ROUTING, rows(np.int32, 4), arrays(np.float64, 1), st.floats()),
    "schedule_relay_loads": (ROUTING, rows(np.int32, 4), arrays(np.uint64, 1)),
    "schedule_relay_bound": (ROUTING, arrays(np.float64, 2), arrays(np.float64, 2)),
    "schedule_allocate_relayed": (REQUEST, CHARGES, SMALL),
    "schedule_rotornet": (MATRIX, ROTOR),
    "schedule_check_rotornet": (
        MATRIX,
        st.builds(
            SimpleNamespace,
            switches=SIZES,
            turns=arrays(np.uint64, 1),
            holds_bytes=arrays(np.uint64, 1),
            moves=rows(np.uint64, 6),
            slot_bytes=optional(NUMBERS),
            delay_bytes=NUMBERS,
            length_bytes=NUMBERS,
            held=SWITCH,
            relay=SWITCH,
        ),
    ),
    "schedule_helios": (MATRIX, EPOCHS),
    "schedule_helios_matchings": (MATRIX, EPOCHS),
    "schedule_xnest_plus": (MATRIX, EPOCHS, READINGS),
    "schedule_xnest_plan": (
        MATRIX,
        SIZES,
        READINGS,
        optional(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=4)),
    ),
    "schedule_sub_matrices": (NUMBERS, READINGS),
    "schedule_helios_step": (MATRIX, optional(INDICES), EPOCHS, optional(NUMBERS)),
    "schedule_xnest_step": (
        MATRIX,
        st.lists(st.tuples(NUMBERS, NUMBERS), max_size=4),
        EPOCHS,
        READINGS,
        st.sampled_from(["x", *choices("turning")]),
        optional(NUMBERS),
    ),
    "schedule_rotor_slot": (MATRIX, MATRIX, ROTOR, NUMBERS),
    "schedule_over_time": (st.lists(MATRIX, max_size=3), EPOCHS, CONTROLLERS),
    "schedule_hybrid_plan": (
        MATRIX,
        HYBRID_PORTS,
        st.sampled_from(["x", *choices("hybrid method")]),
        optional(st.floats()),
        SWITCH,
    ),
    "schedule_hybrid_bound": (MATRIX, HYBRID_PORTS, SWITCH),
    "schedule_chunk_plan": (
        CHUNKS,
        st.sampled_from(["x", *choices("chunk method")]),
        optional(st.floats()),
    ),
    "schedule_chunk_bound": (CHUNKS,),
    "schedule_check_chunks": (
        CHUNKS,
        st.builds(
            requests.ChunkClaim,
            arrays(np.int32, 2),
            arrays(np.uint64, 1),
            arrays(np.uint64, 1),
            arrays(np.int64, 2),
            arrays(np.uint64, 1),
            NUMBERS,
            NUMBERS,
            optional(NUMBERS),
            optional(NUMBERS),
        ),
    ),
    "schedule_check_hybrid": (
        MATRIX,
        st.builds(
            SimpleNamespace,
            permutations=arrays(np.int32, 2),
            holds_bytes=arrays(np.uint64, 1),
            eps_bytes=MATRIX,
            relays=optional(MATRIX),
            length_bytes=NUMBERS,
            lower_bound_bytes=NUMBERS,
            delay_bytes=NUMBERS,
            circuit_bps=NUMBERS,
            eps_bps=NUMBERS,
        ),
    ),
    "choices": (st.one_of(st.text(max_size=9), st.sampled_from(["allocator", "transport"])),),
    "packet_profile": (st.sampled_from(["x", *choices("transport")]), NUMBERS),
    "demand_draw": (DRAW,),
    "demand_fold": (DRAW, NUMBERS, SWITCH),
    "demand_sum": (DRAW,),
    "demand_reach": (
        st.builds(GateRequest, SMALL, NUMBERS, NUMBERS, NUMBERS, NUMBERS),
        arrays(np.float64, 2),
    ),
    "packet_topology": (
        st.builds(
            PacketTopologyRequest,
            st.sampled_from(["fat-tree", "star", "leaf-spine", "rail", "links", "x"]),
            SMALL,
            NUMBERS,
            NUMBERS,
            SMALL,
            SMALL,
            SMALL,
            NUMBERS,
            SMALL,
            NUMBERS,
            NUMBERS,
            optional(
                st.builds(
                    LinkColumns,
                    st.lists(st.text(max_size=2), max_size=2),
                    arrays(np.uint32, 1),
                    arrays(np.uint32, 1),
                    arrays(np.uint64, 1),
                    arrays(np.uint64, 1),
                )
            ),
        ),
    ),
}


@given(
    st.sampled_from(["uniform", "ewma", "copilot", "copilot-gradient", "ridge", "x"]),
    NUMBERS,
    SMALL,
    st.lists(st.tuples(NUMBERS, NUMBERS, arrays(np.float64, 1)), max_size=6),
)
@settings(max_examples=100, deadline=20_000, suppress_health_check=list(HealthCheck))
def test_predictors_predict_or_refuse_in_one_line(name, experts, window, places):
    found = []
    if refusal(lambda: found.append(_core.LoadPredictor(name, experts, window))) is not None:
        return
    for step, layer, loads in places:
        assert refusal(found[0].predict, step, layer) != ""
        assert refusal(found[0].observe, step, layer, loads) != ""


def refusal(call, *arguments):
    """The one line that a call is refused with; None if it is answered."""
    try:
        call(*arguments)
    except (
        ValueError,
        TypeError,
        OverflowError,
        AttributeError,
        KeyError,
        _core.PacketsStuck,
    ) as error:
        return "" if "\n" in str(error) else str(error).strip()
    return None


@pytest.mark.parametrize("name", CALLS)
@given(st.data())
@hostile(60)
def test_every_entry_answers_or_refuses_in_one_line(name, data):
    arguments = [data.draw(argument) for argument in CALLS[name]]
    assert refusal(getattr(_core, name), *arguments) != ""


def test_every_function_of_the_core_is_tried():
    functions = {name for name, value in vars(_core).items() if inspect.isbuiltin(value)}
    assert functions == {*CALLS, "execute", "packet_simulate"}


REGIONS = st.builds(
    SimpleNamespace,
    ports=st.one_of(arrays(np.uint32, 1), st.just(np.full(3, 2, np.uint32))),
    allowed=optional(arrays(np.bool_, 2)),
    planes=optional(st.sampled_from(["x", *choices("planes")])),
    numa_nodes=SMALL,
    circuit_bps=NUMBERS,
    eps_bps=st.one_of(arrays(np.uint64, 1), st.just(np.full(3, 10**9, np.uint64))),
    eps_nics=SMALL,
    relay_cost=optional(CHARGES),
    failures=optional(
        st.builds(
            SimpleNamespace,
            nics=st.lists(st.tuples(SMALL, SMALL), max_size=2),
            eps_nics=st.lists(st.tuples(SMALL, SMALL), max_size=2),
            servers=st.lists(SMALL, max_size=2),
            planes=st.lists(SMALL, max_size=2),
        )
    ),
)
POLICIES = st.builds(
    SimpleNamespace,
    allocator=st.sampled_from(list(choices("allocator"))),
    when=st.sampled_from(list(choices("reconfigure"))),
    split=SWITCH,
    relaying=SWITCH,
)
TIMINGS = st.builds(
    SimpleNamespace,
    fixed_ps=NUMBERS,
    per_pair_ps=NUMBERS,
    control_ps=NUMBERS,
    link_up_ps=NUMBERS,
    keep_unchanged=SWITCH,
)


def look(thing):
    """Read everything that an object of the core shows."""
    for name, value in inspect.getmembers(type(thing)):
        if inspect.isdatadescriptor(value) and not name.startswith("__"):
            getattr(thing, name)
    return thing


def decide(data):
    """Build a decider of hostile values and have it decide; what it refuses is raised."""
    region = look(_core.DeciderRegion(data.draw(REGIONS)))
    decider = _core.Decider(region, data.draw(POLICIES), data.draw(TIMINGS), None)
    kind = data.draw(st.sampled_from(["start", "hold", "hold_on", "text"]))
    if kind == "hold":
        held = decider.hold(data.draw(ANY_CIRCUITS))
    elif kind == "hold_on":
        held = decider.hold_on(data.draw(rows(np.uint32, 4)), "best")
    elif kind == "text":
        held = _core.Held.from_json(data.draw(TEXTS))
    else:
        held = decider.start()
    demand = st.one_of(MATRIX, arrays(np.uint64, 2), st.just(np.ones((3, 3), np.uint64)))
    upcoming = [
        look(
            _core.Upcoming(
                data.draw(demand),
                data.draw(NUMBERS),
                predicted=data.draw(SWITCH),
                requested=data.draw(optional(demand)),
            )
        )
        for _ in range(data.draw(st.integers(0, 3)))
    ]
    proposals = data.draw(optional(st.lists(ANY_CIRCUITS, max_size=2)))
    look(look(decider.decide(look(held), upcoming, proposals)).held)


TEXTS = st.one_of(
    st.text(max_size=20),
    st.builds(
        '{{"circuits":{},"nics":{},"chosen":"{}"}}'.format,
        st.lists(SMALL, max_size=9),
        st.just([]),
        st.sampled_from(["Best", "best", "static", "Static"]),
    ),
)


@given(st.data())
@hostile(300)
def test_deciders_decide_or_refuse_in_one_line(data):
    assert refusal(decide, data) != ""


def parts(value):
    """Attributes of a request, as plain objects whose own attributes can be replaced."""
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return type(value)(parts(one) for one in value)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif hasattr(value, "_fields"):
        names = value._fields
    else:
        return value
    # a part of a network is known by the kind of its class
    extra = {"kind": value.kind} if hasattr(value, "kind") and "kind" not in names else {}
    return SimpleNamespace(**{name: parts(getattr(value, name)) for name in names}, **extra)


def places(value):
    """Every attribute below an object: its owner and its name."""
    if isinstance(value, SimpleNamespace):
        for name, inner in vars(value).items():
            yield value, name
            yield from places(inner)
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from places(inner)


ANYTHING = st.one_of(
    NUMBERS,
    st.none(),
    st.text(max_size=3),
    SWITCH,
    st.floats(),
    st.just([]),
    arrays(),
    *(arrays(dtype, 1) for dtype in (np.uint8, np.uint16, np.uint32, np.uint64)),
)


def spoil(data, *requests_):
    """Replace up to three attributes of requests by something hostile."""
    found = [place for one in requests_ for place in places(one)]
    for _ in range(data.draw(st.integers(1, 3))):
        owner, name = data.draw(st.sampled_from(found))
        present = getattr(owner, name)
        if isinstance(present, np.ndarray) and data.draw(SWITCH):
            values = present.copy()
            if values.size:
                place = data.draw(st.integers(0, values.size - 1))
                values.reshape(-1)[place] = data.draw(NUMBERS) % 2 ** (8 * values.itemsize)
            setattr(owner, name, values[: data.draw(st.integers(0, len(values)))])
        else:
            setattr(owner, name, data.draw(ANYTHING))


def step(data, network):
    """Play a step whose graph, network or options are spoiled."""
    tokens = np.arange(8, dtype=np.uint32).reshape(2, 2, 2)
    programs = [Steps().all_to_all(0, first=True).compute(1e-6).send(1, 0, 8).ring(1, 64).wait(1)]
    programs.append(Steps().all_to_all(1).receive(0, 0).ring(1, 64).wait(1))
    graph = parts(build_graph(programs, members=2, tokens=tokens, rings=[one_ring(4)]))
    network = parts(network)
    options = SimpleNamespace(timeline_workers=[0], share_equal_work=True, record_decisions=True)
    packets = SimpleNamespace(transport="dctcp", mtu_bytes=None, queue_bytes=None, seed=1)
    model = data.draw(st.sampled_from(["flows", "packets", "phases"]))
    spoil(data, graph, network, options, packets)
    calls = SimpleNamespace(progress=lambda _: None, allocator=None, predictor=None)
    if model == "phases":
        book = _core.PhaseBook(network, packets, 3, None)
        _core.execute(graph, network, options, calls, book)
        book.simulate(lambda _: None)
        return look(book.counts()[0]) if book.counts() else None
    chosen = packets if model == "packets" else None
    return look(_core.execute(graph, network, options, calls, chosen))


CIRCUITS_0_1 = [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 0, 1)]
ROUTES = [(a, b) for a, b, _ in CIRCUITS_0_1] + [(b, a) for a, b, _ in CIRCUITS_0_1]


@pytest.mark.parametrize(
    "network", [packet(4), mixnet(4), direct(4, CIRCUITS_0_1, ROUTES)], ids=["eps", "ocs", "direct"]
)
@given(st.data())
@hostile(150)
def test_steps_run_or_are_refused_in_one_line(network, data):
    assert refusal(step, data, network) != ""


STAR = PacketTopologyRequest(topology="star", hosts=3, rate_bps=10**9, link_delay_ps=10**6)


@given(
    st.builds(
        FlowColumns,
        arrays(np.uint32, 1),
        arrays(np.uint32, 1),
        arrays(np.uint64, 1),
        arrays(np.uint64, 1),
        arrays(np.uint64, 1),
        arrays(np.uint32, 1),
    ),
    optional(
        st.builds(CircuitColumns, arrays(np.uint64, 1), arrays(np.uint32, 1), arrays(np.bool_, 1))
    ),
)
@hostile(150)
def test_packet_runs_answer_or_refuse_in_one_line(flows, circuits):
    tables = _core.packet_profile("ideal", 10**9)
    run = RunRequest("ideal", 1, "ecmp", 0, 10**9, 10**6, 0, 10, None)
    call = (STAR, tables, flows, circuits, run, None)
    assert refusal(_core.packet_simulate, *call) != ""


@given(
    st.builds(
        OperationColumns,
        arrays(np.uint32, 1),
        arrays(np.uint64, 1),
        arrays(np.uint32, 1),
        arrays(np.uint64, 1),
        arrays(np.uint32, 1),
        arrays(np.uint8, 1),
    )
)
@hostile(150)
def test_packet_programs_answer_or_refuse_in_one_line(operations):
    tables = _core.packet_profile("ideal", 10**9)
    run = RunRequest("ideal", 1, "ecmp", 0, 10**9, 10**6, 0, 10, None, None, operations)
    ends, none = np.array([0, 1], np.uint32), np.zeros(0, np.uint64)
    sizes, starts = np.full(2, 1000, np.uint64), np.zeros(2, np.uint64)
    flows = FlowColumns(ends, ends[::-1].copy(), sizes, starts, none, none.astype(np.uint32))
    assert refusal(_core.packet_simulate, STAR, tables, flows, None, run, None) != ""


def test_what_is_wrong_with_an_attribute_is_said_after_its_name():
    numbers = np.zeros(2, np.uint64)
    request = requests.CircuitRequest(
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
    charges = requests.RelayCharges(None, 0, 0, None)
    request = requests.RoutingRequest(nothing, nothing.astype(np.uint16), 1, 1, charges)
    paths = np.array([[255, -1, 4, 1]], np.int32)
    with pytest.raises(ValueError, match=r"^a path over server 255: expected 0 to below 0$"):
        _core.schedule_relay_as(request, paths, np.ones(1), 0.0)


def test_views_are_as_good_as_copies():
    matrix = np.arange(16, dtype=np.uint64).reshape(4, 4)
    for view in (matrix.T, matrix[::-1], matrix[::2, ::2], np.asfortranarray(matrix)):
        args = (0, False, "bvn", None, 1, None)
        seen = _core.schedule_decompose(view, *args)
        copied = _core.schedule_decompose(np.ascontiguousarray(view), *args)
        assert seen.length_bytes == copied.length_bytes
        assert (seen.slots.matchings == copied.slots.matchings).all()
