"""The client: time-outs of every step, handlers that hang or raise, and closing at once."""

import asyncio
import contextlib
import time

import pytest
from tests.unit.control.test_service import TOKEN, demand, served

from lightloom.control.client import ControlClient
from lightloom.control.refusals import ServiceError
from lightloom.control.wire import encode, read_frame


@contextlib.asynccontextmanager
async def service_that(folder, act):
    """A listener that does something else than a service would."""
    path, writers = folder / "odd.sock", []

    async def accept(reader, writer):
        writers.append(writer)
        with contextlib.suppress(ConnectionError):
            await act(reader, writer)

    server = await asyncio.start_unix_server(accept, path)
    try:
        yield f"unix:{path}"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


async def says_nothing(_reader, _writer):
    await asyncio.sleep(30)


async def greets_and_falls_silent(reader, writer):
    await read_frame(reader, 1000, 0)
    writer.write(encode({"ok": True, "id": 0}))
    await asyncio.sleep(30)


async def takes_seconds(coroutine):
    began = time.monotonic()
    try:
        return await coroutine, time.monotonic() - began
    except ServiceError as error:
        return str(error), time.monotonic() - began


def test_a_service_that_says_nothing(tmp_path):
    async def scenario():
        async with service_that(tmp_path, says_nothing) as address:
            client = ControlClient(address, TOKEN, timeout_s=0.1)
            error, seconds = await takes_seconds(client.__aenter__())
            assert error == f"{address}: the service did not answer within 0.1 s"
            assert seconds < 20

    asyncio.run(scenario())


def test_a_service_that_falls_silent(tmp_path):
    async def scenario():
        async with (
            service_that(tmp_path, greets_and_falls_silent) as address,
            ControlClient(address, TOKEN, timeout_s=0.1) as client,
        ):
            error, seconds = await takes_seconds(client.circuits_for(demand((0, 7))))
            assert error == (
                f"{address}: no reply to demand within 0.1 s; use the packet network (EPS)"
            )
            assert seconds < 20
            # nor does it take a request that it does not read
            error, seconds = await takes_seconds(client.request("demand", bytes(1 << 22)))
            assert error.startswith(f"{address}: no reply to demand within 0.1 s")
            assert seconds < 20

    asyncio.run(scenario())


def test_closing_fails_what_waits_at_once(tmp_path):
    async def scenario():
        async with service_that(tmp_path, greets_and_falls_silent) as address:
            client = ControlClient(address, TOKEN)
            await client.__aenter__()
            waiting = [
                asyncio.create_task(client.request("status")),
                asyncio.create_task(client.request("demand", bytes(1 << 22))),
            ]
            await asyncio.sleep(0.05)
            began = time.monotonic()
            await client.__aexit__(None, None, None)
            for error in await asyncio.gather(*waiting, return_exceptions=True):
                assert str(error) == f"{address}: the client was closed"
            assert time.monotonic() - began < 20
            with pytest.raises(ServiceError, match=r"not connected: the client was closed$"):
                await client.request("status")

    asyncio.run(scenario())


def test_a_late_reply_is_nobodys(tmp_path):
    async def late(reader, writer):
        await greets(reader, writer)
        first = (await read_frame(reader, 1000, 0)).header["id"]
        second = (await read_frame(reader, 1000, 0)).header["id"]
        writer.write(encode({"id": [first]}))
        for number in (first, second):
            writer.write(encode({"ok": True, "id": number, "number": number}))
        await asyncio.sleep(30)

    async def greets(reader, writer):
        await read_frame(reader, 1000, 0)
        writer.write(encode({"ok": True, "id": 0}))

    async def scenario():
        async with (
            service_that(tmp_path, late) as address,
            ControlClient(address, TOKEN, timeout_s=0.1) as client,
        ):
            with pytest.raises(ServiceError, match="no reply to status"):
                await client.request("status")
            assert (await client.request("status"))["number"] == 2

    asyncio.run(scenario())


def test_a_handler_that_hangs_has_a_deadline(tmp_path):
    async def scenario():
        async def hangs(name, _facts):
            while name == "drain":
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(30)
                    return
                break

        async with (
            served(tmp_path, drain_timeout_s=2) as (service, _, switch),
            ControlClient(service.address, TOKEN, hangs, drain_timeout_s=0.1) as member,
            ControlClient(service.address, TOKEN) as client,
        ):
            await member.request("join", server=3)
            reply, seconds = await takes_seconds(client.circuits_for(demand((0, 7))))
            assert reply["error"] == (
                "r0: server 3 cannot drain: its handler did not return within 0.1 s (member 1); "
                "no circuit was changed"
            )
            assert seconds < 20
            assert not switch.commands

    asyncio.run(scenario())


def test_a_handler_that_raises_does_not_end_the_connection(tmp_path):
    async def scenario():
        seen = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, facts: seen.append(facts))

        async def raises(name, _facts):
            raise ValueError(name)

        async with (
            served(tmp_path) as (service, _, switch),
            ControlClient(service.address, TOKEN, raises) as member,
            ControlClient(service.address, TOKEN) as client,
        ):
            await member.request("join", server=3)
            reply = await client.circuits_for(demand((0, 7)))
            assert "server 3 cannot drain: its handler raised ValueError" in reply["error"]
            assert not switch.commands
            assert (await member.request("status"))["ok"]
            assert "the handler of drain" in [facts["message"] for facts in seen]

    asyncio.run(scenario())


def test_a_handler_may_ask_the_service(tmp_path):
    """Replies overtake events: else a handler that waits for one would wait for itself."""

    async def scenario():
        states = []

        async def asks(name, _facts):
            states.append((name, (await member.request("status"))["state"]))

        async with (
            served(tmp_path, drain_timeout_s=2) as (service, _, _switch),
            ControlClient(service.address, TOKEN, asks) as member,
            ControlClient(service.address, TOKEN) as client,
        ):
            await member.request("join", server=3)
            assert (await client.circuits_for(demand((0, 7))))["result"] == "done"
            assert states[0] == ("drain", "ready")

    asyncio.run(scenario())
