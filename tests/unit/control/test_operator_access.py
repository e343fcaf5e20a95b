"""Who may act as an operator: by token, by socket, over TLS, and on leases that nobody holds."""

import asyncio
import os
import pwd
import re
import shutil
import socket
import sqlite3

import pytest
from tests.control_regions import emulated
from tests.unit.control.test_operator import served
from tests.unit.control.test_service import certificate_in

from lightloom.control.client import ControlClient
from lightloom.control.example import write_example
from lightloom.control.operator import serving
from lightloom.control.token import TokenFile, token_for

USER = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def path(tmp_path):
    with emulated() as emulator:
        yield write_example(tmp_path, emulator.url(), servers=4, nics=2, size=12, when="always")


def test_the_token_of_a_job_is_no_operators(path, control):
    async def ask_as_job():
        address = f"unix:{path.parent / 'region.sock'}"
        async with ControlClient(address, token_for(path.parent / "region.token")) as client:
            ops = ("plan", "apply", "pause", "continue", "remove")
            return [(await client.request(op))["error"] for op in ops]

    with served(path):
        errors = asyncio.run(ask_as_job())
        assert all(
            "job has the role job; expected a token of the role operator" in e for e in errors
        )
        assert control("apply", path, "--add", "0/0-1/0", "--yes")[0] == 0
        audit = control("audit", path)[1]
        assert f"operator ({USER}): add 0/0-1/0" in audit
        tokens = path.parent / "region.token"
        tokens.write_text(tokens.read_text().splitlines()[0] + "\n")
        status, _, err = control("apply", path, "--add", "2/0-3/0", "--yes")
        assert (status, err) == (
            2,
            f"lightloom: {tokens}: no client of the role operator; add a line NAME operator "
            "TOKEN\n",
        )


def test_an_operator_sees_and_removes_clients(path, control):
    async def watch():
        address = f"unix:{path.parent / 'region.sock'}"
        async with ControlClient(address, token_for(path.parent / "region.token")) as client:
            await client.request("join", server=2)
            status, out, _ = await asyncio.to_thread(control, "service", path)
            assert status == 0
            assert f"  client 1: job (job) from {USER}, server 2" in out.splitlines()
            assert (await asyncio.to_thread(control, "service", path, "--cut-off", 1))[0] == 0
            async with asyncio.timeout(2):
                while not client._tasks[0].done():
                    await asyncio.sleep(0.01)

    with served(path):
        asyncio.run(watch())
        status, _, err = control("service", path, "--cut-off", 77)
        assert (status, err) == (2, "lightloom: member 77: no connection has this number\n")


def test_an_operator_reaches_a_service_over_tls(path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    certificate_in(path.parent)
    port = free_port()
    path.write_text(
        path.read_text() + f'\n[serve]\nhost = "127.0.0.1"\nport = {port}\n'
        'tls_certificate = "cert.pem"\ntls_key = "key.pem"\n'
    )

    async def ask():
        async with serving(path) as operator:
            return await operator.ask("clients")

    with served(path):
        (client,) = asyncio.run(ask())["clients"]
        assert (client["role"], client["peer"]) == ("operator", "127.0.0.1")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_a_region_with_an_address_is_changed_while_nobody_serves_it(path, control, host):
    path.write_text(path.read_text() + f'\n[serve]\nhost = "{host}"\nport = {free_port()}\n')
    assert control("apply", path, "--add", "0/0-1/0", "--yes")[0] == 0
    rows = path.parent / "ports.csv"
    rows.write_text(rows.read_text() + "node4,0,9,21\n")
    assert control("remap", path, "--apply", "--yes")[0] == 0  # else it is never served again
    with served(path):
        assert control("drain", path, "nic:4/0")[0] == 0
        out = control("service", path)[1]
        assert re.search(r"operator \(operator\) from (127\.0\.0\.1|::1)$", out, re.MULTILINE)
    assert control("resume", path, "nic:4/0")[0] == 0


def test_a_service_of_another_machine_is_asked_alone(path, control, monkeypatch):
    async def refuse(*_args, **_options):
        raise ConnectionRefusedError(111, "Connection refused")

    # of documentation (RFC 5737): no machine has it
    path.write_text(path.read_text() + '\n[serve]\nhost = "192.0.2.1"\nport = 9000\n')
    TokenFile(path.parent / "region.token", make=True)
    monkeypatch.setattr(asyncio, "open_connection", refuse)
    status, _, err = control("apply", path, "--clear", "--yes")
    assert (status, err) == (
        2,
        "lightloom: 192.0.2.1:9000: cannot reach the service: Connection refused\n",
    )


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_a_lease_that_nobody_can_end_is_broken(path, control):
    assert control("apply", path, "--clear", "--yes")[0] == 0
    status, out, _ = control("service", path, "--break-lease")
    assert (status, out) == (0, "nobody holds the lease\n")
    connection = sqlite3.connect(path.parent / "region.sqlite")
    # of a container that has gone
    connection.execute("UPDATE leases SET holder = 'box:1', expires = 1e12, until = 1e12")
    connection.execute("UPDATE leases SET namespace = 1, process = 1")
    connection.commit()
    connection.close()
    status, _, err = control("apply", path, "--clear", "--yes")
    assert status == 2
    assert "region: box:1 holds the lease for another " in err
    status, out, _ = control("service", path, "--break-lease")
    assert (status, out) == (0, "the lease of box:1 is free\n")
    assert control("apply", path, "--clear", "--yes")[0] == 0
