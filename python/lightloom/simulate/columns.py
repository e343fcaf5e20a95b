"""Networks as the flat arrays and dictionaries that the core takes."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


def as_plain(value: Any) -> Any:
    """Turn dataclasses into dictionaries and arrays into flat ones."""
    if is_dataclass(value):
        return {field.name: as_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return _flat(value, np.uint32)
    return value


def _flat(array: npt.NDArray[Any], dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(array, dtype=dtype).reshape(-1)
