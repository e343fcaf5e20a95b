"""The NETCONF driver against the emulator, faults included."""

import asyncio
import logging
import socket
import threading
from types import SimpleNamespace

import pytest
from tests.control_switches import (
    ADMIN,
    behavior,
    change,
    connected,
    emulate,
    pairs,
    run,
    unknown_until_read_back,
)

from lightloom.control.drivers import open_driver
from lightloom.control.emulator import BusyPolicy, Fault, FaultKind
from lightloom.control.emulator.polatis_netconf import MAX_MESSAGE_BYTES, MessageReader
from lightloom.control.switch import (
    CircuitState,
    Credentials,
    LoginRefusedError,
    SwitchTimeoutError,
    SwitchUnreachableError,
)
from lightloom.errors import InputError

pytest.importorskip("asyncssh")
pytest.importorskip("ncclient")


def netconf(check, tmp_path, query="", **options):
    """Run a check with an emulated switch and its driver."""

    async def checked():
        async with emulate(services={"netconf": 0}, **options) as emulator:
            hosts = tmp_path / "known_hosts"
            hosts.write_text(emulator.known_hosts())
            async with connected(emulator, f"?known_hosts={hosts}{query}") as driver:
                await check(emulator, driver)

    run(checked())


def test_inventory(tmp_path):
    async def check(_, driver):
        description = await driver.connect()
        assert (description.vendor, description.serial) == ("Polatis", "000001")
        assert description.size == (8, 6)

    netconf(check, tmp_path, size=(8, 6))


def test_changes_are_one_request(tmp_path):
    async def check(emulator, driver):
        await driver.apply(change("1-9 2-10 3-11"))
        results = await driver.apply(change("1-10", deletes="1-9 3-11 2-10"))
        assert [result.state for result in results] == [None, None, None, CircuitState.CONNECTED]
        assert (await driver.read_back()).cross_connects == set(pairs("1-10"))
        await driver.apply(change(deletes="1-10"))
        assert emulator.matrix.circuits == {}
        assert emulator.faults.num_changes == 3

    netconf(check, tmp_path)


def test_a_switch_that_does_not_move_gets_deletes(tmp_path):
    async def check(emulator, driver):
        await driver.apply(change("1-9 2-10"))
        await driver.apply(change("1-10 2-9", deletes="1-9 2-10"))
        assert emulator.matrix.circuits == {1: 10, 2: 9}

    netconf(check, tmp_path, "&moves=no", behavior=behavior(busy=BusyPolicy.REFUSE))


def test_a_refusal_is_a_result(tmp_path):
    async def check(emulator, driver):
        (result,) = await driver.apply(change("1-9"))
        assert (result.state, result.code) == (CircuitState.INVALID, "resource-denied")
        assert result.reason == "Refused on demand"
        (result,) = await driver.apply(change(deletes="1-9"))
        assert (result.state, result.code) == (CircuitState.INVALID, "data-missing")
        assert emulator.matrix.circuits == {}

    netconf(check, tmp_path, faults=[Fault.parse("deny@1")])


def test_light_and_shutters(tmp_path):
    async def check(emulator, driver):
        await driver.apply(change("1-9"))
        emulator.matrix.disabled.add(3)
        ports = {port.name: port for port in (await driver.read_back()).ports}
        assert ports["9"].loss_db == pytest.approx(emulator.matrix.loss_db(1, 9), abs=0.02)
        assert [port.name for port in ports.values() if not port.enabled] == ["3"]

    netconf(check, tmp_path)


@pytest.mark.parametrize(("kind", "is_made"), [("cut-before", False), ("cut-after", True)])
def test_after_a_cut_the_state_is_unknown_until_it_is_read_back(kind, is_made, tmp_path):
    async def check(emulator, driver):
        await unknown_until_read_back(emulator, driver, "1-9", is_made)

    netconf(check, tmp_path, faults=[Fault.parse(f"{kind}@1")])


def test_time_out(tmp_path):
    async def check(emulator, driver):
        emulator.faults.next_change(FaultKind.NO_REPLY)
        with pytest.raises(SwitchTimeoutError, match=r"no reply within 0.5 s"):
            await driver.apply(change("1-9"))
        await driver.connect()
        assert (await driver.read_back()).cross_connects == set(pairs("1-9"))

    netconf(check, tmp_path, "&reply_timeout_s=0.5")


@pytest.mark.parametrize("kind", [FaultKind.SLOW, FaultKind.FRAGMENT])
def test_slow_replies_are_understood(kind, tmp_path):
    async def check(emulator, driver):
        emulator.faults.next_change(kind, seconds=0.02)
        assert (await driver.apply(change("1-9")))[0].is_accepted

    netconf(check, tmp_path)


