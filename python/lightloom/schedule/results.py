"""What all results of schedulers can do: compare as a whole, print, and show in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy.typing as npt

from lightloom.schedule.comparable import Comparable
from lightloom.shown import Shown

#: rows and columns of a matrix, and slots, that are printed
MAX_SHOWN = 16


class ResultTable(NamedTuple):
    """A table of a result; headers and cells are text."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


class Result(Comparable, Shown):
    """A result that prints itself, and that a notebook shows."""

    def tables(self) -> list[ResultTable]:
        """Return the tables that are printed."""
        raise NotImplementedError


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
