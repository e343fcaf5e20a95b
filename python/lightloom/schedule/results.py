"""What all results of schedulers can do: compare as a whole, print, and show in a notebook."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lightloom.shown import Shown

#: rows and columns of a matrix, and slots, that are printed
MAX_SHOWN = 16


class ResultTable(NamedTuple):
    """A table of a result; headers and cells are text."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


class Comparable:
    """A dataclass whose fields may be arrays.

    Two are equal if they are of one class and all of their fields are equal, those that are not
    compared aside; as arrays change, there is no hash.
    """

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            _equal(getattr(self, field.name), getattr(other, field.name))
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if field.compare
        )

    __hash__ = None  # type: ignore[assignment]


class Result(Comparable, Shown):
    """A result that prints itself, and that a notebook shows."""

    def tables(self) -> list[ResultTable]:
        """Return the tables that are printed."""
        raise NotImplementedError


def _equal(first: Any, other: Any) -> bool:
    if isinstance(first, np.ndarray) or isinstance(other, np.ndarray):
        return bool(np.array_equal(first, other))
    if isinstance(first, tuple) and isinstance(other, tuple):
        return len(first) == len(other) and all(map(_equal, first, other))
    return bool(first == other)


def summary(title: str, **values: str) -> ResultTable:
    """Return a table of named values; underscores of the names become spaces."""
    return ResultTable(
        title, ("", ""), [(name.replace("_", " "), text) for name, text in values.items()]
    )


def matrix_table(title: str, matrix: npt.NDArray[Any]) -> ResultTable:
    """Return a matrix as a table, row by row; the first rows and columns if it is large."""
    shown = matrix[:MAX_SHOWN, :MAX_SHOWN]
    headers = ("", *(str(column) for column in range(shown.shape[1])))
    rows = [(str(row), *(str(cell) for cell in cells)) for row, cells in enumerate(shown.tolist())]
    size = " x ".join(map(str, matrix.shape))
    cut = shown.shape != matrix.shape
    return ResultTable(title, headers, rows, f"The first {MAX_SHOWN} of {size}." if cut else "")