def test_bad_ports_are_never_sent(tmp_path):
    async def check(emulator, driver):
        with pytest.raises(InputError):
            await driver.apply(change("1-<pair/>"))
        assert emulator.faults.num_changes == 0

    netconf(check, tmp_path)


def test_wrong_password_and_unknown_host_key(tmp_path):
    hosts = tmp_path / "known_hosts"

    async def check():
        async with emulate(services={"netconf": 0}) as emulator:
            url = f"{emulator.url()}?known_hosts={hosts}"
            hosts.write_text("")
            with pytest.raises(SwitchUnreachableError, match="not in known_hosts"):
                await open_driver(url, credentials=ADMIN).connect()
            hosts.write_text(emulator.known_hosts())
            wrong = Credentials("admin", "hunter2")
            with pytest.raises(LoginRefusedError, match="login refused") as caught:
                await open_driver(url, credentials=wrong).connect()
            assert "hunter2" not in repr(caught.value)

    run(check())


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_framing(size):
    def feed(reader, data):
        pieces = (data[start : start + size] for start in range(0, len(data), size))
        return [message for piece in pieces for message in reader.feed(piece)]

    reader = MessageReader()
    assert feed(reader, b"<a/>]]>]]><b/>]]>]]>") == [b"<a/>", b"<b/>"]
    reader.is_chunked = True
    assert feed(reader, b"\n#2\n<a\n#2\n/>\n##\n\n#4\n<b/>\n##\n") == [b"<a/>", b"<b/>"]


@pytest.mark.parametrize("data", [b"<a/>", b"\n#x", b"\n#99999999999999", b"\n#9999999999\n"])
def test_wrong_framing(data):
    reader = MessageReader()
    reader.is_chunked = True
    with pytest.raises(ValueError, match=r"framing|too long"):
        list(reader.feed(data + b" " * 20))


def test_long_messages_are_refused():
    with pytest.raises(ValueError, match="too long"):
        list(MessageReader().feed(b" " * (MAX_MESSAGE_BYTES + 1)))


OPTICAL = "http://www.polatis.com/yang/optical-switch"
#: what a switch says of itself in the form that ONOS reads: the revision decides the names
NEW = f"{OPTICAL}?module=optical-switch&revision=2018-03-22"
OLD = f"{OPTICAL}?module=optical-switch&revision=2016-04-22"
#: recorded forms: of ONOS's parsers and models (new), of a laboratory's client (old)
PRODUCT = f"""<product-information xmlns="{OPTICAL}"><manufacturer>Polatis</manufacturer>
<serial-number>2000</serial-number><model-name>N-VST-2x2-LA1-DMHNV-701</model-name>
<software-version>6.7.3.9</software-version></product-information>"""
REPLIES = {
    NEW: {
        "product-information": PRODUCT,
        "port-config": f"""<port-config xmlns="{OPTICAL}">{
            "".join(
                f"<port><port-id>{port}</port-id><status>{status}</status><label>x</label>"
                "<peer-port/></port>"
                for port, status in enumerate(("UNSUPPORTED", "DISABLED", "ENABLED", "FAILED"), 1)
            )
        }</port-config>""",
        "opm-power": f"""<opm-power xmlns="{OPTICAL}"><port><port-id>3</port-id>
<power>-12.50</power></port></opm-power>""",
        "cross-connects": f"""<cross-connects xmlns="{OPTICAL}"><pair><ingress>1</ingress>
<egress>3</egress></pair></cross-connects>""",
    },
    OLD: {
        "product-information": PRODUCT,
        "ports": f"""<ports xmlns="{OPTICAL}">{
            "".join(
                f"<port><port-id>{port}</port-id><port-label/><port-state>PC_ENABLED</port-state>"
                f"<port-status>PO_{status}</port-status><peer-port/>{power}</port>"
                for port, status, power in (
                    (1, "ENABLED", ""),
                    (2, "DISABLED", ""),
                    (3, "ENABLED", "<opm><lambda>1550.0</lambda><power>-12.50</power></opm>"),
                    (4, "FAILED", ""),
                )
            )
        }</ports>""",
        "cross-connects": f"""<cross-connects xmlns="{OPTICAL}"><pairs><ingress>1</ingress>
<egress>3</egress></pairs></cross-connects>""",
    },
}


class RecordedManager:
    """Stands for ncclient's manager; the other side says what public clients expect."""

    def __init__(self, capability):
        self.etree = pytest.importorskip("lxml.etree")
        self.server_capabilities = ["urn:ietf:params:netconf:base:1.0", capability]
        self._replies = REPLIES[capability]
        self.edits = []
        self.connected = True
        self._session = self

    def get(self, filter_):
        kind, text = filter_
        assert kind == "subtree"
        wanted = self.etree.fromstring(text)
        assert wanted.tag.startswith(f"{{{OPTICAL}}}"), text
        data = "".join(
            reply for name, reply in self._replies.items() if wanted.tag.endswith(f"}}{name}")
        )

        class Reply:
            data_ele = self.etree.fromstring(f"<data>{data}</data>")

        return Reply

    def edit_config(self, *, target, config, error_option):
        assert (target, error_option) == ("running", None)
        self.edits.append(self.etree.fromstring(config))

    def close(self):
        self.connected = False


