"""Errors of the core as those of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from lightloom import _core
from lightloom.errors import FabricError, InputError


class Callback(Protocol):
    """A function that the core calls, and what it raised."""

    raised: BaseException | None


@contextmanager
def core_errors(*callbacks: Callback | None) -> Iterator[None]:
    """What the core refuses, as errors of this package; what a callback raised, as it is."""
    try:
        yield
    except Exception as error:
        if any(callback is not None and callback.raised is error for callback in callbacks):
            raise
        if isinstance(error, _core.NetworkInvalid):
            raise FabricError(str(error)) from None
        if isinstance(error, ValueError | OverflowError):
            raise InputError(str(error)) from None
        raise
