"""What the checkers of the core are called with: right answers of the core, spoiled.

A right answer is rare among random ones, so that each target starts from some dozens that the core
gave, and changes up to two of their values.
"""

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from tests.fuzz import core_entries as entries
from tests.fuzz.core_inputs import spoil
from tests.fuzz.draws import Draws

from lightloom import _core

#: right answers that each target starts from
STARTS = 64


def fields(found: Any, *names: str, **others: Any) -> SimpleNamespace:
    """Attributes of an answer of the core, and others."""
    return SimpleNamespace(**{name: getattr(found, name) for name in names}, **others)


def shown(request: Any) -> SimpleNamespace:
    """A request whose attributes can be replaced, arrays copied."""
    members = {
        name: shown(value) if hasattr(value, "_fields") else copy.copy(value)
        for name, value in request._asdict().items()
    }
    return SimpleNamespace(**members)


def decomposition(draw: Draws) -> list:
    demand, delay, partial, method, _, switches, _ = entries.decompose(draw)
    found = _core.schedule_decompose(demand, delay, partial, method, 0.0, switches, None)
    slots = None
    if found.slots is not None:
        slots = [found.slots.matchings, found.slots.hold_bytes]
    claim = fields(
        found,
        "switch_of_slot",
        "transfers",
        "length_bytes",
        "lower_bound_bytes",
        slots=slots,
        switches=switches,
        delay_bytes=delay,
        partial=partial,
    )
    return [demand, claim]


def joined(demand: Any, claim: SimpleNamespace) -> tuple:
    """Slots as the core takes them: a tuple, if that is what they are."""
    if isinstance(claim.slots, list) and len(claim.slots) == 2:
        claim.slots = tuple(claim.slots)
    return demand, claim


def rotation(draw: Draws) -> list:
    demand, options = entries.rotornet(draw)
    found = _core.schedule_rotornet(demand, options)
    names = ("turns", "holds_bytes", "moves", "length_bytes", "largest_line_bytes")
    return [demand, fields(found, *names, **options)]


def hybrid(draw: Draws) -> list:
    demand, ports, method, _, relay = entries.hybrid_plan(draw)
    found = _core.schedule_hybrid_plan(demand, ports, method, 0.0, relay)
    names = ("eps_bytes", "relays", "length_bytes", "lower_bound_bytes")
    slots = {"permutations": found.matchings, "holds_bytes": found.hold_bytes}
    return [demand, fields(found, *names, **slots, **ports)]


def chunks(draw: Draws) -> list:
    request, method, _ = entries.chunk_plan(draw)
    found = _core.schedule_chunk_plan(request, method, 0.0)
    names = ("length_bytes", "lower_bound_bytes", "lateness_bytes", "lateness_bound_bytes")
    claim = fields(
        found,
        "transfers",
        *names,
        permutations=found.matchings,
        starts_bytes=found.start_bytes,
        holds_bytes=found.hold_bytes,
        ends_bytes=found.end_bytes,
    )
    return [shown(request), claim]


def coloring(draw: Draws) -> list:
    edges, _ = entries.color_edges(draw)
    found = _core.schedule_color_edges(edges, None)
    return [edges, int(found.max(initial=-1)) + 1, found]


def route(draw: Draws) -> list:
    permutation, shape = entries.route_permutation(draw)
    found = _core.schedule_route_permutation(permutation, shape)
    names = ("spine", "core", "leaf_switches", "spine_switches", "core_switches")
    return [permutation, shown(shape), fields(found, *names)]


def assignment(draw: Draws) -> list:
    (weights,) = entries.weights(draw)
    found = _core.schedule_assign(weights)
    return [weights, fields(found, "column_of", "weight", "row_duals", "column_duals")]


def matching(draw: Draws) -> list:
    (weights,) = entries.symmetric_weights(draw)
    found = _core.schedule_match_general(weights)
    return [weights, fields(found, "mate", "weight", "doubled_duals", "blossoms")]


def planes(draw: Draws) -> list:
    circuits, working, duplex, effort = entries.planes(draw)
    found = _core.schedule_assign_planes(circuits, working, duplex, effort, None)
    if found.nics is None:
        raise ValueError(found.reason)
    return [circuits, working, duplex, found.nics]


def relayed(draw: Draws) -> list:
    (request,) = entries.relay(draw)
    found = _core.schedule_relay(request)
    return [shown(request), found.paths, found.size_bytes]


def relayed_shares(draw: Draws) -> list:
    request, paths, sizes = relayed(draw)
    return [request, paths, sizes.astype(np.float64), 0.0]


#: for each checker what makes a right answer, and what makes its arguments of a spoiled one
CHECKS: dict[str, tuple[Callable[[Draws], list], Callable[..., tuple]]] = {
    "schedule_check_decomposition": (decomposition, joined),
    "schedule_check_rotornet": (rotation, lambda *values: values),
    "schedule_check_hybrid": (hybrid, lambda *values: values),
    "schedule_check_chunks": (chunks, lambda *values: values),
    "schedule_check_coloring": (coloring, lambda *values: values),
    "schedule_check_route": (route, lambda *values: values),
    "schedule_check_assignment": (assignment, lambda *values: values),
    "schedule_check_general": (matching, lambda *values: values),
    "schedule_check_planes": (planes, lambda *values: values),
    "schedule_relay_loads": (relayed, lambda *values: values),
    "schedule_relay_as": (relayed_shares, lambda *values: values),
}


def right_claims(draw: Draws, make: Callable[[Draws], list]) -> list[list]:
    """Arguments that the checker accepts; random ones that the core refuses are skipped."""
    found: list[list] = []
    while len(found) < STARTS:
        draw.begin()
        draw.oddness = 0.0
        try:
            found.append(make(draw))
        except ValueError:
            continue
    return found


def claims(name: str) -> Callable[[Draws], tuple]:
    """Draws the arguments of a checker."""
    make, arranged = CHECKS[name]
    starts: list[list] = []

    def draw_claim(draw: Draws) -> tuple:
        if not starts:
            starts.extend(right_claims(draw, make))
        values = [unshared(value) for value in draw.rng.choice(starts)]
        spoil(draw.rng, values, maximum=2)
        return arranged(*values)

    return draw_claim


def unshared(value: Any) -> Any:
    """A copy whose members can be replaced; arrays are replaced whole."""
    if isinstance(value, SimpleNamespace):
        return SimpleNamespace(**{name: unshared(inner) for name, inner in vars(value).items()})
    return list(value) if isinstance(value, list) else value
