"""Values about the world, each with where it comes from, read from strict TOML.

A data file has a table ``[sources]`` and, elsewhere, values written as
``{ value = 400, source = "key" }``. ``assumed = true`` marks what nobody published or measured;
it travels with the value into results. Anything the reader does not know is an error.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lightloom.errors import HardwareError, did_you_mean

Schema = TypeVar("Schema", bound=BaseModel)


#: a user's table of prices, powers or efficiencies is far smaller
MAX_FILE_BYTES = 1_000_000


class Strict(BaseModel):
    """A table of which every key is known and every number is a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)


class Source(Strict):
    """Where a value was found, and when."""

    text: str
    date: str
    url: str = ""


class Value(Strict):
    """A number, the key of its source, and whether it is an assumption."""

    value: float = Field(ge=0)
    source: str
    assumed: bool = False
    note: str = ""


@dataclass(frozen=True)
class Provenance:
    """A value resolved against its file: number, source in words, date, whether assumed."""

    value: float
    source: str
    date: str
    assumed: bool

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
        resolved[name] = Provenance(value.value, text, source.date, value.assumed)
    return resolved


def values_of(table: Strict) -> dict[str, Value]:
    """Return the values that a table has, by name."""
    found = {name: getattr(table, name) for name in type(table).model_fields}
    return {name: value for name, value in found.items() if isinstance(value, Value)}


def read_toml(path: Path | None, packaged: str, schema: type[Schema]) -> Schema:
    """Read a user's file, or the packaged one where ``path`` is ``None``, and validate it.

    Raises
    ------
    HardwareError
        If the file cannot be read or parsed, has an unknown or missing key, or a wrong value.
    """
    if path is None:
        known: Schema = _read_packaged(packaged, schema)
        return known
    try:
        if path.is_file() and path.stat().st_size > MAX_FILE_BYTES:
            raise HardwareError(f"{path}: over {MAX_FILE_BYTES // 1000} kB; expected a short table")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise HardwareError(f"{path}: cannot be read ({reason})") from None
    return parse_toml(text, schema, str(path))


@functools.cache
def _read_packaged(packaged: str, schema: type[Any]) -> Any:
    text = resources.files(__package__).joinpath("data", packaged).read_text(encoding="utf-8")
    return parse_toml(text, schema, packaged)


def parse_toml(text: str, schema: type[Schema], name: str) -> Schema:
    """Validate TOML text against ``schema``; errors are one line, ``name`` first."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise HardwareError(f"{name}: not valid TOML: {error}") from None
    try:
        return schema.model_validate(table)
    except ValidationError as error:
        raise HardwareError(f"{name}: {_first_problem(error, schema)}") from None


def _first_problem(error: ValidationError, schema: type[BaseModel]) -> str:
    # A misspelt key is both unknown and missing: the former says more.
    problems = error.errors()
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        known = _known_keys(schema, problem["loc"])
        key = str(problem["loc"][-1])
        return f"unknown key {place[:80]!r}{did_you_mean(key, known)}; known: {', '.join(known)}"
    if problem["type"] == "missing":
        return f"missing key '{place}'; add it"
    given = str(problem["input"])
    shown = given if len(given) <= 40 else f"{given[:40]}..."
    return f"'{place}': {problem['msg']}, got {shown!r}"


def _known_keys(schema: type[BaseModel], location: tuple[Any, ...]) -> list[str]:
    """Keys of the table that ``location`` ends in, following models, mappings and lists."""
    current: Any = schema
    for part in location[:-1]:
        current = _without_none(current)
        if _is_model(current):
            field = current.model_fields.get(part)
            current = None if field is None else field.annotation
        else:
            # a mapping or a list: the part is a key or an index, the type of values comes last
            current = (get_args(current) or (None,))[-1]
    current = _without_none(current)
    return sorted(current.model_fields) if _is_model(current) else []


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _without_none(annotation: Any) -> Any:
    """Return ``X`` for ``X | None``."""
    arguments = get_args(annotation)
    if type(None) not in arguments:
        return annotation
    return next(argument for argument in arguments if argument is not type(None))


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
        known = ", ".join(sorted(rows, key=float))
        raise HardwareError(
            f"{what}: nothing for {key} Gb/s links; known rates: {known} Gb/s"
            " (rates between are not interpolated); add a row to a file of your own"
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
