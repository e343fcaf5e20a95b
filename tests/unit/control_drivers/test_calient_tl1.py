"""The driver of Calient switches against the emulator, faults included."""

import pytest
from tests.control_switches import behavior, change, run, setup

from lightloom.control.emulator import BusyPolicy, Fault
from lightloom.control.emulator.calient import port_name, port_number
from lightloom.control.switch import (
    CircuitState,
    CrossConnect,
    PortSide,
    SwitchChange,
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
            assert [result.cross_connect for result in results] == [THERE, OTHER, BACK]
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
            # a client: ENT-CRS that is not completed means "Port already in Connection"
            assert (refused.state, refused.code) == (CircuitState.INVALID, "SAOP")
            assert (await driver.read_back()).cross_connects == {THERE}
            results = await driver.apply(SwitchChange(deletes=(THERE,)))
            assert all(result.is_accepted for result in results)
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


def test_bad_ports_are_never_sent():
    async def check():
        async with setup(**CALIENT) as (emulator, driver):
            with pytest.raises(InputError, match="no port '1'"):
                await driver.apply(change("1-2"))
            assert emulator.faults.num_changes == 0

    run(check())


@pytest.mark.parametrize("page_rows", [0, 1, 3])
def test_ports_that_are_numbers_and_replies_of_several_pages(page_rows):
    # recorded: rows such as 1>1 with SRCPORT=1, and a list that is divided at each COMPLD
    async def check():
        options = behavior(has_plain_ports=True, page_rows=page_rows)
        async with setup(behavior=options, **CALIENT) as (emulator, driver):
            description = await driver.connect()
            assert list(description.ports) == [str(port) for port in range(1, 9)]
            there, back, other = (CrossConnect(*pair) for pair in ("12", "21", "34"))
            await driver.apply(SwitchChange(creates=(there, back, other)))
            assert emulator.matrix.circuits == {1: 10, 2: 9, 3: 12}
            reading = await driver.read_back()
            assert reading.cross_connects == {there, back, other}
            assert len(reading.ports) == 8
            assert reading.ports[1].loss_db is not None
            await driver.apply(SwitchChange(deletes=(there, back)))
            assert (await driver.read_back()).cross_connects == {other}

    run(check())


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("Port 7 failed", ("7",)),
        ("Port 1.2.3 failed", ("1.2.3",)),
        ("1.2.3-1.2.4 lost", ("1.2.3", "1.2.4")),
        ("12 alarms", ()),
    ],
)
def test_ports_in_reports(text, ports):
    from lightloom.control.drivers.calient_tl1 import CalientTl1

    assert tuple(CalientTl1.port_in_text.findall(text)) == ports
