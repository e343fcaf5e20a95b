"""The driver of SONiC switches by their commands, against the emulator."""

import pytest
from tests.control_switches import (
    behavior,
    change,
    connected,
    emulate,
    pairs,
    run,
    unknown_until_read_back,
)

from lightloom.control.drivers.sonic import parse_table, readback_of
from lightloom.control.emulator import (
    CompletionTime,
    Fault,
    FaultKind,
    FixedTime,
)
from lightloom.control.emulator.sonic_cli import table
from lightloom.control.switch import (
    CircuitState,
    PortSide,
    PortState,
    SwitchProtocolError,
    SwitchTimeoutError,
)
from lightloom.errors import InputError

pytest.importorskip("asyncssh")

#: the tables of the design document of SONiC for optical circuit switches, sections 9.2.1 and 9.2.2
CONFIG = """\
id       a_side    b_side
-------  --------  --------
1A-1B    1A        1B
2A-5B    2A        5B
12A-32B  12A       32B
"""
STATUS = """\
id       a_side    b_side    a_side_status    b_side_status
-------  --------  --------  ---------------  ---------------
1A-1B    1A        1B        tuned            tuned
2A-5B    2A        5B        tuning           tuned
"""
PORTS = """\
id    connector_type    connector_pin    target_simplex_port_id    status
----  ----------------  ---------------  ------------------------  --------
1A    LC UPC            2                1B                        tuned
1B    LC UPC            1                1A                        tuned
2B    LC UPC            1                                          blocked
"""


def sonic(check, tmp_path, query="", **options):
    """Run a check with an emulated switch and its driver."""

    async def checked():
        async with emulate(model="sonic", **options) as emulator:
            hosts = tmp_path / "known_hosts"
            hosts.write_text(emulator.known_hosts())
            async with connected(emulator, f"?known_hosts={hosts}{query}") as driver:
                await check(emulator, driver)

    run(checked())


def test_tables_of_the_design_document():
    assert [row["id"] for row in parse_table(CONFIG)] == ["1A-1B", "2A-5B", "12A-32B"]
    assert parse_table(PORTS)[2] == {
        "id": "2B",
        "connector_type": "LC UPC",
        "connector_pin": "1",
        "target_simplex_port_id": "",
        "status": "blocked",
    }
    back = readback_of(parse_table(CONFIG), parse_table(STATUS), parse_table(PORTS))
    assert {str(connect): state for connect, state in back.states.items()} == {
        "1A-1B": CircuitState.CONNECTED,
        "2A-5B": CircuitState.PENDING,
        "12A-32B": CircuitState.PENDING,
    }
    assert [port.state for port in back.ports] == [
        PortState.TUNED,
        PortState.TUNED,
        PortState.BLOCKED,
    ]


@pytest.mark.parametrize("text", [CONFIG, STATUS, PORTS])
def test_the_emulator_writes_such_tables(text):
    rows = parse_table(text)
    assert parse_table(table(list(rows[0]), rows)) == rows


@pytest.mark.parametrize("text", ["no table here", "-----\n1A-1B", "bash: show: not found\n"])
def test_text_that_is_no_table(text):
    with pytest.raises(SwitchProtocolError, match="no table"):
        parse_table(text)


@pytest.mark.parametrize("name", ["1A-2A", "x", "", "1A-1B;reboot"])
def test_names_that_are_none(name):
    with pytest.raises(SwitchProtocolError, match="as a cross-connect"):
        readback_of([{"id": name}], [], [])
    with pytest.raises(SwitchProtocolError, match="as a port"):
        readback_of([], [], [{"id": name}])


def test_inventory(tmp_path):
    async def check(_, driver):
        description = await driver.connect()
        assert description.size == (8, 6)
        assert description.ports["6B"] is PortSide.EGRESS

    sonic(check, tmp_path, size=(8, 6))


def test_changes(tmp_path):
    async def check(emulator, driver):
        await driver.apply(change("1A-1B 2A-5B 3A-6B"))
        results = await driver.apply(change("1A-5B", deletes="1A-1B 2A-5B 3A-6B"))
        assert [result.state for result in results] == [None, None, None, CircuitState.CONNECTED]
        assert (await driver.read_back()).states == {pairs("1A-5B")[0]: CircuitState.CONNECTED}
        assert emulator.faults.num_changes == 3

    sonic(check, tmp_path)


