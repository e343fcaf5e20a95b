"""The commands of the documentation print what it shows."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```console\n\$ lightloom (.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def assert_shown(expected: str, output: str) -> None:
    """Every shown line is printed, in order; ``...`` stands for any text, line breaks are free."""
    words, place = " ".join(output.split()), 0
    for part in filter(None, (" ".join(part.split()) for part in expected.split("..."))):
        found = words.find(part, place)
        assert found >= 0, f"not printed after what is before it: {part}"
        place = found + len(part)


@pytest.mark.parametrize(("page", "count"), [("tutorial", 6), ("how-to/simulate-packets", 1)])
def test_a_page_prints_what_it_shows(page, count, tmp_path):
    blocks = BLOCK.findall((DOCS / f"{page}.md").read_text())
    assert len(blocks) == count
    for command, expected in blocks:
        run = subprocess.run(
            [sys.executable, "-m", "lightloom", *shlex.split(command)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        assert run.returncode == 0, run.stderr
        assert_shown(expected, run.stdout)
