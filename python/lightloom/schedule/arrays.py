"""Checks of the arrays that every family of schedulers takes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError, echo, expected_one_of
from lightloom.units import PS_PER_S, parse_quantity, to_bps, to_ps

#: rates are whole bits per second in 64 bits in the core
_MAX_GBPS = 1e9
_MAX_TIME_BYTES = 2**62 - 1
_DOUBLE_BYTES = 8


def as_array(values: npt.ArrayLike, name: str, error: type[InputError]) -> npt.NDArray[Any]:
    """Return values as an array of this machine's byte order.

    In another order, NumPy 2.0 to 2.2.1 may crash where a number outside of its type is compared.

    Raises ``error`` if rows are of unequal length, or masked.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        raise error(f"{name}: some entries are masked; fill them first, as by .filled(0)")
    try:
        array = np.asarray(values)
    except ValueError:
        raise error(f"{name}: expected an array, got rows of unequal length") from None
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def flag(value: bool, name: str) -> bool:
    """Return what is true or false; InputError for anything else, such as the text "no"."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name}: expected True or False, got {echo(value)}")
    return bool(value)


def span_text(given: npt.NDArray[Any]) -> str:
    """Return the smallest and the largest value in words."""
    low, high = given.min(), given.max()
    return str(low) if low == high else f"{low} to {high}"


def whole_matrix(
    values: npt.ArrayLike, name: str, maximum: int, error: type[InputError]
) -> npt.NDArray[np.uint64]:
    """Return a matrix of whole numbers from 0 to ``maximum``, or raise ``error``."""
    array = as_array(values, name, error)
    if array.ndim != 2:
        raise error(f"{name}: expected a matrix, got shape {array.shape}")
    if array.dtype.kind in "iu" and _within(array, maximum):
        return np.ascontiguousarray(array, dtype=np.uint64)
    if array.dtype.kind not in "iuf" and array.size:
        raise error(f"{name}: expected whole numbers from 0 to {maximum}, got {array.dtype}")
    if array.dtype.kind == "f":
        if array.dtype.itemsize < _DOUBLE_BYTES:
            array = array.astype(np.float64)  # half precision knows no 2^53
        whole = np.isfinite(array) & (array == np.floor(array))
        # 2^64 is a float, 2^64 - 1 is not: such a limit rounds up to a number that is too large.
        limit = float(maximum)
        whole &= (array >= 0) & ((array < limit) if limit > maximum else (array <= limit))
    else:
        whole = (array >= 0) & (array <= maximum)
    if not whole.all():
        row, column = np.argwhere(~whole)[0]
        raise error(
            f"{name}[{row}, {column}] is {array[row, column]}: "
            f"expected a whole number from 0 to {maximum}"
        )
    # nothing at all may be of any kind, even one that does not turn into numbers
    numbers = array if array.size else np.zeros(array.shape)
    return np.ascontiguousarray(numbers.astype(np.uint64))


def _within(array: npt.NDArray[Any], maximum: int) -> bool:
    """Whether whole numbers are from 0 to ``maximum``, for most without looking at them."""
    limits = np.iinfo(array.dtype)
    if limits.min < 0 and array.size and array.min() < 0:
        return False
    return limits.max <= maximum or not array.size or bool(array.max() <= maximum)


def square_matrix(
    values: npt.ArrayLike, name: str, maximum: int, error: type[InputError]
) -> npt.NDArray[np.uint64]:
    """Return a square matrix of whole numbers from 0 to ``maximum``, or raise ``error``."""
    array = as_array(values, name, error)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise error(f"{name}: expected a square matrix, got shape {array.shape}")
    return whole_matrix(array, name, maximum, error)


def whole_list(
    values: npt.ArrayLike, name: str, maximum: int, error: type[InputError], minimum: int = 0
) -> npt.NDArray[Any]:
    """Return a list of whole numbers from ``minimum`` to ``maximum``, or raise ``error``.

    It is unsigned if ``minimum`` is 0, else signed.
    """
    kind = np.uint64 if minimum == 0 else np.int64
    try:
        array = np.asarray(values)
    except ValueError:
        raise error(f"{name}: expected a list of whole numbers, got nested lists") from None
    as_array(values, name, error)
    if array.size == 0 and array.ndim == 1:
        return np.zeros(0, dtype=kind)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise error(
            f"{name}: expected a list of whole numbers, got {array.dtype} of shape {array.shape}"
        )
    if array.min() < minimum or array.max() > maximum:
        raise error(f"{name}: expected {minimum} to {maximum}, got {span_text(array)}")
    return np.ascontiguousarray(array.astype(kind))


def whole_number(
    value: int, name: str, minimum: int, maximum: int, error: type[InputError] = InputError
) -> int:
    """Return a whole number from ``minimum`` to ``maximum``, or raise ``error``."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not minimum <= value <= maximum:
        raise error(
            f"{name}: expected a whole number from {minimum} to {maximum}, got {echo(value)}"
        )
    return int(value)


def is_number(value: object, minimum: float, maximum: float = sys.float_info.max) -> bool:
    """Whether a value is a number in these limits, of which a float comes near."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return minimum <= value <= maximum


def one_of(
    value: str, name: str, choices: Sequence[str], error: type[InputError] = InputError
) -> None:
    """Raise ``error`` unless ``value`` is one of the words that are known."""
    if not isinstance(value, str) or value not in choices:
        raise error(f"{name} {echo(value)}: {expected_one_of(value, choices)}")


def rate_bps(gbps: float, name: str, minimum: float) -> int:
    """Return a rate in Gb/s as whole bits per second; at least ``minimum`` Gb/s."""
    number = isinstance(gbps, int | float | np.integer | np.floating) and gbps is not True
    if not number or not minimum <= gbps <= _MAX_GBPS:
        raise InputError(f"{name}: expected {minimum:g} to {_MAX_GBPS:g} Gb/s, got {echo(gbps)}")
    return to_bps(float(gbps))


def optional_seconds(seconds: float | str | None, name: str) -> float | None:
    """Return a time that may be left out, in seconds."""
    if seconds is None:
        return None
    duration_s = parse_quantity(seconds, "second", name)
    if duration_s < 0:
        raise InputError(f"{name}: expected 0 or more, got {duration_s!r}")
    return duration_s


def time_bytes(seconds: float | str, name: str, bits_per_s: int, minimum: int = 0) -> int:
    """Return the bytes that a port could send in a time, rounded up; at least ``minimum``."""
    duration_s = parse_quantity(seconds, "second", name)
    if duration_s < 0 or (minimum and not duration_s):
        expected = "more than 0" if minimum else "0 or more"
        raise InputError(f"{name}: expected {expected}, got {echo(seconds)}")
    # before it is whole, because not every float has a whole number of picoseconds
    if duration_s * bits_per_s / 8 > _MAX_TIME_BYTES:
        raise InputError(f"{name}: {echo(seconds)} is too long")
    return max(-(-to_ps(duration_s) * bits_per_s // (8 * PS_PER_S)), minimum)
