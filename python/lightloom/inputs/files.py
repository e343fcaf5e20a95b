"""Reading input files with bounds: what cannot be read becomes one line, never a traceback."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from lightloom.errors import DemandError

_SHOWN = 40


def open_file(path: Path, limit_bytes: int) -> BinaryIO:
    """Open a regular file of at most ``limit_bytes``.

    Raises
    ------
    DemandError
        If it is absent, no regular file, too large or not readable.
    """
    try:
        if not path.exists():
            raise DemandError(f"{path}: no such file")
        if not path.is_file():
            raise DemandError(f"{path}: expected a file")
        size = path.stat().st_size
        if size > limit_bytes:
            raise DemandError(f"{path}: {size:,} bytes exceed the limit of {limit_bytes:,}")
        return path.open("rb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DemandError(f"{path}: cannot be read: {reason}") from None


def parse_json(text: bytes, where: str) -> Any:
    """Parse strict JSON; ``where`` (file, line) begins the error.

    Raises
    ------
    DemandError
        If the text is no JSON, not UTF-8, nested too deeply, or has ``NaN`` or a monstrous number.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise DemandError(f"{where}: not valid JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise DemandError(f"{where}: not valid JSON: {first_line(reason)}") from None


def lines_of(stream: BinaryIO, name: str, limit_bytes: int) -> Iterator[tuple[str, bytes]]:
    """Yield ``("name, line 3", text)`` for each line that is not blank.

    Raises
    ------
    DemandError
        If a line is longer than ``limit_bytes``.
    """
    number = 0
    while text := stream.readline(limit_bytes + 1):
        number += 1
        where = f"{name}, line {number}"
        if len(text) > limit_bytes:
            raise DemandError(f"{where}: longer than the limit of {limit_bytes:,} bytes")
        if text.strip():
            yield where, text


def numbered_lines(text: bytes, name: str, expected: str) -> list[tuple[int, str]]:
    """Lines of a table and their numbers, without blank ones and those that begin with ``#``.

    Raises
    ------
    DemandError
        If it is no text or nothing is left; the message then says what was ``expected``.
    """
    try:
        lines = text.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise DemandError(f"{name}: not text in UTF-8") from None
    kept = [
        (number, line)
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.startswith("#")
    ]
    if not kept:
        raise DemandError(f"{name}: the file is empty; expected {expected}")
    return kept


def split_cells(lines: list[str], delimiter: str, name: str, what: str) -> list[list[str]]:
    """Cells of each line; ``what`` the table is of, for messages.

    Raises
    ------
    DemandError
        If quotes are wrong or a quoted cell spans lines.
    """
    try:
        rows = list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise DemandError(f"{name}: not a table of text: {first_line(str(error))}") from None
    if len(rows) != len(lines):
        raise DemandError(f"{name}: not a table of {what}: a quoted cell spans lines")
    return rows


def shown(value: Any) -> str:
    """A value from a file for an error message, shortened to stay on the line."""
    text = first_line(repr(value))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def first_line(text: str) -> str:
    """The first line of a text."""
    return text.splitlines()[0] if text else ""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")
