"""The driver of SONiC switches by gNMI, against the emulator, faults included."""

import pytest
from tests.control_switches import change, pairs, run, setup, unknown_until_read_back

from lightloom.control.emulator import Fault, FaultKind
from lightloom.control.switch import (
    CircuitState,
    InvalidTargetError,
    PortSide,
    SwitchProtocolError,
    SwitchTimeoutError,
)

pytest.importorskip("grpc")
pytest.importorskip("pygnmi")
GNMI = {"model": "sonic", "services": {"gnmi": 0}}


def test_inventory():
    async def check():
        async with setup(size=(8, 6), **GNMI) as (_, driver):
            description = await driver.connect()
            assert description.size == (8, 6)
            assert description.ports["6B"] is PortSide.EGRESS

    run(check())


def test_a_switch_that_has_neither_model_is_refused():
    async def check():
        async with setup(**GNMI) as (_, driver):

            async def refuse(_names):
                raise InvalidTargetError("INVALID_ARGUMENT", "no such target", "Get")

            driver._values = refuse
            with pytest.raises(InvalidTargetError, match="no such target"):
                await driver.connect()

    run(check())


def test_a_change_is_one_transaction():
    async def check():
        async with setup(**GNMI) as (emulator, driver):
            await driver.apply(change("1A-1B 2A-5B 3A-6B"))
            results = await driver.apply(change("1A-5B", deletes="1A-1B 2A-5B 3A-6B"))
            assert [r.state for r in results] == [None, None, None, CircuitState.CONNECTED]
            back = await driver.read_back()
            assert back.states == {pairs("1A-5B")[0]: CircuitState.CONNECTED}
            assert len(back.ports) == 16
            assert emulator.faults.num_changes == 2

    run(check())


def test_a_new_circuit_displaces_others_by_name():
    async def check():
        async with setup(**GNMI) as (emulator, driver):
            await driver.apply(change("1A-1B 2A-2B 3A-3B"))
            await driver.apply(change("1A-2B"))
            assert (await driver.read_back()).cross_connects == set(pairs("1A-2B 3A-3B"))
            assert emulator.faults.num_changes == 2

    run(check())


def test_a_transaction_is_made_as_a_whole():
    async def check():
        async with setup("?moves=no", **GNMI) as (emulator, driver):
            await driver.apply(change("1A-1B"))
            results = await driver.apply(change("2A-1B 3A-3B"))
            assert {result.state for result in results} == {CircuitState.INVALID}
            assert results[0].code == "FAILED_PRECONDITION"
            assert "several cross-connects" in results[0].reason
            assert emulator.matrix.circuits == {1: 9}

    run(check())


def test_a_refusal_is_a_result():
    async def check():
        async with setup(faults=[Fault.parse("deny@1")], **GNMI) as (_, driver):
            (result,) = await driver.apply(change("1A-1B"))
            assert (result.state, result.reason) == (CircuitState.INVALID, "refused on demand")

    run(check())


def test_an_empty_change_sends_nothing():
    async def check():
        async with setup(**GNMI) as (emulator, driver):
            assert await driver.apply(change()) == ()
            assert emulator.faults.num_changes == 0

    run(check())


@pytest.mark.parametrize(("kind", "is_made"), [("cut-before", False), ("cut-after", True)])
def test_after_a_cut_the_state_is_unknown_until_it_is_read_back(kind, is_made):
    async def check():
        async with setup(faults=[Fault.parse(f"{kind}@1")], **GNMI) as (emulator, driver):
            await unknown_until_read_back(emulator, driver, "1A-1B", is_made)

    run(check())


def test_time_out():
    async def check():
        async with setup("?reply_timeout_s=0.2", **GNMI) as (emulator, driver):
            emulator.faults.next_change(FaultKind.NO_REPLY)
            with pytest.raises(SwitchTimeoutError, match=r"Set: no reply within 0.2 s"):
                await driver.apply(change("1A-1B"))
            await driver.connect()
            assert (await driver.read_back()).cross_connects == set(pairs("1A-1B"))

    run(check())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "not JSON"),
        (b"[1]", "unknown form"),
        (b'{"a": [{"b": 1}]}', "unknown form"),
        (b"7", "unknown form"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_values_that_are_no_tables(text, message):
    from lightloom.control.drivers.sonic import rows_of

    with pytest.raises(SwitchProtocolError, match=message):
        rows_of(text)
