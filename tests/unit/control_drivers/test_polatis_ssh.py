"""TL1 inside SSH: login by SSH, prompts between replies, host keys."""

import asyncio

import pytest
from tests.control_switches import ADMIN, change, connected, emulate, pairs, run

from lightloom.control.drivers import open_driver
from lightloom.control.emulator import FaultKind
from lightloom.control.switch import (
    SwitchDisconnectedError,
    SwitchUnreachableError,
)

asyncssh = pytest.importorskip("asyncssh")


def test_changes_and_reads_back(tmp_path):
    hosts = tmp_path / "known_hosts"

    async def check():
        async with emulate(services={"ssh": 0}) as emulator:
            hosts.write_text(emulator.known_hosts())
            async with connected(emulator, f"?known_hosts={hosts}") as driver:
                assert (await driver.apply(change("1-9 2-10")))[1].is_accepted
                assert (await driver.read_back()).cross_connects == set(pairs("1-9 2-10"))
                emulator.faults.next_change(FaultKind.CUT_AFTER)
                with pytest.raises(SwitchDisconnectedError):
                    await driver.apply(change("3-11"))
                await driver.connect()
                assert (await driver.read_back()).cross_connects == set(pairs("1-9 2-10 3-11"))

    run(check())


def test_an_unknown_host_key_is_refused(tmp_path):
    hosts = tmp_path / "known_hosts"
    hosts.write_text("")

    async def check():
        async with emulate(services={"ssh": 0}) as emulator:
            driver = open_driver(emulator.url() + f"?known_hosts={hosts}", credentials=ADMIN)
            with pytest.raises(SwitchUnreachableError, match="host key is not in known_hosts"):
                await driver.connect()

    run(check())


def test_a_server_that_refuses_sessions_is_left(tmp_path):
    left = asyncio.Event()

    class Server(asyncssh.SSHServer):
        def begin_auth(self, _username):
            return False

        def session_requested(self):
            return False

        def connection_lost(self, _exc):
            left.set()

    async def check():
        key = asyncssh.generate_private_key("ssh-ed25519")
        async with await asyncssh.create_server(
            Server, "127.0.0.1", 0, server_host_keys=[key]
        ) as server:
            where = f"127.0.0.1:{server.get_port()}"
            host, port = where.split(":")
            hosts = tmp_path / "known_hosts"
            hosts.write_text(f"[{host}]:{port} {key.export_public_key().decode()}")
            driver = open_driver(f"polatis+ssh://{where}?known_hosts={hosts}", credentials=ADMIN)
            with pytest.raises(SwitchUnreachableError, match="no session of SSH"):
                await driver.connect()
            async with asyncio.timeout(5):
                await left.wait()

    run(check())
