"""Strict descriptions: what is wrong with a value becomes one line that says how to fix it.

They come from the command line, from Python or from one TOML file, and are pydantic models without
silent conversions: a number in quotes is no number, and true is not 1. A quantity may carry its
unit. Unknown keys are refused with a suggestion.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeAlias, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from lightloom.errors import (
    MAX_ECHO,
    InputError,
    LightloomError,
    did_you_mean,
    echo,
    expected_one_of,
)
from lightloom.units import SUFFIXES, parse_quantity, show_things

#: where a value is in nested tables and lists: keys and places
Location: TypeAlias = tuple[int | str, ...]

Kind = TypeVar("Kind", bound="Strict")

Whole = Annotated[int, Field(strict=True, ge=1, le=10**9)]


def _switched(value: object, switch_of: ValidatorFunctionWrapHandler) -> bool:
    if isinstance(value, str) and value in ("on", "off"):
        return value == "on"
    if not isinstance(value, bool):
        raise ValueError("expected on or off")
    return bool(switch_of(value))


#: on or off: as text, or as true and false of a file
Switch = Annotated[bool, Field(strict=True), WrapValidator(_switched)]
NAME_PATTERN = r"^[^\x00-\x1f\x7f]+$"
Name = Annotated[str, Field(min_length=1, max_length=4096, pattern=NAME_PATTERN)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


def _usable(value: Any, path_of: ValidatorFunctionWrapHandler) -> Path:
    if value == "":  # which would be the folder of the process
        raise ValueError("expected a name or path")
    path: Path = path_of(value)
    if not str(path).isprintable():
        raise ValueError("expected a path without control characters")
    return path


File = Annotated[Path, WrapValidator(_usable)]


class _RefusesInOneLine(type(BaseModel)):  # type: ignore[misc]
    """Makes a wrong argument of a constructor an error of this package."""

    # nested tables are made without a call, so that their errors keep the place of the whole
    def __call__(self: type[Kind], *arguments: Any, **values: Any) -> Kind:
        try:
            return type.__call__(self, *arguments, **values)  # type: ignore[no-any-return]
        except ValidationError as error:
            raise self.error_class(describe(self, error, self.whose())) from None
        except LightloomError as error:
            whose = self.whose()
            if not whose or str(error).startswith(f"{whose}: "):
                raise
            raise type(error)(f"{whose}: {error}") from None


# mypy takes the metaclass for that of pydantic, whose name is private
_METACLASS: Any = _RefusesInOneLine


class Strict(BaseModel, metaclass=_METACLASS):  # type: ignore[metaclass]
    """A table of which every key is known and every number is finite.

    Attributes
    ----------
    error_class
        Class of the error that is raised for a wrong value.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    error_class: ClassVar[type[InputError]] = InputError

    @classmethod
    def whose(cls) -> str:
        """What messages about arguments of the constructor begin with; nothing by default."""
        return ""

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Check a mapping as pydantic does; what is wrong is one line."""
        with _one_line(cls):
            return super().model_validate(obj, **options)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Check JSON as pydantic does; what is wrong is one line."""
        with _one_line(cls):
            return super().model_validate_json(json_data, **options)

    @classmethod
    def model_validate_strings(cls, obj: Any, **options: Any) -> Self:
        """Check a mapping of text as pydantic does; what is wrong is one line."""
        with _one_line(cls):
            return super().model_validate_strings(obj, **options)


@contextlib.contextmanager
def _one_line(kind: type[Strict]) -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        raise kind.error_class(describe(kind, error, kind.whose() or kind.__name__)) from None


def quantity(unit: str, words: Sequence[str] = ()) -> BeforeValidator:
    """Read a bare number in ``unit``, or text that carries its own; leave one of a few words."""
    also = "".join(f", or '{word}'" for word in words)

    def convert(value: Any) -> Any:
        if isinstance(value, str) and value in words:
            return value
        try:
            return parse_quantity(value, unit, "quantity")
        except InputError as error:
            text = str(error).removeprefix("quantity: ") + also
            hint = did_you_mean(value[:MAX_ECHO], words) if isinstance(value, str) else ""
            raise ValueError(text + hint) from None

    return BeforeValidator(convert)


