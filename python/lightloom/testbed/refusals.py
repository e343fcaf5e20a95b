"""What a testbed refuses, and why: one line each, for whoever called it."""

from __future__ import annotations

from lightloom.errors import InputError, LightloomError


class LayoutError(InputError):
    """A testbed of this size, or with these rates, cannot be made; or it has no such part."""


class TestbedError(LightloomError):
    """A testbed cannot be made here, is not up, or does not do what it should."""

    __test__ = False  # no test, whatever pytest takes its name for


class KernelError(TestbedError):
    """The kernel or the programs of this machine lack what a testbed needs."""
