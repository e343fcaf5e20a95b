"""A matrix as shades for a terminal: what to draw, not how (``lightloom demand`` draws it)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import DemandError

#: shades from nothing to the maximum; the first is for zero alone
SHADES = (" ", "·", "░", "▒", "▓", "█")
#: the same for terminals whose encoding has no block elements
PLAIN_SHADES = (" ", ".", ":", "+", "%", "@")


@dataclass(frozen=True)
class HeatMap:
    """A matrix made to fit, with a shade per cell.

    ``values`` sums ``rows_per_cell`` x ``columns_per_cell`` entries of the matrix (fewer in the
    last row and column); ``levels`` indexes :data:`SHADES`. ``bounds[i]`` is the largest value of
    level ``i``.
    """

    values: npt.NDArray[np.int64]
    levels: npt.NDArray[np.int64]
    bounds: tuple[float, ...]
    rows_per_cell: int
    columns_per_cell: int


def shades_of(encoding: str) -> tuple[str, ...]:
    """Shades that an encoding such as ``latin-1`` can show."""
    try:
        "".join(SHADES).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return PLAIN_SHADES
    return SHADES


def heat_map(matrix: npt.NDArray[Any], max_rows: int, max_columns: int) -> HeatMap:
    """Sum neighbors until the matrix fits, and shade it evenly up to its maximum.

    Raises
    ------
    DemandError
        If the matrix is empty or has not two axes.
    """
    if matrix.ndim != 2 or matrix.size == 0:
        raise DemandError(f"expected a matrix to draw, got the shape {matrix.shape}")
    rows_per_cell = -(-matrix.shape[0] // max(1, max_rows))
    columns_per_cell = -(-matrix.shape[1] // max(1, max_columns))
    values = matrix.astype(np.int64)
    values = np.add.reduceat(values, np.arange(0, values.shape[0], rows_per_cell), axis=0)
    values = np.add.reduceat(values, np.arange(0, values.shape[1], columns_per_cell), axis=1)
    shades = len(SHADES) - 1
    top = max(int(values.max()), 1)
    levels = np.minimum(-(-values * shades // top), shades)
    return HeatMap(
        values=values,
        levels=levels,
        bounds=tuple(top * level / shades for level in range(shades + 1)),
        rows_per_cell=rows_per_cell,
        columns_per_cell=columns_per_cell,
    )
