"""Whether the core answers a call, or refuses it in one line, in time and in little memory."""

import contextlib
import functools
import inspect
import re
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

from lightloom import _core

#: the processor time after which a run that can be stopped is told to, and that of any call
PATIENCE_S, LIMIT_S = 0.5, 3.0
#: how much the most memory that the process ever had may grow in a call; inputs are a few kilobytes
LIMIT_KB = 256 * 1024


def refusal(call: Callable[..., Any], *arguments: Any) -> str | None:
    """Return the one line that a call is refused with, empty if it is several; None if answered."""
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
        lines = str(error).splitlines()
        return lines[0].strip() if len(lines) == 1 else ""
    return None


def answered(call: Callable[[Callable[..., bool]], Any]) -> bool:
    """Whether a call is answered, not refused; that it ends in time, in little memory.

    The call gets a function that says whether to continue.
    """
    begin_s = time.process_time()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = None

    def continues(*_: Any) -> bool:
        return time.process_time() - begin_s < PATIENCE_S

    try:
        line = refusal(call, continues)
    except KeyboardInterrupt as stopped:
        assert re.match(r"interrupted at .* after \d+ \w+", str(stopped))  # noqa: PT017
    assert line != "", "refused, but not in one line"
    spent_s = time.process_time() - begin_s
    assert spent_s < LIMIT_S, f"it took {spent_s:.1f} s"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < LIMIT_KB, f"it took {grown} kB"
    return line is None


@contextlib.contextmanager
def named(what: str) -> Iterator[None]:
    """Say what it was if anything goes wrong, a panic too, which is no ``Exception``."""
    try:
        yield
    except BaseException as error:
        raise AssertionError(f"{what}: {error!r}") from error


@functools.cache
def shown(kind: type) -> tuple[str, ...]:
    """The names of what objects of a class show."""
    members = inspect.getmembers(kind)
    return tuple(n for n, v in members if inspect.isdatadescriptor(v) and not n.startswith("__"))


def look(thing: Any) -> Any:
    """Read everything that an object of the core shows."""
    for name in shown(type(thing)):
        getattr(thing, name)
    return thing
