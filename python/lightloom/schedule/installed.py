"""Schedulers and allocators of installed packages, by name; looked up without importing any."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

#: where packages name their schedulers
GROUP = "lightloom.schedulers"
#: where they name their allocators
ALLOCATORS_GROUP = "lightloom.allocators"


def custom_schedulers() -> Mapping[str, EntryPoint]:
    """Return the schedulers of installed packages, by name."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def custom_allocators() -> Mapping[str, EntryPoint]:
    """Return the allocators of installed packages, by name."""
    return {entry.name: entry for entry in entry_points(group=ALLOCATORS_GROUP)}
