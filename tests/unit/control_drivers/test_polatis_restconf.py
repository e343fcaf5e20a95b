"""The RESTCONF driver against the emulator, with and without TLS, faults included."""

import asyncio
import contextlib

import pytest
from tests.control_switches import ADMIN, behavior, change, connected, emulate, pairs, run, setup

from lightloom.control.drivers import open_driver
from lightloom.control.drivers.options import DriverSettings, SwitchAddress
from lightloom.control.drivers.restconf import RestconfClient
from lightloom.control.emulator import BusyPolicy, Fault, FaultKind
from lightloom.control.switch import (
    CircuitState,
    Credentials,
    LoginRefusedError,
    PortState,
    SwitchDisconnectedError,
    SwitchFeature,
    SwitchProtocolError,
    SwitchTimeoutError,
    SwitchUnreachableError,
)

pytest.importorskip("httpx")
PLAIN = {"services": {"restconf": 0}}
BOTH_WRITES = pytest.mark.parametrize("query", ["", "?replace=yes"])


def test_inventory():
    async def check():
        async with emulate(size=(8, 6), **PLAIN) as emulator:
            driver = open_driver(emulator.url(), credentials=ADMIN)
            description = await driver.connect()
            await driver.close()
        assert (description.vendor, description.serial) == ("Polatis", "000001")
        assert description.size == (8, 6)
        assert SwitchFeature.REPLACE_ALL in description.features

    run(check())


@BOTH_WRITES
def test_changes(query):
    async def check():
        async with setup(query, **PLAIN) as (emulator, driver):
            assert all(result.is_accepted for result in await driver.apply(change("1-9 2-10 3-11")))
            results = await driver.apply(change("1-10", deletes="1-9 3-11 2-10"))
            assert [r.state for r in results] == [None, None, None, CircuitState.CONNECTED]
            assert emulator.matrix.circuits == {1: 10}
            assert (await driver.read_back()).cross_connects == set(pairs("1-10"))

    run(check())


def test_replacing_is_one_command_and_keeps_the_others():
    async def check():
        async with setup("?replace=yes", **PLAIN) as (emulator, driver):
            emulator.matrix.change([], [(7, 15), (8, 16)])
            await driver.apply(change("1-9 2-10"))
            await driver.apply(change("3-9", deletes="1-9 2-10"))
            assert emulator.matrix.circuits == {3: 9, 7: 15, 8: 16}
            assert emulator.faults.num_changes == 2

    run(check())


def test_replacing_is_refused_if_another_controller_was_faster():
    async def check():
        script = [Fault.parse("second-controller:3-12@1")]
        async with setup("?replace=yes", faults=script, **PLAIN) as (emulator, driver):
            results = await driver.apply(change("1-9"))
            assert (results[0].state, results[0].code) == (CircuitState.INVALID, "412")
            assert emulator.matrix.circuits == {3: 12}

    run(check())


def test_a_switch_that_does_not_move_gets_deletes():
    async def check():
        strict = behavior(busy=BusyPolicy.REFUSE)
        async with setup("?moves=no", behavior=strict, **PLAIN) as (emulator, driver):
            await driver.apply(change("1-9 2-10"))
            await driver.apply(change("1-10 2-9", deletes="1-9 2-10"))
            assert emulator.matrix.circuits == {1: 10, 2: 9}

    run(check())


@BOTH_WRITES
def test_a_refusal_is_a_result(query):
    async def check():
        async with setup(query, faults=[Fault.parse("deny@1")], **PLAIN) as (emulator, driver):
            results = await driver.apply(change("2-10"))
            assert (results[0].state, results[0].code) == (CircuitState.INVALID, "409")
            assert results[0].reason == "Refused on demand"
            assert emulator.matrix.circuits == {}

    run(check())


def test_an_unchanged_list_is_not_sent_again():
    async def check():
        async with setup(**PLAIN) as (emulator, driver):
            await driver.apply(change("1-9"))
            first = await driver.read_back(ports=False)
            emulator.switch.faults.add(Fault(FaultKind.SLOW, 1, seconds=0))
            assert (await driver.read_back(ports=False)) == first
            emulator.matrix.change([1], [(2, 10)])
            assert (await driver.read_back()).cross_connects == set(pairs("2-10"))

    run(check())


@pytest.mark.parametrize("kind", [FaultKind.CUT_BEFORE, FaultKind.CUT_AFTER, FaultKind.POWER_LOSS])
@BOTH_WRITES
def test_after_a_cut_the_state_is_unknown_until_it_is_read_back(kind, query):
    async def check():
        async with setup(query, **PLAIN) as (emulator, driver):
            emulator.faults.next_change(kind)
            with pytest.raises(SwitchDisconnectedError):
                await driver.apply(change("1-9"))
            with pytest.raises(SwitchDisconnectedError, match="not connected"):
                await driver.read_back()
            await driver.connect()
            circuits = pairs("1-9") if kind is FaultKind.CUT_AFTER else ()
            assert (await driver.read_back()).cross_connects == set(circuits)
            assert emulator.faults.num_changes == 1, "a change was sent twice"

    run(check())


