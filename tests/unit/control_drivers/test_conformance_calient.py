"""What public sources state of TL1 on Calient switches holds for the emulator."""

import asyncio
import re
import tomllib
from pathlib import Path

import pytest
from tests.control_switches import behavior, emulate

from lightloom.control.drivers.tl1 import Tl1Parser

TABLE = tomllib.loads(Path(__file__).with_name("calient_tl1.toml").read_text())
CASES = TABLE["case"]


async def converse(case):
    """Send a case's commands; return the reply to the last one and the circuits afterwards."""
    options = behavior(**case.get("behavior", {}))
    async with emulate(model="calient", behavior=options) as emulator:
        reader, writer = await asyncio.open_connection("127.0.0.1", emulator.ports["tl1"])
        for command in ["ACT-USER::admin:0::root;", *case["send"]]:
            writer.write(command.encode())
            reply = await asyncio.wait_for(reader.readuntil(b"\n;"), 5)
        circuits = [f"{a}-{b}" for a, b in emulator.matrix.circuits.items()]
        writer.close()
        await writer.wait_closed()
    *pages, message = Tl1Parser().feed(reply)
    assert all(page.continues for page in pages)
    rows = [row for page in (*pages, message) for row in page.rows]
    return message, rows, circuits


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_emulator_agrees(case):
    message, rows, circuits = asyncio.run(converse(case))
    assert message.code == case.get("code", "COMPLD")
    if "rows" in case:
        assert rows == case["rows"]
    if "row_pattern" in case:
        (row,) = rows
        assert re.fullmatch(case["row_pattern"], row)
    assert circuits == case.get("circuits", circuits)


def test_every_case_checks_something_and_names_its_source():
    for case in CASES:
        assert {"rows", "row_pattern", "circuits"} & case.keys()
        assert case["source"] in TABLE["sources"]
