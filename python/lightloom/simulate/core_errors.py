"""Errors of the core as those of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lightloom import _core
from lightloom.errors import FabricError, InputError
from lightloom.schedule import AllocatorCallback


@contextmanager
def core_errors(callback: AllocatorCallback | None = None) -> Iterator[None]:
    """What the core refuses, as errors of this package; what an allocator raised, as it is."""
    try:
        yield
    except Exception as error:
        if callback is not None and callback.raised is error:
            raise
        if isinstance(error, _core.NetworkInvalid):
            raise FabricError(str(error)) from None
        if isinstance(error, ValueError | OverflowError):
            raise InputError(str(error)) from None
        raise
