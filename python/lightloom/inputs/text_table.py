"""Tables in text: one way to divide them into rows, and to read columns by their header.

Cells are separated by commas, semicolons or tabs; lines that begin with ``#`` are comments. What is
wrong becomes one line that names the line of the table.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError, did_you_mean, echo
from lightloom.inputs.files import Refusal, decode, first_line

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Columns:
    """What a table may hold.

    Attributes
    ----------
    noun
        Rows of the table, for messages.
    needed, optional
        Columns that must and that may be there.
    ignored
        Columns that may be there and are not read.
    """

    noun: str
    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def known(self) -> tuple[str, ...]:
        """Columns that are looked at."""
        return (*self.needed, *self.optional)


@dataclass(frozen=True)
class TextRows:
    """The rows of a table and the line of each, without blank lines and comments."""

    name: str
    rows: list[list[str]]
    lines: list[int]

    def place(self, row: int) -> str:
        """Where a row is: the beginning of a message about it."""
        return f"{self.name}, line {self.lines[row]}"


def parse_rows(
    content: bytes,
    name: str,
    noun: str,
    error: Refusal = InputError,
    *,
    spaces: bool = False,
    max_rows: int | None = None,
) -> TextRows:
    """Divide a table in text into rows of cells.

    Parameters
    ----------
    content, name
        The text, and what it is called in messages.
    noun
        What the table is of, for messages.
    error
        Class of the error that is raised.
    spaces
        Whether cells may be separated by spaces where there is no comma, semicolon or tab.
    max_rows
        Maximum number of rows.

    Raises
    ------
    InputError
        If it is no text, has no rows or too many, or quotes are wrong.
    """
    kept = _table_lines(decode(content, name, error))
    if not kept:
        raise error(f"{name}: the file is empty; expected a table of {noun}")
    if max_rows is not None and len(kept) > max_rows:
        raise error(f"{name}: {len(kept):,} rows exceed the limit of {max_rows:,}")
    lines = [line for _, line in kept]
    delimiter = _delimiter_of(lines[0], " " if spaces else ",")
    if delimiter == " ":
        rows = [line.split() for line in lines]
    else:
        rows = _split_cells(lines, delimiter, name, noun, error)
    return TextRows(name, rows, [number for number, _ in kept])


def heads_of(content: bytes) -> list[str]:
    """The cells of the first row, in small letters, of what begins as a table in text may."""
    kept = _table_lines(content.decode("utf-8-sig", errors="replace"))
    if not kept:
        return []
    line = kept[0][1]
    cells = next(csv.reader([line], delimiter=_delimiter_of(line, ",")))
    return [cell.strip().lower() for cell in cells]


def _table_lines(text: str) -> list[tuple[int, str]]:
    """The lines of a table and their numbers, without blank ones and comments."""
    return [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]


def _delimiter_of(line: str, other: str) -> str:
    return next((mark for mark in ",;\t" if mark in line), other)


def _split_cells(
    lines: list[str], delimiter: str, name: str, noun: str, error: Refusal
) -> list[list[str]]:
    try:
        rows = list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error as problem:
        reason = first_line(str(problem))
        raise error(f"{name}: not a table of {noun}: {reason}") from None
    if len(rows) != len(lines):
        raise error(f"{name}: not a table of {noun}: a quoted cell spans lines")
    return rows


def parse_table(
    content: bytes, name: str, columns: Columns, error: Refusal = InputError
) -> TextTable:
    """Parse a table with a header; ``name`` and the line begin messages.

    Raises
    ------
    InputError
        If it is no such table.
    """
    lines_read = parse_rows(content, name, columns.noun, error)
    head, *rows = lines_read.rows
    heads = [cell.strip().lower() for cell in head]
    places = _places(heads, lines_read.place(0), columns, error)
    lines = np.array(lines_read.lines[1:], dtype=np.int64)
    table = TextTable(name, places, rows, lines, error)
    wrong = next((n for n, row in enumerate(rows) if len(row) != len(head)), None)
    if wrong is not None:
        expected = f"expected {len(head)} as in the header"
        raise error(f"{table.place(wrong)}: {len(rows[wrong])} cells, {expected}")
    return table


def _places(heads: list[str], place: str, columns: Columns, error: Refusal) -> dict[str, int]:
    """Where each column is."""
    expected = f"expected a header with the columns {', '.join(columns.known)}"
    for head in heads:
        if head not in (*columns.known, *columns.ignored):
            hint = did_you_mean(head[:40], columns.known)
            raise error(f"{place}: no column is called {echo(head)}; {expected}{hint}")
        if heads.count(head) > 1:
            raise error(f"{place}: column '{head}' is there twice; {expected}")
    missing = next((name for name in columns.needed if name not in heads), None)
    if missing is not None:
        raise error(f"{place}: column '{missing}' is missing; {expected}")
    return {head: number for number, head in enumerate(heads)}


@dataclass(frozen=True)
class TextTable:
    """Rows of text below the header, where each column is, and the line of each row."""

    name: str
    places: Mapping[str, int]
    rows: Sequence[Sequence[str]]
    lines: Whole
    error: Refusal = InputError

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

    def whole(self, column: str, default: int | None = None) -> Whole:
        """A column of whole numbers; with a ``default``, cells may be empty."""
        texts = self.texts(column)
        if default is not None and "" in texts:
            given = [place for place, text in enumerate(texts) if text]
            numbers = np.full(len(self), default, dtype=np.int64)
            filled = replace(self, rows=[self.rows[place] for place in given],
                             lines=self.lines[given])  # fmt: skip
            numbers[given] = filled.whole(column)
            return numbers
        try:
            values: list[float] = [int(text) for text in texts]
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
        cell = echo(self.rows[row][place])
        raise self.error(f"{self.place(row)}, cell {place + 1}: expected {expected}, got {cell}")
