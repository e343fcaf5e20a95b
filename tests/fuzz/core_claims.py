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
    """Values of an answer of the core, all if none is named, and others."""
    return SimpleNamespace(**({name: found[name] for name in names} or found), **others)


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
    found["slots"] = found["slots"] and [*found["slots"]]
    return [demand, fields(found)]


def joined(demand: Any, claim: SimpleNamespace) -> tuple:
    """Slots as the core takes them: a tuple, if that is what they are."""
    if isinstance(claim.slots, list) and len(claim.slots) == 2:
        claim.slots = tuple(claim.slots)
    return demand, claim


def rotation(draw: Draws) -> list:
    demand, options = entries.rotornet(draw)
    found = _core.schedule_rotornet(demand, options)
    return [demand, fields(found, **options)]


def hybrid(draw: Draws) -> list:
    demand, ports, method, _, relay = entries.hybrid_plan(draw)
    found = _core.schedule_hybrid_plan(demand, ports, method, 0.0, relay)
    return [demand, fields(found, **ports)]


def chunks(draw: Draws) -> list:
    *request, method, _ = entries.chunk_plan(draw)
    return [*request, fields(_core.schedule_chunk_plan(*request, method, 0.0))]


def coloring(draw: Draws) -> list:
    edges, _ = entries.color_edges(draw)
    found = _core.schedule_color_edges(edges, None)
    return [edges, int(found.max(initial=-1)) + 1, found]


def route(draw: Draws) -> list:
    permutation, shape = entries.route_permutation(draw)
    found = _core.schedule_route_permutation(permutation, shape)
    return [permutation, fields(found, shape=shape)]


def assignment(draw: Draws) -> list:
    (weights,) = entries.weights(draw)
    return [weights, *_core.schedule_assign(weights)]


def matching(draw: Draws) -> list:
    (weights,) = entries.symmetric_weights(draw)
    return [weights, *_core.schedule_match_general(weights)]


def planes(draw: Draws) -> list:
    circuits, working, duplex, effort = entries.planes(draw)
    found = _core.schedule_assign_planes(circuits, working, duplex, effort, None)
    if found["verdict"] != "assigned":
        raise ValueError(found["reason"])
    return [circuits, working, duplex, found["nics"]]


def relayed(draw: Draws) -> list:
    (request,) = entries.relay(draw)
    found = _core.schedule_relay(request)
    paths = [found[name] for name in ("source", "relay", "destination", "kind")]
    return [shown(request), np.stack(paths, axis=1), found["size_bytes"]]


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
    if isinstance(value, dict):
        return {name: unshared(inner) for name, inner in value.items()}
    return list(value) if isinstance(value, list) else value
