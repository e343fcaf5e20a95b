"""What requests to the service hold: keys that are known, and values that are checked."""

from __future__ import annotations

from typing import Any

from lightloom.control.refusals import RequestError
from lightloom.control.wire import Frame
from lightloom.errors import echo, expected_one_of

_MAX_TEXT = 200
_MAX_PARTS = 1024


def check_keys(frame: Frame, names: tuple[str, ...]) -> None:
    """Check that a request has no other keys.

    Raises
    ------
    RequestError
        If it is malformed.
    """
    for key in frame.header:
        if key not in ("op", "id", *names):
            raise RequestError(f"unknown key {echo(key)}: {expected_one_of(key, names)}")


def whole_of(frame: Frame, name: str, minimum: int, maximum: int, default: Any = ...) -> Any:
    """Return a whole number of a request.

    Raises
    ------
    RequestError
        If it is malformed.
    """
    value = frame.header.get(name, default)
    if value is default and default is not ...:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        shown = "nothing" if value is ... else echo(value)
        raise RequestError(
            f"{name}: expected a whole number from {minimum} to {maximum}, got {shown}"
        )
    return value


def flag_of(frame: Frame, name: str, default: bool) -> bool:
    """Return whether something is asked for.

    Raises
    ------
    RequestError
        If it is malformed.
    """
    value = frame.header.get(name, default)
    if not isinstance(value, bool):
        raise RequestError(f"{name} {echo(value)}: expected true or false")
    return value


def text_of(frame: Frame, name: str, default: str | None) -> str | None:
    """Return a line of a request.

    Raises
    ------
    RequestError
        If it is malformed.
    """
    value = frame.header.get(name, default)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > _MAX_TEXT or not value.isprintable():
        raise RequestError(f"{name}: expected a line of up to {_MAX_TEXT} characters")
    return value


def hidden_of(frame: Frame, count: int) -> list[float]:
    """Return the hidden times of a request, in seconds.

    Raises
    ------
    RequestError
        If it is malformed.
    """
    values = frame.header.get("hidden_s", [0.0] * count)
    good = isinstance(values, list) and len(values) == count
    if not good or not all(
        isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1e6
        for value in values
    ):
        raise RequestError(f"hidden_s: expected a list of {count} times in seconds")
    return [float(value) for value in values]


def parts_of(frame: Frame) -> list[str]:
    """Return the parts that a request names.

    Raises
    ------
    RequestError
        If it is malformed.
    """
    values = frame.header.get("parts")
    if not isinstance(values, list) or not 1 <= len(values) <= _MAX_PARTS:
        raise RequestError("parts: expected a list of parts such as nic:2/1")
    if not all(isinstance(value, str) and len(value) <= _MAX_TEXT for value in values):
        raise RequestError("parts: expected texts such as nic:2/1")
    return values
