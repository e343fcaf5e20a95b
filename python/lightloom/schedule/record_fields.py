"""Records of the core as Python classes and as tables of files.

A record is a table in Rust (``records!`` in ``crates/model``) and nowhere else: what is added there
is an attribute of its class, a key of its table, and stands in the help of both. A field is a flag,
a whole number, or a quantity in the unit that its name ends with; text may carry its own unit.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, Field, create_model

from lightloom import _core
from lightloom.errors import InputError, echo
from lightloom.inputs.strict import Switch, quantity
from lightloom.units import SUFFIXES, parse_quantity

if TYPE_CHECKING:
    from lightloom._core import RecordField

Kind = TypeVar("Kind")
Table = TypeVar("Table", bound=BaseModel)
#: the value of a field that is not given, by its name; nothing if it has none but the core's
Default = Callable[[str], Any]


def unit_of(name: str) -> str:
    """Return the unit that a name ends with, such as ``second`` for ``fixed_s``."""
    return SUFFIXES["_" + name.rpartition("_")[2]]


def record(default: Default | None = None) -> Callable[[type[Kind]], type[Kind]]:
    """Return what gives a class the fields of the core's record of its name.

    Whatever is wrong with a value is an InputError that names the field.
    """

    def add(kind: type[Kind]) -> type[Kind]:
        name, fields = kind.__name__, _core.record_fields(kind.__name__)
        kind.__annotations__ = {key.name: _written(key) for key in fields}
        for key in fields:
            if default is not None:
                setattr(kind, key.name, field(default_factory=partial(default, key.name)))
            elif not key.required:
                setattr(kind, key.name, key.default)
        described = (
            f"{key.name}\n{textwrap.indent(textwrap.fill(key.description, 96), '    ')}\n"
            for key in fields
        )
        kind.__doc__ = f"{kind.__doc__}\n\nAttributes\n----------\n{''.join(described)}"

        def check(self: Any) -> None:
            values = vars(self)
            values |= {key.name: _read(key, values[key.name]) for key in fields}
            try:
                values |= _core.record_values(name, values)
            except ValueError as error:
                raise InputError(str(error)) from None

        kind.__post_init__ = check  # type: ignore[attr-defined]
        return dataclass(frozen=True)(kind)

    return add


def _may_lack(one: RecordField) -> bool:
    return not one.required and one.default is None


def _written(one: RecordField) -> str:
    takes = "bool" if one.limits is None else "int" if one.whole else "float | str"
    return f"{takes} | None" if _may_lack(one) else takes


def _read(key: RecordField, value: Any) -> bool | float | None:
    """What is written as the core reads it."""
    if _may_lack(key) and (value is None or (value == math.inf and not key.whole)):
        return None
    if key.limits is None:
        # numpy is not imported for it: a flag of its own says so by its name
        if not isinstance(value, bool) and type(value).__name__ not in {"bool", "bool_"}:
            raise InputError(f"{key.name}: expected True or False, got {echo(value)}")
        return bool(value)
    if not key.whole:
        return parse_quantity(value, unit_of(key.name), key.name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= key.limits[1]:
        most = f"2^{math.log2(key.limits[1]):g}"
        raise InputError(f"{key.name}: expected a whole number from 0 to {most}, got {echo(value)}")
    return value


def keys_of(
    name: str, instead: Mapping[str, Any] | None = None, default: Default | None = None
) -> dict[str, Any]:
    """Return the keys of a table for the fields of a record, as pydantic declares fields.

    Parameters
    ----------
    name
        Name of the record.
    instead
        Types and fields of keys that take more than the record does.
    default
        The value of a key that is not given, by its name; the core's by default.
    """
    keys: dict[str, Any] = {}
    for key in _core.record_fields(name):
        takes: Any = Switch
        if key.limits is not None:
            limits = Field(ge=key.limits[0], le=key.limits[1])
            takes = (
                Annotated[int, Field(strict=True), limits]
                if key.whole
                else Annotated[float, quantity(unit_of(key.name)), limits]
            )
        if _may_lack(key):
            takes |= None
        if default is not None:
            declared = Field(
                default_factory=partial(default, key.name), description=key.description
            )
        else:
            fallback = ... if key.required else key.default
            declared = Field(fallback, description=key.description)
        keys[key.name] = (takes, declared)
    return keys | dict(instead or {})


def with_keys(keys: Mapping[str, Any]) -> Callable[[type[Table]], type[Table]]:
    """Return what adds keys to the table that it decorates, after its own; those stay."""

    def add(table: type[Table]) -> type[Table]:
        more = {key: declared for key, declared in keys.items() if key not in table.model_fields}
        return create_model(
            table.__name__,
            __base__=table,
            __module__=table.__module__,
            __doc__=table.__doc__,
            **more,
        )

    return add
