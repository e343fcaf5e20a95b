"""A circuit policy is two files: its own, and the table of all (docs/how-to)."""

import re
from pathlib import Path

import pytest

from lightloom.schedule import WHEN_POLICIES

ROOT = Path(__file__).parents[3]
POLICIES = ROOT / "crates/decide/src/policy"
TABLE = POLICIES / "table.rs"
#: ``Never(never::Never) =``, its name and its description
ENTRY = re.compile(r'(?m)^ +(\w+)\((\w+)::(\w+)\) =\s+"([\w-]+)":\s+"(.+)",$')


def entries():
    return ENTRY.findall(TABLE.read_text())


def code():
    """Files of the core that are not tests."""
    sources = (ROOT / "crates").glob("*/src/**/*.rs")
    return [path for path in sources if not {"tests", "tests.rs", "testing.rs"} & {*path.parts}]


def test_the_table_is_what_python_lists():
    assert {name: text for *_, name, text in entries()} == dict(WHEN_POLICIES)


@pytest.mark.parametrize(("choice", "module", "kind"), [entry[:3] for entry in entries()])
def test_a_policy_is_named_in_its_own_file_and_in_the_table_alone(choice, module, kind):
    words = rf"\bReconfigure::{choice}\b|\b{module}::{kind}\b"
    named = {path for path in code() if re.search(words, path.read_text())}
    assert named <= {POLICIES / f"{module}.rs", TABLE, POLICIES / "oracle.rs"}


def test_a_policy_need_not_say_more_than_how_far_it_looks():
    written = (POLICIES / "always.rs").read_text()
    assert re.findall(r"\bfn (\w+)", written) == ["ahead"]
