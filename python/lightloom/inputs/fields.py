"""What the fields of a strict table mean: one description for help, errors and reference pages.

A field says in its ``description`` what it is, in its type what it takes, and in the suffix of its
name the unit (``rate_gbps``, ``link_delay_s``). Names that another table decides on, such as those
of the core's transports, are attached to the type as :class:`Choices`.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from lightloom.units import show_bytes, show_time

#: how a value is written, by the suffix that names its unit
_WRITTEN = {
    **{"_gbps": "Gb/s", "_s": "TIME", "_bytes": "SIZE", "_m": "METERS", "_usd": "USD"},
    "seq_len": "TOKENS",
}
#: how a default is shown, by the same suffix
_SHOWN: dict[str, Callable[[float], str]] = {
    "_gbps": lambda value: f"{value:g} Gb/s",
    "_s": show_time,
    "_bytes": show_bytes,
    "_m": lambda value: f"{value:g} m",
}
#: the most characters of choices that are listed in place of a value
_MAX_METAVAR = 20
#: a whole number with its thousands apart, such as 1,024
THOUSANDS = re.compile(r"[0-9]{1,3}(,[0-9]{3})+")


@dataclass(frozen=True)
class Choices:
    """The names that a field takes as text; looked up when they are shown, not validated."""

    names: Callable[[], Sequence[str]]


@dataclass(frozen=True)
class OneOf:
    """One of a set of names: ``Annotated[str, OneOf(...)]`` is a field of a pydantic model."""

    names: Iterable[str]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of a literal of these names."""
        return core_schema.literal_schema(list(self.names))


@dataclass(frozen=True)
class FieldDescription:
    """One field of a table, as it is shown to users.

    Attributes
    ----------
    name
        Its key in the table.
    text
        Its description, full sentences; ``{choices}`` stands for the choices.
    kind
        ``bool``, ``int``, ``float``, ``str`` or :class:`~pathlib.Path`.
    choices
        The names that it takes, if they are few and fixed.
    metavar
        What stands for its value in help.
    default
        Its default as text with a unit; empty if there is none or the description has it.
    required
        Whether it has to be given.
    many
        Whether it takes several values.
    quantity
        Whether text is parsed with its unit.
    """

    name: str
    text: str
    kind: type
    choices: tuple[str, ...]
    metavar: str
    default: str
    required: bool
    many: bool
    quantity: bool

    def sentence(self) -> str:
        """The description with the choices, where it does not name them itself."""
        names = ", ".join(self.choices)
        if "{choices}" in self.text:
            return self.text.replace("{choices}", names)
        unnamed = [name for name in self.choices if name not in self.text]
        if not unnamed or self.quantity or self.metavar == "|".join(self.choices):
            return self.text
        if any(mark in self.text for mark in (":", ";", ". ")):
            return f"{self.text} One of {names}."
        return f"{self.text[:-1]}: {names}."


def describe(table: type[BaseModel]) -> list[FieldDescription]:
    """Describe every field of a table, in the order in which they are declared."""
    return [field_of(table, name) for name in table.model_fields]


def field_of(table: type[BaseModel], name: str) -> FieldDescription:
    """Describe one field of a table."""
    info = table.model_fields[name]
    kinds, metadata = _parts(info)
    quantity = any(isinstance(item, BeforeValidator) for item in metadata)
    many = tuple in kinds
    choices = _choices(kinds, metadata)
    kind = _kind(kinds)
    return FieldDescription(
        name=name,
        text=info.description or "",
        kind=kind,
        choices=choices,
        metavar=_metavar(name, kind, choices, quantity=quantity, many=many),
        default=_default(name, info, quantity=quantity),
        required=info.is_required(),
        many=many,
        quantity=quantity,
    )


def parse(table: type[BaseModel], name: str, text: str) -> Any:
    """Turn the text of an option into what its field validates; text that does not fit stays.

    Quantities are parsed by the field itself, which also says what was wrong.
    """
    field = field_of(table, name)
    if field.many:
        parts = tuple(part.strip() for part in text.split(",") if part.strip())
        return tuple(_one(field, part) for part in parts)
    return _one(field, text)


