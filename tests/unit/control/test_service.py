"""The service: demand to circuits, fences, failures, and all that it must refuse."""

import asyncio
import contextlib
import shutil
import socket
import ssl
import struct
import subprocess

import numpy as np
import pytest
from tests.control_regions import controlled, pairs

from lightloom.control import service as service_module
from lightloom.control.client import ControlClient
from lightloom.control.emulator import Emulator
from lightloom.control.loopback_http import LoopbackServer
from lightloom.control.members import ServiceMember
from lightloom.control.refusals import RegionFileError, RequestError, ServiceError
from lightloom.control.region_file import ServeSection
from lightloom.control.service import ControlService
from lightloom.control.session import RegionSession
from lightloom.control.token import TokenFile
from lightloom.control.wire import Frame, encode, read_frame

TOKEN, VIEWER, OPERATOR = "0123456789abcdef", "fedcba9876543210", "operator-0123456"
TOKENS = f"job job {TOKEN}\nwall view {VIEWER}\nnoc operator {OPERATOR}\n"


def tokens_in(folder, text=TOKENS):
    path = folder / "r0.token"
    path.touch(mode=0o600)
    path.write_text(text)
    return TokenFile(path)


@contextlib.asynccontextmanager
async def served(
    folder,
    switch=None,
    *,
    drain_timeout_s=0.2,
    demand_timeout_s=5.0,
    settings=None,
    notify=None,
    **change,
):
    """A service on a Unix socket, its session and its switch."""
    async with controlled(folder, switch, **change) as (controller, inside):
        session = RegionSession(
            controller, drain_timeout_s, demand_timeout_s=demand_timeout_s, notify=notify
        )
        options = {"request_timeout_s": 0.1, **(settings or {})}
        service = ControlService(
            session, ServeSection(**options), folder, tokens_in(folder), notify
        )
        await service.start()
        try:
            yield service, session, inside
        finally:
            await service.close()


def demand(*entries):
    matrix = np.zeros((8, 8), np.uint64)
    for source, destination in entries:
        matrix[source, destination] = 10**9
    return matrix


def run(coroutine):
    return asyncio.run(coroutine)


async def raw(service):
    return await asyncio.open_unix_connection(service.address.removeprefix("unix:"))


def test_demand_is_answered_with_circuits_and_delegates(tmp_path):
    async def scenario():
        async with (
            served(tmp_path) as (service, session, switch),
            ControlClient(service.address, TOKEN) as client,
        ):
            assert client.region["servers"] == ["node0", "node1", "node2", "node3"]
            assert client.region["state"] == "ready"
            reply = await client.circuits_for(
                demand((0, 7), (2, 5)), job="j", step=1, layer=2, hidden_s=[0.5]
            )
            assert (reply["ok"], reply["result"], reply["failed"]) == (True, "done", {})
            pairs = {tuple(row[:1] + row[2:3]) for row in reply["circuits"]}
            assert pairs >= {(0, 3), (1, 2)}
            rows = {(a, b): ends for a, b, ends in reply["delegates"]["circuits"]}
            nic, gpu, peer_nic, peer_gpu = rows[0, 3][0]
            assert [0, nic, 3, peer_nic] in reply["circuits"]
            assert (gpu, peer_gpu) == (nic, peer_nic)  # two NICs, two GPUs
            assert rows[3, 0][0] == [peer_nic, peer_gpu, nic, gpu]
            assert reply["delegates"]["otherwise"] == "eps"
            entry = session.controller.journal.last(1)[0]
            reason = entry.intent.reason
            assert (reason.job, reason.step, reason.layer) == ("j", 1, 2)
            assert reason.text.startswith("Switched, as the policy always follows")
            again = await client.circuits_for(demand((0, 7), (2, 5)))
            assert (again["result"], again["circuits"]) == ("held", reply["circuits"])
            assert len(switch.commands) == 1
            status = await client.request("status")
            assert (status["state"], status["drift"]) == ("ready", "none")

    run(scenario())


