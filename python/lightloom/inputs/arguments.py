"""Arguments of public functions, of a type that no file could give: refused before they are used.

A wrong type would otherwise become a ``TypeError`` somewhere within. What a function accepts stays
in its own words: these helpers only say what was given and what was expected.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from lightloom.errors import InputError, echo

Value = TypeVar("Value")


def path_of(
    value: object, name: str, expected: str = "a path", error: type[InputError] = InputError
) -> Path:
    """Return a path that was given as such or as text, or raise ``error``."""
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        if isinstance(text, str):
            return Path(text)
    raise error(f"{name} = {echo(value)}: expected {expected}")


def instance(value: object, kind: type[Value], name: str, expected: str) -> Value:
    """Return a value of one type, or raise an :class:`InputError`."""
    if not isinstance(value, kind):
        raise InputError(f"{name} = {echo(value)}: expected {expected}")
    return value


def function(value: Value, name: str, expected: str = "a function") -> Value:
    """Return a function, or ``None`` where there is none, or raise an :class:`InputError`."""
    if value is not None and not callable(value):
        raise InputError(f"{name} = {echo(value)}: expected {expected}")
    return value


def names(value: object, name: str) -> tuple[str, ...]:
    """Return a list of names, or raise an :class:`InputError`."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        listed = tuple(value)
        if all(isinstance(name, str) for name in listed):
            return listed
    raise InputError(f'{name} = {echo(value)}: expected a list of names, such as ["greedy"]')


def table(value: object, name: str, error: type[InputError] = InputError) -> Mapping[str, Any]:
    """Return a mapping of keys to values, or raise ``error``."""
    if not isinstance(value, Mapping):
        raise error(f"{name} = {echo(value)}: expected a mapping of keys to values")
    return value