def comma_list(value: Any) -> Any:
    """Accept one text of several joined by commas."""
    return [part for part in value.split(",") if part.strip()] if isinstance(value, str) else value


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
        Of the class that ``kind`` states, naming the key, what was given and what was expected.
    """
    try:
        return super(Strict, kind).model_validate(dict(values))
    except ValidationError as error:
        raise kind.error_class(describe(kind, error, where, call)) from None


def describe(
    kind: type[BaseModel],
    error: ValidationError,
    where: str = "",
    call: Callable[[str], str] | None = None,
) -> str:
    """The first thing that is wrong, in one line; parameters are those of :func:`check`."""
    problem = _worst(error)
    prefix = f"{where}: " if where else ""
    key = ".".join(str(part) for part in _place(kind, problem["loc"]))
    name = call(key) if call else key
    if problem["type"] == "extra_forbidden":
        return f"{prefix}unknown key '{_typed(name)}'{_hint(kind, problem['loc'])}"
    if problem["type"] == "missing":
        return f"{prefix}{name} is missing; add it{_example(kind, problem['loc'])}"
    if not key:
        return f"{prefix}{expectation(problem)}"
    if name.startswith("--"):
        return f"{prefix}{name} {_typed(problem['input'])}: {expectation(problem)}"
    value = problem["input"]
    # without its quotes, a number would look like what was expected
    is_quoted = isinstance(value, str) and problem["type"] in {"int_type", "float_type"}
    shown = echo(value) if is_quoted and _is_number(value) else _typed(value)
    return f"{prefix}{name} = {shown}: {expectation(problem)}"


def _is_number(text: str) -> bool:
    return text.strip().lstrip("+-").replace(".", "", 1).isdigit()


def _typed(value: Any) -> str:
    """A wrong value as it was typed; text that is a key stays bare."""
    return echo(value, quoted=False)


def _worst(error: ValidationError) -> dict[str, Any]:
    """The problem to report: a misspelt key is both unknown and missing; the former says more."""
    problems = [dict(problem) for problem in error.errors(include_url=False)]
    unknown = (p for p in problems if p["type"] == "extra_forbidden")
    return next(unknown, problems[0])


#: what was expected, by the beginning of pydantic's name for the problem
_EXPECTED = {
    "int_": "expected a whole number",
    "float_": "expected a number",
    "finite_number": "expected a finite number",
    "bool_": "expected true or false",
    "string_too_short": "expected a name or path",
    "string_": "expected text",
    "path_": "expected the path of a file",
    "tuple_": 'expected a list, such as ["fat-tree", "mixnet"] or [16, 16, 15, 15]',
    "dict_": "expected a table of keys and values",
    "model_": "expected a table of keys and values",
}
#: whole numbers below this are shown with all their digits
MAX_SHOWN_IN_FULL = 10**15
_LIMITS = {
    "greater_than": ("expected more than", "gt"),
    "greater_than_equal": ("expected at least", "ge"),
    "less_than": ("expected less than", "lt"),
    "less_than_equal": ("expected at most", "le"),
}
_LENGTHS = {
    "too_short": ("expected at least", "min_length"),
    "too_long": ("expected at most", "max_length"),
}


def expectation(problem: Mapping[str, Any]) -> str:
    """What should have been there instead of ``problem``, an entry of pydantic's ``errors()``."""
    kind, context = problem["type"], problem.get("ctx", {})
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        return f"{words} {_in_full(context[key])}"
    if kind in _LENGTHS:
        words, key = _LENGTHS[kind]
        return f"{words} {show_things(context[key], 'value')}"
    if kind in {"literal_error", "enum"}:
        return expected_one_of(problem["input"], literal_words(problem))
    if kind == "string_pattern_mismatch":
        if context["pattern"] == NAME_PATTERN:
            return "expected a name or path without control characters"
        return f"expected text of the form {context['pattern']}"
    for beginning, words in _EXPECTED.items():
        if kind.startswith(beginning):
            return words
    message = str(problem["msg"]).removeprefix("Value error, ").replace("\n", " ")
    return message[:1].lower() + message[1:]