@pytest.mark.parametrize(
    ("op", "facts", "body", "message"),
    [
        (
            "demnd",
            {},
            b"",
            "op 'demnd': expected one of demand, status, join, fail, repair, plan, apply, pause, "
            "continue, clients, remove; did you mean 'demand'?",
        ),
        ("status", {"x": 1}, b"", "unknown key 'x': expected one of "),
        ("demand", {}, b"123", "demand: expected 1 x 8 x 8 numbers of 8 bytes, got 3 bytes"),
        ("demand", {"upcoming": 65}, b"", "upcoming: expected a whole number from 1 to 64, got 65"),
        ("demand", {"step": True}, bytes(512), "step: expected a whole number from 0 to "),
        ("demand", {"job": "a\nb"}, bytes(512), "job: expected a line of up to 200 characters"),
        (
            "demand",
            {"hidden_s": [0, 1]},
            bytes(512),
            "hidden_s: expected a list of 1 times in seconds",
        ),
        (
            "demand",
            {},
            b"\xff" * 512,
            "demand: expected 0 bytes or more from each rank to each, and less than 2^63 in all",
        ),
        ("join", {}, b"", "server: expected a whole number from 0 to 3, got nothing"),
        ("join", {"server": 4}, b"", "server: expected a whole number from 0 to 3, got 4"),
        ("fail", {"parts": []}, b"", "parts: expected a list of parts such as nic:2/1"),
        ("fail", {"parts": [3]}, b"", "parts: expected texts such as nic:2/1"),
        (
            "fail",
            {"parts": ["nic:9/0"]},
            b"",
            "nic:9/0: expected a server from 0 to 3",
        ),
        ("repair", {"parts": ["nic:1/0"]}, b"", "nic:1/0: is in service; out of service: nothing"),
    ],
)
def test_a_wrong_request_gets_one_line(tmp_path, op, facts, body, message):
    async def scenario():
        async with served(tmp_path) as (service, _, switch):
            async with ControlClient(service.address, TOKEN) as client:
                reply = await client.request(op, body, **facts)
                assert not reply["ok"]
                assert reply["error"].startswith(message)
                assert "\n" not in reply["error"]
                assert reply["circuits"] == []
                assert (await client.request("status"))["ok"]  # and the connection lives
            assert not switch.commands

    run(scenario())


HELLO = encode({"op": "hello", "token": TOKEN})


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        encode({"op": "hello"}),
        encode({"op": "hello", "token": TOKEN + "x"}),
        encode({"op": "hello", "token": 7}),
        encode({"op": "status", "token": TOKEN}),
        encode({"op": "hello", "token": TOKEN}, b"body"),
        struct.pack(">II", 2**32 - 1, 0),
        struct.pack(">II", 4, 0) + b"[1]\n",
        struct.pack(">II", 4, 0) + b"\xff\xff\xff\xff",
        struct.pack(">II", 300, 0) + b"[" * 300,
        HELLO[:-1],  # and then nothing: a slow client
    ],
)
def test_nothing_is_sent_without_the_token(tmp_path, bytes_sent):
    async def scenario():
        async with served(tmp_path) as (service, _, switch):
            reader, writer = await raw(service)
            writer.write(bytes_sent)
            if not bytes_sent:
                writer.write_eof()
            assert await asyncio.wait_for(reader.read(), 2) == b""
            writer.close()
            assert not switch.commands

    run(scenario())


