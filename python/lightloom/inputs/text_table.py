"""Tables in text: flows, links, when circuits are dark.

Cells are parted by commas, semicolons or tabs; lines that begin with ``#`` say nothing. A file is
measured before it is read, and what is wrong in it becomes one line that names the line.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError, did_you_mean
from lightloom.inputs.files import numbered_lines, open_file, shown, split_cells

STDIN = "-"

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Columns:
    """What a table may hold.

    Attributes
    ----------
    what
        Rows of the table, for messages.
    needed, optional
        Columns that must and that may be there.
    passed_over
        Columns that may be there and are not looked at.
    """

    what: str
    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()

    @property
    def known(self) -> tuple[str, ...]:
        """Columns that are looked at."""
        return (*self.needed, *self.optional)


def read_content(path: Path | str, limit: int) -> tuple[bytes, str]:
    """Content of a file and its name for messages; ``-`` is standard input.

    Raises
    ------
    InputError
        If it cannot be read or is larger than ``limit``.
    """
    if str(path) == STDIN:
        if sys.stdin is None:
            raise InputError("standard input: is closed; give a file")
        return sys.stdin.buffer.read(limit + 1), "standard input"
    with open_file(Path(path), limit) as stream:
        return stream.read(), str(path)


def parse_table(content: bytes, name: str, columns: Columns, limit: int) -> TextTable:
    """Parse a table of at most ``limit`` bytes; ``name`` and the line begin messages.

    Raises
    ------
    InputError
        If it is no such table.
    """
    if len(content) > limit:
        raise InputError(f"{name}: exceeds the limit of {limit:,} bytes")
    kept = numbered_lines(content, name, f"the columns {', '.join(columns.known)}")
    numbers = np.array([number for number, _ in kept], dtype=np.int64)
    lines = [line for _, line in kept]
    delimiter = next((mark for mark in ",;\t" if mark in lines[0]), ",")
    head, *rows = split_cells(lines, delimiter, name, columns.what)
    places = _places([cell.strip().lower() for cell in head], f"{name}, line {numbers[0]}", columns)
    table = TextTable(name, places, rows, numbers[1:])
    wrong = next((n for n, row in enumerate(rows) if len(row) != len(head)), None)
    if wrong is not None:
        expected = f"expected {len(head)} as in the header"
        raise InputError(f"{table.place(wrong)}: {len(rows[wrong])} cells, {expected}")
    return table


def _places(heads: list[str], place: str, columns: Columns) -> dict[str, int]:
    """Where each column is."""
    expected = f"expected a header with the columns {', '.join(columns.known)}"
    for head in heads:
        if head not in (*columns.known, *columns.passed_over):
            hint = did_you_mean(head[:40], columns.known)
            raise InputError(f"{place}: no column is called {shown(head)}; {expected}{hint}")
        if heads.count(head) > 1:
            raise InputError(f"{place}: column '{head}' is there twice; {expected}")
    missing = next((name for name in columns.needed if name not in heads), None)
    if missing is not None:
        raise InputError(f"{place}: column '{missing}' is missing; {expected}")
    return {head: number for number, head in enumerate(heads)}


@dataclass(frozen=True)
class TextTable:
    """Rows of text below the header, where each column is, and the line of each row."""

    name: str
    places: Mapping[str, int]
    rows: Sequence[Sequence[str]]
    lines: Whole

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, row: int) -> str:
        """Where a row is: the beginning of a message about it."""
        return f"{self.name}, line {self.lines[row]}"

    def texts(self, column: str) -> list[str]:
        """A column of text."""
        place = self.places[column]
        return [row[place].strip() for row in self.rows]

    def numbers(self, column: str, default: float | None = None) -> npt.NDArray[np.float64]:
        """A column of finite numbers; with a ``default``, cells and the column may be empty."""
        if default is None:
            return np.array([self._number(row, column) for row in range(len(self))])
        if column not in self.places:
            return np.full(len(self), default)
        texts = self.texts(column)
        return np.array(
            [self._number(row, column) if text else default for row, text in enumerate(texts)]
        )

    def whole(self, column: str) -> Whole:
        """A column of whole numbers."""
        place = self.places[column]
        try:
            values: list[float] = [int(row[place]) for row in self.rows]
        except ValueError:
            values = [self._number(row, column) for row in range(len(self))]
        if values and not (min(values) >= -(2**53) and max(values) <= 2**53):
            wrong = next(n for n, value in enumerate(values) if abs(value) > 2**53)
            self._refuse(wrong, column, "a whole number up to 2^53")
        array = np.array(values, dtype=np.float64)
        if (array != np.floor(array)).any():
            self._refuse(int(np.argmax(array != np.floor(array))), column, "a whole number")
        return array.astype(np.int64)

    def _number(self, row: int, column: str) -> float:
        try:
            value = float(self.rows[row][self.places[column]])
        except ValueError:
            value = np.nan
        if not np.isfinite(value):
            self._refuse(row, column, "a number")
        return value

    def _refuse(self, row: int, column: str, expected: str) -> None:
        place = self.places[column]
        cell = shown(self.rows[row][place])
        raise InputError(f"{self.place(row)}, cell {place + 1}: expected {expected}, got {cell}")
