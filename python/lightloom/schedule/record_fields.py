"""Records of the core as Python classes and as tables of files.

A record is a table in Rust (``records!`` in ``crates/model``) and nowhere else: what is added there
is an attribute of its class, a key of its table, and stands in the help of both. A field is a flag,
or a quantity in the unit that its name ends with; text may carry its own unit.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, create_model

from lightloom import _core
from lightloom.errors import InputError, echo
from lightloom.inputs.strict import Switch, quantity
from lightloom.units import SUFFIXES, parse_quantity

Kind = TypeVar("Kind")
Table = TypeVar("Table", bound=BaseModel)


def unit_of(name: str) -> str:
    """Return the unit that a name ends with, such as ``second`` for ``fixed_s``."""
    return SUFFIXES["_" + name.rpartition("_")[2]]


def record(kind: type[Kind]) -> type[Kind]:
    """Give a class the fields of the core's record of its name; what is wrong is an InputError."""
    fields = _core.record_fields(kind.__name__)
    kind.__annotations__ = {
        field.name: "bool" if field.limits is None else "float | str" for field in fields
    }
    for field in fields:
        if not field.required:
            setattr(kind, field.name, field.default)
    described = (
        f"{field.name}\n{textwrap.indent(textwrap.fill(field.description, 96), '    ')}\n"
        for field in fields
    )
    kind.__doc__ = f"{kind.__doc__}\n\nAttributes\n----------\n{''.join(described)}"

    def check(self: Any) -> None:
        for field in fields:
            given = getattr(self, field.name)
            vars(self)[field.name] = (
                _flag(given, field.name)
                if field.limits is None
                else parse_quantity(given, unit_of(field.name), field.name)
            )
        try:
            values = _core.record_values(kind.__name__, vars(self))
        except ValueError as error:
            raise InputError(str(error)) from None
        vars(self).update(values)

    kind.__post_init__ = check  # type: ignore[attr-defined]
    return dataclass(frozen=True)(kind)


def _flag(value: Any, name: str) -> bool:
    # numpy is not imported for it: a flag of its own says so by its name
    if not isinstance(value, bool) and type(value).__name__ not in {"bool", "bool_"}:
        raise InputError(f"{name}: expected True or False, got {echo(value)}")
    return bool(value)


def keys_of(name: str, instead: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the keys of a table for the fields of a record, as pydantic declares fields.

    Parameters
    ----------
    name
        Name of the record.
    instead
        Types and fields of keys that take more than the record does; ``None`` leaves one out.
    """
    keys = {}
    for field in _core.record_fields(name):
        takes: Any = Switch
        if field.limits is not None:
            low, high = field.limits
            takes = Annotated[float, quantity(unit_of(field.name)), Field(ge=low, le=high)]
        default = ... if field.required else field.default
        keys[field.name] = (takes, Field(default, description=field.description))
    keys |= instead or {}
    return {key: declared for key, declared in keys.items() if declared is not None}


def with_keys(keys: Mapping[str, Any]) -> Any:
    """Return what adds keys to the table that it decorates."""

    def add(table: type[Table]) -> type[Table]:
        return create_model(
            table.__name__,
            __base__=table,
            __module__=table.__module__,
            __doc__=table.__doc__,
            **keys,
        )

    return add
