"""What a user adds: fabrics, allocators, schedulers, predictors and families of models.

Each kind of thing has one :class:`Door`. A place that takes such a thing takes the thing itself,
the name of a built-in one, or the name under which an installed package has one as an entry point
of the door's group, in that order. Packages are looked up without importing them, and imported
where they are named, or where all are wanted; whatever goes wrong in one is told in one line.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from lightloom.errors import InputError, expected_one_of


def _place(folder: str) -> tuple[str, int]:
    """A folder of packages, and when one was last added to it or taken away."""
    try:
        return folder, os.stat(folder or ".").st_mtime_ns
    except OSError:
        return folder, 0


@functools.lru_cache(maxsize=64)  # every fabric of every point of a sweep is looked up
def _installed(group: str, _places: tuple[tuple[str, int], ...]) -> Mapping[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=group)}


@dataclass(frozen=True)
class Door:
    """Where packages add things of one kind.

    Attributes
    ----------
    what
        One such thing in words, such as ``"allocator"``.
    group
        Group of the entry points, such as ``"lightloom.allocators"``.
    """

    what: str
    group: str

    def installed(self) -> Mapping[str, EntryPoint]:
        """Return the things of installed packages, by name; none is imported yet."""
        return _installed(self.group, tuple(map(_place, sys.path)))

    def load(self, name: str) -> Any:
        """Import the thing that a package has under a name.

        Raises
        ------
        InputError
            If no package has it, or it cannot be imported.
        """
        installed = self.installed()
        if name not in installed:
            expected = (
                expected_one_of(name, installed) if installed else "no installed package has one"
            )
            raise InputError(f"{self.what} '{name}': {expected}")
        with self.in_one_line(name):
            return installed[name].load()

    @contextmanager
    def in_one_line(self, name: str) -> Iterator[None]:
        """Refuse whatever a package's thing raises, in one line.

        Raises
        ------
        InputError
            In the place of any exception.
        """
        start = f"{self.what} '{name}': "
        try:
            yield
        except Exception as error:
            text = " ".join(str(error).split()).removeprefix(start)
            if not isinstance(error, InputError):
                text = f"{type(error).__name__}: {text}"
            raise InputError(f"{start}{text}") from error

    @contextmanager
    def left_out_with_a_warning(self, name: str) -> Iterator[None]:
        """Warn of whatever a package's thing raises, in one line, where all things are wanted.

        What is not of a package, but built in, raises as ever.
        """
        if name not in self.installed():
            yield
            return
        try:
            with self.in_one_line(name):
                yield
        except InputError as error:
            warnings.warn(f"{error}; left out", stacklevel=3)


#: classes with the protocol :class:`lightloom.fabric.Fabric`
FABRICS = Door("fabric", "lightloom.fabrics")
#: functions from requests to circuits, :data:`lightloom.schedule.CircuitAllocator`
ALLOCATORS = Door("allocator", "lightloom.allocators")
#: functions from demand to permutations, :data:`lightloom.schedule.Scheduler`
SCHEDULERS = Door("scheduler", "lightloom.schedulers")
#: functions from a number of members to a predictor, :data:`lightloom.simulate.PredictorFactory`
PREDICTORS = Door("predictor", "lightloom.predictors")
#: subclasses of :class:`lightloom.models.family.Family`
FAMILIES = Door("family", "lightloom.families")
