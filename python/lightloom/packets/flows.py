"""Flows: from which host to which, how many bytes, from when on.

They come as arrays or from a table in text with the columns ``src``, ``dst``, ``bytes`` and
``start_us`` (which may be absent: 0). The columns that results add are passed over, so that a
result can be simulated again. A file is measured before it is read, and what is wrong in it
becomes one line that names the line.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.demand.files import first_line, open_file, shown
from lightloom.errors import InputError, did_you_mean
from lightloom.units import PS_PER_S

#: largest file, most flows, largest flow, latest start
MAX_FILE_BYTES, MAX_FLOWS, MAX_SIZE, MAX_START_S = 256 * 10**6, 2**22, 2**42, 1000.0
#: columns of a file, and what results add to them
COLUMNS, RESULTS = ("src", "dst", "bytes", "start_us"), ("flow", "flow_id", "fct_us", "slowdown")
STDIN = "-"

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Flows:
    """Flows of a run, numbered from 0 in this order; all arrays are ``(flows,)``.

    Attributes
    ----------
    source, destination
        Hosts, from 0 on.
    size_bytes
        Payload.
    start_s
        When each begins.
    name
        Where they come from, for messages.
    lines
        Line of the file of each flow, for messages; ``None`` if they come from no file.
    """

    source: Whole
    destination: Whole
    size_bytes: Whole
    start_s: npt.NDArray[np.float64]
    name: str = "flows"
    lines: Whole | None = None

    def __len__(self) -> int:
        return len(self.source)

    @property
    def start_ps(self) -> npt.NDArray[np.uint64]:
        """Starts in whole picoseconds."""
        return np.rint(self.start_s * PS_PER_S).astype(np.uint64)

    def place(self, flow: int) -> str:
        """Where a flow is written down: the beginning of a message about it."""
        if self.lines is not None:
            return f"{self.name}, line {self.lines[flow]}"
        return f"{self.name}: flow {flow}"


def make_flows(
    source: Any, destination: Any, size_bytes: Any, start_s: Any = 0.0, *, name: str = "flows"
) -> Flows:
    """Flows from arrays; one number stands for all, ``name`` begins messages.

    Raises
    ------
    InputError
        If they are no whole numbers (``start_s``: no numbers) or differ in length.
    """
    ends = _as_whole(source, "source"), _as_whole(destination, "destination")
    columns = (*ends, _as_whole(size_bytes, "size_bytes"), _as_numbers(start_s, "start_s"))
    lengths = {column.size for column in columns if column.ndim}
    if any(column.ndim > 1 for column in columns) or len(lengths) > 1:
        shapes = ", ".join(str(column.shape) for column in columns)
        raise InputError(f"{name}: expected arrays of one axis and one length, got {shapes}")
    shape = (lengths.pop() if lengths else 1,)
    first, last, size = (np.broadcast_to(column, shape) for column in columns[:3])
    return Flows(first, last, size, np.broadcast_to(columns[3], shape), name)


def _as_numbers(values: Any, name: str) -> npt.NDArray[np.float64]:
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise InputError(f"flows: {name}: expected numbers, got {shown(array.dtype)}")
    return array.astype(np.float64)


def _as_whole(values: Any, name: str) -> Whole:
    numbers = _as_numbers(values, name)
    if not (np.abs(numbers) <= 2**53).all() or (numbers != np.floor(numbers)).any():
        raise InputError(f"flows: {name}: expected whole numbers up to 2^53")
    return np.asarray(values).astype(np.int64)


def check_flows(flows: Flows, hosts: int) -> None:
    """Refuse flows that so many hosts cannot have.

    Raises
    ------
    InputError
        Naming the first flow that is wrong, and its line.
    """
    if not len(flows):
        raise InputError(f"{flows.name}: there are no flows; expected at least one")
    if len(flows) > MAX_FLOWS:
        raise InputError(f"{flows.name}: {len(flows):,} flows exceed the limit of {MAX_FLOWS:,}")
    for what, ends in (("src", flows.source), ("dst", flows.destination)):
        _refuse(flows, (ends < 0) | (ends >= hosts), lambda flow, what=what, ends=ends: (
            f"{what} {ends[flow]}: expected a host from 0 to {hosts - 1:,}"
        ))  # fmt: skip
    _refuse(flows, flows.source == flows.destination, lambda flow: (
        f"host {flows.source[flow]} sends to itself; expected another dst"
    ))  # fmt: skip
    sizes = flows.size_bytes
    _refuse(flows, (sizes < 1) | (sizes > MAX_SIZE), lambda flow: (
        f"{sizes[flow]:,} bytes: expected 1 to {MAX_SIZE:,}"
    ))  # fmt: skip
    starts = flows.start_s
    _refuse(flows, ~((starts >= 0) & (starts <= MAX_START_S)), lambda flow: (
        f"starts at {starts[flow] * 1e6:g} us: expected 0 to {MAX_START_S * 1e6:g} us"
    ))  # fmt: skip


def _refuse(flows: Flows, wrong: npt.NDArray[np.bool_], say: Any) -> None:
    if wrong.any():
        flow = int(np.argmax(wrong))
        raise InputError(f"{flows.place(flow)}: {say(flow)}")


def read_flows(path: Path | str) -> Flows:
    """Read flows from a table in text; ``-`` is standard input.

    Raises
    ------
    InputError
        If it cannot be read, is too large, or is no table of flows.
    """
    if str(path) == STDIN:
        if sys.stdin is None:
            raise InputError("standard input: is closed; give a file")
        return parse_flows(sys.stdin.buffer.read(MAX_FILE_BYTES + 1), "standard input")
    with open_file(Path(path), MAX_FILE_BYTES) as stream:
        return parse_flows(stream.read(), str(path))


def parse_flows(content: bytes, name: str) -> Flows:
    """Parse a table of flows; ``name`` and the line begin messages.

    Cells are parted by commas, semicolons or tabs; lines that begin with ``#`` say nothing.

    Raises
    ------
    InputError
        If it is no such table. Whether the hosts exist is not looked at here.
    """
    if len(content) > MAX_FILE_BYTES:
        raise InputError(f"{name}: exceeds the limit of {MAX_FILE_BYTES:,} bytes")
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{name}: not text in UTF-8") from None
    kept = [
        (number, line)
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.startswith("#")
    ]
    if not kept:
        raise InputError(f"{name}: the file is empty; expected the columns {', '.join(COLUMNS)}")
    numbers = np.array([number for number, _ in kept], dtype=np.int64)
    head, *rows = _cells([line for _, line in kept], name)
    places = _columns([cell.strip().lower() for cell in head], f"{name}, line {numbers[0]}")
    table = _Table(name, rows, numbers[1:])
    table.check_lengths(len(head))
    starts = table.numbers(places["start_us"]) if "start_us" in places else np.zeros(len(rows))
    return Flows(
        source=table.whole(places["src"]),
        destination=table.whole(places["dst"]),
        size_bytes=table.whole(places["bytes"]),
        start_s=starts / 1e6,
        name=name,
        lines=table.lines,
    )


def _cells(lines: list[str], name: str) -> list[list[str]]:
    delimiter = next((mark for mark in ",;\t" if mark in lines[0]), ",")
    try:
        rows = list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise InputError(f"{name}: not a table of text: {first_line(str(error))}") from None
    if len(rows) != len(lines):
        raise InputError(f"{name}: not a table of flows: a quoted cell spans lines")
    return rows


def _columns(heads: list[str], place: str) -> dict[str, int]:
    """Where each column is; those of results are passed over."""
    expected = f"expected a header with the columns {', '.join(COLUMNS)}"
    for head in heads:
        if head not in (*COLUMNS, *RESULTS):
            hint = did_you_mean(head[:40], COLUMNS)
            raise InputError(f"{place}: no column is called {shown(head)}; {expected}{hint}")
        if heads.count(head) > 1:
            raise InputError(f"{place}: column '{head}' is there twice; {expected}")
    missing = next((name for name in COLUMNS[:3] if name not in heads), None)
    if missing is not None:
        raise InputError(f"{place}: column '{missing}' is missing; {expected}")
    return {head: number for number, head in enumerate(heads)}


@dataclass(frozen=True)
class _Table:
    """Rows of text below the header, and the line of each."""

    name: str
    rows: Sequence[Sequence[str]]
    lines: Whole

    def _place(self, row: int) -> str:
        return f"{self.name}, line {self.lines[row]}"

    def check_lengths(self, count: int) -> None:
        """Refuse rows that have not as many cells as the header."""
        wrong = next((n for n, row in enumerate(self.rows) if len(row) != count), None)
        if wrong is not None:
            raise InputError(
                f"{self._place(wrong)}: {len(self.rows[wrong])} cells, expected {count} as in the "
                "header"
            )

    def numbers(self, column: int) -> npt.NDArray[np.float64]:
        """A column of finite numbers."""
        return np.array([self._number(row, column) for row in range(len(self.rows))])

    def whole(self, column: int) -> Whole:
        """A column of whole numbers."""
        try:
            values: list[float] = [int(row[column]) for row in self.rows]
        except ValueError:
            values = [self._number(row, column) for row in range(len(self.rows))]
        if values and not (min(values) >= -(2**53) and max(values) <= 2**53):
            wrong = next(n for n, value in enumerate(values) if abs(value) > 2**53)
            self._refuse(wrong, column, "a whole number up to 2^53")
        array = np.array(values, dtype=np.float64)
        if (array != np.floor(array)).any():
            self._refuse(int(np.argmax(array != np.floor(array))), column, "a whole number")
        return array.astype(np.int64)

    def _number(self, row: int, column: int) -> float:
        try:
            value = float(self.rows[row][column])
        except ValueError:
            value = np.nan
        if not np.isfinite(value):
            self._refuse(row, column, "a number")
        return value

    def _refuse(self, row: int, column: int, expected: str) -> None:
        cell = shown(self.rows[row][column])
        raise InputError(f"{self._place(row)}, cell {column + 1}: expected {expected}, got {cell}")
