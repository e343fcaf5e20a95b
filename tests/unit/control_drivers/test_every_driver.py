"""What every driver has in common, each against its side of the emulator."""

import asyncio
import contextlib

import pytest
from tests.control_switches import (
    ADMIN,
    CERTIFIED,
    KEYED,
    OPEN,
    PROTOCOLS,
    change,
    connected,
    pairs,
    reached,
    run,
)

from lightloom.control.drivers import open_driver, schemes
from lightloom.control.switch import (
    Credentials,
    LoginRefusedError,
    PortState,
    PortStatus,
    Readback,
    SwitchDisconnectedError,
    SwitchEventKind,
    SwitchFeature,
    SwitchProtocolError,
    SwitchTimeoutError,
    SwitchUnreachableError,
)
from lightloom.errors import InputError


@pytest.fixture(params=PROTOCOLS)
def protocol(request):
    chosen = PROTOCOLS[request.param]
    for package in chosen.packages:
        pytest.importorskip(package)
    return chosen


def test_a_circuit_comes_and_goes(protocol, tmp_path):
    async def check():
        async with (
            reached(protocol, tmp_path) as (emulator, query),
            connected(emulator, query) as driver,
        ):
            (result,) = await driver.apply(change(protocol.circuit))
            assert result.is_accepted
            back = await driver.read_back()
            assert len(back.cross_connects) == 1
            assert emulator.matrix.circuits
            await driver.apply(change(deletes=protocol.circuit))
            assert (await driver.read_back(ports=False)).cross_connects == frozenset()
            assert emulator.matrix.circuits == {}

    run(check())


def test_a_switch_is_reached_by_ipv6(protocol, tmp_path):
    async def check():
        async with (
            reached(protocol, tmp_path, host="::1") as (emulator, query),
            connected(emulator, query) as driver,
        ):
            assert "//[::1]:" in emulator.url()
            assert (await driver.read_back()).cross_connects == frozenset()

    run(check())


@pytest.mark.parametrize("kind", [SwitchTimeoutError, SwitchDisconnectedError, SwitchProtocolError])
def test_what_goes_wrong_as_it_connects_says_where(protocol, tmp_path, monkeypatch, kind):
    async def check():
        async with reached(protocol, tmp_path) as (emulator, query):
            driver = open_driver(emulator.url() + query, credentials=ADMIN)

            async def fail():
                raise kind("RTRV-HDR: nothing good")

            monkeypatch.setattr(driver, "_open", fail)
            where = str(driver._address)
            with pytest.raises(kind, match=rf"^switch {where}: RTRV-HDR: nothing good$"):
                await driver.connect()

    run(check())


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS.keys() - OPEN), indirect=True)
def test_wrong_password(protocol, tmp_path):
    async def check():
        async with reached(protocol, tmp_path) as (emulator, query):
            wrong = Credentials("admin", "hunter2")
            driver = open_driver(emulator.url() + query, credentials=wrong)
            with pytest.raises(LoginRefusedError, match="login refused") as caught:
                await driver.connect()
            assert "hunter2" not in repr(caught.value)
            assert not caught.value.state_unknown

    run(check())


def test_nothing_listens(protocol, tmp_path):
    async def check():
        async with reached(protocol, tmp_path) as (emulator, query):
            url = emulator.url() + query
        with pytest.raises(SwitchUnreachableError, match=r"check (the )?address") as caught:
            await open_driver(url, credentials=ADMIN).connect()
        assert not caught.value.state_unknown

    run(check())


@pytest.mark.parametrize("protocol", [*CERTIFIED, *KEYED, "cli", "sonic-restconfs"], indirect=True)
def test_a_switch_that_cannot_prove_what_it_is_gets_no_password(protocol, tmp_path):
    async def check():
        async with reached(protocol, tmp_path) as (emulator, _):
            (tmp_path / "empty").write_text("")
            query = f"?known_hosts={tmp_path / 'empty'}" if protocol.service in KEYED else ""
            driver = open_driver(emulator.url() + query, credentials=ADMIN)
            with pytest.raises(SwitchUnreachableError):
                await driver.connect()
            assert not emulator.switch.sessions

    run(check())


def test_bad_ports_are_never_sent(protocol, tmp_path):
    async def check():
        async with (
            reached(protocol, tmp_path) as (emulator, query),
            connected(emulator, query) as driver,
        ):
            with pytest.raises(InputError, match="has no port '99'"):
                await driver.apply(change("99-99"))
            assert emulator.faults.num_changes == 0

    run(check())


