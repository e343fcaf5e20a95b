"""What tests of drivers have in common."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, NamedTuple

import pytest

from lightloom.control.drivers import open_driver
from lightloom.control.emulator import EmulatedBehavior, Emulator, FixedTime
from lightloom.control.switch import (
    Credentials,
    CrossConnect,
    SwitchChange,
    SwitchDisconnectedError,
    SwitchDriver,
)

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


class Protocol(NamedTuple):
    """A protocol of a model, packages that it needs, and a circuit by the names of its ports."""

    model: str
    service: str
    circuit: str = "1-9"
    packages: tuple[str, ...] = ()


PROTOCOLS = {
    protocol.service: protocol
    for protocol in (
        Protocol("polatis", "tl1"),
        Protocol("polatis", "ssh", packages=("asyncssh",)),
        Protocol("polatis", "restconf", packages=("httpx",)),
        Protocol("polatis", "restconfs", packages=("httpx", "cryptography")),
        Protocol("polatis", "netconf", packages=("asyncssh", "ncclient")),
        Protocol("polatis", "scpi"),
        Protocol("sonic", "gnmi", "1A-1B", ("grpc", "pygnmi")),
        Protocol("sonic", "gnmis", "1A-1B", ("grpc", "pygnmi", "cryptography")),
    )
} | {
    "cli": Protocol("sonic", "ssh", "1A-1B", ("asyncssh",)),
    "sonic-restconfs": Protocol("sonic", "restconfs", "1A-1B", ("httpx", "cryptography")),
    "calient": Protocol("calient", "tl1", "1.1.1-1.1.2"),
}
#: those whose identity is checked: by a certificate, or by a host key
CERTIFIED, KEYED = ("restconfs", "gnmis"), ("ssh", "netconf")
#: those in which nobody logs in
OPEN = {"scpi"}


@contextlib.asynccontextmanager
async def reached(protocol, tmp_path, query="poll_s=0.05", *, host="127.0.0.1", **options):
    """An emulator, and the URL by which its driver trusts it."""
    emulator = emulate(model=protocol.model, services={protocol.service: 0}, **options)
    emulator.host = host
    async with emulator:
        query = f"?{query}"
        if protocol.service in CERTIFIED:
            (tmp_path / "switch.pem").write_text(emulator.certificate)
            query += f"&ca_file={tmp_path / 'switch.pem'}"
        if protocol.service in KEYED:
            (tmp_path / "hosts").write_text(emulator.known_hosts())
            query += f"&known_hosts={tmp_path / 'hosts'}"
        yield emulator, query


async def unknown_until_read_back(
    emulator: Emulator, driver: SwitchDriver, wanted: str, is_made: bool
) -> None:
    """A change whose connection is cut may have been made or not; nothing is sent twice."""
    with pytest.raises(SwitchDisconnectedError):
        await driver.apply(change(wanted))
    with pytest.raises(SwitchDisconnectedError, match="not connected"):
        await driver.read_back()
    await driver.connect()
    assert bool((await driver.read_back()).cross_connects) == is_made
    assert emulator.faults.num_changes == 1
