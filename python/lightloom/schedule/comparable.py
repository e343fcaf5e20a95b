"""Dataclasses whose fields may be arrays, compared as a whole; arrays are told without numpy."""

from __future__ import annotations

import dataclasses
from typing import Any


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


def _equal(first: Any, other: Any) -> bool:
    if hasattr(first, "ndim") or hasattr(other, "ndim"):
        import numpy as np

        return bool(np.array_equal(first, other))
    if isinstance(first, tuple) and isinstance(other, tuple):
        return len(first) == len(other) and all(map(_equal, first, other))
    return bool(first == other)
