"""Points of a sweep by their numbers, none of which is kept.

Axes that change the step's task graph vary slowest, so that points that share work are next to
each other. A number belongs to every combination; those that a condition leaves out have no values.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError, echo
from lightloom.optional import need
from lightloom.study.sweep.axes import SweepAxis, SweepOptions, read_axes, zipped
from lightloom.study.sweep.condition import Condition
from lightloom.study.sweep.options import find_option

#: points of a random design at most, whose numbers are kept
MOST_DRAWN = 10_000_000
#: points that are counted one by one where a condition leaves some out
MOST_COUNTED = 100_000

#: values by the paths of the axes; ``None`` where an axis does not count
Values = dict[str, Any]


@dataclass
class SweepDesign:
    """Which points there are.

    ``groups`` are axes that move together, ``drawn`` the shares of a random design, a row per
    point; ``base`` has the values of other options that conditions name.
    """

    axes: list[SweepAxis]
    groups: list[list[SweepAxis]]
    where: Condition | None = None
    base: Mapping[str, Any] = field(default_factory=dict)
    drawn: npt.NDArray[np.float64] | None = None

    @classmethod
    def of(cls, options: SweepOptions, folder: Path = Path()) -> SweepDesign:
        """The design that the table ``[sweep]`` of a study in a folder describes.

        Raises
        ------
        InputError
            If an axis or a condition is wrong.
        """
        axes = read_axes(options, folder)
        groups = zipped(axes, options.zip)
        groups.sort(key=lambda group: -max(axis.changes_step for axis in group))
        where = None if options.where is None else Condition.of(options.where)
        design = cls(axes, groups, where)
        for condition in filter(None, [where, *(axis.when for axis in axes)]):
            for path in condition.names:
                find_option(path, f"condition {echo(condition.text)}:", folder)
        if options.design != "grid":
            if options.points is None or options.points > MOST_DRAWN:
                raise InputError(
                    f"a {options.design} design needs its number of points, up to {MOST_DRAWN:,}"
                )
            design.drawn = _shares(options, design)
        elif options.points is not None:
            raise InputError("points: a grid has every combination; leave it out, or add a design")
        return design

    @functools.cached_property
    def size(self) -> int:
        """Combinations, with those that conditions leave out."""
        if self.drawn is not None:
            return len(self.drawn)
        return math.prod(len(group[0].values) for group in self.groups)

    @functools.cached_property
    def run_length(self) -> int:
        """Consecutive points that have the same task graph."""
        if self.drawn is not None:
            return 1
        same = [g for g in self.groups if max(axis.changes_step for axis in g) < 2]
        return math.prod(len(group[0].values) for group in same)

    @functools.cached_property
    def is_conditional(self) -> bool:
        """Whether conditions leave combinations out."""
        return self.where is not None or any(axis.when is not None for axis in self.axes)

    def count(self) -> int | None:
        """How many points there are; ``None`` if they are too many to be counted one by one."""
        if not self.is_conditional:
            return self.size
        if self.size > MOST_COUNTED:
            return None
        return sum(self.values(number) is not None for number in range(self.size))

    def values(self, number: int) -> Values | None:
        """The values of a point, or ``None`` where a condition leaves the combination out."""
        values: Values = {}
        indices: dict[str, int] = {}
        rest = number
        for column in reversed(range(len(self.groups))):
            group = self.groups[column]
            if self.drawn is None:
                rest, index = divmod(rest, len(group[0].values))
                chosen = [axis.values[index] for axis in group]
            else:
                index = 0
                chosen = [axis.at(float(self.drawn[number, column])) for axis in group]
            for axis, value in zip(group, chosen, strict=True):
                values[axis.name], indices[axis.name] = value, index
        known = {**self.base, **values}
        for group in self.groups:
            off = [axis for axis in group if axis.when is not None and not axis.when.holds(known)]
            # where none of them matters, one combination stands for all
            if len(off) == len(group) and indices[group[0].name]:
                return None
            values |= dict.fromkeys((axis.name for axis in off), None)
        if self.where is not None and not self.where.holds({**self.base, **values}):
            return None
        return {axis.name: values[axis.name] for axis in self.axes}

    def points(self, numbers: range) -> Iterator[tuple[int, Values]]:
        """Numbers and values of the points among some numbers."""
        for number in numbers:
            values = self.values(number)
            if values is not None:
                yield number, values

    def runs(self) -> Iterator[range]:
        """All numbers, those with the same task graph together."""
        if self.drawn is None:
            length = self.run_length
            for start in range(0, self.size, length):
                yield range(start, min(self.size, start + length))
            return
        slow = [i for i, group in enumerate(self.groups) if group[0].changes_step == 2]

        def key(number: int) -> tuple[Any, ...]:
            assert self.drawn is not None
            return tuple(
                str(axis.at(float(self.drawn[number, column])))
                for column in slow
                for axis in self.groups[column]
            )

        start = 0
        for _, same in itertools.groupby(range(self.size), key):
            count = sum(1 for _ in same)
            yield range(start, start + count)
            start += count


def _shares(options: SweepOptions, design: SweepDesign) -> npt.NDArray[np.float64]:
    """Shares of the axes for each point, in the order of what they share."""
    count, width = options.points or 0, len(design.groups)
    if options.design == "random":
        drawn = np.random.default_rng(options.seed).random((count, width))
    else:
        need("scipy", "a Sobol design")
        from scipy.stats import qmc

        sampler = qmc.Sobol(width, rng=np.random.default_rng(options.seed))
        drawn = sampler.random_base2(max(0, (count - 1).bit_length()))[:count]
    # an axis of values has few: shares that mean the same value are one
    for column, group in enumerate(design.groups):
        if (values := len(group[0].values)) > 0:
            drawn[:, column] = (np.floor(drawn[:, column] * values) + 0.5) / values
    drawn = np.unique(drawn, axis=0)
    return np.asarray(drawn, dtype=np.float64)