def test_a_closed_driver_says_so(protocol, tmp_path):
    async def check():
        async with (
            reached(protocol, tmp_path) as (emulator, query),
            connected(emulator, query) as driver,
        ):
            await driver.close()
            with pytest.raises(SwitchDisconnectedError, match="not connected"):
                await driver.read_back()
            with pytest.raises(SwitchDisconnectedError, match="not connected"):
                await driver.apply(change(protocol.circuit))
            with pytest.raises(SwitchDisconnectedError, match="not connected"):
                await anext(driver.watch())
            await driver.close()

    run(check())


def test_a_port_that_fails_is_an_event(protocol, tmp_path):
    async def check():
        async with (
            reached(protocol, tmp_path) as (emulator, query),
            connected(emulator, query) as driver,
        ):
            description = await driver.connect()
            assert SwitchFeature.EVENTS in description.features
            await driver.apply(change(protocol.circuit))
            coming = asyncio.ensure_future(anext(driver.watch()))
            event = None
            while event is None:
                # what is subscribed to is not known here: fail it again until it is seen
                emulator.switch.set_shutters([1], is_open=False)
                emulator.switch.fail_port(1)
                done, _ = await asyncio.wait([coming], timeout=0.3)
                event = coming.result() if done else None
                emulator.matrix.failed.clear()
                emulator.switch.set_shutters([1], is_open=True)
                await asyncio.sleep(0.1)
            assert event.kind is not SwitchEventKind.OTHER
            assert event.text

    run(check())


def test_closing_ends_the_events(protocol, tmp_path):
    async def check():
        async with (
            reached(protocol, tmp_path) as (emulator, query),
            connected(emulator, query) as driver,
        ):
            ending = asyncio.ensure_future(anext(driver.watch(), None))
            await asyncio.sleep(0.2)
            await driver.close()
            with contextlib.suppress(SwitchDisconnectedError):
                assert await ending is None

    run(check())


@pytest.mark.parametrize("protocol", ["restconf", "cli"], indirect=True)
def test_polling_can_be_turned_off(protocol, tmp_path):
    async def check():
        async with (
            reached(protocol, tmp_path, "poll_s=0") as (emulator, query),
            connected(emulator, query) as driver,
        ):
            assert [event async for event in driver.watch()] == []

    run(check())


def test_what_two_readings_differ_by():
    from lightloom.control.drivers.polling import changes_between

    kept, gone, new = pairs("1-9 2-10 3-11")
    before = Readback(
        frozenset({kept, gone}),
        ports=(
            PortStatus("1", power_dbm=-3.0),
            PortStatus("2", state=PortState.TUNED),
            PortStatus("3"),
        ),
    )
    now = Readback(
        frozenset({kept, new}),
        ports=(
            PortStatus("1", power_dbm=-3.1),
            PortStatus("2", state=PortState.FAILED, enabled=False),
            PortStatus("3", alarm="LOS"),
        ),
    )
    events = [(event.kind, event.text, event.ports) for event in changes_between(before, now)]
    assert events == [
        (SwitchEventKind.CIRCUIT, "cross-connect 2-10: connected, now absent", ("2", "10")),
        (SwitchEventKind.CIRCUIT, "cross-connect 3-11: absent, now connected", ("3", "11")),
        (SwitchEventKind.PORT, "port 2: tuned, now failed, disabled", ("2",)),
        (SwitchEventKind.ALARM, "port 3: unknown, now unknown, alarm LOS", ("3",)),
    ]
    assert list(changes_between(now, now)) == []


@pytest.mark.parametrize("scheme", sorted(schemes()))
def test_a_switch_that_accepts_and_says_nothing_is_unreachable(scheme):
    async def check():
        writers = []

        async def say_nothing(_, writer):
            writers.append(writer)

        listener = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        query = "connect_timeout_s=0.3&reply_timeout_s=5"
        driver = open_driver(f"{scheme}://127.0.0.1:{port}?{query}", credentials=ADMIN)
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(SwitchUnreachableError, match="check") as caught:
            await driver.connect()
        assert asyncio.get_running_loop().time() - began_s < 4
        assert not caught.value.state_unknown
        await driver.close()
        listener.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.05)

    for package in ("asyncssh", "ncclient", "httpx", "pygnmi"):
        pytest.importorskip(package)
    run(check())
