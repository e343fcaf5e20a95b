"""Events of PyTorch's profiler (Kineto), from the JSON that it exports for chrome://tracing.

Read are complete events (``"ph": "X"``, microseconds): what a GPU did (``kernel``, ``gpu_memcpy``,
``gpu_memset``), who launched it (``cuda_runtime`` and the like, joined by ``correlation``), what
the CPU says of collectives (:mod:`.kineto_requests`), and annotations: ``ProfilerStep#N``,
``Optimizer.step``, autograd. ``cuda_sync`` has waits of streams for others, if it was recorded.
``distributedInfo`` has the rank, the world size and process groups.
"""

from __future__ import annotations

import bisect
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lightloom.errors import InputError, echo
from lightloom.trace.importers.kineto_requests import (
    RECORD,
    CallRequest,
    CallRequests,
    CpuEvent,
    is_request,
    request_of,
)
from lightloom.trace.importers.libraries import CommunicationKernel, communication_kernel

#: events of a file, and streams of a GPU
MAX_EVENTS, MAX_STREAMS = 20_000_000, 256
#: a larger number is no rank
MAX_RANKS = 1 << 20

_ON_GPU = {"kernel", "gpu_memcpy", "gpu_memset"}
_LAUNCHES = {
    "cuda_runtime",
    "cuda_driver",
    "hip_runtime",
    "runtime",
    "xpu_runtime",
    "privateuse1_runtime",
}
_STEP = re.compile(r"ProfilerStep\s*#(\d{1,9})")
_LIST = re.compile(r"\[\s*(?:\d{1,9}\s*(?:,\s*\d{1,9}\s*)*)?\]")


@dataclass(slots=True)
class GpuWork:
    """A kernel, a copy or a filling of memory, as a GPU executed it.

    Attributes
    ----------
    start_us, end_us
        Of the profiler's clock.
    launch_us
        When the CPU launched it: before everything, where launches were recorded and this one was
        not; its start where none were.
    thread
        That launched it; ``None`` if not known.
    stream, name, copies
        On which stream, what, and whether it is no kernel.
    kernel
        What it does if it communicates.
    arguments
        Of the event if it communicates, with those of the ``record_param_comms`` of its number.
    requests
        What it was launched for if it communicates: one call, or several at once.
    """

    start_us: float
    end_us: float
    launch_us: float
    thread: str | None
    stream: int
    name: str
    copies: bool
    kernel: CommunicationKernel | None
    arguments: Mapping[str, Any]
    requests: tuple[CallRequest, ...] = ()

    @property
    def communicates(self) -> bool:
        """Whether it is a kernel of a collective or a message."""
        return self.kernel is not None


class StreamEvent(NamedTuple):
    """A stream was let wait for what another had been given by a time; times are the CPU's."""

    launch_us: float
    stream: int
    other: int
    until_us: float


@dataclass
class Intervals:
    """Spans of time of the CPU, of which it is looked up whether they hold an instant."""

    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, spans: list[tuple[float, float]]) -> Intervals:
        """Spans in any order, joined where they overlap."""
        intervals = cls()
        for start, end in sorted(spans):
            if intervals.ends and start <= intervals.ends[-1]:
                intervals.ends[-1] = max(intervals.ends[-1], end)
            else:
                intervals.starts.append(start)
                intervals.ends.append(end)
        return intervals

    def hold(self, at: float) -> bool:
        """Whether one of them holds an instant."""
        place = bisect.bisect_right(self.starts, at) - 1
        return place >= 0 and at < self.ends[place]


@dataclass
class Events:
    """What a file of a rank holds.

    Attributes
    ----------
    name
        Of the file.
    rank, world_size
        As ``distributedInfo`` says; ``None`` where it does not.
    groups
        Ranks of process groups by name, as it lists them.
    work
        What the GPU did, in the order in which it was launched.
    waits
        Of streams for others, in order; empty where that was not recorded.
    collectives
        Of a program without GPU: what ``c10d`` was called for, by start, end, name and arguments.
    steps
        Number, start and end of each ``ProfilerStep``, in order.
    optimizer, backward
        Instants of the CPU that belong to these phases; of backward by thread.
    """

    name: str
    rank: int | None
    world_size: int | None
    groups: dict[str, tuple[int, ...]]
    work: list[GpuWork]
    waits: list[StreamEvent]
    collectives: list[tuple[float, float, str, Mapping[str, Any]]]
    steps: list[tuple[int, float, float]]
    optimizer: Intervals
    backward: dict[str, Intervals]

    def step_of(self, at: float) -> int | None:
        """The step that an instant of the CPU belongs to; all do where none were marked."""
        if not self.steps:
            return 0
        place = bisect.bisect_right(self.steps, at, key=lambda step: step[1]) - 1
        return self.steps[place][0] if place >= 0 and at < self.steps[place][2] else None

    def phase_of(self, at: float, thread: str | None) -> str:
        """The phase that an instant of a thread belongs to."""
        if self.optimizer.hold(at):
            return "optimizer"
        backward = self.backward.get(thread or "")
        return "backward" if backward is not None and backward.hold(at) else "forward"


