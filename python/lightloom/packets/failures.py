"""Links and switches that fail during a run: ``WHAT@START[+FOR]``.

``WHAT`` is a node, or two nodes and a colon between them, for the links that join them; both
directions fail. ``leaf-0:spine-1@2ms+5ms`` fails after 2 ms and works again 5 ms later;
``spine-1@2ms`` fails for good.
"""

from __future__ import annotations

from collections.abc import Sequence

from lightloom.errors import InputError, echo
from lightloom.packets.graph import NetworkGraph
from lightloom.units import parse_quantity, to_ps

#: most failures of a run, and the latest time of one, seconds
MAX_FAILURES, MAX_TIME_S = 1_000, 1_000.0


#: time until all switches know of a failure, or of its end, by default
DETECTION_S = 1e-3

#: when links fail, when they are repaired if ever, in picoseconds, and which, both ways
Failed = tuple[int, int | None, list[int]]


def failed_links(failures: Sequence[str], graph: NetworkGraph) -> list[Failed]:
    """Failures for the core.

    Raises
    ------
    InputError
        If one is not written as above, or names what is not there.
    """
    if len(failures) > MAX_FAILURES:
        raise InputError(f"{len(failures):,} failures: expected at most {MAX_FAILURES:,}")
    found: list[Failed] = []
    for text in failures:
        what, start_s, span_s = parse_failure(text)
        repaired_ps = None if span_s is None else to_ps(start_s + span_s)
        a, colon, b = what.partition(":")
        try:
            links = graph.between(a, b) + graph.between(b, a) if colon else graph.around(a)
        except InputError as error:
            raise InputError(f"failure {echo(text)}: {error}") from None
        found.append((to_ps(start_s), repaired_ps, links))
    return found


def parse_failure(text: str) -> tuple[str, float, float | None]:
    """What fails, when, and for how long, if not for good, in seconds.

    Raises
    ------
    InputError
        If it is not written as above.
    """
    what, at, when = (part.strip() for part in text.partition("@"))
    start, plus, span = (part.strip() for part in when.partition("+"))
    if not what or not at or not start or (plus and not span):
        raise InputError(
            f"failure {echo(text)}: expected WHAT@START or WHAT@START+FOR, such as "
            "leaf-0:spine-1@2ms+5ms"
        )
    name = f"failure {echo(text)}"
    start_s = parse_quantity(start, "second", name)
    span_s = parse_quantity(span, "second", name) if plus else None
    if not 0 <= start_s <= MAX_TIME_S or (span_s is not None and not 0 < span_s <= MAX_TIME_S):
        raise InputError(
            f"{name}: expected a start from 0 to {MAX_TIME_S:g} s, and more than 0 s until it "
            "is repaired"
        )
    return what, start_s, span_s
