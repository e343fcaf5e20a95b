"""Options of a study by their dotted paths, such as ``cluster.rate_gbps``."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, create_model

from lightloom.errors import InputError, did_you_mean, echo
from lightloom.inputs.fields import FieldDescription, field_of
from lightloom.inputs.strict import Strict, check
from lightloom.study.compare.scenario import Scenario
from lightloom.units import SUFFIXES, parse_quantity

#: the table of a study that has options of fabrics by name, and that of all fabrics
FABRICS, ALL = "fabric_options", "all"


@dataclass(frozen=True)
class StudyOption:
    """A field of a study, or of a table in it.

    Attributes
    ----------
    path
        The keys that lead to it.
    table
        The model that has the field.
    """

    path: tuple[str, ...]
    table: type[BaseModel]

    @property
    def name(self) -> str:
        """The dotted path."""
        return ".".join(self.path)

    @functools.cached_property
    def described(self) -> FieldDescription:
        """What the field says."""
        return field_of(self.table, self.path[-1])

    @property
    def unit(self) -> str:
        """Unit of a bare number, as the name says; empty if it has none."""
        suffixes = (unit for end, unit in SUFFIXES.items() if self.path[-1].endswith(end))
        return next(suffixes, "")

    @functools.cached_property
    def _alone(self) -> type[Strict]:
        """A table of this field alone."""
        info = self.table.model_fields[self.path[-1]]
        made: Any = create_model
        table: type[Strict] = made(
            "Alone", __base__=Strict, **{self.path[-1]: (info.annotation, info)}
        )
        return table

    def checked(self, value: object) -> Any:
        """A value as the field takes it: quantities are plain numbers in the field's unit.

        Raises
        ------
        InputError
            If the field refuses it.
        """
        name = self.path[-1]
        if self.described.many and isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        table = check(self._alone, {name: value}, "axis", lambda _: self.name)
        return getattr(table, name)

    def number(self, value: object) -> float:
        """An end of a range, in the unit of the field.

        Raises
        ------
        InputError
            If it is no number.
        """
        if self.unit and isinstance(value, str | int | float):
            return parse_quantity(value, self.unit, f"axis {self.name}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise InputError(f"axis {self.name} = {echo(value)}: a range goes between two numbers")
        return float(value)


def find_option(path: tuple[str, ...], what: str = "axis", folder: Path = Path()) -> StudyOption:
    """The option of a path; ``mixnet.ports`` stands for ``fabric_options.mixnet.ports``.

    ``what`` says whose path it is, for messages; files of fabrics are below ``folder``.

    Raises
    ------
    InputError
        If no option has this path; the message suggests the closest.
    """
    from lightloom.fabric.read import fabric_kinds

    if path[0] in {*fabric_kinds(), ALL}:
        path = (FABRICS, *path)
    table = _table_of(path, folder)
    if table is None or path[-1] not in table.model_fields or _inner(table, path[-1]):
        name = ".".join(path).removeprefix(f"{FABRICS}.")
        names = [*_names(Scenario)]
        if table is not None:
            names += [".".join((*path[:-1], field)) for field in table.model_fields]
        last = path[-1]
        ends = [n for n in names if n.rpartition(".")[2] in {last, *(last + s for s in SUFFIXES)}]
        hint = f"; did you mean '{ends[0]}'?" if ends else did_you_mean(".".join(path), names)
        raise InputError(f"{what} {echo(name, quoted=False)}: no option of a study{hint}")
    return StudyOption(path, table)


def _table_of(path: tuple[str, ...], folder: Path) -> type[BaseModel] | None:
    """The model that would have the last key of a path."""
    if path[0] == FABRICS:
        return _fabric_table(path[1], folder) if len(path) == 3 else None
    if path[0] == "counting":
        from lightloom.fabric import Counting

        return Counting if len(path) == 2 else None
    table: type[BaseModel] | None = Scenario
    for key in path[:-1]:
        if table is None or key not in table.model_fields:
            return None
        table = _inner(table, key)
    return table


def _fabric_table(name: str, folder: Path) -> type[BaseModel] | None:
    from lightloom.errors import FabricError
    from lightloom.fabric.fabric_options import FabricOptions
    from lightloom.fabric.read import FILES, fabric_class

    if name == ALL:
        return FabricOptions
    if name.endswith(FILES):
        from lightloom.inputs.arguments import path_of
        from lightloom.inputs.formats import read_toml

        file = folder / path_of(name, "fabric", "a TOML file")
        kind = read_toml(file, "fabric").get("kind", "")
        name = str(kind)
    try:
        return fabric_class(name)
    except FabricError:
        return None


def _inner(table: type[BaseModel], name: str) -> type[BaseModel] | None:
    """The model of a field that is a table itself."""
    todo = [table.model_fields[name].annotation]
    while todo:
        annotation: Any = todo.pop()
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation
        if get_origin(annotation) in {Union, types.UnionType, Annotated}:
            todo.extend(get_args(annotation))
    return None


def _names(table: type[BaseModel], before: str = "") -> Iterator[str]:
    """Dotted paths of all options, but for those of fabrics."""
    for name in table.model_fields:
        inner = _inner(table, name)
        if inner is None:
            yield before + name
        else:
            yield from _names(inner, f"{before}{name}.")


def flat(tables: Mapping[str, object], before: tuple[str, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths and values of nested tables; a table that has ``from`` or ``values`` is a value."""
    for key, value in tables.items():
        path = (*before, *([key] if key.endswith((".toml", ".json")) else key.split(".")))
        if isinstance(value, Mapping) and not {"from", "values"} & value.keys():
            yield from flat(value, path)
        else:
            yield path, value
