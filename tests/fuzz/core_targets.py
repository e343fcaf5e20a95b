"""A fuzz target for each entry of the core but its two runs: seeded inputs, and what they must do.

An input that fails is named by its entry and number, and is called again by
``next(itertools.islice(inputs(entry), number, None))()``.
"""

import faulthandler
import functools
import resource
from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzz.core_claims import CHECKS, claims
from tests.fuzz.core_entries import CALLS
from tests.fuzz.core_objects import OBJECTS
from tests.fuzz.draws import Draws
from tests.fuzz.outcomes import LIMIT_KB, answered, named

from lightloom import _core

ENTRIES = [*CALLS, *CHECKS, *OBJECTS]
#: a call that does not come back ends the process, with a trace, after some time on the wall; so
#: many inputs share an alarm
HANGS_S, WATCHED = 600, 1_000


def inputs(entry: str) -> Iterator[Callable[[], Any]]:
    """Yield calls of an entry, the same ones every time, without end."""
    draw = Draws(f"{entry} 1")
    if entry in OBJECTS:
        while True:
            draw.begin()
            yield functools.partial(OBJECTS[entry], draw)
    arguments = CALLS[entry] if entry in CALLS else claims(entry)
    function = getattr(_core, entry)
    while True:
        draw.begin()
        yield functools.partial(function, *arguments(draw))


def try_inputs(entry: str, count: int) -> int:
    """Call an entry with its first inputs; return how many it answers.

    Raises
    ------
    AssertionError
        Names the input that is neither answered nor refused in one line, that takes too long or too
        much memory; or the growth, if all together take too much.
    """
    num_answered = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number, call in zip(range(count), inputs(entry), strict=False):
        if number % WATCHED == 0:
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
        with named(f"input {number} of {entry}"):
            num_answered += answered(lambda _, call=call: call())
    faulthandler.cancel_dump_traceback_later()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < LIMIT_KB, f"{count} inputs of {entry} took {grown} kB"
    return num_answered
