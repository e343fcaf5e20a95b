"""What tests of the controller's commands have in common."""

import pytest

from lightloom.cli import run_command


@pytest.fixture
def control(capfd):
    """Run a command below ``control``: its status, and what it prints on both streams."""

    def run(*words):
        status = run_command(["control", *map(str, words)])
        out, err = capfd.readouterr()
        return status, out, err

    return run
