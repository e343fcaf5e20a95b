"""Values about the world, each with where it comes from, read from strict TOML.

A data file has a table ``[sources]`` and, elsewhere, values written as
``{ value = 400, source = "key" }``. ``assumed = true`` marks what nobody published or measured;
it travels with the value into results. Anything the reader does not know is an error.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import Field

from lightloom.errors import HardwareError, InputError, did_you_mean
from lightloom.inputs import formats
from lightloom.inputs.strict import Strict, check

#: whether a part can be bought: by the thousand, as a sample, or not, as it is published alone
Availability = Literal["volume", "sampled", "paper"]

Item = TypeVar("Item")
Schema = TypeVar("Schema", bound=Strict)


class Table(Strict):
    """A table of a data file."""

    error_class: ClassVar[type[InputError]] = HardwareError


class Source(Table):
    """Where a value was found, and when."""

    text: str
    date: str
    url: str = ""


class Value(Table):
    """A number, the key of its source, and whether it is an assumption."""

    value: float = Field(ge=0)
    source: str
    assumed: bool = False
    note: str = ""


@dataclass(frozen=True)
class Provenance:
    """A value resolved against its file: number, source in words, date, whether assumed, where."""

    value: float
    source: str
    date: str
    assumed: bool
    url: str = ""

    def __str__(self) -> str:
        mark = ", assumed" if self.assumed else ""
        return f"{self.value:g} ({self.source}, {self.date}{mark})"


def resolve(values: Mapping[str, Value], sources: Mapping[str, Source]) -> dict[str, Provenance]:
    """Join values with the sources they name.

    Raises
    ------
    HardwareError
        If a value names a source that the file does not list.
    """
    resolved = {}
    for name, value in values.items():
        if value.source not in sources:
            hint = did_you_mean(value.source, sources)
            raise HardwareError(
                f"{name}: source '{value.source}' is not in [sources]{hint}; list it there"
            )
        source = sources[value.source]
        text = f"{source.text}: {value.note}" if value.note else source.text
        resolved[name] = Provenance(value.value, text, source.date, value.assumed, source.url)
    return resolved


def values_of(table: Table) -> dict[str, Value]:
    """Return the values that a table has, by name."""
    fields = {name: getattr(table, name) for name in type(table).model_fields}
    return {name: value for name, value in fields.items() if isinstance(value, Value)}


def entry_of(entries: Mapping[str, Item], key: str, what: str, written: str | None = None) -> Item:
    """Return what a file has by name.

    Parameters
    ----------
    entries, key
        What there is, and the name to look up.
    what, written
        What the entries are, and how the name was written, for the message.

    Raises
    ------
    HardwareError
        If the name is unknown.
    """
    if key not in entries:
        names = ", ".join(entries)
        hint = did_you_mean(key, entries)
        raise HardwareError(f"unknown {what} '{written or key}'{hint}; known: {names}")
    return entries[key]


def read_toml(
    path: Path | None,
    packaged: str,
    schema: type[Schema],
    recorded: Mapping[str, Any] | None = None,
) -> Schema:
    """Read a user's file, or the packaged one where ``path`` is ``None``, and validate it.

    ``recorded`` is what was read of the user's file before.

    Raises
    ------
    HardwareError
        If the file cannot be read or parsed, has an unknown or missing key, or a wrong value.
    """
    if path is None:
        data: Schema = _read_packaged(packaged, schema)
        return data
    if recorded is not None:
        return check(schema, recorded, str(path))
    return check(schema, formats.read_toml(path, "table of values", HardwareError), str(path))


@functools.cache
def _read_packaged(packaged: str, schema: type[Any]) -> Any:
    text = resources.files(__package__).joinpath("data", packaged).read_text(encoding="utf-8")
    return parse_table(text, schema, packaged)


def parse_table(text: str, schema: type[Schema], name: str) -> Schema:
    """Validate TOML text against ``schema``; errors are one line, ``name`` first."""
    return check(schema, formats.parse_toml(text.encode(), name, HardwareError), name)


def row_at_rate(rows: Mapping[str, Schema], rate_gbps: float, what: str) -> Schema:
    """Return the row of a table by link rate; a rate between rows is refused.

    Raises
    ------
    HardwareError
        If the rate is not positive, or has no row.
    """
    if not math.isfinite(rate_gbps) or rate_gbps <= 0:
        raise HardwareError(f"{what}: expected a link rate above 0 Gb/s, got {rate_gbps:g}")
    key = f"{rate_gbps:g}"
    if key not in rows:
        rates = ", ".join(sorted(rows, key=float))
        raise HardwareError(
            f"{what}: nothing for {key} Gb/s links; known rates: {rates} Gb/s"
            " (rates between are not interpolated); add a row to a custom file"
        )
    return rows[key]


def check_rates(rows: Iterable[str], name: str) -> None:
    """Refuse row names that are not positive rates in Gb/s.

    Raises
    ------
    HardwareError
        If a row is not named by its rate.
    """
    for key in rows:
        try:
            rate = float(key)
        except ValueError:
            rate = math.nan
        if not rate > 0 or f"{rate:g}" != key:
            raise HardwareError(f"{name}: row '{key}' must be a rate in Gb/s, such as \"400\"")
