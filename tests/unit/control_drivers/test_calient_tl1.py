"""The driver of Calient switches against the emulator, faults included."""

import asyncio

import pytest
from tests.control_switches import behavior, change, emulate, run, setup, until

from lightloom.control.drivers import open_driver
from lightloom.control.emulator import BusyPolicy, Fault, FaultKind
from lightloom.control.emulator.calient import port_name, port_number
from lightloom.control.switch import (
    CircuitState,
    Credentials,
    CrossConnect,
    LoginRefusedError,
    PortSide,
    SwitchChange,
    SwitchDisconnectedError,
    SwitchEventKind,
    SwitchTimeoutError,
)
from lightloom.errors import InputError

CALIENT = {"model": "calient"}
#: one direction, the other one, and a circuit of other ports
THERE, BACK = CrossConnect("1.1.1", "1.1.2"), CrossConnect("1.1.2", "1.1.1")
OTHER = CrossConnect("1.1.3", "1.1.4")


def test_names_of_ports():
    assert [port_name(port) for port in (1, 8, 9, 64, 65)] == [
        "1.1.1",
        "1.1.8",
        "1.2.1",
        "1.8.8",
        "2.1.1",
    ]
    for port in range(1, 321):
        assert port_number(*map(int, port_name(port).split("."))) == port


def test_inventory():
    async def check():
        async with setup(**CALIENT) as (_, driver):
            description = await driver.connect()
            assert (description.vendor, description.size) == ("CALIENT", (8, 8))
            assert description.ports["1.1.8"] is PortSide.ANY
            assert len(description.ports) == 8

    run(check())


def test_one_direction_in_two_steps():
    async def check():
        async with setup(**CALIENT) as (emulator, driver):
            (result,) = await driver.apply(SwitchChange(creates=(THERE,)))
            assert result.state is CircuitState.CONNECTED
            assert emulator.matrix.circuits == {1: 10}
            assert emulator.faults.num_changes == 2
            (result,) = await driver.apply(SwitchChange(deletes=(THERE,)))
            assert result.state is None
            assert emulator.matrix.circuits == {}
            assert (await driver.read_back()).cross_connects == set()
            assert emulator.faults.num_changes == 4

    run(check())


def test_both_directions_are_one_connection():
    async def check():
        async with setup(**CALIENT) as (emulator, driver):
            results = await driver.apply(SwitchChange(creates=(THERE, OTHER, BACK)))
            assert [one.cross_connect for one in results] == [THERE, OTHER, BACK]
            assert emulator.matrix.circuits == {1: 10, 2: 9, 3: 12}
            assert emulator.faults.num_changes == 4
            with pytest.raises(InputError, match="delete both directions together"):
                await driver.apply(SwitchChange(deletes=(BACK,)))
            await driver.apply(SwitchChange(deletes=(BACK, THERE)))
            assert (await driver.read_back()).cross_connects == {OTHER}

    run(check())


def test_a_port_is_freed_before_it_is_used():
    async def check():
        strict = behavior(busy=BusyPolicy.REFUSE)
        async with setup(behavior=strict, **CALIENT) as (_, driver):
            await driver.apply(SwitchChange(creates=(THERE,)))
            other = CrossConnect("1.1.1", "1.1.5")
            (refused,) = await driver.apply(SwitchChange(creates=(other,)))
            assert (refused.state, refused.code) == (CircuitState.INVALID, "SROF")
            back = await driver.read_back()
            assert back.state_of(other) is CircuitState.PENDING, "entered and not active"
            results = await driver.apply(SwitchChange(deletes=(other, THERE)))
            assert all(one.is_accepted for one in results)
            await driver.apply(SwitchChange(creates=(other,)))
            assert (await driver.read_back()).states == {other: CircuitState.CONNECTED}

    run(check())


def test_a_failed_mirror():
    async def check():
        async with setup(**CALIENT) as (emulator, driver):
            await driver.apply(SwitchChange(creates=(THERE,)))
            emulator.switch.fail_port(1)
            assert (await driver.read_back()).state_of(THERE) is CircuitState.FAILED

    run(check())


def test_circuits_of_a_second_controller_are_seen_and_can_be_deleted():
    async def check():
        script = [Fault.parse("second-controller:3-12@1")]
        async with setup(faults=script, **CALIENT) as (_, driver):
            await driver.apply(SwitchChange(creates=(THERE,)))
            assert (await driver.read_back()).cross_connects == {THERE, OTHER}
            await driver.apply(SwitchChange(deletes=(OTHER,)))
            assert (await driver.read_back()).cross_connects == {THERE}

    run(check())


@pytest.mark.parametrize(
    ("fault", "made"), [("cut-before@2", False), ("cut-after@2", True), ("power-loss@2", False)]
)
def test_after_a_cut_the_state_is_unknown_until_it_is_read_back(fault, made):
    async def check():
        async with setup(faults=[Fault.parse(fault)], **CALIENT) as (emulator, driver):
            with pytest.raises(SwitchDisconnectedError):
                await driver.apply(SwitchChange(creates=(THERE,)))
            await driver.connect()
            state = (await driver.read_back()).state_of(THERE)
            assert state is (CircuitState.CONNECTED if made else CircuitState.PENDING)
            assert emulator.faults.num_changes == 2, "a command was sent twice"

    run(check())


def test_time_out():
    async def check():
        async with setup("?reply_timeout_s=0.05", **CALIENT) as (emulator, driver):
            emulator.faults.next_change(FaultKind.NO_REPLY)
            with pytest.raises(SwitchTimeoutError, match="ENT-CRS"):
                await driver.apply(SwitchChange(creates=(THERE,)))

    run(check())


def test_light_and_loss():
    async def check():
        async with setup(**CALIENT) as (emulator, driver):
            await driver.apply(SwitchChange(creates=(THERE,)))
            ports = {one.name: one for one in (await driver.read_back()).ports}
            loss_db = emulator.matrix.loss_db(1, 10)
            assert ports["1.1.2"].loss_db == pytest.approx(loss_db, abs=0.02)
            assert ports["1.1.2"].power_dbm == emulator.matrix.power_dbm(10)
            assert ports["1.1.1"].loss_db is None

    run(check())


def test_a_switch_without_monitors():
    async def check():
        async with setup(behavior=behavior(has_monitors=False), **CALIENT) as (_, driver):
            assert {one.power_dbm for one in (await driver.read_back()).ports} == {None}

    run(check())


def test_reports():
    async def check():
        async with setup(**CALIENT) as (emulator, driver):
            waiting = asyncio.ensure_future(anext(driver.watch()))
            await until(lambda: len(emulator.switch.sessions) == 2)
            await asyncio.sleep(0.02)
            emulator.switch.report("port 1.1.3 loss of light")
            event = await waiting
            assert (event.kind, event.ports) == (SwitchEventKind.PORT, ("1.1.3",))

    run(check())


def test_wrong_password():
    async def check():
        async with emulate(**CALIENT) as emulator:
            driver = open_driver(emulator.url(), credentials=Credentials("admin", "wrong"))
            with pytest.raises(LoginRefusedError, match="login refused"):
                await driver.connect()

    run(check())


def test_bad_ports_are_never_sent():
    async def check():
        async with setup(**CALIENT) as (emulator, driver):
            with pytest.raises(InputError, match="no port '1'"):
                await driver.apply(change("1-2"))
            assert emulator.faults.num_changes == 0

    run(check())
