"""What holds for any switch and its driver: each emulated one, or a real one by its address.

    pytest tests/unit/control_drivers/test_any_switch.py --switch polatis+ssh://10.0.0.5

reads only. Tests that change circuits need two circuits whose four ports are free and carry nothing
that matters, by ``--switch-circuits "1-49 2-50"``, and touch no other port. User and password come
from ``LIGHTLOOM_SWITCH_USER`` and ``LIGHTLOOM_SWITCH_PASSWORD``; the query of the URL sets
time-outs, known hosts and certificates.
"""

import asyncio
import contextlib
import os
from typing import NamedTuple

import pytest
from tests.control_switches import ADMIN, PROTOCOLS, pairs, reached

from lightloom.control.drivers import open_driver
from lightloom.control.switch import (
    CircuitState,
    Credentials,
    PortSide,
    SwitchChange,
    SwitchDriver,
)
from lightloom.errors import InputError

#: how long a real switch may take until the light of a change is good
SETTLED_S = 60.0
EMULATED_CIRCUITS = {
    "calient": "1.1.1-1.1.2 1.1.3-1.1.4",
    "sonic": "1A-1B 2A-2B",
    "polatis": "1-9 2-10",
}
_WRONG_SIDES = (PortSide.EGRESS, PortSide.INGRESS)


class Target(NamedTuple):
    """A driver that is connected, and two circuits that may be made and broken; none if empty."""

    driver: SwitchDriver
    circuits: str


def pytest_generate_tests(metafunc):
    if "on_switch" in metafunc.fixturenames:
        url = metafunc.config.getoption("--switch")
        metafunc.parametrize("on_switch", [url] if url else list(PROTOCOLS), indirect=True)


@pytest.fixture
def on_switch(request, tmp_path):
    """Run a check with a switch and its driver."""
    url = request.config.getoption("--switch")

    @contextlib.asynccontextmanager
    async def target():
        if not url:
            protocol = PROTOCOLS[request.param]
            for package in protocol.packages:
                pytest.importorskip(package)
            async with reached(protocol, tmp_path) as (emulator, query):
                driver = open_driver(emulator.url() + query, credentials=ADMIN)
                yield Target(driver, EMULATED_CIRCUITS[protocol.model])
            return
        names = ("LIGHTLOOM_SWITCH_USER", "LIGHTLOOM_SWITCH_PASSWORD")
        credentials = Credentials(*(os.environ.get(name, "") for name in names))
        driver = open_driver(url, credentials=credentials)
        yield Target(driver, request.config.getoption("--switch-circuits"))

    async def checked(check):
        async with target() as (driver, circuits):
            try:
                await check(driver, await driver.connect(), circuits)
            finally:
                await driver.close()

    return lambda check: asyncio.run(checked(check))


def test_it_says_what_it_is(on_switch):
    async def check(_, description, __):
        assert description.vendor
        sides = list(description.ports.values())
        if PortSide.ANY not in sides:
            counts = sides.count(PortSide.INGRESS), sides.count(PortSide.EGRESS)
            assert counts == description.size
        assert len(sides) >= max(description.size) > 0

    on_switch(check)


def test_its_circuits_join_an_ingress_to_an_egress_port(on_switch):
    async def check(driver, description, _):
        back = await driver.read_back(ports=False)
        for connect in back.cross_connects:
            for port, wrong in zip(connect, _WRONG_SIDES, strict=True):
                assert description.ports[port] is not wrong
        for used in zip(*back.cross_connects, strict=True):
            assert len(set(used)) == len(used), "a port is in several cross-connects"

    on_switch(check)


def test_it_says_how_all_ports_are(on_switch):
    async def check(driver, description, _):
        ports = (await driver.read_back()).ports
        assert [port.name for port in ports] == list(description.ports)
        for port in ports:
            assert port.side is description.ports[port.name]
            assert port.power_dbm is None or -150 < port.power_dbm < 40
            assert port.loss_db is None or -5 < port.loss_db < 120

    on_switch(check)


def test_it_can_be_connected_again(on_switch):
    async def check(driver, description, _):
        for _ in range(3):
            assert await driver.connect() == description
        await driver.close()
        await driver.close()
        assert await driver.connect() == description

    on_switch(check)


def test_a_port_that_it_does_not_have_is_never_sent(on_switch):
    async def check(driver, _, __):
        with pytest.raises(InputError, match="has no port"):
            await driver.apply(SwitchChange(creates=pairs("99999-99998")))

    on_switch(check)


@contextlib.asynccontextmanager
async def borrowed(driver, circuits):
    """Two circuits whose ports are free; free again at the end, and no other circuit is touched."""
    if not circuits:
        pytest.skip("reads only: --switch-circuits names two circuits whose ports may be used")
    first, second = pairs(circuits)
    ports = {*first, *second}
    assert len(ports) == 4, "the circuits need four ports"
    before = (await driver.read_back(ports=False)).cross_connects
    if busy := [connect for connect in before if ports & {*connect}]:
        pytest.skip(f"port in use: {busy[0]}")
    try:
        yield first, second
    finally:
        await driver.connect()
        left = (await driver.read_back(ports=False)).cross_connects
        ours = tuple(connect for connect in left if ports & {*connect})
        if ours:
            await driver.apply(SwitchChange(deletes=ours))
        assert (await driver.read_back(ports=False)).cross_connects == before


async def connected(driver, *wanted):
    """Wait until circuits are connected, and no other uses their ports."""
    ports = {port for connect in wanted for port in connect}
    async with asyncio.timeout(SETTLED_S):
        while True:
            back = await driver.read_back(ports=False)
            states = {
                connect: back.state_of(connect)
                for connect in back.cross_connects
                if ports & {*connect}
            }
            if states == dict.fromkeys(wanted, CircuitState.CONNECTED):
                return
            await asyncio.sleep(0.05)


def test_circuits_come_and_go(on_switch):
    async def check(driver, _, circuits):
        async with borrowed(driver, circuits) as (first, second):
            results = await driver.apply(SwitchChange(creates=(first, second)))
            assert all(result.is_accepted for result in results)
            await connected(driver, first, second)
            results = await driver.apply(SwitchChange(deletes=(first, second)))
            assert [result.state for result in results] == [None, None]
            back = await driver.read_back(ports=False)
            assert not back.cross_connects & {first, second}

    on_switch(check)


def test_circuits_move(on_switch):
    async def check(driver, description, circuits):
        async with borrowed(driver, circuits) as (first, second):
            crossed = (
                first._replace(egress=second.egress),
                second._replace(egress=first.egress),
            )
            await driver.apply(SwitchChange(creates=(first, second)))
            await connected(driver, first, second)
            change = SwitchChange(deletes=(first, second), creates=crossed)
            assert all(result.is_accepted for result in await driver.apply(change))
            await connected(driver, *crossed)
            assert description.ports

    on_switch(check)


def test_one_of_two_circuits_is_deleted(on_switch):
    async def check(driver, _, circuits):
        async with borrowed(driver, circuits) as (first, second):
            await driver.apply(SwitchChange(creates=(first, second)))
            await connected(driver, first, second)
            await driver.apply(SwitchChange(deletes=(first,)))
            await connected(driver, second)

    on_switch(check)
