"""Shared by all tests: golden files and the reference inputs next to the project."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# A slow moment of the machine is no failure, and what passes once passes again: `make soak` draws
# other cases.
settings.register_profile("patient", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None)
settings.load_profile("soak" if "LIGHTLOOM_SOAK" in os.environ else "patient")

ROOT = Path(__file__).parents[1]

# A shell without job control lets what it starts in the background ignore Ctrl-C, and programs that
# tests start and interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start hundreds of interpreters, each of which would compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files instead of comparing"
    )
    parser.addoption("--switch", help="URL of a real switch for test_any_switch.py; reads only")
    parser.addoption(
        "--switch-circuits",
        default="",
        help="two circuits such as '1-49 2-50' that tests may make and break on that switch",
    )


def pytest_make_parametrize_id(val):
    """Name bytes by their length: packed ones hold the time, and workers would find other tests."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None


@pytest.fixture
def golden(request):
    """Compare text with tests/golden/NAME, or write it under --update-golden."""

    def check(name: str, text: str) -> None:
        path = ROOT / "tests" / "golden" / name
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert text == path.read_text(), f"{name} changed; if so meant: make golden"

    return check
