"""SCPI: the emulator as public clients expect it, and the driver against both."""

import asyncio
import tomllib
from pathlib import Path

import pytest
from tests.control_switches import (
    behavior,
    change,
    emulate,
    pairs,
    run,
    setup,
    unknown_until_read_back,
)

from lightloom.control.drivers import open_driver
from lightloom.control.emulator import BusyPolicy, Fault, FaultKind
from lightloom.control.emulator.polatis_scpi import MAX_LINE_BYTES, LineReader
from lightloom.control.switch import (
    CircuitState,
    SwitchProtocolError,
    SwitchTimeoutError,
)

TABLE = tomllib.loads(Path(__file__).with_name("polatis_scpi.toml").read_text())
CASES = TABLE["case"]
SCPI = {"services": {"scpi": 0}}


async def converse(case):
    """Send a case's lines; return all answers and the circuits afterwards."""
    async with emulate(**SCPI) as emulator:
        emulator.matrix.change([], [(1, 9), (2, 10)])
        reader, writer = await asyncio.open_connection("127.0.0.1", emulator.ports["scpi"])
        for line in case["send"]:
            writer.write(f"{line}\r\n".encode())
        writer.write(b"*stb?\n")
        answers = []
        while (line := await asyncio.wait_for(reader.readline(), 5)) != b"0\r\n":
            assert line.endswith(b"\r\n")
            answers.append(line.decode().removesuffix("\r\n"))
        writer.close()
        await writer.wait_closed()
        return answers, [f"{a}-{b}" for a, b in emulator.matrix.circuits.items()]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_emulator_agrees(case):
    answers, circuits = run(converse(case))
    assert answers == case.get("answers", [])
    assert circuits == case.get("circuits", ["1-9", "2-10"])


def test_every_case_names_its_source():
    assert {case["source"] for case in CASES} == set(TABLE["sources"])
    assert len({case["name"] for case in CASES}) == len(CASES) >= 20


@pytest.mark.parametrize("piece", [1, 10**6])
def test_lines_in_pieces_of_any_size(piece):
    reader = LineReader()
    data = b";" * 30_000 + b"\n" + b" " * 30_000 + b"x\r\n"
    lines = []
    for start in range(0, len(data), piece):
        lines += reader.feed(data[start : start + piece])
        # what was looked at is not looked at again
        assert reader._scanned == len(reader._line)
    assert lines == [";" * 30_000, "x"]
    with pytest.raises(ValueError, match="too long"):
        reader.feed(b"x" * (MAX_LINE_BYTES + 1))


def test_inventory():
    async def check():
        async with setup(size=(8, 6), **SCPI) as (_, driver):
            description = await driver.connect()
            assert (description.vendor, description.serial) == ("Polatis", "000001")
            assert (description.model, description.size) == ("emulated-8x6", (8, 6))

    run(check())


def test_a_change_is_two_commands():
    async def check():
        async with setup(**SCPI) as (emulator, driver):
            await driver.apply(change("1-9 2-10 3-11"))
            results = await driver.apply(change("1-10", deletes="1-9 3-11 2-10"))
            assert [result.state for result in results] == [None] * 3 + [CircuitState.CONNECTED]
            assert (await driver.read_back()).cross_connects == set(pairs("1-10"))
            assert emulator.faults.num_changes == 3

    run(check())


def test_a_switch_that_does_not_move_is_asked_to_remove_first():
    async def check():
        strict = behavior(busy=BusyPolicy.REFUSE)
        async with setup("?moves=no", behavior=strict, **SCPI) as (emulator, driver):
            await driver.apply(change("1-9 2-10"))
            await driver.apply(change("1-10 2-9", deletes="1-9 2-10"))
            assert emulator.matrix.circuits == {1: 10, 2: 9}

    run(check())


def test_a_refusal_is_a_result():
    async def check():
        async with setup(faults=[Fault.parse("deny@1")], **SCPI) as (emulator, driver):
            (result,) = await driver.apply(change("1-9"))
            assert (result.state, result.code) == (CircuitState.INVALID, "-221")
            assert "refused on demand" in result.reason
            (result,) = await driver.apply(change(deletes="1-9"))
            assert result.state is CircuitState.INVALID
            await driver.apply(change("1-9"))
            assert emulator.matrix.circuits == {1: 9}

    run(check())


@pytest.mark.parametrize("has_monitors", [True, False])
def test_light_and_shutters(has_monitors):
    async def check():
        options = behavior(has_monitors=has_monitors)
        async with setup(behavior=options, **SCPI) as (emulator, driver):
            await driver.apply(change("1-9"))
            emulator.matrix.disabled.add(3)
            for _ in range(2):
                ports = {port.name: port for port in (await driver.read_back()).ports}
                assert [port.name for port in ports.values() if not port.enabled] == ["3"]
                loss_db = emulator.matrix.loss_db(1, 9) if has_monitors else None
                assert ports["9"].loss_db == pytest.approx(loss_db, abs=0.02)

    run(check())


