"""SNMP of an emulated switch, read by pysnmp's own manager and, where it is, by net-snmp's."""

import asyncio
import random
import shutil

import pytest
from tests.control_switches import emulate, run

from lightloom.control.emulator.device import SwitchIdentity

manager = pytest.importorskip("pysnmp.hlapi.v3arch.asyncio")

SYSTEM, POLATIS = "1.3.6.1.2.1.1", "1.3.6.1.4.1.26592.2"
PRODUCT, PORTS, POWER = f"{POLATIS}.1.2.2", f"{POLATIS}.2.2.1", f"{POLATIS}.3.2.2.2.1.1"
ENTITY, PSU_STATUS = "1.3.6.1.2.1.47.1.1.1.1", "1.3.6.1.4.1.9.9.117.1.1.2.1.2"


class Reader:
    """pysnmp's manager, at one switch."""

    def __init__(self, port, community="public", version=1, limit_s=4):
        self._limit_s = limit_s
        self._engine = manager.SnmpEngine()
        self._data = manager.CommunityData(community, mpModel=version)
        self._address = ("127.0.0.1", port)

    async def ask(self, command, *rest, numbers=()):
        """Return the error and the rows of one request."""
        target = await manager.UdpTransportTarget.create(
            self._address, timeout=self._limit_s, retries=0
        )
        rows = [manager.ObjectType(manager.ObjectIdentity(name), *value) for name, *value in rest]
        lost, status, index, found = await command(
            self._engine, self._data, target, manager.ContextData(), *numbers, *rows,
            lookupMib=False,
        )  # fmt: skip
        return lost, int(status), int(index), [(str(name), value) for name, value in found]

    async def get(self, *names):
        lost, status, _, found = await self.ask(manager.get_cmd, *((name,) for name in names))
        assert not lost
        assert status == 0
        return [value.prettyPrint() for _, value in found]

    async def walk(self, root, size=10):
        """Return what GETBULK finds below a name."""
        found, name = {}, root
        while True:
            _, status, _, rows = await self.ask(manager.bulk_cmd, (name,), numbers=(0, size))
            assert status == 0
            for name, value in rows:
                if not name.startswith(f"{root}.") or value.prettyPrint().startswith("No more"):
                    return found
                found[name.removeprefix(f"{root}.")] = value.prettyPrint()

    def close(self):
        self._engine.close_dispatcher()


def with_reader(check, model="polatis", **options):
    async def work():
        async with emulate(model=model, services={"snmp": 0}, **options) as emulator:
            reader = Reader(emulator.ports["snmp"])
            try:
                return await check(emulator, reader)
            finally:
                reader.close()

    return run(work())


def test_what_onos_asks_a_polatis_switch():
    async def check(emulator, reader):
        emulator.switch.identity = SwitchIdentity("Polatis", "N-VST-8x8", "1705", "6.5")
        emulator.matrix.change([], [(1, 10)])
        emulator.matrix.disabled.add(2)
        emulator.matrix.failed.add(3)
        facts = await reader.get(*(f"{PRODUCT}.{index}.0" for index in (1, 2, 3)))
        assert facts == ["N-VST-8x8", "1705", "6.5"]
        assert await reader.get(f"{PORTS}.1.0") == ["8x8"]
        peers = await reader.walk(f"{PORTS}.2.1.2")
        assert peers == {str(port): "0" for port in range(1, 17)} | {"1": "10", "10": "1"}
        states = await reader.walk(f"{PORTS}.2.1.3")
        assert [states[port] for port in ("1", "2", "3")] == ["1", "2", "3"]

    with_reader(check)


def test_power_is_that_of_the_monitors():
    async def check(emulator, reader):
        emulator.matrix.change([], [(1, 10)])
        powers = await reader.walk(POWER)
        assert powers.keys() == {str(port) for port in range(1, 17)}
        for port, power in powers.items():
            assert int(power) == pytest.approx(1000 * emulator.matrix.power_dbm(int(port)))

    with_reader(check)


@pytest.mark.parametrize("size", [1, 3, 200])
def test_a_walk_finds_every_object_once_and_in_order(size):
    async def check(_, reader):
        return await reader.walk("1.3.6.1", size)

    found = with_reader(check)
    # seven of the system, three facts, a size, four columns of 16 ports
    assert len(found) == 7 + 3 + 1 + 4 * 16
    names = [tuple(map(int, name.split("."))) for name in found]
    assert names == sorted(names)


def test_set_is_refused_and_changes_nothing():
    async def check(emulator, reader):
        value = (f"{PORTS}.2.1.2.1", manager.Unsigned32(9))
        _, status, index, rows = await reader.ask(manager.set_cmd, value)
        assert (status, index) == (6, 1)  # noAccess
        assert rows[0][0] == f"{PORTS}.2.1.2.1"
        assert emulator.matrix.circuits == {}
        assert emulator.faults.num_changes == 0

    with_reader(check)


