"""What several comparisons of one process have in common: task graphs and searches for plans.

Comparisons that run inside :func:`sharing` look there first. The results are the same, since a key
names all that a thing is made of.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

Made = TypeVar("Made")
#: gives the bytes of things that are kept
Size = Callable[[list[Any]], int]


class SharedWork:
    """Things by kind and key; the oldest of a kind are given up.

    Attributes
    ----------
    cores
        How many cores a comparison uses; all by default.
    made, reused
        How many of each kind were made, and taken again.
    """

    #: things of a kind that are kept at most, and their bytes where these are known
    MOST, MOST_BYTES = 64, 500_000_000

    def __init__(self, cores: int | None = None) -> None:
        self.cores = cores
        self.made: Counter[str] = Counter()
        self.reused: Counter[str] = Counter()
        self._kept: dict[str, OrderedDict[Hashable, Any]] = {}

    def get(self, kind: str, key: Hashable, make: Callable[[], Made], size: Size | None) -> Made:
        """The thing of a key, made if it is not there."""
        kept = self._kept.setdefault(kind, OrderedDict())
        if key in kept:
            self.reused[kind] += 1
            kept.move_to_end(key)
            thing: Made = kept[key]
            return thing
        thing = make()
        self.made[kind] += 1
        kept[key] = thing
        while len(kept) > 1 and (
            len(kept) > self.MOST or (size is not None and size([*kept.values()]) > self.MOST_BYTES)
        ):
            kept.popitem(last=False)
        return thing


_shared: ContextVar[SharedWork | None] = ContextVar("shared", default=None)


@contextlib.contextmanager
def sharing(work: SharedWork) -> Iterator[None]:
    """Let comparisons of the block share ``work``."""
    token = _shared.set(work)
    try:
        yield
    finally:
        _shared.reset(token)


def usable_cores() -> int:
    """How many threads a comparison has."""
    work = _shared.get()
    return (None if work is None else work.cores) or os.cpu_count() or 1


def shared(
    kind: str, key: Hashable | None, make: Callable[[], Made], size: Size | None = None
) -> Made:
    """What ``make`` returns, taken from what is shared if it is there; ``None`` is no key."""
    work = _shared.get()
    return make() if work is None or key is None else work.get(kind, key, make, size)
