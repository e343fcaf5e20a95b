"""Byte matrices in tables: text (CSV and its kin) and Parquet.

A table is either square, one row per source, with or without names of its rows and columns, or
long: one row per pair with the columns ``src``, ``dst`` and ``bytes`` (also in the names that
``lightloom demand --csv`` gives them). Rows of the same pair are added. In text, sources and
destinations of a long table may be names, which are numbered in the order in which they appear.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from lightloom.errors import DemandError, echo
from lightloom.inputs.files import first_line
from lightloom.inputs.text_table import parse_rows
from lightloom.optional import need

#: largest side of a matrix
_MAX_SIDE = 4096
_MAX_ROWS = 2 * _MAX_SIDE**2
_MAX = 2**53
_ENDS = ("source", "destination")
#: types of Parquet that NumPy has as well
_NUMERIC = {*(f"{u}Int{b}" for u in ("", "U") for b in (8, 16, 32, 64)), "Float32", "Float64"}
_SIZES = ("bytes", "size_bytes")

Numbers = npt.NDArray[Any]


def parse_text_table(text: bytes, name: str) -> Numbers:
    """Parse a table in text; cells are separated by commas, semicolons, tabs or spaces.

    Raises
    ------
    DemandError
        If it is no table of numbers; ``name`` and the line begin the message.
    """
    table = parse_rows(text, name, "bytes", DemandError, spaces=True, max_rows=_MAX_ROWS)
    rows = table.rows
    places = [table.place(row) for row in range(len(rows))]
    if len(rows[0]) > _MAX_SIDE + 1:
        raise DemandError(f"{places[0]}: {len(rows[0]):,} cells exceed the limit of {_MAX_SIDE:,}")
    columns = _long_columns([cell.strip().lower() for cell in rows[0]], name)
    if columns is not None:
        cells = [[row[c] for c in columns] if len(row) == len(rows[0]) else row for row in rows[1:]]
        return _from_pairs(_parse_rows(_numbered(cells, places[1:]), places[1:]), name)
    return _square(rows, places, name)


def _square(rows: list[list[str]], places: list[str], name: str) -> Numbers:
    """One row per source, names of rows and columns left out."""
    first = [cell.strip() for cell in rows[0]]
    numeric = [_is_number(cell) for cell in first]
    # as pandas writes it: a name or nothing, then 0, 1, 2 ...
    indexed = not numeric[0] and len(first) > 2 and first[1:] == _numbering(len(first) - 1)
    named_columns = indexed or (any(first) and not any(numeric))
    body, places = (rows[1:], places[1:]) if named_columns else (rows, places)
    if not body:
        raise DemandError(f"{name}: expected rows of numbers below the header")
    if indexed or first[0] == "" or not _is_number(body[0][0]) or _is_index(body):
        body = [row[1:] for row in body]
    matrix = _parse_rows(body, places)
    if 2 < len(matrix) == matrix.shape[1] + 1 and (matrix[0] == np.arange(len(matrix[0]))).all():
        return matrix[1:]  # as pandas writes it without an index: the first row is 0, 1, 2 ...
    square = len(matrix) == matrix.shape[1]
    if not named_columns and not (square and not matrix.diagonal().any()) and _may_be_pairs(rows):
        raise DemandError(
            f"{name}: {len(rows)} rows of 3 numbers may be pairs or a matrix; begin with the line "
            "'src,dst,bytes' if they are pairs; a matrix has as many rows as columns, and 0 from a "
            "node to itself"
        )
    return matrix


def _numbered(cells: list[list[str]], places: list[str]) -> list[list[str]]:
    """Pairs with a number for each node, where nodes have names."""
    ends = [[cell.strip() for cell in row[:2]] for row in cells]
    named = [
        place for row, place in zip(ends, places, strict=True) if not all(map(_is_number, row))
    ]
    if not named:
        return cells
    if any(map(_is_number, itertools.chain(*ends))):
        raise DemandError(f"{named[0]}: expected a number of a node, as in other lines")
    numbers = {end: str(number) for number, end in enumerate(dict.fromkeys(itertools.chain(*ends)))}
    return [
        [*(numbers[end] for end in row), *cell[2:]] for row, cell in zip(ends, cells, strict=True)
    ]


def _may_be_pairs(rows: list[list[str]]) -> bool:
    """Whether rows of three numbers may be source, destination and bytes."""
    if any(len(row) != 3 or not all(cell.strip().isdecimal() for cell in row) for row in rows):
        return False
    ends = np.array([list(map(int, row[:2])) for row in rows])
    nodes = np.unique(ends)
    numbered = nodes[0] <= 1 and len(nodes) == nodes[-1] - nodes[0] + 1
    if len(rows) == 3:  # else no matrix
        return bool(numbered and (ends[:, 0] != ends[:, 1]).all())
    return bool(nodes[-1] < _MAX_SIDE)


def _numbering(count: int) -> list[str]:
    return [str(index) for index in range(count)]


def _is_index(rows: list[list[str]]) -> bool:
    """Whether the first of n + 1 columns only numbers the n rows."""
    if len(rows) < 2 or len(rows[0]) != len(rows) + 1:
        return False
    return [row[0].strip() for row in rows if row] == _numbering(len(rows))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _parse_rows(rows: Sequence[Sequence[str]], places: Sequence[str]) -> Numbers:
    """Rows of numbers, all as long as the first."""
    parsed = []
    for row, place in zip(rows, places, strict=True):
        if len(row) != len(rows[0]):
            raise DemandError(
                f"{place}: {len(row)} cells, expected {len(rows[0])} as in the first row"
            )
        parsed.append(_parse_row(row, place))
    whole = all(isinstance(value, int) for row in parsed for value in row)
    return np.array(parsed, dtype=np.int64 if whole else np.float64)


def _parse_row(row: Sequence[str], place: str) -> list[int | float]:
    try:
        values: list[int | float] = list(map(int, row))
    except ValueError:
        values = [_parse_cell(cell, place) for cell in row]
    if values and not -_MAX <= min(values) <= max(values) <= _MAX:
        culprit = next(cell for cell, v in zip(row, values, strict=True) if not abs(v) <= _MAX)
        raise DemandError(f"{place}: expected whole bytes from 0 to 2^53, got {echo(culprit)}")
    return values


def _parse_cell(cell: str, place: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not value.is_integer():
        raise DemandError(f"{place}: expected whole bytes, got {echo(cell)}")
    return value


def _long_columns(heads: list[str], name: str) -> tuple[int, int, int] | None:
    """Places of source, destination and bytes; ``None`` if the table is a square one.

    Raises
    ------
    DemandError
        If it is a long table of something else.
    """
    kinds = [_kind(head) for head in heads]
    if "source" not in kinds or not ("destination" in kinds or "expert" in heads):
        return None
    if "expert" in heads:
        raise DemandError(
            f"{name}: column 'expert': expected destinations; write it by 'lightloom demand ... "
            "--view rank --csv' (or --view server)"
        )
    other = next((head for head, kind in zip(heads, kinds, strict=True) if not kind), None)
    counts = tuple(kinds.count(kind) for kind in (*_ENDS, "bytes"))
    if other is not None or counts != (1, 1, 1):
        what = f"column {echo(other)}" if other is not None else f"columns {', '.join(heads[:6])}"
        raise DemandError(f"{name}: {what}: expected the columns src, dst and bytes alone")
    return kinds.index("source"), kinds.index("destination"), kinds.index("bytes")


def _kind(head: str) -> str:
    """What a column is: an end, ``bytes``, ``tokens`` (in addition to bytes), or nothing known."""
    if head in {"src", "dst"}:
        return _ENDS[head == "dst"]
    if head in _SIZES:
        return "bytes"
    return next((kind for kind in (*_ENDS, "tokens") if head.startswith(kind)), "")


def _from_pairs(cells: Numbers, name: str) -> Numbers:
    """A square matrix of rows (source, destination, bytes)."""
    if not len(cells):
        raise DemandError(f"{name}: expected rows below the header")
    ends = cells[:, :2]
    if (ends != np.floor(ends)).any() or ends.min() < 0 or ends.max() >= _MAX_SIDE:
        raise DemandError(
            f"{name}: expected sources and destinations from 0 to {_MAX_SIDE - 1:,}, "
            f"got {ends.min():g} to {ends.max():g}"
        )
    side = int(ends.max()) + 1
    # exact up to 2^53, and larger sums are refused
    matrix = np.zeros((side, side))
    places = ends.astype(np.int64)
    np.add.at(matrix, (places[:, 0], places[:, 1]), cells[:, 2])
    if (cells[:, 2] < 0).any():  # a sum could hide it
        row = int(np.argmax(cells[:, 2] < 0))
        raise DemandError(f"{name}: row {row + 1} below the header has {cells[row, 2]} bytes")
    return matrix


def read_parquet_table(stream: BinaryIO, name: str) -> Numbers:
    """Read a table in Parquet, after looking at its size.

    Raises
    ------
    DemandError
        If it is no Parquet file or no table of numbers.
    """
    need("polars", "a Parquet table of bytes")
    import polars
    from polars.exceptions import PolarsError

    try:
        table = polars.scan_parquet(stream)
        schema = table.collect_schema()
        rows = int(table.select(polars.len()).collect().item())
    except (PolarsError, OSError, ValueError) as error:
        raise DemandError(f"{name}: not a Parquet file: {first_line(str(error))}") from None
    columns = _long_columns([head.strip().lower() for head in schema], name)
    maximum = _MAX_SIDE if columns is None else _MAX_ROWS
    if not 1 <= rows <= maximum or len(schema) > _MAX_SIDE:
        raise DemandError(
            f"{name}: expected up to {maximum:,} rows and {_MAX_SIDE:,} columns, "
            f"got {rows:,} and {len(schema):,}"
        )
    names = list(schema) if columns is None else [list(schema)[c] for c in columns]
    text = next((head for head in names if str(schema[head]) not in _NUMERIC), None)
    if text is not None:
        raise DemandError(
            f"{name}: column {echo(text)} holds {schema[text]}: expected whole numbers"
        )
    try:
        frame = table.select(names).collect()
    except (PolarsError, OSError, ValueError) as error:
        raise DemandError(f"{name}: not a Parquet file: {first_line(str(error))}") from None
    if any(frame.null_count().row(0)):
        raise DemandError(f"{name}: has empty cells: expected whole numbers")
    values = frame.to_numpy()
    if not ((values >= -_MAX) & (values <= _MAX)).all():
        raise DemandError(f"{name}: expected whole bytes from 0 to 2^53 in every cell")
    return values if columns is None else _from_pairs(values, name)