def events_of(data: object, name: str) -> Events:
    """Sort the events of a file.

    Parameters
    ----------
    data
        Its JSON: a table with ``traceEvents``, or the list of them.
    name
        Of the file, for messages.

    Raises
    ------
    InputError
        If they are not such events.
    """
    info: Any = {}
    events = data
    if isinstance(data, Mapping):
        events, info = data.get("traceEvents"), data.get("distributedInfo", {})
    if not isinstance(events, list):
        raise InputError(f"{name}: expected a list of traceEvents")
    if len(events) > MAX_EVENTS:
        raise InputError(f"{name}: has {len(events):,} events; the limit is {MAX_EVENTS:,}")
    sorted_events = _Sorter(name)
    for event in events:
        if isinstance(event, Mapping) and event.get("ph") == "X":
            sorted_events.add(event)
    return sorted_events.finish(info if isinstance(info, Mapping) else {})


class _Sorter:
    """Sorts events by what they are."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._gpu: list[tuple[float, float, Mapping[str, Any], Mapping[str, Any]]] = []
        self._launches: dict[int, tuple[float, str | None]] = {}
        self._waits: list[tuple[float, Mapping[str, Any]]] = []
        self._comms: dict[int, Mapping[str, Any]] = {}
        self._cpu: dict[str, list[CpuEvent]] = defaultdict(list)
        self._c10d: list[tuple[float, float, str, Mapping[str, Any]]] = []
        self._steps: list[tuple[int, float, float]] = []
        self._optimizer: list[tuple[float, float]] = []
        self._backward: dict[str, list[tuple[float, float]]] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        category = str(event.get("cat", "")).lower()
        name = event.get("name")
        arguments = event.get("args", {})
        if not isinstance(name, str) or not isinstance(arguments, Mapping):
            raise InputError(f"{self._name}: an event has no name, or args that are no table")
        if category in _ON_GPU:
            start, end = self._times(event)
            self._gpu.append((start, end, event, arguments))
        elif category in _LAUNCHES:
            number = arguments.get("correlation")
            if isinstance(number, int):
                start, _ = self._times(event)
                self._launches.setdefault(number, (start, str(event.get("tid"))))
        elif category == "cuda_sync" and name == "Stream Wait Event":
            self._waits.append((self._times(event)[0], arguments))
        elif category in ("cpu_op", "user_annotation"):
            self._add_of_cpu(event, name, arguments)

    def _add_of_cpu(
        self, event: Mapping[str, Any], name: str, arguments: Mapping[str, Any]
    ) -> None:
        if is_request(name):
            of_cpu = CpuEvent(*self._times(event), name, arguments)
            self._cpu[str(event.get("tid"))].append(of_cpu)
        if name == RECORD:
            number = arguments.get("External id")
            if isinstance(number, int):
                self._comms[number] = arguments
        elif name.startswith("gloo:"):
            self._c10d.append((*self._times(event), name, arguments))
        elif marked := _STEP.match(name):
            self._steps.append((int(marked[1]), *self._times(event)))
        elif "Optimizer.step" in name or name.startswith("Optimizer."):
            self._optimizer.append(self._times(event))
        elif name.startswith("autograd::engine::evaluate_function"):
            self._backward.setdefault(str(event.get("tid")), []).append(self._times(event))

    def _times(self, event: Mapping[str, Any]) -> tuple[float, float]:
        start, duration = _micros(event.get("ts"), 1e18), _micros(event.get("dur", 0), 1e12)
        if start is None or duration is None or duration < 0:
            raise InputError(
                f"{self._name}: event {echo(event.get('name'))} has ts {echo(event.get('ts'))} and "
                f"dur {echo(event.get('dur'))}: expected microseconds"
            )
        return start, start + duration

    def finish(self, info: Mapping[str, Any]) -> Events:
        work = [self._work(*row) for row in self._gpu]
        if len({op.stream for op in work}) > MAX_STREAMS:
            raise InputError(f"{self._name}: the GPU has more than {MAX_STREAMS} streams")
        work.sort(key=lambda op: (op.launch_us, op.start_us))
        self._find_requests([op for op in work if op.communicates])
        backward = {thread: Intervals.of(intervals) for thread, intervals in self._backward.items()}
        rank = _rank(info.get("rank"))
        size = _rank(info.get("world_size"))
        collectives = sorted(self._c10d, key=lambda event: event[0])
        return Events(
            self._name, rank, size, _groups(info), work, self._stream_events(), collectives,
            sorted(self._steps, key=lambda step: step[1]), Intervals.of(self._optimizer), backward,
        )  # fmt: skip

    def _find_requests(self, work: list[GpuWork]) -> None:
        """Find out what kernels were launched for that do not say it themselves."""
        requests = CallRequests(self._cpu)
        unknown = []
        for op in work:
            stated = request_of(op.arguments)
            launcher = requests.launched(op.thread, op.launch_us, op.arguments.get("External id"))
            if stated.op is not None and stated.put_bytes is not None:
                op.requests = (stated,)
            elif launcher is not None and (launcher.op or launcher.put_bytes):
                op.requests = (launcher,)
            else:
                op.requests = (stated,)
                unknown.append(op)
        for op in unknown:
            assert op.kernel is not None
            if op.kernel.carries:
                left = tuple(requests.left(op.thread, op.launch_us, op.name))
                op.requests = left or op.requests

    def _stream_events(self) -> list[StreamEvent]:
        """Waits of which it is known when the event was recorded that they wait for."""
        events = []
        for start, arguments in self._waits:
            stream, other = arguments.get("stream"), arguments.get("wait_on_stream")
            recorded = arguments.get("wait_on_cuda_event_record_corr_id")
            number = arguments.get("correlation")
            if not all(isinstance(value, int) for value in (stream, other, recorded, number)):
                continue
            if recorded in self._launches:
                launch, _ = self._launches.get(number, (start, None))  # type: ignore[arg-type]
                until, _ = self._launches[recorded]
                events.append(StreamEvent(launch, stream, other, until))  # type: ignore[arg-type]
        return sorted(events)

    def _work(
        self, start: float, end: float, event: Mapping[str, Any], arguments: Mapping[str, Any]
    ) -> GpuWork:
        stream = arguments.get("stream", event.get("tid"))
        if not isinstance(stream, int) or stream < 0:
            raise InputError(
                f"{self._name}: event {echo(event.get('name'))} has stream {echo(stream)}: "
                "expected a number"
            )
        number = arguments.get("correlation")
        unknown = (-math.inf if self._launches else start, None)
        launch, thread = unknown
        if isinstance(number, int):
            launch, thread = self._launches.get(number, unknown)
        name = str(event.get("name"))
        copies = str(event.get("cat")).lower() != "kernel"
        kernel = None if copies else communication_kernel(name)
        if kernel is None and not copies and "Collective name" in arguments:
            kernel = CommunicationKernel("c10d", "", None)
        if kernel is not None:
            external = arguments.get("External id")
            comm = self._comms.get(external, {}) if isinstance(external, int) else {}
            arguments = {**comm, **arguments}
        else:
            arguments = {}
        return GpuWork(start, end, launch, thread, stream, name, copies, kernel, arguments)


def _micros(value: object, limit: float) -> float | None:
    """A time, if it is one; whole numbers may be of any size."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -limit <= value <= limit else None


def _rank(value: object) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_RANKS
    return value if good else None  # type: ignore[return-value]


def _groups(info: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    listed = info.get("pg_config", [])
    groups = {}
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, Mapping) and isinstance(entry.get("ranks"), list):
            ranks = entry["ranks"]
            if ranks and all(_rank(rank) is not None for rank in ranks):
                groups[str(entry.get("pg_name"))] = tuple(ranks)
    return groups


def numbers_of(value: object) -> tuple[int, ...] | None:
    """A list as Kineto writes it, as text; ``None`` where it is absent or cut short.

    Kineto cuts lists of more than 30 numbers, and then ends them with ``...``.
    """
    if isinstance(value, str) and _LIST.fullmatch(value.strip()):
        return tuple(int(digits) for digits in re.findall(r"\d+", value))
    if isinstance(value, list) and all(_rank(item) is not None for item in value):
        return tuple(value)
    return None
