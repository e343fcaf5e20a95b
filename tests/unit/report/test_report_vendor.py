"""Vendored files are as published, and can stand inside a page."""

import hashlib
import tomllib
from pathlib import Path

import pytest

import lightloom.report

VENDOR = Path(lightloom.report.__file__).parent / "vendor"


@pytest.mark.parametrize("folder", sorted(VENDOR.iterdir()), ids=lambda path: path.name)
def test_files_are_as_published(folder):
    about = tomllib.loads((folder / "vendored.toml").read_text(encoding="utf-8"))
    assert about["name"] == folder.name
    assert about["version"]
    assert about["license"]
    files = {path.name for path in folder.iterdir()} - {"vendored.toml"}
    assert files == about["sha256"].keys()
    assert {"LICENSE", "NOTICE"} <= files
    for name, expected in about["sha256"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == expected


def test_scripts_do_not_end_the_element_that_they_stand_in():
    for script in VENDOR.rglob("*.js"):
        assert "</script" not in script.read_text(encoding="utf-8").lower()
