"""Schedulers of installed packages, by name; looked up without importing any of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

#: where packages name their schedulers
GROUP = "lightloom.schedulers"


def custom_schedulers() -> Mapping[str, EntryPoint]:
    """Return the schedulers of installed packages, by name."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}
