"""The process that keeps the namespaces of a testbed: they are there as long as it is.

Arguments: the testbed's mark, its log, ``root`` or ``rootless``, and the names of the namespaces.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from lightloom.testbed.daemon import Facts, Tell, go_on
from lightloom.testbed.namespaces import become_root_of_own, new_network, why_no_namespaces


def main(arguments: list[str]) -> None:
    """Make the namespaces, say which handles they are, and wait for the end."""
    _mark, log, kind, *names = arguments

    def keep(tell: Tell) -> None:
        facts = _made(names, rootless=kind == "rootless")
        tell(facts)
        while "error" not in facts:
            signal.pause()

    go_on(keep, Path(log))


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