@pytest.mark.parametrize(
    ("bytes_sent", "message"),
    [
        (struct.pack(">II", 2**20, 0), "a header of 1,048,576 bytes; limit 65,536"),
        (struct.pack(">II", 2, 2**31), "a body of 2,147,483,648 bytes; limit 32,768"),
        (struct.pack(">II", 4, 0) + b'"a" ', "header: expected a JSON object"),
        (struct.pack(">II", 4, 0) + b"{1:2", "header: not valid JSON: "),
        (struct.pack(">II", 50, 0) + b"{", "a frame was not complete within 0.1 s"),
    ],
)
def test_a_malformed_frame_ends_the_connection(tmp_path, bytes_sent, message):
    async def scenario():
        async with served(tmp_path) as (service, _, _switch):
            reader, writer = await raw(service)
            writer.write(HELLO)
            await read_frame(reader, 2**20, 0)
            writer.write(bytes_sent)
            frame = await read_frame(reader, 2**20, 0)
            assert frame.header["error"].startswith(message)
            assert await asyncio.wait_for(reader.read(), 2) == b""
            writer.close()

    run(scenario())


def test_only_the_present_fence_counts(tmp_path):
    async def scenario():
        async with controlled(tmp_path) as (controller, _):
            session, member = RegionSession(controller), ServiceMember(None)
            session.drained(member, Frame({"op": "drained", "fence": 7}))
            assert not member.drained.is_set()
            for header in ({"op": "drained"}, {"fence": "0"}, {"fence": [0]}, {"x": 1, "fence": 0}):
                with pytest.raises(RequestError):
                    session.drained(member, Frame(header))
            assert not member.drained.is_set()
            # before the first one it is 0
            session.drained(member, Frame({"op": "drained", "fence": 0}))
            assert member.drained.is_set()

    asyncio.run(scenario())


def test_connections_are_bounded(tmp_path):
    async def scenario():
        async with (
            served(tmp_path, settings={"max_connections": 2}) as (service, _, _switch),
            ControlClient(service.address, TOKEN) as first,
        ):
            async with ControlClient(service.address, TOKEN):
                with pytest.raises(ServiceError, match=r"2 connections are open; see serve"):
                    await ControlClient(service.address, TOKEN).__aenter__()
            assert (await first.request("status"))["ok"]

    run(scenario())


def test_members_drain_before_circuits_go_dark(tmp_path):
    async def scenario():
        order = []

        async def note(name, facts):
            order.append((name, len(switch.commands), facts.get("servers")))

        async with (
            served(tmp_path) as (service, _, switch),
            ControlClient(service.address, TOKEN, note) as member,
            ControlClient(service.address, TOKEN) as client,
        ):
            await member.request("join", server=0)
            reply = await client.circuits_for(demand((0, 7)))
            assert reply["result"] == "done"
            await member.request("status")
            assert [(name, count) for name, count, _ in order] == [("drain", 0), ("ready", 1)]
            assert 0 in order[0][2]

    run(scenario())


def test_a_member_that_does_not_drain_stops_the_change(tmp_path):
    async def scenario():
        async def never(name, _facts):
            if name == "drain":
                await asyncio.sleep(60)

        async with served(tmp_path) as (service, _, switch):
            async with (
                ControlClient(service.address, TOKEN, never) as member,
                ControlClient(service.address, TOKEN) as client,
            ):
                await member.request("join", server=3)
                reply = await client.circuits_for(demand((0, 7)))
                assert reply["error"] == (
                    "r0: server 3 has not drained within 0.2 s (member 1); no circuit was changed"
                )
                assert not switch.commands
            async with ControlClient(service.address, TOKEN) as client:
                # who has left is not waited for
                assert (await client.circuits_for(demand((0, 7))))["result"] == "done"

    run(scenario())


