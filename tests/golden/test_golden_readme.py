"""The README shows what its command prints: run it with --update-golden to renew that."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import fill

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
#: the command of ``make demo``, and what it prints
DEMO = re.compile(r"`make demo` runs\n\n```\n(.*?)^```.*?and prints\n\n```\n(.*?)^```", re.M | re.S)
#: a plain installation, if there is one (``make plain``), has to do
PLAIN = ROOT / ".venv/plain/bin/python"


def test_the_readme_shows_what_the_demo_prints(tmp_path, request):
    """With the files of ``make demo``, which are written as well."""
    text = README.read_text()
    found = DEMO.search(text)
    command, shown = found.groups()
    files = "--html report.html --json results.json --timeline timeline.json.gz"
    python = PLAIN if PLAIN.exists() else sys.executable
    run = subprocess.run(
        [python, "-m", *shlex.split(command.replace("\\\n", "")), *files.split()],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "COLUMNS": "80"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert sorted(os.listdir(tmp_path)) == ["report.html", "results.json", "timeline.json.gz"]
    lines = [fill(line.rstrip(), 80, break_on_hyphens=False) for line in run.stdout.splitlines()]
    printed = "\n".join(lines) + "\n"
    if request.config.getoption("--update-golden"):
        README.write_text(text[: found.start(2)] + printed + text[found.end(2) :])
        return
    assert shown == printed
