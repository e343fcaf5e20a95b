"""What is public of the commands of SONiC on circuit switches holds for the emulator."""

import asyncio
import tomllib
from pathlib import Path

import pytest
from tests.control_switches import emulate

asyncssh = pytest.importorskip("asyncssh")

TABLE = tomllib.loads(Path(__file__).with_name("sonic_cli.toml").read_text())
CASES = TABLE["case"]


async def converse(case, tmp_path):
    """Run a case's commands; return the result of the last one and the circuits afterwards."""
    hosts = tmp_path / "known_hosts"
    async with emulate(model="sonic", services={"ssh": 0}) as emulator:
        hosts.write_text(emulator.known_hosts())
        async with asyncssh.connect(
            "127.0.0.1",
            emulator.ports["ssh"],
            username="admin",
            password="root",
            known_hosts=str(hosts),
            client_keys=None,
            agent_path=None,
            config=None,
        ) as connection:
            for command in case["run"]:
                result = await connection.run(command)
        circuits = [f"{a}A-{b - 8}B" for a, b in emulator.matrix.circuits.items()]
    return result, circuits


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_emulator_agrees(case, tmp_path):
    result, circuits = asyncio.run(converse(case, tmp_path))
    assert bool(result.exit_status) == case.get("fails", False)
    if case.get("fails"):
        assert "succeeded" not in result.stdout
    if "circuits" in case:
        assert circuits == case["circuits"]
    if "output" in case:
        lines = [line.rstrip() for line in result.stdout.splitlines()]
        assert case["output"].strip() in "\n".join(lines)


def test_every_case_names_its_source():
    assert {case["source"] for case in CASES} == set(TABLE["sources"])
    assert len({case["name"] for case in CASES}) == len(CASES)