@pytest.mark.parametrize("capability", [NEW, OLD], ids=["new", "old"])
def test_the_driver_understands_what_public_clients_do(capability):
    name = "pair" if capability == NEW else "pairs"

    async def check():
        driver = open_driver("polatis+netconf://192.0.2.1", credentials=ADMIN)
        manager = RecordedManager(capability)
        driver._log_in = lambda: manager
        description = await driver.connect()
        assert (description.vendor, description.serial, description.size) == (
            "Polatis",
            "2000",
            (2, 2),
        )
        back = await driver.read_back()
        assert back.cross_connects == set(pairs("1-3"))
        ports = {port.name: port for port in back.ports}
        assert [port.power_dbm for port in ports.values()] == [None, None, -12.5, None]
        assert [port.enabled for port in ports.values()] == [True, False, True, False]
        assert all(r.is_accepted for r in await driver.apply(change("2-4", deletes="1-3")))
        await driver.close()
        # as ONOS: one list, an operation each, ingress before egress
        (config,) = manager.edits
        (circuits,) = config
        assert circuits.tag == f"{{{OPTICAL}}}cross-connects"
        operation = "{urn:ietf:params:xml:ns:netconf:base:1.0}operation"
        assert [pair.get(operation) for pair in circuits] == ["delete", "merge"]
        assert {pair.tag for pair in circuits} == {f"{{{OPTICAL}}}{name}"}
        assert [[leaf.text for leaf in pair] for pair in circuits] == [["1", "3"], ["2", "4"]]

    run(check())


def test_an_old_switch(tmp_path):
    async def check(emulator, driver):
        await driver.apply(change("1-9 2-10"))
        emulator.matrix.disabled.add(3)
        back = await driver.read_back()
        assert back.cross_connects == set(pairs("1-9 2-10"))
        ports = {port.name: port for port in back.ports}
        assert ports["9"].loss_db == pytest.approx(emulator.matrix.loss_db(1, 9), abs=0.02)
        assert [port.name for port in ports.values() if not port.enabled] == ["3"]

    netconf(check, tmp_path, behavior=behavior(yang_revision="2016-04-22"))


def test_no_pair_is_named_twice_in_a_request(tmp_path):
    # a switch that does not move: deleting 1-9 and making 1-10 takes two requests
    async def check(emulator, driver):
        await driver.apply(change("1-9"))
        results = await driver.apply(change("1-10", deletes="1-9"))
        assert all(result.is_accepted for result in results)
        assert emulator.matrix.circuits == {1: 10}
        assert emulator.faults.num_changes == 3

    netconf(check, tmp_path, "&moves=no", behavior=behavior(busy=BusyPolicy.REFUSE))


def test_a_session_that_comes_too_late_is_closed(monkeypatch):
    proceed, closed = threading.Event(), threading.Event()

    def connect(*_args, sock, **_options):
        def close():
            sock.close()
            closed.set()

        proceed.wait(5)
        return SimpleNamespace(_session=SimpleNamespace(close=close))

    async def check():
        with socket.create_server(("127.0.0.1", 0)) as silent:
            where = f"127.0.0.1:{silent.getsockname()[1]}"
            driver = open_driver(f"polatis+netconf://{where}?connect_timeout_s=0.05")
            monkeypatch.setattr(driver, "_ncclient", SimpleNamespace(connect_ssh=connect))
            with pytest.raises(SwitchUnreachableError, match=r"no session within 0\.05 s"):
                await driver.connect()
            assert not closed.is_set()
            proceed.set()
            assert await asyncio.to_thread(closed.wait, 5)

    run(check())


def test_a_switch_that_says_nothing_is_left_at_once_and_quietly(monkeypatch, capfd):
    monkeypatch.setattr(logging.root, "handlers", [])

    async def check():
        with socket.create_server(("127.0.0.1", 0)) as silent:
            where = f"127.0.0.1:{silent.getsockname()[1]}"
            driver = open_driver(f"polatis+netconf://{where}?connect_timeout_s=0.3")
            with pytest.raises(SwitchUnreachableError, match=r"no session within 0\.3 s"):
                await driver.connect()
            threads = [t for t in threading.enumerate() if t.name.startswith("netconf")]
            for thread in threads:
                await asyncio.to_thread(thread.join, 5)
                assert not thread.is_alive()

    run(check())
    assert capfd.readouterr().err == ""
