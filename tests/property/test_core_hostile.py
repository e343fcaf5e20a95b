"""Whatever the core is given, it answers, or refuses it in one line; it never panics."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightloom import _core
from lightloom.demand.generator import DrawRequest
from lightloom.packets.requests import (
    CircuitColumns,
    FlowColumns,
    LinkColumns,
    PacketTopologyRequest,
    RunRequest,
)
from lightloom.schedule import choices, requests
from lightloom.schedule.topoopt import Ring

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
ROTOR = st.builds(requests.RotorOptions, SIZES, optional(NUMBERS), NUMBERS, SWITCH, SWITCH)
SHAPE = st.builds(requests.FabricShape, NUMBERS, NUMBERS, optional(NUMBERS), optional(NUMBERS))
INDICES = arrays(np.int32, 1)
ODD_SETS = st.lists(st.tuples(st.lists(NUMBERS, max_size=4), NUMBERS), max_size=3)
READINGS = st.sampled_from(list(choices("reading")))
CALLS = {
    "schedule_allocate": (st.sampled_from(list(choices("allocator"))), REQUEST),
    "schedule_route": (REQUEST, CIRCUITS),
    "schedule_makespan": (REQUEST, CIRCUITS),
    "schedule_port_bound": (REQUEST,),
    "schedule_changed_pairs": (CIRCUITS, CIRCUITS),
    "schedule_map_nics": (CIRCUITS, arrays(np.uint32, 1), NUMBERS, rows(np.uint32, 4)),
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
    "demand_draw": (
        st.builds(
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
        ),
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


def refusal(call, *arguments):
    """The one line that a call is refused with; None if it is answered."""
    try:
        call(*arguments)
    except (ValueError, TypeError, OverflowError, _core.PacketsStuck) as error:
        return "" if "\n" in str(error) else str(error).strip()
    return None


@pytest.mark.parametrize("name", CALLS)
@given(st.data())
@settings(max_examples=60, deadline=20_000, suppress_health_check=list(HealthCheck))
def test_every_entry_answers_or_refuses_in_one_line(name, data):
    arguments = [data.draw(argument) for argument in CALLS[name]]
    assert refusal(getattr(_core, name), *arguments) != ""


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
@settings(max_examples=150, deadline=20_000, suppress_health_check=list(HealthCheck))
def test_packet_runs_answer_or_refuse_in_one_line(flows, circuits):
    tables = _core.packet_profile("ideal", 10**9)
    run = RunRequest("ideal", 1, 10**9, 10**6, 0, 10, None)
    call = (STAR, tables, flows, circuits, run, None)
    assert refusal(_core.packet_simulate, *call) != ""


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


def test_views_are_as_good_as_copies():
    matrix = np.arange(16, dtype=np.uint64).reshape(4, 4)
    for view in (matrix.T, matrix[::-1], matrix[::2, ::2], np.asfortranarray(matrix)):
        args = (0, False, "bvn", None)
        seen = _core.schedule_decompose(view, *args)
        copied = _core.schedule_decompose(np.ascontiguousarray(view), *args)
        assert seen.length_bytes == copied.length_bytes
        assert (seen.slots.matchings == copied.slots.matchings).all()
