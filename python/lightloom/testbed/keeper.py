"""The process that keeps the namespaces of a testbed: they are there as long as it is.

It ends where nobody could find it any more, since the record of the testbed is gone. That of a
probe has no record, and ends after a minute if nobody kills it before. Arguments: the testbed's
mark, its log beside the record, ``root`` or ``rootless``, and names of the namespaces.
"""

from __future__ import annotations

import math
import os
import sys
import time
from pathlib import Path

from lightloom.testbed.daemon import RECORD, Facts, Tell, go_on
from lightloom.testbed.namespaces import become_root_of_own, new_network, why_no_namespaces

_LOOK_S = 2.0
#: time that a probe of the kernel may take
_PROBE_S = 60.0


def main(arguments: list[str]) -> None:
    """Make the namespaces, say which handles they are, and wait for the end."""
    _mark, log, kind, *names = arguments

    def keep(tell: Tell) -> None:
        facts = _made(names, rootless=kind == "rootless")
        tell(facts)
        if "error" not in facts:
            wait_until_gone(Path(log).with_name(RECORD), _PROBE_S)

    go_on(keep, Path(log))


def wait_until_gone(record: Path, probe_s: float) -> None:
    """Wait until a record is removed, or for some time if there is none."""
    deadline = math.inf if record.exists() else time.monotonic() + probe_s
    while time.monotonic() < deadline and (record.exists() or deadline < math.inf):
        time.sleep(min(_LOOK_S, probe_s))


def _made(names: list[str], *, rootless: bool) -> Facts:
    try:
        if rootless:
            become_root_of_own()
        handles = {name: new_network() for name in names}
    except OSError as error:
        return {"error": str(why_no_namespaces(error, rootless=rootless))}
    numbers = [os.fstat(handle).st_ino for handle in handles.values()]
    return {"handles": handles, "numbers": numbers}


if __name__ == "__main__":
    main(sys.argv[1:])
