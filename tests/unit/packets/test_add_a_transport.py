"""A transport is two files: its own, and the table of all (docs/how-to/add-a-transport.md)."""

import re
from pathlib import Path

import pytest

from lightloom.packets.scenario import TRANSPORTS

ROOT = Path(__file__).parents[3]
TRANSPORT = ROOT / "crates/packetsim/src/transport"
TABLE = TRANSPORT / "mod.rs"
#: ``Hpcc(hpcc::HpccParameters) = "hpcc"``
ENTRY = re.compile(r'(?m)^    (\w+)\((\w+)::(\w+).*\) =\s+"([\w-]+)": ".+",$')


def entries():
    return ENTRY.findall(TABLE.read_text())


def code():
    """Files that are neither tests nor about how fast or right the simulator is."""
    sources = [*(ROOT / "crates").glob("*/src/**/*.rs"), *(ROOT / "python").rglob("*.py")]
    tested = {path for path in sources if "tests" in path.parts or path.name == "tests.rs"}
    return [path for path in sources if path not in tested and path != TABLE]


def test_the_table_is_what_python_lists():
    assert [name for *_, name in entries()] == list(TRANSPORTS)


@pytest.mark.parametrize(("kind", "module", "parameters", "name"), entries())
def test_a_transport_is_named_in_its_own_file_and_in_the_table_alone(
    kind, module, parameters, name
):
    own = [TRANSPORT / f"{module}.rs", *(TRANSPORT / module).glob("*.rs")]
    words = rf'\b{parameters}\b|Transport(?:Kind|Name)::{kind}\b|transport\b.* (?:==|in) .*"{name}"'
    found = [path for path in code() if path not in own and re.search(words, path.read_text())]
    assert not found
