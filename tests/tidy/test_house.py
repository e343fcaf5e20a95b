"""The house has its rooms and its papers, and says nothing of where it was built."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "name",
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "Makefile"],
)
def test_papers_are_there(name):
    assert (ROOT / name).stat().st_size > 200


def tracked() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.split("\0") if name]


def test_no_machine_paths_and_no_download_hosts():
    # the pattern is assembled so that this file does not match itself
    forbidden = re.compile("|".join(["/" + "work/", "/" + "root/", "artifact" + "ory"]))
    texts = [p for p in tracked() if p.suffix in {".py", ".rs", ".md", ".toml", ".lock", ".yml"}]
    found = [
        str(p.relative_to(ROOT)) for p in texts if p.exists() and forbidden.search(p.read_text())
    ]
    assert not found


def test_experiments_say_what_they_are():
    folders = [p for p in (ROOT / "experiments").iterdir() if p.is_dir()]
    folders = [p for p in folders if p.name != "__pycache__"]
    assert folders
    missing = [p.name for p in folders if not (p / "README.md").exists()]
    assert not missing