def test_what_is_not_there():
    async def check(_, reader):
        return await reader.get(f"{PORTS}.2.1.2.99", "1.3.6.1.9", f"{SYSTEM}.5.0")

    missing, unknown, name = with_reader(check)
    assert missing.startswith("No Such Instance")
    assert unknown.startswith("No Such Object")
    assert name == "OCS"


def test_getnext_ends():
    async def check(_, reader):
        last = f"{POWER}.16"
        _, status, _, ((name, value),) = await reader.ask(manager.next_cmd, (last,))
        assert (status, name) == (0, last)
        assert value.prettyPrint().startswith("No more")

    with_reader(check)


@pytest.mark.parametrize(("community", "version"), [("private", 1), ("public", 0)])
def test_others_get_no_answer(community, version):
    async def check(emulator, _):
        reader = Reader(emulator.ports["snmp"], community, version, limit_s=0.5)
        lost, *_ = await reader.ask(manager.get_cmd, (f"{SYSTEM}.5.0",))
        reader.close()
        assert "before timeout" in str(lost)

    with_reader(check)


def test_a_switch_without_power_is_silent_and_its_clock_begins_anew():
    async def check(emulator, reader):
        await asyncio.sleep(0.3)
        before = int((await reader.get(f"{SYSTEM}.3.0"))[0])
        emulator.switch.boot_s = 0.5
        emulator.switch.lose_power()
        hasty = Reader(emulator.ports["snmp"], limit_s=0.1)
        lost, *_ = await hasty.ask(manager.get_cmd, (f"{SYSTEM}.3.0",))
        hasty.close()
        await asyncio.sleep(0.5)
        after = int((await reader.get(f"{SYSTEM}.3.0"))[0])
        return before, lost, after

    before, lost, after = with_reader(check)
    assert lost
    assert 25 < before < 500
    assert after < 200


def test_power_supplies_and_fans_of_sonic():
    async def check(emulator, reader):
        emulator.switch.equipment |= {"PSU 2": "DISABLED", "FAN 1": "empty"}
        names = await reader.walk(f"{ENTITY}.7")
        classes = await reader.walk(f"{ENTITY}.5")
        statuses = await reader.walk(PSU_STATUS)
        inside = await reader.walk(f"{ENTITY}.4")
        emulator.switch.equipment["PSU 2"] = "empty"
        return names, classes, statuses, inside, await reader.walk(PSU_STATUS)

    names, classes, statuses, inside, later = with_reader(check, "sonic")
    assert names == {
        "1": "chassis 1",
        "502000000": "drawer2",
        "502020100": "FAN 2",  # the first fan of the second drawer, as SONiC's agent says it
        "601000000": "PSU 1",
        "602000000": "PSU 2",
    }
    assert [classes[index] for index in names] == ["3", "5", "7", "6", "6"]
    assert inside["502020100"] == "502000000"
    assert statuses == {"1": "2", "2": "7"}
    assert later == {"1": "2", "2": "8"}


def test_what_is_no_request_gets_no_answer_and_does_no_harm():
    from lightloom.control.emulator.snmp import MAX_REQUEST_BYTES

    class Listener(asyncio.DatagramProtocol):
        def __init__(self):
            self.heard = []

        def datagram_received(self, data, _):
            self.heard.append(data)

    async def check(emulator, reader):
        rng, loop = random.Random(1), asyncio.get_running_loop()
        transport, listener = await loop.create_datagram_endpoint(
            Listener, remote_addr=("127.0.0.1", emulator.ports["snmp"])
        )
        nested = b"\x30\x84\x00\x00\x0f\x00" * 600
        for data in (b"", b"\x30", nested, b"\x30\x80" * 3000, bytes(MAX_REQUEST_BYTES + 1)):
            transport.sendto(data)
        for _ in range(200):
            transport.sendto(rng.randbytes(rng.randrange(1, 200)))
        assert await reader.get(f"{PORTS}.1.0") == ["8x8"]
        transport.close()
        return listener.heard

    assert with_reader(check) == []


def test_net_snmp_reads_it():
    program = shutil.which("snmpbulkwalk")
    if program is None:
        pytest.skip("net-snmp is not installed")

    async def check(emulator, _):
        address = f"127.0.0.1:{emulator.ports['snmp']}"
        words = ["-v2c", "-c", "public", "-On", "-t", "2", address]
        texts = []
        for name, rest in (
            (program, [PORTS]),
            (shutil.which("snmpset"), [f"{PORTS}.2.1.2.1", "u", "9"]),
        ):
            process = await asyncio.create_subprocess_exec(
                name, *words, *rest, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
            texts.append(b"".join(await process.communicate()).decode())
        return texts

    walked, refused = with_reader(check)
    assert f'.{PORTS}.1.0 = STRING: "8x8"' in walked
    assert walked.count("Gauge32: 0") == 16
    assert "noAccess" in refused