def _in_full(limit: float) -> str:
    """A limit that a user can type: all digits of a whole number."""
    is_whole = limit == int(limit) and abs(limit) < MAX_SHOWN_IN_FULL
    return f"{int(limit):,}" if is_whole else f"{limit:,g}"


def literal_words(problem: Mapping[str, Any]) -> list[str]:
    """The words that a literal may be, of an entry of pydantic's ``errors()``."""
    parts = problem["ctx"]["expected"].replace(" or ", ",").split(",")
    return [word for part in parts if (word := part.strip(" '"))]


def _hint(kind: type[BaseModel], location: Location) -> str:
    keys = keys_at(kind, location[:-1])
    key = str(location[-1])
    if other := _elsewhere(kind, key[:MAX_ECHO].lstrip("-").replace("-", "_"), location[:-1]):
        return f"; did you mean {other}?"
    return did_you_mean(key[:MAX_ECHO], keys) or f"; known: {', '.join(keys)}"


def _elsewhere(kind: type[BaseModel], key: str, path: Location) -> str:
    """Where a key of another table belongs, perhaps with its unit: ``rate_gbps of [cluster]``."""
    places: list[Location] = [(), *((name,) for name in kind.model_fields)]
    for place in places:
        for name in () if place == path else keys_at(kind, place):
            if name == key or name in {f"{key}{suffix}" for suffix in SUFFIXES}:
                return f"{name} of [{place[0]}]" if place else f"{name}, above all tables"
    return ""


def _example(kind: type[BaseModel], location: Location) -> str:
    """An example of what a missing key may hold, if its field has one."""
    current = _table(kind, location[:-1])
    field = current.model_fields.get(str(location[-1])) if current else None
    examples = field.examples if field is not None else None
    return f", such as {location[-1]} = {examples[0]}" if examples else ""


def keys_at(kind: type[BaseModel], path: Location) -> list[str]:
    """Keys of the table at ``path`` inside ``kind``, in the order in which they are declared."""
    table = _table(kind, path)
    return list(table.model_fields) if table else []


_CONTAINERS = (dict, list, tuple)


def _table(kind: type[BaseModel], path: Location) -> type[BaseModel] | None:
    """The table at ``path``, if there is one."""
    annotation = _annotation(kind, path)
    return annotation if _is_table(annotation) else None


def _annotation(kind: type[BaseModel], path: Location) -> Any:
    """What may be at ``path``: a table or a container, of several the first of these."""
    current: Any = kind
    for part in path:
        if _is_table(current):
            field = current.model_fields.get(str(part))
            current = None if field is None else field.annotation
        elif get_origin(current) in _CONTAINERS:
            # the part is a key or an index; the type of values comes last
            current = next(a for a in reversed(get_args(current)) if a is not ...)
        else:
            return None
        current = _bare(current)
        if get_origin(current) not in _CONTAINERS:
            options = (current, *map(_bare, get_args(current)))
            deep = (o for o in options if _is_table(o) or get_origin(o) in _CONTAINERS)
            current = next(deep, current)
    return current


def _bare(annotation: Any) -> Any:
    """Return ``X`` for ``Annotated[X, ...]``."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _place(kind: type[BaseModel], location: Location) -> Location:
    """A location without the names that pydantic adds for the members of a union."""
    for end in range(1, len(location)):
        annotation = _annotation(kind, location[:end])
        if not _is_table(annotation) and get_origin(annotation) not in _CONTAINERS:
            return location[:end]
    return location


def _is_table(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
