"""Programs as a table, a row per operation, such as ``compare`` records.

An operation is named by the number of its row, from 0 on. One of kind ``send`` sends ``bytes`` from
host ``rank`` to host ``peer``, over the NICs ``nic`` and ``peer_nic`` of these (0, their first,
unless it says another), with ``priority``. One of kind ``compute`` takes ``span_us``, and needs
nothing that it would have to wait for. It begins once the operations in ``after`` are over, of
whatever rank: a send when its receiver has everything. GOAL (:mod:`.goal`) knows waits within a
rank alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError, echo
from lightloom.inputs.text_table import Columns, TextTable, heads_of, parse_table
from lightloom.packets.flows import MAX_FLOWS, Flows
from lightloom.packets.programs import MAX_OPERATIONS, MAX_SPAN_S, Programs

Whole = npt.NDArray[np.int64]

COLUMNS = Columns(
    "operations",
    needed=("rank", "kind"),
    optional=("peer", "bytes", "nic", "peer_nic", "priority", "span_us", "after"),
)
#: what an operation may do
KINDS = ("send", "compute")
#: the last NIC that a host may have
MAX_NIC = 2**16 - 1


def is_operations(content: bytes) -> bool:
    """Whether a file of programs begins as this table does."""
    return {"rank", "kind"} <= set(heads_of(content[:4096]))


def parse_operations(content: bytes, name: str) -> Flows:
    """Parse a table of operations; ``name`` and the line begin messages.

    Returns
    -------
    Flows
        A flow per send, in the order of their rows, with programs that say when each begins.

    Raises
    ------
    InputError
        If it is no such table, or operations wait for what is not there or for each other.
    """
    table = parse_table(content, name, COLUMNS)
    kinds = table.texts("kind")
    if not 1 <= len(table) <= MAX_OPERATIONS:
        raise InputError(f"{name}: {len(table):,} operations; expected 1 to {MAX_OPERATIONS:,}")
    wrong = next((row for row, kind in enumerate(kinds) if kind not in KINDS), None)
    if wrong is not None:
        raise InputError(
            f"{table.place(wrong)}: kind {echo(kinds[wrong])}: expected send or compute"
        )
    sends = np.flatnonzero([kind == "send" for kind in kinds])
    if not 1 <= len(sends) <= MAX_FLOWS:
        raise InputError(f"{name}: {len(sends):,} sends; expected 1 to {MAX_FLOWS:,}")
    numbers = {
        column: _whole(table, column, least, -1 if column in ("peer", "bytes") else 0)
        for column, least in (("peer", 0), ("bytes", 0), ("nic", 0), ("peer_nic", 0),
                              ("priority", 0))
    }  # fmt: skip
    for column in ("peer", "bytes"):
        _refuse(table, sends[numbers[column][sends] < 0], f"a send has no {column}; add it")
    nics = [numbers[column][sends] for column in ("nic", "peer_nic")]
    _refuse(table, sends[np.max(nics, axis=0) > MAX_NIC], f"expected NICs from 0 to {MAX_NIC:,}")
    programs = _programs(table, kinds, sends)
    programs.check(name)
    return Flows(
        source=programs.rank[sends],
        destination=numbers["peer"][sends],
        size_bytes=numbers["bytes"][sends],
        start_s=np.zeros(len(sends)),
        name=name,
        lines=table.lines[sends],
        programs=programs,
        priority=numbers["priority"][sends],
        nics=(nics[0], nics[1]),
    )


def _whole(table: TextTable, column: str, least: int, default: int) -> Whole:
    """A column of whole numbers, of which cells may be empty."""
    values = table.numbers(column, default)
    is_wrong = (values != np.floor(values)) | ((values < least) & (values != default))
    _refuse(table, np.flatnonzero(is_wrong | (values > 2**53)),
            f"{column}: expected a whole number from {least} to 2^53")  # fmt: skip
    return values.astype(np.int64)


def _refuse(table: TextTable, rows: npt.NDArray[np.intp], text: str) -> None:
    if len(rows):
        raise InputError(f"{table.place(int(rows[0]))}: {text}")


def _programs(table: TextTable, kinds: Sequence[str], sends: npt.NDArray[np.intp]) -> Programs:
    """What waits for what."""
    count = len(table)
    spans_us = table.numbers("span_us", 0.0)
    is_wrong = ~((spans_us >= 0) & (spans_us <= MAX_SPAN_S * 1e6))
    is_wrong[sends] |= spans_us[sends] != 0
    _refuse(table, np.flatnonzero(is_wrong),
            f"span_us: expected 0 to {MAX_SPAN_S * 1e6:g}, and none of a send")  # fmt: skip
    waits, starts = list[int](), [0]
    for row, text in enumerate(table.texts("after") if "after" in table.places else [""] * count):
        for word in text.split():
            number = int(word) if word.isascii() and word.isdigit() and len(word) < 10 else -1
            if not 0 <= number < count:
                raise InputError(
                    f"{table.place(row)}: after {echo(text)}: expected numbers of operations from "
                    f"0 to {count - 1:,}, parted by spaces"
                )
            waits.append(number)
        starts.append(len(waits))
    flow = np.full(count, -1, dtype=np.int64)
    flow[sends] = np.arange(len(sends))
    spans_ps = np.rint(spans_us * 1e6).astype(np.int64)
    #: who computes for no time only joins others, and is not shown
    shown = [
        kind if kind == "send" or span else "" for kind, span in zip(kinds, spans_ps, strict=True)
    ]
    return Programs(
        kind=tuple(shown),
        rank=_whole(table, "rank", 0, 0),
        label=tuple(f"operation {row}" for row in range(count)),
        flow=flow,
        span_ps=spans_ps,
        unit=np.full(count, -1, dtype=np.int64),
        wait_starts=np.array(starts, dtype=np.int64),
        waits=np.array(waits, dtype=np.int64),
        milestones=np.full(len(waits), 1, dtype=np.int64),
    )
