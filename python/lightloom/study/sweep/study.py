"""A study that is swept: the scenario of every point, from a TOML file with ``[sweep]``."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightloom.errors import InputError, echo
from lightloom.inputs.arguments import path_of
from lightloom.inputs.formats import read_toml
from lightloom.inputs.strict import check
from lightloom.study.compare.scenario import Scenario, study_of
from lightloom.study.sweep.axes import SweepOptions
from lightloom.study.sweep.design import SweepDesign, Values
from lightloom.study.sweep.identity import Identities


@dataclass
class SweepStudy:
    """What does not change, and how the rest does.

    Attributes
    ----------
    tables
        The study without its table ``[sweep]``.
    options
        That table.
    name, folder
        What messages begin with, and where paths in the study begin.
    design
        Which points there are.
    """

    tables: dict[str, Any]
    options: SweepOptions
    name: str
    folder: Path
    design: SweepDesign

    @classmethod
    def of(cls, tables: Mapping[str, object], name: str, folder: Path) -> SweepStudy:
        """Read the tables of a study; ``name`` begins messages, paths are below ``folder``.

        Raises
        ------
        InputError
            If the study, an axis or a condition is wrong, or no point is left.
        """
        tables = dict(tables)
        if "sweep" not in tables:
            raise InputError(
                f"{name}: no table [sweep.axes], such as cluster.rate_gbps = [200, 400]; run one"
                f" point with: lightloom run {name}"
            )
        sweep = tables.pop("sweep")
        if not isinstance(sweep, Mapping):
            raise InputError(f"{name}: sweep = {echo(sweep)}: expected a table, [sweep]")
        options = check(SweepOptions, sweep, f"{name}: sweep")
        try:
            design = SweepDesign.of(options, folder)
            study = cls(tables, options, name, folder, design)
            design.base = study._known()
            first = next(design.points(range(min(design.size, MOST_TRIED))), None)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        if first is None:
            raise InputError(f"{name}: no point fulfills the conditions; change where, or the axes")
        study.scenario(first[1])
        return study

    def _known(self) -> dict[str, Any]:
        """Values of all options by dotted path, for conditions: the study's, and the defaults."""
        values = {axis.name: axis.at(0.0) for axis in self.design.axes}
        try:
            tables = self.scenario(values).model_dump()
        except InputError:  # a combination that conditions leave out
            tables = self.tables
        return dict(_plain(tables))

    def scenario(self, values: Values) -> Scenario:
        """The scenario of a point.

        Raises
        ------
        InputError
            If it is wrong.
        """
        tables = copy.deepcopy(self.tables)
        for axis in self.design.axes:
            value = values[axis.name]
            if value is None:
                continue
            inner = tables
            for key in axis.option.path[:-1]:
                inner = inner.setdefault(key, {})
                if not isinstance(inner, dict):
                    raise InputError(f"{self.name}: {key} = {echo(inner)}: expected a table")
            inner[axis.option.path[-1]] = value
        return study_of(tables, self.name, self.folder)

    def at(self, number: int) -> Scenario:
        """The scenario of the point of a number.

        Raises
        ------
        InputError
            If there is none.
        """
        values = self.design.values(number) if number < self.design.size else None
        if values is None:
            raise InputError(
                f"{self.name}: no point {number}; expected the number of one, up to"
                f" {self.design.size - 1:,}"
            )
        return self.scenario(values)

    @functools.cached_property
    def digest(self) -> str:
        """A hash of the study, of the files that it names, and of this version."""
        content = [self.tables, self.options.model_dump(mode="json")]
        return Identities().digest(content, self.folder)


#: combinations among which one has to fulfill the conditions
MOST_TRIED = 1_000_000


def _plain(tables: Mapping[str, object], before: str = "") -> list[tuple[str, Any]]:
    """Values by dotted path, for conditions."""
    problems = []
    for key, value in tables.items():
        if isinstance(value, Mapping):
            inside = "" if not before and key == "fabric_options" else f"{before}{key}."
            problems += _plain(value, inside)
        else:
            problems.append((f"{before}{key}", value))
    return problems


def load_sweep(path: Path | str) -> SweepStudy:
    """Read a study with a table ``[sweep]``.

    Raises
    ------
    InputError
        If the file cannot be read, is no TOML, or has a wrong or unknown key.
    """
    path = path_of(path, "study", "the path of a TOML file")
    return SweepStudy.of(read_toml(path, "study"), str(path), path.parent)
