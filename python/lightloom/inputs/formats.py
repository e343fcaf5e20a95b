"""TOML and JSON of unknown origin: strict, bounded, and refused in one line."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from lightloom.errors import InputError, echo
from lightloom.inputs.files import MAX_TEXT_BYTES, Refusal, decode, first_line, read_input

#: parts of a dotted key; Python's parser takes memory with their square
_MAX_KEY_PARTS = 32
_KEY_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_DEEP_KEY = re.compile(rf"""(?<![\w"'.-])(?:{_KEY_PART}){{{_MAX_KEY_PARTS}}}""")


def read_toml(path: Path, noun: str, error: Refusal = InputError) -> dict[str, Any]:
    """Read the keys and values of a TOML file, or of standard input for ``-``.

    ``noun`` says what it is, for messages.

    Raises
    ------
    InputError
        If it cannot be read, is too large or no TOML.
    """
    content, name = read_input(path, noun, MAX_TEXT_BYTES, error)
    return parse_toml(content, name, error)


def parse_toml(content: bytes, name: str, error: Refusal = InputError) -> dict[str, Any]:
    """Parse the bytes of a TOML file; ``name`` begins messages.

    Raises
    ------
    InputError
        If it is no TOML.
    """
    text = decode(content, name, error)
    if _DEEP_KEY.search(text):
        raise error(f"{name}: not valid TOML: a key has more than {_MAX_KEY_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise error(f"{name}: not valid TOML: nested too deeply") from None
    except (tomllib.TOMLDecodeError, ValueError) as problem:
        raise error(f"{name}: not valid TOML: {problem}".replace("\n", " ")) from None


@dataclass(frozen=True)
class JsonLimits:
    """Bounds on JSON that nobody vouches for; keys must then be unique as well."""

    depth: int = 16
    digits: int = 40
    #: accept ``NaN`` and ``Infinity``, which Python writes
    non_finite: bool = False


def parse_json(
    text: bytes | str,
    where: str,
    error: Refusal = InputError,
    limits: JsonLimits | None = None,
) -> Any:
    """Parse strict JSON; ``where`` (file, line) begins the error.

    Parameters
    ----------
    text
        The JSON; bytes are UTF-8.
    where
        What messages begin with.
    error
        Class of the error that is raised.
    limits
        Bounds on nesting and on numbers; without, only Python's own.

    Raises
    ------
    InputError
        If the text is no JSON, not UTF-8, nested too deeply, or has ``NaN`` or a monstrous number.
    """
    if isinstance(text, bytes):
        text = decode(text, where, error)
    hooks = {} if limits is None else _Hooks(limits).as_arguments()
    constants = float if limits is not None and limits.non_finite else _refuse_constant
    try:
        value = json.loads(text, parse_constant=constants, **hooks)
    except json.JSONDecodeError as problem:
        line = f"line {problem.lineno}, " if problem.lineno > 1 else ""
        place = f"{line}column {problem.colno}"
        raise error(f"{where}: not valid JSON: {problem.msg} at {place}") from None
    except RecursionError:
        raise error(f"{where}: not valid JSON: nested too deeply") from None
    except ValueError as problem:
        raise error(f"{where}: not valid JSON: {first_line(str(problem))}") from None
    if limits is not None and _depth_exceeds(value, limits.depth):
        raise error(f"{where}: not valid JSON: nests deeper than {limits.depth} levels")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


class _Hooks:
    """What the parser calls for numbers and objects, to bound them."""

    def __init__(self, limits: JsonLimits) -> None:
        self._digits = limits.digits

    def as_arguments(self) -> dict[str, Any]:
        """Return them by the names of the parser's arguments."""
        return {
            "parse_int": self._bounded_int,
            "parse_float": self._bounded_float,
            "object_pairs_hook": self._unique,
        }

    def _check(self, text: str) -> None:
        if len(text) > self._digits:
            raise ValueError(f"a number of {len(text)} characters; the limit is {self._digits}")

    def _bounded_int(self, text: str) -> int:
        self._check(text)
        return int(text)

    def _bounded_float(self, text: str) -> float:
        self._check(text)
        return float(text)

    @staticmethod
    def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                raise ValueError(f"key {echo(key)} is given twice; keep one")
            result[key] = value
        return result


def _depth_exceeds(value: Any, limit: int) -> bool:
    """Whether values nest deeper, without recursion of our own."""
    level: list[Any] = [value]
    for _ in range(limit):
        children: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                children.extend(item.values())
            elif isinstance(item, list):
                children.extend(item)
        if not children:
            return False
        level = children
    return True
