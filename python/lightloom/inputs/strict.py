"""Strict descriptions: what is wrong with a value becomes one line that says how to mend it.

They come from the command line, from Python or from one TOML file, and are pydantic models without
silent conversions: a number in quotes is no number, and true is not 1. A quantity may carry its
unit. Unknown keys are refused with a suggestion.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from lightloom.errors import InputError, did_you_mean, expected_one_of
from lightloom.units import parse_quantity

Kind = TypeVar("Kind", bound=BaseModel)

#: signs of a wrong value that a message shows
MAX_SHOWN = 60
#: the largest TOML file that is read
MAX_BYTES = 1_000_000

Whole = Annotated[int, Field(strict=True, ge=1, le=10**9)]
Switch = Annotated[bool, Field(strict=True)]
Name = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f\x7f]+$")]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


def _usable(path: Path) -> Path:
    if not str(path).isprintable():
        raise ValueError("expected a path without control characters")
    return path


File = Annotated[Path, AfterValidator(_usable)]


class Strict(BaseModel):
    """A table of which every key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def quantity(unit: str) -> BeforeValidator:
    """Read a bare number in ``unit``, or text that carries its own."""

    def convert(value: Any) -> float:
        try:
            return parse_quantity(value, unit, "quantity")
        except InputError as error:
            raise ValueError(str(error).removeprefix("quantity: ")) from None

    return BeforeValidator(convert)


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Read the keys and values of a TOML file; ``what`` it is, for messages.

    Raises
    ------
    InputError
        If it cannot be read, is too large or no TOML.
    """
    try:
        with path.open("rb") as file:
            # a device may be endless, so that its stated size says nothing
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable path"
        raise InputError(f"{path}: cannot read the {what}: {reason}") from None
    if len(content) > MAX_BYTES:
        raise InputError(f"{path}: a {what} has at most {MAX_BYTES // 10**6} MB; this has more")
    return parse_toml(content, str(path), what)


def parse_toml(content: bytes, name: str, what: str) -> dict[str, Any]:
    """Read the bytes of a TOML file; ``name`` begins messages.

    Raises
    ------
    InputError
        As :func:`read_toml`.
    """
    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise InputError(f"{name}: not a TOML file: not UTF-8 text") from None
    except RecursionError:
        raise InputError(f"{name}: not a {what}: nested too deeply") from None
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise InputError(f"{name}: not a TOML file: {error}".replace("\n", " ")) from None


def check(
    kind: type[Kind],
    values: Mapping[str, Any],
    where: str,
    call: Callable[[str], str] | None = None,
) -> Kind:
    """Build ``kind`` from ``values``; the first thing that is wrong becomes one line.

    Parameters
    ----------
    kind, values
        What to build, from what.
    where
        What the message begins with: the name of the file, or nothing.
    call
        What a key such as ``cluster.rate_gbps`` is called where the values come from; itself by
        default.

    Raises
    ------
    InputError
        Naming the key, what was given and what was expected.
    """
    try:
        return kind(**values)
    except ValidationError as error:
        problem = _worst(error)
    prefix = f"{where}: " if where else ""
    key = ".".join(str(part) for part in problem["loc"])
    name = call(key) if call else key
    if problem["type"] == "extra_forbidden":
        raise InputError(f"{prefix}unknown key '{shown(name)}'{_hint(kind, problem['loc'])}")
    if problem["type"] == "missing":
        raise InputError(f"{prefix}{name} is missing; add it{_example(kind, problem['loc'])}")
    equals = " " if name.startswith("--") else " = "
    given = shown(problem["input"])
    raise InputError(f"{prefix}{name}{equals}{given}: {expectation(problem)}")


def _worst(error: ValidationError) -> dict[str, Any]:
    """The problem to report: a misspelt key is both unknown and missing; the former says more."""
    problems = [dict(problem) for problem in error.errors(include_url=False)]
    unknown = (p for p in problems if p["type"] == "extra_forbidden")
    return next(unknown, problems[0])


def shown(value: Any) -> str:
    """Text for a wrong value: one printable line, not too long; text that is a key stays bare."""
    text = value if isinstance(value, str) else repr(value)
    if not text.isprintable():
        text = ascii(text)[1:-1]
    if not text.strip():
        text = repr(text)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


#: what was expected, by the beginning of pydantic's name for the problem
_EXPECTED = {
    "int_": "expected a whole number",
    "float_": "expected a number",
    "finite_number": "expected a finite number",
    "bool_": "expected true or false",
    "string_pattern_mismatch": "expected a name or path without control characters",
    "string_too_short": "expected a name or path",
    "string_": "expected text",
    "path_": "expected the path of a file",
    "tuple_": 'expected a list, such as ["fat-tree", "mixnet"] or [16, 16, 15, 15]',
    "dict_": "expected a table of keys and values",
    "model_": "expected a table of keys and values",
}
_LIMITS = {
    "greater_than": ("expected more than", "gt"),
    "greater_than_equal": ("expected at least", "ge"),
    "less_than": ("expected less than", "lt"),
    "less_than_equal": ("expected at most", "le"),
}


def expectation(problem: Mapping[str, Any]) -> str:
    """What should have been there instead of ``problem``, an entry of pydantic's ``errors()``."""
    kind, context = problem["type"], problem.get("ctx", {})
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        return f"{words} {context[key]:,g}"
    if kind in {"literal_error", "enum"}:
        return expected_one_of(problem["input"], literal_words(problem))
    for beginning, words in _EXPECTED.items():
        if kind.startswith(beginning):
            return words
    message = str(problem["msg"]).removeprefix("Value error, ").replace("\n", " ")
    return message[:1].lower() + message[1:]


def literal_words(problem: Mapping[str, Any]) -> list[str]:
    """The words that a literal may be, of an entry of pydantic's ``errors()``."""
    parts = problem["ctx"]["expected"].replace(" or ", ",").split(",")
    return [word for part in parts if (word := part.strip(" '"))]


def _hint(kind: type[BaseModel], location: tuple[int | str, ...]) -> str:
    known = keys_at(kind, location[:-1])
    key = str(location[-1])
    return did_you_mean(key[:MAX_SHOWN], known) or f"; known: {', '.join(known)}"


def _example(kind: type[BaseModel], location: tuple[int | str, ...]) -> str:
    """An example of what a missing key may hold, if its field has one."""
    current = _table(kind, location[:-1])
    field = current.model_fields.get(str(location[-1])) if current else None
    examples = field.examples if field is not None else None
    return f", such as {location[-1]} = {examples[0]}" if examples else ""


def keys_at(kind: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Keys of the table at ``path`` inside ``kind``, in the order in which they are declared."""
    table = _table(kind, path)
    return list(table.model_fields) if table else []


def _table(kind: type[BaseModel], path: tuple[int | str, ...]) -> type[BaseModel] | None:
    for part in path:
        field = kind.model_fields.get(str(part))
        if field is None:
            return None
        options = [field.annotation, *get_args(field.annotation)]
        tables = [o for o in options if isinstance(o, type) and issubclass(o, BaseModel)]
        if not tables:
            return None
        kind = tables[0]
    return kind
