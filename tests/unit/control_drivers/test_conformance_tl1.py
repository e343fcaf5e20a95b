"""What public sources state of TL1 on Polatis switches holds for the emulator, case by case."""

import asyncio
import re
import tomllib
from pathlib import Path

import pytest

from lightloom.control.drivers.tl1 import Tl1Parser
from lightloom.control.emulator import EmulatedBehavior, Emulator, FixedTime

TABLE = tomllib.loads(Path(__file__).with_name("polatis_tl1.toml").read_text())
CASES = TABLE["case"]
CHECKS = {"reply", "code", "rows", "row_pattern", "error", "text", "without", "report"}


async def converse(case) -> tuple[bytes, bytes]:
    """Send a case's commands and return the reply to the last one and all reports, as bytes."""
    behavior = EmulatedBehavior(sid=case.get("sid", "OCS"))
    async with Emulator((8, 8), timing=FixedTime(0), behavior=behavior) as emulator:
        reader, writer = await asyncio.open_connection("127.0.0.1", emulator.ports["tl1"])
        commands = ["ACT-USER::admin:1::root;"] * case.get("login", True) + case["send"]
        reply = reports = b""
        for command in commands:
            writer.write(command.encode())
            reply = await asyncio.wait_for(reader.readuntil(b";"), 5)
            while b"\r\nA  " in reply:
                reports += reply
                reply = await asyncio.wait_for(reader.readuntil(b";"), 5)
        writer.close()
        await writer.wait_closed()
    return reply, reports


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_emulator_agrees(case):
    reply, reports = asyncio.run(converse(case))
    (message,) = Tl1Parser().feed(reply)
    if "reply" in case:
        assert re.fullmatch(case["reply"].encode(), reply), reply
    if "code" in case:
        assert message.code == case["code"]
    if "rows" in case:
        assert (message.code, list(message.rows)) == ("COMPLD", case["rows"])
    if "row_pattern" in case:
        assert re.fullmatch(case["row_pattern"], message.rows[0])
        assert len(message.rows) == 1
    if "error" in case:
        assert (message.code, message.error_code) == ("DENY", case["error"])
    if "text" in case:
        assert message.code == "DENY"
        assert re.fullmatch(case["text"], message.text)
    if "report" in case:
        assert re.findall(r"Port \d+ \w+", reports.decode()) == [case["report"]] * bool(
            case["report"]
        )
    if "without" in case:
        assert case["without"] not in message.text


def test_every_case_checks_something_and_names_its_source():
    sources = set(TABLE["sources"]) | {"client sources"}
    for case in CASES:
        assert CHECKS & case.keys(), case["name"]
        assert set(case["source"].split(", ")) <= sources, case["name"]
    assert len({case["name"] for case in CASES}) == len(CASES) >= 50
