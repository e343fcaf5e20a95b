"""Axes of a sweep: options with the values that they take, and which of them belong together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from lightloom.errors import InputError
from lightloom.inputs.strict import Name, Strict, Whole, check
from lightloom.study.sweep.condition import Condition
from lightloom.study.sweep.options import FABRICS, StudyOption, find_option, flat

#: values of an axis at most
MOST_VALUES = 1_000_000
#: what the best point is chosen by: what it is, and whether more is better
GOALS = {
    "perf_per_cluster_usd": ("most per dollar of the cluster", True),
    "tokens_per_s": ("most tokens/s", True),
    "step_time_s": ("shortest step", False),
    "usd_per_token": ("cheapest token", False),
    "energy_per_token_j": ("least energy per token", False),
}


class SweepOptions(Strict):
    """The table ``[sweep]`` of a study: which points there are."""

    axes: dict[str, Any] = Field(
        description="Options by their dotted paths, each with a list of values, or a range such as"
        " { from = 1, to = 8, count = 4, scale = 'log' }; 'when' says for which points it counts."
    )
    zip: tuple[tuple[Name, ...], ...] = Field(
        (), description="Axes that move together, value by value."
    )
    where: Name | None = Field(
        None, description="Condition that points fulfill, such as 'gpus <= 256 or vpp == 1'."
    )
    design: Literal["grid", "random", "sobol"] = Field(
        "grid", description="Every combination, or so many points at random or of a Sobol sequence."
    )
    points: Whole | None = Field(None, description="Number of points of a random or Sobol design.")
    seed: int = Field(0, strict=True, ge=0, lt=2**63, description="Seed of such a design.")
    best: Literal[
        "perf_per_cluster_usd", "tokens_per_s", "step_time_s", "usd_per_token", "energy_per_token_j"
    ] = Field("perf_per_cluster_usd", description="What the best point is chosen by.")


class RangeOptions(Strict):
    """A range of an axis, or a list with a condition."""

    from_: Any = Field(None, alias="from")
    to: Any = None
    count: Whole | None = None
    scale: Literal["linear", "log"] = "linear"
    values: tuple[Any, ...] | None = None
    when: Name | None = None


@dataclass(frozen=True)
class SweepAxis:
    """An option and its values.

    Attributes
    ----------
    option
        Which one.
    values
        What it takes, in the order of the study; empty for a range of a random design.
    ends
        From where to where a range goes, for random designs.
    is_log
        Whether a range is even on a logarithmic scale.
    when
        For which points it counts; for the others the option stays out.
    """

    option: StudyOption
    values: tuple[Any, ...] = ()
    ends: tuple[float, float] | None = None
    is_log: bool = False
    when: Condition | None = None

    @property
    def name(self) -> str:
        """The dotted path of the option, without that of the table of fabrics' options."""
        return self.option.name.removeprefix(f"{FABRICS}.")

    def at(self, share: float) -> Any:
        """The value at a share of the axis, from 0 to below 1."""
        if self.ends is None:
            return self.values[int(share * len(self.values))]
        return self._whole(_between(self.ends, share, is_log=self.is_log))

    def _whole(self, number: float) -> Any:
        return self.option.checked(round(number) if self.option.described.kind is int else number)

    @property
    def changes_step(self) -> int:
        """How much of the work a new value of it costs: 2 a task graph, 1 a plan, 0 neither."""
        path = self.option.path
        if path in {("cluster", "rate_gbps"), ("cluster", "link_delay_s"), ("fabrics",)}:
            return 1
        alone = {"counting", "network", "packets", "predictor", "policies", "imbalances", "fail"}
        alone |= {"prices", "power", "whole_steps", "compute_spread", "designs"}
        return 0 if path[0] in alone else 1 if path[0] == FABRICS else 2

    @property
    def column_type(self) -> type:
        """What its column holds."""
        if self.ends is not None:
            return int if self.option.described.kind is int else float
        kinds = {type(value) for value in self.values}
        if kinds <= {int, float}:
            return int if kinds == {int} else float
        return bool if kinds == {bool} else str

    def cell(self, value: object) -> Any:
        """A value as its column holds it."""
        if value is None:
            return None
        kind = self.column_type
        if kind is not str:
            return kind(value)
        items = value if isinstance(value, list | tuple) else [value]
        return ",".join(map(str, items))


