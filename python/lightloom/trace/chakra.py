"""Calls of a rank as a Chakra execution trace (MLCommons), schema version 0.0.4.

A file is messages of Protocol Buffers, each after its length: the version, then a node per call
(``et_def.proto`` of mlcommons/chakra). A node waits for all calls, barriers among them, that the
program has waited for before it; those that others of these wait for are not named again. Groups
are named by numbers, which a table of groups explains, as ASTRA-sim reads it. ``comm_size`` is what
the rank puts in. Computation is not recorded, so no node computes. What a call has and Chakra has
no place for (its group's name, data type, splits, phase, layer) are attributes that others pass
over; :mod:`lightloom.trace.importers.chakra` reads them back.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable

from lightloom.errors import InputError
from lightloom.trace.trace import Call

SCHEMA_VERSION = "0.0.4"

#: node types of et_def.proto
_SEND, _RECEIVE, _COLLECTIVE = 5, 6, 7
#: CollectiveCommType of et_def.proto
COLLECTIVES = {
    "all_reduce": 0, "reduce": 1, "all_gather": 2, "gather": 3, "scatter": 4,
    "broadcast": 5, "all_to_all": 6, "reduce_scatter": 7, "barrier": 9,
}  # fmt: skip
#: fields of AttributeProto by the type of the value
_INT32, _INT64, _INT64_LIST, _BOOL, _STRING = 7, 9, 10, 27, 29

_Value = int | str | tuple[int, ...]


class GroupNumbers:
    """Numbers of groups, in the order in which they are met."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}

    def of(self, ranks: tuple[int, ...]) -> str:
        """The number of a group, as text."""
        return str(self._numbers.setdefault(ranks, len(self._numbers) + 1))

    def to_json(self) -> str:
        """Ranks of each group by its number."""
        return json.dumps({str(number): list(ranks) for ranks, number in self._numbers.items()})


def execution_trace(rank: int, calls: Iterable[Call], groups: GroupNumbers) -> bytes:
    """The content of a rank's file.

    Raises
    ------
    InputError
        If a call is of an operation that Chakra does not have.
    """
    parts = [_delimited(_text(1, SCHEMA_VERSION))]
    waiting = _Waits()
    parts += [_delimited(_node(rank, call, waiting.before(call), groups)) for call in calls]
    return b"".join(parts)


class _Waits:
    """What each call of a rank depends on, call by call."""

    def __init__(self) -> None:
        #: calls that will be waited for, by the call before which that is
        self._pending: list[tuple[int, int]] = []
        #: calls that were waited for and that no other one of these waits for
        self._last: dict[int, int] = {}

    def before(self, call: Call) -> list[int]:
        """Calls that have to have ended before one begins; others have before those began."""
        while self._pending and self._pending[0][0] <= call.call_id:
            until, ended = heapq.heappop(self._pending)
            # whatever was waited for before that one began comes before it
            self._last = {other: at for other, at in self._last.items() if at > ended}
            self._last[ended] = until
        if call.waited_before is not None:
            heapq.heappush(self._pending, (call.waited_before, call.call_id))
        return sorted(self._last)


def _node(rank: int, call: Call, waited: list[int], groups: GroupNumbers) -> bytes:
    attributes: list[tuple[str, int, _Value]] = [
        ("is_cpu_op", _BOOL, 0),
        ("pg_name", _STRING, groups.of(call.ranks)),
    ]
    if call.op in ("send", "receive"):
        peer = -1 if call.peer is None else call.peer
        sends = call.op == "send"
        kind = _SEND if sends else _RECEIVE
        attributes += [
            ("comm_src", _INT32, rank if sends else peer),
            ("comm_dst", _INT32, peer if sends else rank),
            ("comm_tag", _INT32, call.tag or 0),
            ("comm_size", _INT64, call.input_bytes if sends else call.output_bytes),
        ]
    elif call.op in COLLECTIVES:
        kind = _COLLECTIVE
        attributes += [
            ("comm_type", _INT64, COLLECTIVES[call.op]),
            ("comm_size", _INT64, call.input_bytes),
        ]
        if call.root is not None:
            attributes.append(("root", _INT32, call.root))
    else:
        raise InputError(f"operation '{call.op}': Chakra has no such collective")
    attributes += _further(call)
    name = " ".join(filter(None, (call.op, call.phase, call.layer)))
    parts = [_number(1, call.call_id), _text(2, name), _number(3, kind)]
    if waited:
        parts.append(_field(5, b"".join(map(_varint, waited))))
    parts += [_field(10, _attribute(*attribute)) for attribute in attributes]
    return b"".join(parts)


def _further(call: Call) -> list[tuple[str, int, _Value]]:
    """What Chakra has no place for, where there is something to say."""
    typed: list[tuple[str, int, _Value | None]] = [
        ("output_size", _INT64, call.output_bytes),
        ("pg_desc", _STRING, call.group),
        ("dtype", _STRING, call.dtype),
        ("reduction", _STRING, call.reduction),
        ("phase", _STRING, call.phase),
        ("layer", _STRING, call.layer),
        ("step", _INT64, call.step),
        ("stream", _INT64, call.stream),
        ("asynchronous", _BOOL, int(call.asynchronous)),
        ("input_splits", _INT64_LIST, call.input_splits),
        ("output_splits", _INT64_LIST, call.output_splits),
        ("routed", _INT64, call.routed),
    ]
    return [(name, kind, value) for name, kind, value in typed if value is not None]


def _attribute(name: str, field: int, value: _Value) -> bytes:
    if isinstance(value, tuple):
        packed = _field(1, b"".join(map(_varint, value)))
        return _text(1, name) + _field(field, packed)
    return _text(1, name) + (
        _text(field, value) if isinstance(value, str) else _number(field, value)
    )


def _varint(value: int) -> bytes:
    """Seven bits a byte, lowest first; negative numbers as of 64 bits."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _delimited(content: bytes) -> bytes:
    return _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _delimited(content)


def _text(field: int, value: str) -> bytes:
    return _field(field, value.encode())