def test_only_egress_ports_have_monitors():
    async def check():
        async with setup(**SCPI) as (emulator, driver):
            emulator.switch.monitored_ports = frozenset(range(9, 17))
            await driver.apply(change("1-9"))
            ports = (await driver.read_back()).ports
            assert [port.power_dbm is not None for port in ports] == [False] * 8 + [True] * 8

    run(check())


@pytest.mark.parametrize(("kind", "is_made"), [("cut-before", False), ("cut-after", True)])
def test_after_a_cut_the_state_is_unknown_until_it_is_read_back(kind, is_made):
    async def check():
        async with setup(faults=[Fault.parse(f"{kind}@1")], **SCPI) as (emulator, driver):
            await unknown_until_read_back(emulator, driver, "1-9", is_made)

    run(check())


def test_time_out():
    async def check():
        async with setup("?reply_timeout_s=0.2", **SCPI) as (emulator, driver):
            emulator.faults.next_change(FaultKind.NO_REPLY)
            with pytest.raises(SwitchTimeoutError, match=r"no answer within 0.2 s"):
                await driver.apply(change("1-9"))
            await driver.connect()
            assert (await driver.read_back()).cross_connects == set(pairs("1-9"))

    run(check())


#: a switch as public clients met it: what it answers, and nothing where a query is not known
RECORDED = {
    "*idn?": "Polatis,N-OST-24x24-LA1-DMHNS-000,001705,6.5.1.7",
    ":oxc:swit:size?": "2,2",
    ":oxc:swit:conn:stat?": "(@1,2),(@3,4)",
    ":oxc:swit:port:stat? (@1,2,3,4)": "(E,D,E,F)",
    ":pmon:pow? (@3,4)": "(-29.55,-60.00)",
    "*opc?": "1",
    ":syst:err:all?": '0,"No error"',
}


async def recorded_switch(answers, end="\n"):
    """A listener with recorded answers, its port, and all that it is sent."""
    sent = []

    async def serve(reader, writer):
        refused = False
        while line := (await reader.readline()).decode().strip():
            sent.append(line)
            refused |= line.endswith(")") and "?" in line and line not in answers
            answer = answers.get(line)
            if line == ":syst:err:all?" and refused:
                answer, refused = '-241,"Hardware missing"', False
            if answer is not None:
                writer.write(f"{answer}{end}".encode())
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    return listener, listener.sockets[0].getsockname()[1], sent


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("empty", ["", "<none>", "(@),(@)"])
def test_the_driver_understands_what_public_clients_do(end, empty):
    async def check():
        answers = dict(RECORDED)
        listener, port, sent = await recorded_switch(answers, end)
        driver = open_driver(f"polatis+scpi://127.0.0.1:{port}")
        description = await driver.connect()
        assert (description.model, description.software) == ("N-OST-24x24-LA1-DMHNS-000", "6.5.1.7")
        back = await driver.read_back()
        assert back.cross_connects == set(pairs("1-3 2-4"))
        assert [port.power_dbm for port in back.ports] == [None, None, -29.55, -60.0]
        assert [port.enabled for port in back.ports] == [True, False, True, False]
        await driver.apply(change("1-4", deletes="1-3 2-4"))
        await driver.apply(change(deletes="1-4"))
        assert [line for line in sent if "conn:" in line and "?" not in line] == [
            ":oxc:swit:conn:add (@1),(@4)",
            ":oxc:swit:conn:sub (@1),(@4)",
        ]
        answers[":oxc:swit:conn:stat?"] = empty
        assert (await driver.read_back(ports=False)).cross_connects == frozenset()
        await driver.close()
        listener.close()
        await asyncio.sleep(0.05)

    run(check())


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (":oxc:swit:conn:stat?", "(@1,2),(@3)"),
        (":oxc:swit:conn:stat?", "(@1,),(@3,)"),
        (":oxc:swit:conn:stat?", "hello"),
        (":pmon:pow? (@3,4)", "(-29.55)"),
        (":pmon:pow? (@3,4)", "(a,b)"),
        (":oxc:swit:conn:stat?", "(@1),(@3)\n(@1),(@3)"),
        (":oxc:swit:conn:stat?", "x" * 70_000),
    ],
)
def test_answers_that_cannot_be_right(query, answer):
    async def check():
        listener, port, _ = await recorded_switch(RECORDED | {query: answer})
        driver = open_driver(f"polatis+scpi://127.0.0.1:{port}")
        await driver.connect()
        with pytest.raises(SwitchProtocolError):
            await driver.read_back()
        await driver.close()
        listener.close()
        await asyncio.sleep(0.05)

    run(check())
