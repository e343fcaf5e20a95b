"""Floods: connections without a token, of one address, and clients that never read."""

import asyncio
import socket
import tracemalloc

import pytest
from tests.unit.control.test_service import HELLO, TOKEN, demand, raw, served

from lightloom.control import connections, members
from lightloom.control.client import ControlClient
from lightloom.control.connections import UnknownConnections
from lightloom.control.refusals import ServiceError
from lightloom.control.wire import encode, read_frame


def test_idle_connections_without_a_token_lock_nobody_out(tmp_path):
    async def scenario():
        async with served(tmp_path, settings={"request_timeout_s": 5}) as (service, _, _switch):
            idle = [await raw(service) for _ in range(300)]
            await asyncio.sleep(0.3)
            idle += [await raw(service) for _ in range(10)]
            async with ControlClient(service.address, TOKEN) as client:
                assert (await client.circuits_for(demand((0, 7))))["result"] == "done"
            assert len(service._unknown) <= 256
            # the oldest one went first, and without a byte
            assert await asyncio.wait_for(idle[0][0].read(), 20) == b""
            for _, writer in idle:
                writer.close()

    asyncio.run(scenario())


def test_a_whole_job_may_connect_at_once(tmp_path):
    async def scenario():
        async with served(tmp_path, settings={"request_timeout_s": 5}) as (service, _, _switch):
            clients = [ControlClient(service.address, TOKEN) for _ in range(200)]
            await asyncio.gather(*(client.__aenter__() for client in clients))
            replies = await asyncio.gather(*(client.request("status") for client in clients))
            assert all(reply["ok"] for reply in replies)
            await asyncio.gather(*(client.__aexit__(None, None, None) for client in clients))

    asyncio.run(scenario())


def test_a_connection_without_a_token_has_a_short_deadline(tmp_path, monkeypatch):
    monkeypatch.setattr("lightloom.control.service.HELLO_S", 0.1)

    async def scenario():
        async with served(tmp_path, settings={"request_timeout_s": 600}) as (service, _, _switch):
            reader, writer = await raw(service)
            writer.write(HELLO[:-1])
            assert await asyncio.wait_for(reader.read(), 2) == b""
            writer.close()
            assert len(service._unknown) == 0

    asyncio.run(scenario())


def test_the_oldest_of_the_busiest_peer_goes_first(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(connections.time, "monotonic", lambda: now[0])

    class Task:
        is_canceled = False

        def cancel(self):
            self.is_canceled = True

    unknown = UnknownConnections(limit=64)
    quiet, noisy = Task(), [Task() for _ in range(200)]
    unknown.add(quiet, "10.0.0.1")
    for task in noisy[:63]:
        unknown.add(task, "10.0.0.2")
    assert len(unknown) == 64  # all of them have just come
    assert unknown.add(noisy[63], "10.0.0.2") == 1
    assert (quiet.is_canceled, noisy[0].is_canceled, noisy[1].is_canceled) == (False, True, False)
    now[0] += 1
    assert unknown.add(noisy[64], "10.0.0.2") == 33
    assert len(unknown) == 32
    assert not quiet.is_canceled
    unknown.remove(quiet)
    unknown.remove(quiet)
    assert len(unknown) == 31


def test_one_address_does_not_take_all_connections(tmp_path):
    async def scenario():
        settings = {"host": "127.0.0.1", "max_peer_connections": 2}
        async with (
            served(tmp_path, settings=settings) as (service, _, _switch),
            ControlClient(service.address, TOKEN) as first,
        ):
            async with ControlClient(service.address, TOKEN):
                with pytest.raises(ServiceError, match=r"2 connections of 127.0.0.1 are open"):
                    await ControlClient(service.address, TOKEN).__aenter__()
            await first.request("status")
            async with asyncio.timeout(2):  # who has left makes room
                while service._peers["127.0.0.1"] > 1:
                    await asyncio.sleep(0.01)
            async with ControlClient(service.address, TOKEN) as other:
                assert (await other.request("status"))["ok"]

    asyncio.run(scenario())


def small_buffers(writer):
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


async def flood(writer, content):
    async with asyncio.timeout(4):
        while True:
            writer.write(content)
            await writer.drain()
            await asyncio.sleep(0)


def test_a_client_that_never_reads_costs_little_and_is_cut_off(tmp_path):
    async def scenario():
        async with served(tmp_path) as (service, control, _switch):
            _reader, writer = await raw(service)
            small_buffers(writer)
            writer.transport.pause_reading()
            writer.write(HELLO)
            request = encode({"op": "status", "id": 1})
            tracemalloc.start()
            with pytest.raises(ConnectionError):
                await flood(writer, request * 100)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 8 * members.MAX_UNREAD_BYTES
            assert control.members() == []
            writer.close()
            async with ControlClient(service.address, TOKEN) as client:
                assert (await client.circuits_for(demand((0, 7))))["result"] == "done"

    asyncio.run(scenario())


def test_events_for_a_member_that_never_reads_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(members, "MAX_UNREAD_BYTES", 1 << 14)

    async def scenario():
        async with served(tmp_path) as (service, control, _switch):
            reader, writer = await raw(service)
            small_buffers(writer)
            writer.write(HELLO + encode({"op": "join", "id": 1, "server": 0}))
            for _ in range(2):
                await read_frame(reader, 2**20, 0)
            writer.transport.pause_reading()
            for _ in range(10_000):
                control._members.announce("ready", control._circuits())
                if not control.members():
                    break
                await asyncio.sleep(0)
            assert control.members() == []
            writer.close()

    asyncio.run(scenario())


def test_a_client_that_leaves_without_a_word_is_forgotten(tmp_path):
    async def scenario():
        async with served(tmp_path) as (service, control, _switch):
            _, writer = await raw(service)
            writer.write(HELLO + encode({"op": "join", "id": 1, "server": 0}))
            async with asyncio.timeout(2):
                while not control.members():
                    await asyncio.sleep(0.01)
                writer.transport.abort()
                while control.members():
                    await asyncio.sleep(0.01)
            assert not service._admitted
            assert not +service._peers

    asyncio.run(scenario())