@pytest.mark.parametrize("kind", [FaultKind.NO_REPLY, FaultKind.LATE])
def test_after_a_time_out_the_state_is_unknown(kind):
    async def check():
        async with setup("?reply_timeout_s=0.1", **PLAIN) as (emulator, driver):
            emulator.faults.next_change(kind, seconds=0.15)
            with pytest.raises(SwitchTimeoutError, match=r"no reply within 0.1 s"):
                await driver.apply(change("1-9"))
            await asyncio.sleep(0.1)
            await driver.connect()
            assert (await driver.read_back()).cross_connects == set(pairs("1-9"))
            assert emulator.faults.num_changes == 1, "a change was sent twice"

    run(check())


@pytest.mark.parametrize("kind", [FaultKind.SLOW, FaultKind.FRAGMENT])
def test_slow_replies_are_understood(kind):
    async def check():
        async with setup(**PLAIN) as (emulator, driver):
            emulator.faults.next_change(kind, seconds=0.02)
            assert (await driver.apply(change("1-9")))[0].is_accepted

    run(check())


def test_light_and_loss_of_ports():
    async def check():
        async with setup(**PLAIN) as (emulator, driver):
            await driver.apply(change("1-9"))
            emulator.matrix.disabled.add(3)
            ports = {port.name: port for port in (await driver.read_back()).ports}
            assert ports["9"].loss_db == pytest.approx(emulator.matrix.loss_db(1, 9), abs=0.02)
            assert (ports["1"].state, ports["2"].state) == (PortState.TUNED, PortState.BLOCKED)
            assert [port.name for port in ports.values() if not port.enabled] == ["3"]

    run(check())


def test_wrong_password():
    async def check():
        async with emulate(**PLAIN) as emulator:
            for wrong in (Credentials("admin", "hunter2"), None):
                driver = open_driver(emulator.url(), credentials=wrong)
                with pytest.raises(LoginRefusedError, match="login refused") as caught:
                    await driver.connect()
                assert "hunter2" not in repr(caught.value)

    run(check())


def test_tls_with_the_certificate_of_the_switch(tmp_path):
    trusted = tmp_path / "switch.pem"

    async def check():
        async with emulate(services={"restconfs": 0}) as emulator:
            trusted.write_text(emulator.certificate)
            async with connected(emulator, f"?ca_file={trusted}") as driver:
                await driver.apply(change("1-9"))
                assert (await driver.read_back()).cross_connects == set(pairs("1-9"))
            with pytest.raises(SwitchUnreachableError, match="certificate verify failed"):
                await open_driver(emulator.url(), credentials=ADMIN).connect()

    run(check())


def test_paths_have_the_name_of_the_module():
    # RFC 8040, section 3.5.3; httpx takes "optical-switch:" at the beginning for a scheme
    async def check():
        async with setup(**PLAIN) as (emulator, driver):
            paths = []
            application = emulator._running[0]._application
            handle = application.handle

            async def listen(request):
                paths.append(request.path)
                return await handle(request)

            application.handle = listen
            await driver.connect()
            await driver.apply(change("1-9"))
            await driver.apply(change(deletes="1-9"))
            await driver.read_back()
            assert "/api/data/optical-switch:product-information" in paths
            assert "/api/data/optical-switch:cross-connects" in paths
            assert "/api/data/optical-switch:cross-connects/pair=1" in paths

    run(check())


def test_a_port_without_a_shutter_is_open():
    # the model has four statuses: UNSUPPORTED is a port that cannot be closed
    from lightloom.control.drivers.polatis import is_closed

    statuses = ("UNSUPPORTED", "ENABLED", "DISABLED", "FAILED", "PO_ENABLED", "PO_DISABLED", "")
    assert [is_closed(status) for status in statuses] == [
        False,
        False,
        True,
        True,
        False,
        True,
        False,
    ]


async def asked(header, piece):
    """Ask a server that sends a header and then a piece of a reply again and again."""
    left = asyncio.Event()

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n" + header + b"\r\n\r\n")
        with contextlib.suppress(OSError):
            while not writer.is_closing():
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.02)
            await writer.wait_closed()
        left.set()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        address = SwitchAddress("127.0.0.1", server.sockets[0].getsockname()[1])
        settings = DriverSettings(reply_timeout_s=0.3, connect_timeout_s=0.3)
        client = RestconfClient(address, settings, "/api/", tls=False)
        client.open()
        try:
            async with asyncio.timeout(10):
                await client.request("GET", "data")
        finally:
            assert not client.is_open
            await left.wait()


def test_a_reply_that_never_ends_is_a_time_out():
    with pytest.raises(SwitchTimeoutError, match=r"GET data: no reply within 0\.6 s"):
        run(asked(b"content-length: 1000000", b" "))


def test_a_reply_that_is_not_as_its_header_says_is_refused():
    with pytest.raises(SwitchProtocolError, match="not as its header says"):
        run(asked(b"content-encoding: gzip\r\ncontent-length: 5", b"hello"))