def _between(ends: tuple[float, float], share: float, *, is_log: bool) -> float:
    low, high = ends
    if is_log:
        number = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    else:
        number = low + share * (high - low)
    # 0.001 and not 0.0010000000000000002
    return float(f"{number:.12g}")


def read_axes(options: SweepOptions, folder: Path = Path()) -> list[SweepAxis]:
    """The axes of a sweep, of which files of fabrics are below ``folder``.

    Raises
    ------
    InputError
        If one names no option, or takes no values.
    """
    axes = [
        _axis(find_option(path, folder=folder), value, options)
        for path, value in flat(options.axes)
    ]
    if not axes:
        raise InputError(
            "a sweep has no axis: add one to [sweep.axes], such as cluster.rate_gbps = [200, 400]"
        )
    return axes


def _axis(option: StudyOption, given: object, options: SweepOptions) -> SweepAxis:
    if not isinstance(given, Mapping):
        return _of_values(option, given, None)
    form = check(RangeOptions, given, f"axis {option.name}")
    when = Condition.of(form.when) if form.when is not None else None
    if form.values is not None:
        return _of_values(option, list(form.values), when)
    if form.to is None:
        raise InputError(f"axis {option.name}: a range needs its end; add to")
    ends = option.number(form.from_), option.number(form.to)
    is_log = form.scale == "log"
    if is_log and min(ends) <= 0:
        raise InputError(f"axis {option.name}: a logarithmic range is between numbers above 0")
    for end in ends:
        option.checked(int(end) if option.described.kind is int and end == int(end) else end)
    if options.design != "grid":
        return SweepAxis(option, ends=ends, is_log=is_log, when=when)
    if form.count is None or form.count > MOST_VALUES:
        raise InputError(f"axis {option.name}: a range of a grid needs its count, up to a million")
    shares = np.linspace(0, 1, form.count)
    numbers = [_between(ends, float(share), is_log=is_log) for share in shares]
    axis = SweepAxis(option, ends=ends, is_log=is_log, when=when)
    values = tuple(dict.fromkeys(axis._whole(number) for number in numbers))
    return SweepAxis(option, values, when=when)


def _of_values(option: StudyOption, given: object, when: Condition | None) -> SweepAxis:
    if not isinstance(given, list):
        given = [given]
    if not given:
        raise InputError(f"axis {option.name} has no value; give at least one, or leave it out")
    checked = [option.checked(value) for value in given]
    unique: list[Any] = []
    for value in checked if len(checked) <= MOST_VALUES else ():
        if value not in unique[-1000:]:
            unique.append(value)
    return SweepAxis(option, tuple(unique), when=when)


def zipped(axes: Sequence[SweepAxis], together: Sequence[Sequence[str]]) -> list[list[SweepAxis]]:
    """The axes, those that move together in one list.

    Raises
    ------
    InputError
        If one is no axis, or has another number of values than the others.
    """
    by_name = {axis.name: axis for axis in axes}
    by_name |= {axis.option.name: axis for axis in axes}
    groups: list[list[SweepAxis]] = []
    for names in together:
        if not names:
            raise InputError("zip: expected the names of axes, got an empty list")
        for name in names:
            if name not in by_name:
                raise InputError(f"zip {name}: no axis has this name; add it to [sweep.axes]")
        group = [by_name[name] for name in names]
        counts = {len(axis.values) for axis in group}
        if len(counts) > 1 or 0 in counts:
            lengths = ", ".join(f"{axis.name} has {len(axis.values)}" for axis in group)
            raise InputError(f"zip: axes that move together have as many values: {lengths}")
        groups.append(group)
    used = [axis for group in groups for axis in group]
    if len(used) != len({axis.name for axis in used}):
        raise InputError("zip: an axis moves together with two others; name all three in one list")
    return groups + [[axis] for axis in axes if axis not in used]
