"""Schedulers and allocators of installed packages, by name; looked up without importing any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points

from lightloom.errors import InputError, expected_one_of

#: where packages name their schedulers
GROUP = "lightloom.schedulers"
#: where they name their allocators
ALLOCATORS_GROUP = "lightloom.allocators"


def custom_schedulers() -> Mapping[str, EntryPoint]:
    """Return the schedulers of installed packages, by name.

    Returns
    -------
    Mapping
        Entry points of the group ``lightloom.schedulers``, which are not imported yet.

    Examples
    --------
    >>> from lightloom.schedule import custom_schedulers
    >>> "bvn" in custom_schedulers()
    False
    """
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def custom_allocators() -> Mapping[str, EntryPoint]:
    """Return the allocators of installed packages, by name.

    Returns
    -------
    Mapping
        Entry points of the group ``lightloom.allocators``, which are not imported yet.

    Examples
    --------
    >>> from lightloom.schedule import custom_allocators
    >>> "best" in custom_allocators()
    False
    """
    return {entry.name: entry for entry in entry_points(group=ALLOCATORS_GROUP)}


def expected_installed(name: str, known: Mapping[str, EntryPoint]) -> str:
    """Say which names there are, or that there are none."""
    return expected_one_of(name, known) if known else "no installed package has one"


@contextmanager
def in_one_line(what: str) -> Iterator[None]:
    """Refuse whatever is raised, on behalf of something installed, in one line."""
    try:
        yield
    except Exception as error:
        text = " ".join(str(error).split())
        if not isinstance(error, InputError):
            text = f"{type(error).__name__}: {text}"
        raise InputError(f"{what}: {text}") from error
