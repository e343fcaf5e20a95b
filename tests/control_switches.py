"""What tests of drivers have in common."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from lightloom.control.drivers import open_driver
from lightloom.control.emulator import EmulatedBehavior, Emulator, FixedTime
from lightloom.control.switch import Credentials, CrossConnect, SwitchChange, SwitchDriver

ADMIN = Credentials("admin", "root")
LIMIT_S = 10


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a test's coroutine, which must end."""

    async def bounded() -> Any:
        async with asyncio.timeout(LIMIT_S):
            return await work

    return asyncio.run(bounded())


def pairs(text: str) -> tuple[CrossConnect, ...]:
    """``"1-9 2-10"`` as cross-connects."""
    return tuple(CrossConnect(*one.split("-")) for one in text.split())


def change(creates: str = "", deletes: str = "") -> SwitchChange:
    return SwitchChange(deletes=pairs(deletes), creates=pairs(creates))


def emulate(size=(8, 8), **options) -> Emulator:
    """A small emulated switch whose mirrors settle at once."""
    options.setdefault("timing", FixedTime(0))
    return Emulator(size, seed=1, **options)


def behavior(**options) -> EmulatedBehavior:
    return EmulatedBehavior(**options)


@contextlib.asynccontextmanager
async def connected(emulator: Emulator, query: str = "", credentials=ADMIN, service: str = ""):
    """The driver of an emulator that listens already."""
    driver: SwitchDriver = open_driver(emulator.url(service) + query, credentials=credentials)
    try:
        await driver.connect()
        yield driver
    finally:
        await driver.close()


@contextlib.asynccontextmanager
async def setup(query: str = "", service: str = "", **options):
    """An emulator and its driver, connected."""
    async with (
        emulate(**options) as emulator,
        connected(emulator, query, service=service) as driver,
    ):
        yield emulator, driver


async def until(condition) -> None:
    """Wait until a condition holds; the test's time limit bounds it."""
    while not condition():
        await asyncio.sleep(0.005)