def test_failed_parts_are_avoided_and_remembered(tmp_path):
    async def scenario():
        async with (
            served(tmp_path) as (service, session, switch),
            ControlClient(service.address, TOKEN) as client,
        ):
            await client.circuits_for(demand((0, 7), (7, 0)))
            reply = await client.request("fail", parts=["nic:0/1", "port:ocs/7"])
            assert reply["failures"] == ["nic:0/1", "nic:3/0"]
            assert reply["response"][0] == "excluded: NIC 0/1, NIC 3/0"
            for row in reply["circuits"]:
                assert [0, 1] not in (row[:2], row[2:])
                assert [3, 0] not in (row[:2], row[2:])
            reply = await client.circuits_for(demand((0, 7), (7, 0)))
            assert [0, 0, 3, 1] in reply["circuits"]
            used = {connect.ingress for connect in switch.cross_connects}
            assert not used & {"2", "7"}
        async with served(tmp_path, switch) as (service, session, _):
            session.failures.load()
            async with ControlClient(service.address, TOKEN) as client:
                status = await client.request("status")
                assert status["failures"] == ["nic:0/1", "nic:3/0"]
                reply = await client.request("repair", parts=["nic:0/1"])
                assert reply["failures"] == ["nic:3/0"]
                # what was read is too old by now: it is read again, as for the state
                for op, parts in (("fail", ["nic:0/1"]), ("repair", ["nic:0/1", "nic:3/0"])):
                    session.controller.read_s -= 100.0
                    reply = await client.request(op, parts=parts)
                    assert [0, 0, 3, 1] in reply["circuits"]

    run(scenario())


def test_a_nic_that_fails_with_several_peers_is_given_up(tmp_path):
    async def scenario():
        async with served(tmp_path, retries=0) as (_service, session, _switch):
            failed = [pairs("0/0-1/0"), pairs("0/0-2/0")]
            assert session.failures.blame(dict.fromkeys(failed[0], "x"), ()) == []
            assert session.failures.blame(dict.fromkeys(failed[1], "x"), ()) == ["nic:0/0"]
            session.failures.blame({}, failed[0] | failed[1])
            assert session.failures.blame(dict.fromkeys(failed[1], "x"), ()) == []

    run(scenario())


def test_while_a_switch_is_away_everything_uses_the_eps(tmp_path):
    async def scenario():
        async with (
            served(tmp_path) as (service, session, switch),
            ControlClient(service.address, TOKEN) as client,
        ):
            await client.circuits_for(demand((0, 7)))
            switch.is_down = True
            reply = await client.circuits_for(demand((2, 5), (1, 3)))
            assert (reply["ok"], reply["state"], reply["circuits"]) == (False, "unknown", [])
            assert reply["error"].endswith("is the switch on?; use the EPS")
            reply = await client.circuits_for(demand((2, 5), (1, 3)))
            assert reply["error"] == "r0: the state of a switch is unknown; use the EPS"
            switch.is_down = False
            for _ in range(100):
                await asyncio.sleep(0.05)
                if session.controller.state == "ready":
                    break
            reply = await client.circuits_for(demand((2, 5), (1, 3)))
            assert reply["result"] == "done"

    run(scenario())


def test_where_it_may_listen(tmp_path):
    async def start(**settings):
        async with controlled(tmp_path) as (controller, _):
            session = RegionSession(controller)
            service = ControlService(
                session, ServeSection(**settings), tmp_path, tokens_in(tmp_path)
            )
            try:
                address = await service.start()
                async with ControlClient(address, TOKEN) as client:
                    assert client.region["region"] == "r0"
                return address
            finally:
                await service.close()

    assert run(start(host="127.0.0.1")).startswith("127.0.0.1:")
    with pytest.raises(RegionFileError) as refusal:
        run(start(host="0.0.0.0"))
    assert str(refusal.value) == (
        "serve.host 0.0.0.0: beyond this machine, tls_certificate and tls_key are needed"
    )
    with pytest.raises(RegionFileError, match="tls_certificate and tls_key belong together"):
        run(start(host="0.0.0.0", tls_key="key.pem"))
    with pytest.raises(RegionFileError, match=r"none\.pem: cannot use it for TLS: No such file"):
        run(start(host="0.0.0.0", tls_key="none.pem", tls_certificate="none.pem"))
    with pytest.raises(RegionFileError, match="cannot listen on"):
        run(start(socket="no/such/folder.sock"))


