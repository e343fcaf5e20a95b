"""Records of the core as Python classes and as tables of files.

A record is a table in Rust (``records!`` in ``crates/model``) and nowhere else: what is added there
is an attribute of its class, a key of its table, and stands in the help of both. A field is a flag,
a whole number, a quantity in the unit that its name ends with (text may carry its own unit), either
of these for each server, a name of a set, another record, any number of whole numbers, or of pairs
of them, or a matrix of flags.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, Field, create_model

from lightloom import _core
from lightloom.errors import InputError, echo, expected_one_of
from lightloom.inputs.fields import OneOf
from lightloom.inputs.strict import Switch, quantity
from lightloom.units import SUFFIXES, parse_quantity

if TYPE_CHECKING:
    import numpy.typing as npt

    from lightloom._core import RecordField

Kind = TypeVar("Kind")
Table = TypeVar("Table", bound=BaseModel)
#: the value of a field that is not given, by its name; nothing if it has none but the core's
Default = Callable[[str], Any]


def unit_of(name: str) -> str:
    """Return the unit that a name ends with, such as ``second`` for ``fixed_s``."""
    return SUFFIXES["_" + name.rpartition("_")[2]]


def record(
    default: Default | None = None, without: Collection[str] = ()
) -> Callable[[type[Kind]], type[Kind]]:
    """Return what gives a class the fields of the core's record of its name, but for some.

    Whatever is wrong with a value is an InputError that names the field.
    """

    def add(kind: type[Kind]) -> type[Kind]:
        name = kind.__name__
        fields = [key for key in _core.record_fields(name) if key.name not in without]
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
        text, *examples = (kind.__doc__ or "").split("\n\n    Examples\n")
        kind.__doc__ = f"{text}\n\nAttributes\n----------\n{''.join(described)}"
        if examples:
            kind.__doc__ += textwrap.dedent(f"\n    Examples\n{examples[0]}")

        def check(self: Any) -> None:
            values = vars(self)
            written = {entry.name: _read(entry, values[entry.name]) for entry in fields}
            try:
                read = _core.record_values(name, written)
            except (ValueError, OverflowError) as error:
                raise InputError(str(error)) from None
            for entry in fields:
                if entry.takes in ("numbers", "pairs", "matrix") or _is_list(written[entry.name]):
                    values[entry.name] = written[entry.name]
                elif entry.takes != "record":
                    values[entry.name] = read[entry.name]

        kind.__post_init__ = check  # type: ignore[attr-defined]
        return dataclass(frozen=True, eq=kind.__eq__ is object.__eq__)(kind)

    return add


def _may_lack(entry: RecordField) -> bool:
    return not entry.required and entry.default is None


#: what a field of each kind is annotated with
_TYPES = {
    "flag": "bool",
    "quantity": "float | str",
    "whole": "int",
    "name": "str",
    "numbers": "Sequence[int]",
    "pairs": "Sequence[tuple[int, int]]",
    "matrix": "npt.ArrayLike",
}


def _written(entry: RecordField) -> str:
    takes = _TYPES.get(entry.takes) or str(entry.of)
    if entry.per_server:
        takes += " | npt.ArrayLike"
    return f"{takes} | None" if _may_lack(entry) else takes


def _read(entry: RecordField, value: Any) -> object:
    """What is written as the core reads it."""
    if getattr(value, "ndim", None) == 0:
        value = value.item()  # a number or flag of numpy
    if _may_lack(entry) and (value is None or (entry.takes == "quantity" and value == math.inf)):
        return None
    if entry.per_server and _is_list(value):
        return _read_list(entry, value)
    return _READERS[entry.takes](entry, value)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0


def _read_list(entry: RecordField, value: Any) -> npt.NDArray[Any]:
    """What is written for each server, copied: nobody changes it any more."""
    from lightloom.schedule.arrays import as_array

    array = as_array(value, entry.name, InputError)
    if array.ndim != 1:
        raise InputError(
            f"{entry.name}: expected one number or one per server, got shape {array.shape}"
        )
    return _kept([_READERS[entry.takes](entry, number) for number in array.tolist()])


def _read_matrix(entry: RecordField, value: Any) -> npt.NDArray[Any]:
    from lightloom.schedule.arrays import as_array

    array = as_array(value, entry.name, InputError).astype(bool)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or (array != array.T).any():
        raise InputError(
            f"{entry.name}: expected a symmetric square matrix, got shape {array.shape}"
        )
    return _kept(array)


def _kept(values: Any) -> npt.NDArray[Any]:
    import numpy as np

    array = np.array(values)
    array.setflags(write=False)
    return array


def _read_flag(entry: RecordField, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{entry.name}: expected True or False, got {echo(value)}")
    return value


def _read_quantity(entry: RecordField, value: float | str) -> float:
    return parse_quantity(value, unit_of(entry.name), entry.name)


def _read_whole(entry: RecordField, value: object) -> int:
    low, high = entry.limits or (0, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        limit = f"2^{math.log2(high):g}" if high > 2**32 else f"{high:.0f}"
        raise InputError(
            f"{entry.name}: expected a whole number from {low:.0f} to {limit}, got {echo(value)}"
        )
    return value


def _read_name(field: RecordField, value: object) -> str:
    names = [name for name, _ in _core.choices(str(field.of))]
    if not isinstance(value, str) or value not in names:
        raise InputError(f"{field.name} {echo(value)}: {expected_one_of(value, names)}")
    return value


def _read_record(entry: RecordField, value: object) -> dict[str, object]:
    """The values of a record; it was checked when it was made."""
    if type(value).__name__ != entry.of:
        raise InputError(f"{entry.name}: expected a {entry.of}, got {echo(value)}")
    return vars(value)


def _read_numbers(entry: RecordField, value: Iterable[int]) -> tuple[int, ...]:
    try:
        return tuple(map(_index, value))
    except (TypeError, ValueError):
        raise InputError(f"{entry.name} = {echo(value)}: expected whole numbers") from None


def _read_pairs(
    entry: RecordField, value: Iterable[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    try:
        return tuple((_index(first), _index(second)) for first, second in value)
    except (TypeError, ValueError):
        raise InputError(f"{entry.name} = {echo(value)}: expected pairs of whole numbers") from None


def _index(number: int) -> int:
    """What counts from 0, in 32 bits as in the core."""
    if not 0 <= index(number) < 2**32:
        raise ValueError
    return index(number)


_READERS: dict[str, Callable[[RecordField, Any], Any]] = {
    "flag": _read_flag,
    "quantity": _read_quantity,
    "whole": _read_whole,
    "name": _read_name,
    "record": _read_record,
    "numbers": _read_numbers,
    "pairs": _read_pairs,
    "matrix": _read_matrix,
}


def keys_of(
    name: str,
    instead: Mapping[str, Any] | None = None,
    default: Default | None = None,
    defaults: Mapping[str, Any] | None = None,
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
    defaults
        Values of some keys that are not given, instead of the core's.
    """
    keys: dict[str, Any] = {}
    for key in _core.record_fields(name):
        takes: Any = list[list[bool]] if key.takes == "matrix" else Switch
        if key.takes == "name":
            takes = Annotated[str, OneOf(tuple(name for name, _ in _core.choices(str(key.of))))]
        elif key.limits is not None:
            limits = Field(ge=key.limits[0], le=key.limits[1])
            takes = (
                Annotated[int, Field(strict=True), limits]
                if key.takes == "whole"
                else Annotated[float, quantity(unit_of(key.name)), limits]
            )
        if key.per_server:
            takes |= list[takes]
        if _may_lack(key):
            takes |= None
        if default is not None:
            declared = Field(
                default_factory=partial(default, key.name), description=key.description
            )
        else:
            fallback = (defaults or {}).get(key.name, ... if key.required else key.default)
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
