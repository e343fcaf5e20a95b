"""Lists of flows in the forms of other packet simulators.

A connection matrix of htsim (``.cm``) names ``Nodes`` and ``Connections``, then has lines such as
``0->13 start 0 size 2000000``: picoseconds and bytes. A list of HPCC's ns-3 model begins with the
number of flows, then has lines of source, destination, priority, port, bytes and seconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError, echo
from lightloom.inputs.files import decode

_WHOLE = re.compile(r"[0-9]{1,18}")
_CONNECTION = re.compile(r"([0-9]{1,18})->([0-9]{1,18})((?: \w+ [\d.eE+-]+)*)")
#: what a connection may say: the first are read, the others do not matter here
_READ, _IGNORED = ("start", "size"), ("id", "prio")

#: source, destination, bytes, start in seconds and priority of a line
_Row = tuple[int, int, int, float, int]


def foreign_flows(content: bytes, name: str) -> dict[str, npt.NDArray[Any]] | None:
    """The columns of a list that is in the form of another simulator; ``None`` if it is in none.

    They are named as the attributes of :class:`~lightloom.packets.Flows`.

    Raises
    ------
    InputError
        If a line is not as such a list has it, or says what is not simulated here.
    """
    if content[:1] not in b"#N" and not content[:1].isdigit():
        return None
    text = decode(content, name)
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not lines:
        return None
    first = lines[0][1]
    if first.startswith("Nodes "):
        heads = ("Nodes ", "Connections ")
        body = [(number, line) for number, line in lines if not line.startswith(heads)]
        return _columns(body, name, _connection)
    if first.isdigit():
        return _columns(lines[1:], name, _ns3_flow)
    return None


def foreign_remarks(columns: dict[str, npt.NDArray[Any]], name: str) -> tuple[str, ...]:
    """What of such a list is not simulated: priorities, which share links by weights there."""
    priorities = np.unique(columns["priority"]).tolist()
    if len(priorities) < 2:
        return ()
    named = ", ".join(map(str, priorities[:4])) + (", ..." if len(priorities) > 4 else "")
    return (
        f"{echo(name, quoted=False)}: its priorities ({named}) are not read, as they are no strict"
        " ones; a table of flows has those in the column priority",
    )


def _columns(
    lines: list[tuple[int, str]], name: str, parse: Callable[[str], _Row]
) -> dict[str, npt.NDArray[Any]]:
    rows = []
    for number, line in lines:
        try:
            rows.append(parse(line))
        except InputError as error:
            raise InputError(f"{name}, line {number}: {error}") from None
    source, destination, size, start_s, priority = zip(*rows, strict=True) if rows else ((),) * 5
    return {
        "source": np.array(source, np.int64),
        "destination": np.array(destination, np.int64),
        "size_bytes": np.array(size, np.int64),
        "start_s": np.array(start_s, np.float64),
        "priority": np.array(priority, np.int64),
        "lines": np.array([number for number, _ in lines], np.int64),
    }


def _connection(line: str) -> _Row:
    match = _CONNECTION.fullmatch(" ".join(line.split()))
    words = match[3].split() if match else []
    said = dict(zip(words[::2], words[1::2], strict=True))
    unknown = next((word for word in said if word not in (*_READ, *_IGNORED)), None)
    if unknown is not None or "trigger" in line:
        raise InputError(
            f"{unknown or 'triggers'}: not read; expected start and size, and what waits for what "
            "as the column 'after' of a table of flows"
        )
    if match is None or not set(_READ) <= said.keys() or not _WHOLE.fullmatch(said["size"]):
        raise InputError(f"{echo(line)}: expected such as '0->13 start 0 size 2000000'")
    start_s = _number(said["start"], line) / 1e12
    if not _WHOLE.fullmatch(said.get("prio", "0")):
        raise InputError(f"{echo(line)}: expected prio to be a whole number below 10^18")
    priority = int(said.get("prio", "0"))
    return int(match[1]), int(match[2]), int(said["size"]), start_s, priority


def _ns3_flow(line: str) -> _Row:
    words = line.split()
    if len(words) != 6 or not all(map(_WHOLE.fullmatch, words[:5])):
        raise InputError(
            f"{echo(line)}: expected source, destination, priority, port, bytes and seconds, such "
            "as '0 13 3 100 2000000 2.0'"
        )
    start_s = _number(words[5], line)
    return int(words[0]), int(words[1]), int(words[4]), start_s, int(words[2])


def _number(word: str, line: str) -> float:
    try:
        number = float(word)
        if math.isfinite(number):
            return number
        raise ValueError
    except ValueError:
        raise InputError(f"{echo(line)}: expected a number, not {echo(word)}") from None
