"""The project says nothing of where it was built, and what each experiment is for."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def tracked() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.split("\0") if name]


def test_no_machine_paths_and_no_download_hosts():
    """A lock file that names the mirror of the machine on which it was made."""
    # the pattern is assembled so that this file does not match itself
    forbidden = re.compile("|".join(["/" + "work/", "/" + "root/", "artifact" + "ory"]))
    texts = [p for p in tracked() if p.suffix in {".py", ".rs", ".md", ".toml", ".lock", ".yml"}]
    found = [
        str(p.relative_to(ROOT)) for p in texts if p.exists() and forbidden.search(p.read_text())
    ]
    assert not found


def test_experiments_say_what_they_are():
    """A folder of tables of which nobody knows what they were to show."""
    folders = [p for p in (ROOT / "experiments").iterdir() if p.is_dir()]
    folders = [p for p in folders if p.name != "__pycache__"]
    assert folders
    missing = [p.name for p in folders if not (p / "README.md").exists()]
    assert not missing
