"""A testbed in the kernel, where it has what that takes; else the reason why it has not."""

import functools
import subprocess

import pytest

from lightloom.errors import LightloomError
from lightloom.testbed import Testbed
from lightloom.testbed.probe import check_kernel

#: small, slow and quick to move, so that tests ask little of a machine
SIZES = {"servers": 3, "nics": 3, "rate_gbps": 0.1, "settle_time": "20ms"}


@functools.cache
def lacking(rootless=None):
    """Return what this machine lacks for a testbed; nothing if it lacks nothing."""
    try:
        check_kernel(rootless=rootless)
    except LightloomError as error:
        return str(error)
    return ""


@pytest.fixture(scope="session")
def kernel():
    """Skip where the kernel, or the rights of who runs this, do not suffice."""
    if reason := lacking():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def testbed(kernel, tmp_path_factory):  # noqa: ARG001 - skips
    """One testbed for the tests of a file, which leave its circuits and parts as they like."""
    folder = tmp_path_factory.mktemp("testbed") / "up"
    with Testbed.up(folder, **SIZES) as made:
        yield made


@pytest.fixture
def whole(testbed):
    """The testbed with every part working, and no circuit."""
    from lightloom.testbed.self_test import SwitchSession

    for part in testbed.failed():
        testbed.repair(part)
    with SwitchSession(testbed) as switch:
        switch.clear()
    return testbed


def output(testbed, server, *words):
    """Run a command in a server and return what it prints."""
    command = testbed.command(server, words)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    return done.stdout
