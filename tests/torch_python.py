"""A Python with PyTorch, for the programs that tests trace."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

#: as it is found, as `make torch` installs it, or that of the tests
INSTALLED = Path(__file__).parents[1] / ".venv/torch/bin/python"
PYTHON = os.environ.get(
    "LIGHTLOOM_TORCH_PYTHON", str(INSTALLED) if INSTALLED.exists() else sys.executable
)

#: of tests of the recorder, all of which would take too long for every change
in_soak = pytest.mark.skipif("LIGHTLOOM_SOAK" not in os.environ, reason="takes long: make soak")


@functools.cache
def absent(*packages: str) -> list[str]:
    """Packages that it has not; importing them would take seconds."""
    find = "from importlib.util import find_spec; import sys\n"
    find += "print(*(name for name in sys.argv[1:] if not find_spec(name)))"
    command = [PYTHON, "-c", find, *packages]
    found = subprocess.run(command, capture_output=True, check=True, text=True)
    return found.stdout.split()
