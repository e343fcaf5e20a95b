"""What the CPU asked for when it launched a kernel that communicates, in a profile of PyTorch.

A kernel says it itself (libkineto's ``output_json.cpp``, since 2024), or its ``record_param_comms``
does, joined by ``External id``. Otherwise it is what encloses the launch on its thread:
``record_param_comms``, ``nccl:*`` and operators that are named after an operation, whose sizes are
in ``Input Dims`` if shapes were recorded. The launch of a group of calls, as of
``batch_isend_irecv``, is enclosed by none: its kernel is of those that its thread recorded before,
and for which no other kernel was launched.
"""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lightloom.trace.importers.operations import element_bytes, operation_of, type_name

RECORD = "record_param_comms"
#: what a launch is looked for in, from the innermost
_MAX_DEPTH = 64
#: of one call
_MAX_ELEMENTS = 1 << 50
#: what NCCL sends and receives, one by one
_BY_MESSAGES = {"send", "receive", "all_to_all", "gather", "scatter"}
_PLACES = re.compile(r"nccl:(?:send|recv) \d+(?:->|<-)(\d+)$")


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A call, as far as a profile says what it is.

    Attributes
    ----------
    op
        As of a call; ``None`` if that is not known.
    function
        What was called.
    put_bytes, got_bytes
        What goes in and comes out; ``None`` if not known.
    dtype
        Of the elements; empty if not known.
    place
        Of the other rank of a message in its group, where its rank is not said.
    arguments
        As Kineto names them: of groups, splits and ranks.
    """

    op: str | None = None
    function: str = ""
    put_bytes: int | None = None
    got_bytes: int | None = None
    dtype: str = ""
    place: int | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)


class CpuEvent(NamedTuple):
    """An operator or an annotation of a thread of the CPU."""

    start_us: float
    end_us: float
    name: str
    arguments: Mapping[str, Any]


def is_request(name: str) -> bool:
    """Whether an event of the CPU is one that may ask for communication."""
    if name == RECORD or name.startswith("nccl:"):
        return name != "nccl:coalesced"
    is_named = "::" in name and " " not in name and not name.startswith("aten::")
    return is_named and operation_of(name.rpartition(":")[2]) is not None


def request_of(arguments: Mapping[str, Any]) -> CallRequest:
    """What arguments of Kineto say of a call."""
    said = arguments.get("Collective name")
    function = said if isinstance(said, str) else ""
    dtype = str(arguments.get("dtype", ""))
    size = element_bytes(dtype) or 0
    put, got = (
        number * size if isinstance(number, int) and 0 <= number < _MAX_ELEMENTS else None
        for number in (arguments.get("In msg nelems"), arguments.get("Out msg nelems"))
    )
    return CallRequest(
        operation_of(function), function, put, got, type_name(dtype), arguments=arguments
    )


def tensors_of(arguments: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Bytes and types of the tensors that an operator was given, if shapes were recorded."""
    shapes, types = arguments.get("Input Dims"), arguments.get("Input type")
    tensors = []
    if isinstance(shapes, list) and isinstance(types, list):
        for shape, dtype in zip(shapes, types, strict=False):
            size = element_bytes(str(dtype))
            if size and isinstance(shape, list) and all(isinstance(n, int) for n in shape):
                count = 1
                for length in shape:
                    count *= max(length, 0)
                tensors.append((min(count, _MAX_ELEMENTS) * size, type_name(str(dtype))))
    return tensors


def _sizes(event: CpuEvent) -> tuple[int | None, int | None, str]:
    """Bytes that go in, bytes that come out, and their type, by the tensors of an event."""
    tensors = tensors_of(event.arguments)
    if not tensors:
        return None, None, ""
    if event.name.startswith("c10d::") and event.name.rstrip("_").endswith("base"):
        # these are given where to put the output first
        (got, _), (put, dtype) = tensors[0], tensors[min(1, len(tensors) - 1)]
        return put, got, dtype
    dtype = tensors[0][1]
    if event.name.startswith("nccl:"):
        return sum(size for size, _ in tensors), None, dtype
    return tensors[0][0], None, dtype