def split_list(text: str) -> list[str]:
    """Split values that are joined by commas; ``1,024`` is one number.

    Three digits that begin with 0 belong to the number before them, as in ``1,024``. ``16,384``
    could be two numbers: it is one, as every power of two is.

    Examples
    --------
    >>> split_list("64,128"), split_list("1,024,2,048"), split_list("16,384")
    (['64', '128'], ['1,024', '2,048'], ['16,384'])
    """
    values: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        joined = f"{values[-1]},{part}" if values else ""
        if part.startswith("0") and THOUSANDS.fullmatch(joined):
            values[-1] = joined
        elif part:
            values.append(part)
    is_one = len(values) == 2 and THOUSANDS.fullmatch(text.strip())
    if is_one and int(text.replace(",", "")).bit_count() == 1:
        return [text.strip()]
    return values


def _one(field: FieldDescription, text: str) -> Any:
    if field.quantity or field.kind is Path:
        return text
    if field.kind is bool:
        return {"true": True, "on": True, "false": False, "off": False}.get(text.lower(), text)
    if field.kind in {int, float} or (field.choices and text in field.choices):
        return _number(field, text)
    return text


def _number(field: FieldDescription, text: str) -> Any:
    """A number, if it is one; the strict field refuses what stays text."""
    if field.kind is str and not text.isdecimal():
        return text
    if field.kind is int and "," in text and split_list(text) == [text]:
        text = text.replace(",", "")
    try:
        return float(text) if field.kind is float else int(text)
    except ValueError:
        return text


def _parts(info: FieldInfo) -> tuple[list[Any], list[Any]]:
    """Plain types and literals of a field, and all that is attached to them."""
    metadata: list[Any] = list(info.metadata)
    kinds = list(_plain(info.annotation, metadata))
    return kinds, metadata


def _plain(annotation: Any, metadata: list[Any]) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *attached = get_args(annotation)
        metadata += attached
        yield from _plain(inner, metadata)
    elif origin in {Union, types.UnionType}:
        for option in get_args(annotation):
            yield from _plain(option, metadata)
    elif origin is tuple:
        yield tuple
        yield from _plain(get_args(annotation)[0], metadata)
    elif annotation not in {None, type(None), Ellipsis}:
        yield annotation


def _choices(kinds: list[Any], metadata: list[Any]) -> tuple[str, ...]:
    for item in metadata:
        if isinstance(item, Choices):
            return tuple(item.names())
        if isinstance(item, OneOf):
            return tuple(item.names)
    literals = [kind for kind in kinds if get_origin(kind) is Literal]
    return tuple(str(value) for literal in literals for value in get_args(literal))


def _kind(kinds: list[Any]) -> type:
    for kind in (bool, int, float, Path):
        if kind in kinds:
            return kind
    return str


def _metavar(name: str, kind: type, choices: tuple[str, ...], *, quantity: bool, many: bool) -> str:
    if kind is bool:
        return ""
    if quantity:
        suffix = next((suffix for suffix in _WRITTEN if name.endswith(suffix)), "")
        return _WRITTEN.get(suffix, "VALUE")
    if choices and len("|".join(choices)) <= _MAX_METAVAR and not many:
        return "|".join(choices)
    word = {int: "N", float: "X", Path: "PATH"}.get(kind, "NAME")
    return f"{word},..." if many else word


def _default(name: str, info: FieldInfo, *, quantity: bool) -> str:
    value = info.default
    if info.is_required() or info.default_factory is not None:
        return ""
    if value is None or value == () or isinstance(value, BaseModel):
        return ""
    if isinstance(value, bool):
        return "on" if value else ""
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)
    show = next((show for suffix, show in _SHOWN.items() if name.endswith(suffix)), None)
    if quantity and show is not None and not isinstance(value, str):
        return show(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
