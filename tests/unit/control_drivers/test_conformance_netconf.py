"""What public clients send by NETCONF and expect holds for the emulator; so does RFC 6241."""

import asyncio
import contextlib
import tomllib
from pathlib import Path

import pytest
from tests.control_switches import behavior, emulate, run

from lightloom.control.emulator.polatis_netconf import BASE, MODULES

asyncssh = pytest.importorskip("asyncssh")
etree = pytest.importorskip("lxml.etree")

TABLE = tomllib.loads(Path(__file__).with_name("polatis_netconf.toml").read_text())
CASES = TABLE["case"]
NAMESPACES = dict(zip(("opsw", "plts"), MODULES.values(), strict=True), base=BASE)
END = "]]>]]>"
HELLO = (
    f'<hello xmlns="{BASE}"><capabilities><capability>urn:ietf:params:netconf:base:1.0</capability>'
    "</capabilities></hello>"
)


class RawSession:
    """A session of NETCONF 1.0 that sends texts as they are."""

    def __init__(self, process):
        self._process = process
        self._tag = 0

    async def read(self):
        message = await asyncio.wait_for(self._process.stdout.readuntil(END), 5)
        return etree.fromstring(message.removesuffix(END))

    def write(self, message):
        self._process.stdin.write(message + END)

    async def request(self, body):
        """Send a request and return its reply."""
        self._tag += 1
        for name, namespace in NAMESPACES.items():
            body = body.replace(f"{{{name}}}", namespace)
        self.write(f'<rpc message-id="{self._tag}" xmlns="{BASE}">{body}</rpc>')
        reply = await self.read()
        assert reply.tag == f"{{{BASE}}}rpc-reply"
        assert reply.get("message-id") == str(self._tag)
        return reply


@contextlib.asynccontextmanager
async def connection(emulator):
    async with asyncssh.connect(
        "127.0.0.1",
        emulator.ports["netconf"],
        username="admin",
        password="root",
        known_hosts=None,
        client_keys=None,
        agent_path=None,
        config=None,
    ) as connected:
        yield connected


@contextlib.asynccontextmanager
async def raw_session(emulator, *, hello=HELLO):
    """A session, and the switch's greeting."""
    async with connection(emulator) as connected:
        process = await connected.create_process(subsystem="netconf")
        session = RawSession(process)
        greeting = await session.read()
        session.write(hello)
        yield session, greeting


async def converse(case):
    options = behavior(yang_revision=case["revision"]) if "revision" in case else None
    async with emulate(services={"netconf": 0}, behavior=options) as emulator:
        emulator.matrix.change([], [(1, 9), (2, 10)])
        async with raw_session(emulator) as (session, _):
            for body in case["send"]:
                reply = await session.request(body)
        circuits = [f"{a}-{b}" for a, b in emulator.matrix.circuits.items()]
    return reply, circuits


def texts(reply, name):
    return [(node.text or "").strip() for node in reply.iter() if node.tag.endswith(f"}}{name}")]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_emulator_agrees(case):
    reply, circuits = run(converse(case))
    assert texts(reply, "error-tag") == ([case["error"]] if "error" in case else [])
    assert bool(reply.findall(f"{{{BASE}}}ok")) == case.get("ok", False)
    if "message" in case:
        assert texts(reply, "error-message") == [case["message"]]
    if "values" in case:
        (data,) = reply.findall(f"{{{BASE}}}data")
        for name, values in case["values"].items():
            assert texts(data, name) == values
        if not case["values"]:
            assert len(data) == 0
        else:
            assert data[0].tag.startswith(f"{{{NAMESPACES['opsw']}}}")
    assert circuits == case.get("circuits", ["1-9", "2-10"])


def test_every_case_names_its_source():
    assert {case["source"] for case in CASES} == set(TABLE["sources"])
    assert len({case["name"] for case in CASES}) == len(CASES) >= 45
    for case in CASES:
        assert len({"ok", "error", "values"} & case.keys()) == 1, case["name"]


