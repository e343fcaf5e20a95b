"""What objects of the core are made of and asked, drawn at random: one sequence of calls each."""

from typing import Any

import numpy as np
from tests.fuzz.core_entries import NAMES, nic_rows, region_values, relay_cost, text
from tests.fuzz.draws import Draws
from tests.fuzz.outcomes import look
from tests.fuzz.parser_inputs import damaged

from lightloom import _core

HELD = b'{"circuits":[0,1,1,0],"nics":[{"a":{"server":0,"nic":0},"b":{"server":1,"nic":0}}],'
WORDS = [b"[", b"]", b"{", b"}", b",", b'"nic":', b"65536", b"-1", b"1e9", b"[" * 40, b"\xff"]


def decider(draw: Draws) -> Any:
    """A decider of a region."""
    policy = vars(
        draw.namespace(
            allocator=draw.pick(NAMES["allocator"]),
            when=draw.pick(NAMES["when"]),
            relaying=vars(relay_cost(draw)) if draw.chance(0.2) else None,
        )
    )
    timing = draw.namespace(
        fixed_s=draw.number(0, 1e-6, 25e-3),
        per_pair_s=draw.number(0, 1e-6),
        control_s=draw.number(0, 1e-3),
        link_up_s=draw.number(0, 1e-3),
        keep_unchanged=draw.flag(),
    )
    return _core.Decider(draw.side, region_values(draw), policy, timing, None)


def hold(draw: Draws, decides: Any) -> Any:
    """Circuits that the decider starts from."""
    match draw.rng.randrange(6):
        case 0:
            return decides.hold(draw.symmetric())
        case 1:
            return decides.hold_on(nic_rows(draw, maximum=2), draw.pick(NAMES["allocator"]))
        case 2:
            return held_of_text(draw)
    return decides.start()


def held_of_text(draw: Draws) -> Any:
    """Held circuits of a text, mostly a right one with a little damage."""
    whole = HELD + b'"chosen":"' + draw.rng.choice([b"best", b"static", b"Best"]) + b'"}'
    if draw.chance(0.5):
        whole = damaged(draw.rng, whole, WORDS)
    return look(_core.Held.from_json(whole.decode("utf-8", "replace")))


def upcoming(draw: Draws) -> Any:
    predicted = draw.flag()
    requested = draw.optional(draw.demand) if predicted is True else None
    hidden = draw.number(0, 10**6, 10**10)
    return look(
        _core.Upcoming(draw.demand(), hidden, predicted=predicted, requested=draw.pick([requested]))
    )


def decide(draw: Draws) -> None:
    """Make a decider and have it decide, once or twice."""
    decides = decider(draw)
    held = look(hold(draw, decides))
    for _ in range(draw.rng.randrange(1, 3)):
        demands = [upcoming(draw) for _ in range(draw.rng.choice([0, 1, 1, 2]))]
        proposals = [draw.symmetric()] if draw.chance(0.15) else None
        held = look(look(decides.decide(held, demands, proposals)).held)


def predict(draw: Draws) -> None:
    """Make a predictor, and have it observe loads and predict."""
    experts = max(1, draw.side)
    predictor = _core.LoadPredictor(
        text(draw, *NAMES["predictor"]), draw.number(experts), draw.number(1, 2, 3, 8)
    )
    step = layer = 0
    for _ in range(draw.rng.randrange(5)):
        loads = draw.array(np.float64, (experts,), "shares")
        if isinstance(loads, np.ndarray) and loads.dtype == np.float64 and not draw.odd():
            loads = np.full(loads.shape, 1.0) if loads.sum() in (0, np.inf) else loads / loads.sum()
        predictor.predict(draw.number(step), draw.number(layer))
        predictor.observe(draw.number(step), draw.number(layer), loads)
        step, layer = (step, layer + 1) if draw.chance(0.6) else (step + 1, 0)


#: classes that can be called, and what is done with each
OBJECTS = {
    "Held": held_of_text,
    "Upcoming": upcoming,
    "Decider": decide,
    "LoadPredictor": predict,
}