def test_the_safe_mode_refuses_busy_ports(tmp_path):
    async def check(emulator, driver):
        await driver.apply(change("1A-1B"))
        (result,) = await driver.apply(change("2A-1B"))
        assert result.state is CircuitState.INVALID
        assert "port 1A is in use" in result.reason
        await driver.apply(change("2A-1B", deletes="1A-1B"))
        assert emulator.matrix.circuits == {2: 9}

    sonic(check, tmp_path, "&moves=no")


def test_a_refusal_is_a_result(tmp_path):
    async def check(emulator, driver):
        (result,) = await driver.apply(change("1A-1B"))
        assert (result.state, result.code) == (CircuitState.INVALID, "1")
        assert result.reason == "Error: refused on demand"
        assert emulator.matrix.circuits == {}

    sonic(check, tmp_path, faults=[Fault.parse("deny@1")])


def test_pending_until_tuned(tmp_path):
    async def check(_, driver):
        await driver.apply(change("1A-1B"))
        back = await driver.read_back()
        assert list(back.states.values()) == [CircuitState.PENDING]
        assert back.ports[0].state is PortState.TUNING

    early = behavior(completion=CompletionTime.ACCEPTED)
    sonic(check, tmp_path, behavior=early, timing=FixedTime(60))


def test_a_stuck_and_a_failed_mirror(tmp_path):
    async def check(emulator, driver):
        await driver.apply(change("1A-1B 2A-2B"))
        emulator.switch.fail_port(2)
        states = {str(c): state for c, state in (await driver.read_back()).states.items()}
        assert states == {"1A-1B": CircuitState.PENDING, "2A-2B": CircuitState.FAILED}

    sonic(check, tmp_path, faults=[Fault.parse("stuck:1@1")])


@pytest.mark.parametrize(("kind", "is_made"), [("cut-before", False), ("cut-after", True)])
def test_after_a_cut_the_state_is_unknown_until_it_is_read_back(kind, is_made, tmp_path):
    async def check(emulator, driver):
        await unknown_until_read_back(emulator, driver, "1A-1B", is_made)

    sonic(check, tmp_path, faults=[Fault.parse(f"{kind}@1")])


def test_time_out(tmp_path):
    async def check(emulator, driver):
        emulator.faults.next_change(FaultKind.NO_REPLY)
        with pytest.raises(SwitchTimeoutError, match=r"no reply within 0.3 s"):
            await driver.apply(change("1A-1B"))
        await driver.connect()
        assert (await driver.read_back()).cross_connects == set(pairs("1A-1B"))

    sonic(check, tmp_path, "&reply_timeout_s=0.3")


@pytest.mark.parametrize("wrong", ["1A-99B", "1A;reboot-1B", "1B-1A"])
def test_bad_ports_are_never_sent(wrong, tmp_path):
    async def check(emulator, driver):
        with pytest.raises(InputError):
            await driver.apply(change(wrong))
        assert emulator.faults.num_changes == 0

    sonic(check, tmp_path)


def test_a_cross_connect_is_removed_before_another_one_uses_its_ports(tmp_path):
    # sonic-mgmt 25382: by adding alone, what lost its port stayed configured beside the new one
    async def check(emulator, driver):
        emulator.matrix.change([], [(1, 9), (3, 11)])
        await driver.apply(change("1A-2B"))
        back = await driver.read_back()
        assert back.cross_connects == set(pairs("1A-2B 3A-3B"))
        assert emulator.faults.num_changes == 2

    sonic(check, tmp_path)


def test_by_adding_alone_a_stale_one_stays(tmp_path):
    async def check(emulator, driver):
        await driver.apply(change("1A-1B"))
        await driver._run("config ocs cross-connect add 1A-2B update")
        back = await driver.read_back()
        assert {str(pair): str(state) for pair, state in back.states.items()} == {
            "1A-1B": "pending",
            "1A-2B": "connected",
        }
        assert emulator.matrix.circuits == {1: 10}
        await driver.apply(change(deletes="1A-1B"))
        assert (await driver.read_back()).cross_connects == set(pairs("1A-2B"))

    sonic(check, tmp_path)