def test_the_socket_is_private_and_goes_with_the_service(tmp_path):
    async def scenario():
        async with served(tmp_path) as (service, _, _switch):
            path = tmp_path / "r0.sock"
            assert service.address == f"unix:{path}"
            assert path.stat().st_mode & 0o777 == 0o600
            with pytest.raises(ServiceError, match="the service refused the token"):
                await ControlClient(service.address, "wrong").__aenter__()
        assert not path.exists()
        with pytest.raises(ServiceError, match=r"r0\.sock: cannot reach the service: No such"):
            await ControlClient(f"unix:{path}", TOKEN).__aenter__()

    run(scenario())


@contextlib.asynccontextmanager
async def unix_service(folder):
    async with served(folder) as (service, _, _switch):
        yield socket.AF_UNIX, service.address.removeprefix("unix:")


@contextlib.asynccontextmanager
async def pages(_folder):
    server = LoopbackServer({})
    yield socket.AF_INET, ("127.0.0.1", await server.start(0))
    await server.close()


@contextlib.asynccontextmanager
async def emulated_tl1(_folder):
    async with Emulator((4, 4), services={"tl1": 0}) as emulator:
        yield socket.AF_INET, ("127.0.0.1", emulator.ports["tl1"])


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("listening", [unix_service, pages, emulated_tl1])
def test_a_connection_that_was_just_accepted_ends_with_its_server(tmp_path, listening, turns):
    async def scenario():
        async with listening(tmp_path) as (family, address):
            client = socket.socket(family)
            client.connect(address)
            for _ in range(turns):
                await asyncio.sleep(0)
        client.setblocking(False)
        with client, contextlib.suppress(ConnectionError):
            while client.recv(1024):  # BlockingIOError if nobody has closed it
                pass

    run(scenario())


def test_frames():
    async def through(data, **limits):
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await read_frame(reader, limits.get("header", 100), limits.get("body", 100), 1)

    frame = run(through(encode({"a": 1}, b"xyz")))
    assert (frame.header, frame.body) == ({"a": 1}, b"xyz")
    assert run(through(b"")) is None
    with pytest.raises(RequestError, match="the connection was cut inside a frame"):
        run(through(encode({"a": 1}, b"xyz")[:-1]))


def certificate_in(tmp_path):
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 "
        "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)


def test_tls_beyond_this_machine(tmp_path):
    certificate_in(tmp_path)
    settings = {"host": "0.0.0.0", "tls_certificate": "cert.pem", "tls_key": "key.pem"}
    (tmp_path / "key.pem").chmod(0o640)

    async def scenario():
        async with served(tmp_path, settings=settings) as (service, _, _switch):
            address = service.address.replace("0.0.0.0", "127.0.0.1")
            trusted = ssl.create_default_context(cafile=tmp_path / "cert.pem")
            async with ControlClient(address, TOKEN, tls=trusted) as client:
                assert (await client.circuits_for(demand((0, 7))))["result"] == "done"
            with pytest.raises(ServiceError, match="it refused the token, or expects TLS"):
                await ControlClient(address, TOKEN).__aenter__()
            with pytest.raises(ServiceError, match=r"the service refused the token$"):
                await ControlClient(address, "no token", tls=trusted).__aenter__()

    run(scenario())
    (tmp_path / "key.pem").chmod(0o644)
    with pytest.raises(
        RegionFileError, match=r"key\.pem: others may read the key; run chmod o= on"
    ):
        run(scenario())


def test_a_half_open_tls_connection_ends_soon(tmp_path, monkeypatch):
    certificate_in(tmp_path)
    monkeypatch.setitem(service_module._TLS_TIMES, "ssl_handshake_timeout", 0.1)
    settings = {"host": "127.0.0.1", "tls_certificate": "cert.pem", "tls_key": "key.pem"}

    async def scenario():
        async with served(tmp_path, settings=settings) as (service, _, _switch):
            port = int(service.address.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(bytes.fromhex("1603010200"))  # the beginning of a greeting
            assert await asyncio.wait_for(reader.read(), 2) == b""
            writer.close()

    run(scenario())
