"""The controller of a testbed's circuits, as a process: ``lightloom control serve``."""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

from lightloom.control.token import token_for
from lightloom.testbed.refusals import TestbedError
from lightloom.testbed.region import TOKENS
from lightloom.testbed.testbed import Testbed

_START_S, _END_S = 60.0, 10.0
#: what it leaves in the folder beside the files of the region
SERVICE_LOG = "control.log"


class ServedRegion(NamedTuple):
    """Where the controller is reached, also from within a server, and by which token."""

    address: str
    token: str


@contextlib.contextmanager
def serving(testbed: Testbed) -> Iterator[ServedRegion]:
    """Serve the circuits of a testbed while the context is open.

    Raises
    ------
    TestbedError
        If the controller does not start.
    """
    command = [sys.executable, "-P", "-m", "lightloom", "control", "serve", str(testbed.region)]
    with (
        (testbed.folder / SERVICE_LOG).open("w") as log,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            if not select.select([process.stdout], (), (), _START_S)[0]:
                raise TestbedError(f"the controller did not start within {_START_S:g} s")
            address = process.stdout.readline().strip()
            if not address:
                lines = (testbed.folder / SERVICE_LOG).read_text().splitlines() or ["no reason"]
                raise TestbedError(f"the controller did not start: {lines[-1]}")
            yield ServedRegion(address, token_for(testbed.folder / TOKENS))
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