class _Thread:
    """Events of a thread, and which of them hold an instant."""

    def __init__(self, events: list[CpuEvent]) -> None:
        self.events = sorted(events, key=lambda event: (event.start_us, -event.end_us))
        self._starts = [event.start_us for event in self.events]
        self._parents: list[int] = []
        opened: list[int] = []
        for place, event in enumerate(self.events):
            while opened and self.events[opened[-1]].end_us < event.start_us:
                opened.pop()
            self._parents.append(opened[-1] if opened else -1)
            opened.append(place)

    def enclosing(self, at: float) -> list[int]:
        """Places of events that hold an instant, the innermost first."""
        places = []
        place = bisect.bisect_right(self._starts, at) - 1
        for _ in range(_MAX_DEPTH):
            if place < 0:
                break
            if at <= self.events[place].end_us:
                places.append(place)
            place = self._parents[place]
        return places


class CallRequests:
    """What threads of the CPU asked for, looked up by the launches of kernels.

    Parameters
    ----------
    events
        Of each thread those that may ask for communication.
    """

    def __init__(self, events: Mapping[str, list[CpuEvent]]) -> None:
        self._threads = {thread: _Thread(calls) for thread, calls in events.items()}
        everything = [call for calls in events.values() for call in calls]
        self._records = any(call.name == RECORD for call in everything)
        #: where records do not say what was called, annotations do
        self._says = (
            RECORD if any("Collective name" in call.arguments for call in everything) else ""
        )
        self._numbers = {
            number: (thread, place)
            for thread, thread_calls in self._threads.items()
            for place, call in enumerate(thread_calls.events)
            if call.name == RECORD and isinstance(number := call.arguments.get("External id"), int)
        }
        self._launched: dict[str, set[int]] = defaultdict(set)
        self._seen: dict[str, int] = defaultdict(int)

    def launched(self, thread: str | None, launch_us: float, number: object) -> CallRequest | None:
        """What a launch was requested by, if something encloses it.

        All launches, with their ``External id``, have to be told before :meth:`left` is called.
        """
        if isinstance(number, int) and number in self._numbers:
            of_record, place = self._numbers[number]
            self._launched[of_record].add(place)
        calls = self._threads.get(thread or "")
        if calls is None:
            return None
        places = calls.enclosing(launch_us)
        chain = [calls.events[place] for place in places]
        if self._records and all(event.name.startswith("nccl:") for event in chain):
            # an annotation may end with the work, long after it was requested
            return None
        self._launched[thread or ""].update(places)
        return _said_by(chain)

    def left(self, thread: str | None, launch_us: float, name: str) -> Iterator[CallRequest]:
        """What was requested before a launch, without a launch of its own."""
        calls = self._threads.get(thread or "")
        if calls is None:
            return
        launched, first = self._launched[thread or ""], self._seen[thread or ""]
        op = operation_of(name)
        for place in range(first, len(calls.events)):
            event = calls.events[place]
            if event.start_us > launch_us:
                return
            self._seen[thread or ""] = place + 1
            if place in launched or not self._is_call(event):
                continue
            request = _said_by([event])
            of_any = request.op in _BY_MESSAGES or "SendRecv" not in name
            if request.op is not None and (request.op == op or (op is None and of_any)):
                yield request

    def _is_call(self, event: CpuEvent) -> bool:
        if self._says:
            return event.name == RECORD and "Collective name" in event.arguments
        return event.name.startswith("nccl:")


def _said_by(chain: list[CpuEvent]) -> CallRequest:
    """What events say that enclose a launch, from the innermost."""
    arguments: dict[str, Any] = {}
    for event in reversed(chain):
        if event.name == RECORD:
            arguments |= event.arguments
    request = request_of(arguments)
    op, function, place = request.op, request.function, None
    for event in chain:
        if op is None and event.name != RECORD:
            function = event.name
            op = operation_of(event.name.rpartition(":")[2])
            if where := _PLACES.match(event.name):
                place = int(where[1])
    put, got, dtype = request.put_bytes, request.got_bytes, request.dtype
    for event in chain:
        if put is None:
            put, got, dtype = _sizes(event)
    return CallRequest(op, function, put, got, dtype, place, arguments)
