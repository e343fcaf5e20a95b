"""Reads a ``config.json`` that nobody vouches for.

Bounds are on the file's size, the nesting of its values and the length of its numbers, so that a
hostile file costs milliseconds and ends in one line of :class:`ModelError`. What the keys mean is
in ``mapping`` and ``families``.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any, NoReturn

from lightloom.errors import ModelError

#: the largest published configuration read so far (a list per layer and expert) has 20 kB
MAX_BYTES = 1_000_000
MAX_DEPTH = 16
MAX_DIGITS = 40

#: a parsed configuration
Config = dict[str, Any]


def show(value: object, limit: int = 60) -> str:
    """Text for a value of unknown origin: one printable line of at most ``limit`` signs."""
    text = ascii(value) if not isinstance(value, str) else repr(value)
    if not text.isprintable():
        text = ascii(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def read_config(path: Path) -> Config:
    """Read and parse one configuration file.

    Raises
    ------
    ModelError
        If the path is not a readable file of at most :data:`MAX_BYTES`, or its content is not a
        JSON object within the bounds.
    """
    where = show(str(path), 200)
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise ModelError(f"{where} is not a file; give the path of a config.json")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable path"
        raise ModelError(f"cannot read the model configuration {where}: {reason}") from None
    return parse_config(content, where)


def parse_config(content: bytes, where: str) -> Config:
    """Parse the bytes of a configuration file; ``where`` names it in messages.

    Raises
    ------
    ModelError
        As :func:`read_config`.
    """
    if len(content) > MAX_BYTES:
        raise ModelError(
            f"{where} has more than {MAX_BYTES:,} bytes; expected a model's config.json (a few kB)"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ModelError(f"{where} is not UTF-8 text; expected a model's config.json") from None
    try:
        value = json.loads(
            text,
            parse_int=_bounded_int,
            parse_float=_bounded_float,
            parse_constant=_refuse_constant,
            object_pairs_hook=_unique,
        )
    except json.JSONDecodeError as error:
        raise ModelError(
            f"{where} is not JSON (line {error.lineno}, column {error.colno}: {error.msg})"
        ) from None
    except RecursionError:
        raise ModelError(f"{where} nests deeper than {MAX_DEPTH} levels") from None
    except _RefusedValueError as error:
        raise ModelError(f"{where}: {error}") from None
    if not isinstance(value, dict):
        raise ModelError(f"{where} holds {show(value)}; expected a JSON object, as in config.json")
    _check_depth(value, where)
    return value


class _RefusedValueError(Exception):
    """A value that JSON allows and that is refused here."""


def _bounded_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _RefusedValueError(f"a number of {len(text)} digits; at most {MAX_DIGITS} are read")
    return int(text)


def _bounded_float(text: str) -> float:
    if len(text) > MAX_DIGITS:
        raise _RefusedValueError(f"a number of {len(text)} signs; at most {MAX_DIGITS} are read")
    return float(text)


def _refuse_constant(text: str) -> NoReturn:
    raise _RefusedValueError(f"{text} is not a JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> Config:
    result: Config = {}
    for key, value in pairs:
        if key in result:
            raise _RefusedValueError(f"key {show(key)} is given twice; keep one")
        result[key] = value
    return result


def _check_depth(value: Config, where: str) -> None:
    """Refuse deep nesting without recursion of our own."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        children: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                children.extend(item.values())
            elif isinstance(item, list):
                children.extend(item)
        if not children:
            return
        level = children
    raise ModelError(f"{where} nests deeper than {MAX_DEPTH} levels")