@pytest.mark.parametrize("revision", ["2016-04-22", "2018-03-22"])
def test_the_greeting_states_the_revision_as_onos_reads_it(revision):
    async def check():
        options = behavior(yang_revision=revision)
        async with (
            emulate(services={"netconf": 0}, behavior=options) as emulator,
            raw_session(emulator) as (_, greeting),
        ):
            prefix = "http://www.polatis.com/yang/optical-switch?module=optical-switch&revision="
            stated = [name for name in texts(greeting, "capability") if name.startswith(prefix)]
            assert stated == [prefix + revision]
            assert not any("candidate" in name for name in texts(greeting, "capability"))

    run(check())


def test_a_lock_keeps_others_out_until_its_session_ends():
    edit = (
        "<edit-config><target><running/></target><config>"
        '<cross-connects xmlns="{opsw}" operation="delete"/></config></edit-config>'
    )
    lock = "<lock><target><running/></target></lock>"

    async def check():
        async with emulate(services={"netconf": 0}) as emulator:
            emulator.matrix.change([], [(1, 9)])
            async with raw_session(emulator) as (other, _):
                async with raw_session(emulator) as (holder, greeting):
                    (number,) = texts(greeting, "session-id")
                    assert (await holder.request(lock)).findall(f"{{{BASE}}}ok")
                    denied = await other.request(lock)
                    assert texts(denied, "error-tag") == ["lock-denied"]
                    assert texts(denied, "session-id") == [number]
                    assert texts(await other.request(edit), "error-tag") == ["in-use"]
                    assert emulator.matrix.circuits == {1: 9}
                while emulator.switch.locked_by:
                    await asyncio.sleep(0.01)
                assert (await other.request(edit)).findall(f"{{{BASE}}}ok")
                assert emulator.matrix.circuits == {}

    run(check())


def test_a_killed_session_loses_its_lock():
    async def check():
        async with emulate(services={"netconf": 0}) as emulator, raw_session(emulator) as (one, _):
            async with raw_session(emulator) as (other, greeting):
                await other.request("<lock><target><running/></target></lock>")
                (number,) = texts(greeting, "session-id")
                kill = f"<kill-session><session-id>{number}</session-id></kill-session>"
                assert (await one.request(kill)).findall(f"{{{BASE}}}ok")
                with pytest.raises((asyncio.IncompleteReadError, asyncssh.Error)):
                    await other.request("<get/>")
            assert emulator.switch.locked_by == 0

    run(check())


@pytest.mark.parametrize(
    "hello",
    [
        HELLO.replace(":base:1.0<", ":base:9.0<"),
        f'<rpc message-id="1" xmlns="{BASE}"><get/></rpc>',
        "<hello",
    ],
)
def test_who_greets_otherwise_is_cut(hello):
    async def check():
        async with (
            emulate(services={"netconf": 0}) as emulator,
            raw_session(emulator, hello=hello) as (session, _),
        ):
            with pytest.raises((asyncio.IncompleteReadError, asyncssh.Error)):
                await session.read()

    run(check())


def test_a_standard_client_locks_reads_and_edits():
    # RFC 6241, section 7, and issues of public clients (ncclient 390 and 469) that lock
    manager = pytest.importorskip("ncclient.manager")

    def converse_as_client(port):
        with manager.connect(
            host="127.0.0.1",
            port=port,
            username="admin",
            password="root",
            hostkey_verify=False,
            allow_agent=False,
            look_for_keys=False,
        ) as switch:
            with switch.locked("running"):
                before = switch.get_config("running").data_xml
                config = (
                    f'<config xmlns:nc="{BASE}"><cross-connects xmlns="{NAMESPACES["opsw"]}">'
                    '<pair nc:operation="create"><ingress>1</ingress><egress>9</egress></pair>'
                    "</cross-connects></config>"
                )
                switch.edit_config(target="running", config=config)
            return before

    async def check():
        async with emulate(services={"netconf": 0}) as emulator:
            port = emulator.ports["netconf"]
            before = await asyncio.to_thread(converse_as_client, port)
            assert "port-config" in before
            assert "product-information" not in before
            assert emulator.matrix.circuits == {1: 9}

    run(check())
