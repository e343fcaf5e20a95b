"""What PyTorch's profiler (Kineto) recorded of real steps, as a trace: one file per rank.

Kernels that communicate (:mod:`.libraries`) become calls on the streams that executed them, with
their durations; other kernels become computes. Streams work in order. Which stream waited for which
is known where ``enable_cuda_sync_events`` was set; otherwise it is concluded from what was
observed:

- what is not on the main stream (the one that computes longest) waits for what the main stream had
  been given before and had finished by then; PyTorch lets each collective wait for the stream that
  calls it;
- the main stream waits for another where it stood still, with a kernel launched already, until work
  of the other ended, and went on within :data:`NEAR_US`. A collective that was hidden entirely is
  therefore waited for by nobody.

The time in which the main stream stood still for other reasons, as for its CPU, counts as
computation.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

from lightloom.errors import InputError
from lightloom.inputs.files import read_compressed, shown_path
from lightloom.inputs.formats import parse_json
from lightloom.progress import Progress
from lightloom.trace.check import MESSAGES
from lightloom.trace.computes import StreamPlace
from lightloom.trace.importers.imported import Imported, advance, json_files
from lightloom.trace.importers.kineto_calls import CallMaker, Remarks
from lightloom.trace.importers.kineto_events import Events, GpuWork, StreamEvent, events_of
from lightloom.trace.importers.kineto_requests import tensors_of
from lightloom.trace.importers.operations import operation_of
from lightloom.trace.importers.program import EMPTY_CALL, RankProgram, Span, message_bytes
from lightloom.trace.trace import Call, ProcessGroup, RankTrace, make_trace

#: of a file, unpacked
MAX_FILE_BYTES = 2 << 30
#: a stream that goes on so soon after another has ended, has waited for it
NEAR_US = 20.0
#: clocks of a GPU's streams differ by so much
_SAME_US = 0.5
_RANK = re.compile(r"rank[-_.]?(\d{1,7})", re.IGNORECASE)


def read_kineto(path: Path, progress: Progress | None = None) -> Imported:
    """Read traces that ``torch.profiler`` exported.

    Parameters
    ----------
    path
        A file, or a folder with a file ``*.json`` or ``*.json.gz`` per rank.
    progress
        Is given the share that is done, and what is being done.

    Raises
    ------
    InputError
        If a file is no such trace, ranks are there twice, or of different jobs.
    """
    files = json_files(path)
    recordings: dict[int, tuple[RankTrace, tuple[Span, ...]]] = {}
    job = _Job()
    for done, file in enumerate(files):
        advance(progress, done / len(files), f"reading {file.name}")
        content = read_compressed(file, "trace", MAX_FILE_BYTES)
        events = events_of(parse_json(content, shown_path(file)), shown_path(file))
        del content
        rank = job.take(events, alone=len(files) == 1)
        recordings[rank] = _Maker(job, events, rank).make()
    return _imported(path, job, recordings)


def _imported(
    path: Path, job: _Job, recordings: dict[int, tuple[RankTrace, tuple[Span, ...]]]
) -> Imported:
    if not any(spans for _, spans in recordings.values()):
        raise InputError(
            f"{shown_path(path)}: neither kernels nor collectives: expected a profile of a step, "
            "with ProfilerActivity.CUDA"
        )
    last = max([*recordings, *(max(ranks) for _, ranks in job.groups)])
    size = last + 1 if job.world_size is None else job.world_size
    if last >= size:
        raise InputError(f"{shown_path(path)}: a group has rank {last}, of a job of {size} ranks")
    recorded = [recorded for _, (recorded, _) in sorted(recordings.items())]
    groups = [ProcessGroup(*group) for group in job.groups]
    trace = make_trace(size, ("PyTorch profiler",), recorded, groups)
    remarks = job.remarks.lines()
    if len(recordings) < size:
        remarks.append(f"{len(recordings):,} of {size:,} ranks have files")
    spans = {rank: spans for rank, (_, spans) in sorted(recordings.items())}
    return Imported("PyTorch profiler (Kineto)", trace, spans, tuple(remarks))


@dataclass
class _Job:
    """What files of a job have in common, and what was missing in them."""

    world_size: int | None = None
    files: dict[int, str] = field(default_factory=dict)
    groups: dict[tuple[str, tuple[int, ...]], None] = field(default_factory=dict)
    remarks: Remarks = field(default_factory=Remarks)

    def take(self, events: Events, *, alone: bool) -> int:
        """Note a file; returns its rank."""
        rank = events.rank
        if rank is None:
            named = _RANK.search(Path(events.name).name)
            rank = int(named[1]) if named else 0 if alone else None
        if rank is None:
            raise InputError(
                f"{events.name}: does not say of which rank it is: expected distributedInfo, or a "
                "name such as rank3.json"
            )
        if rank in self.files:
            raise InputError(f"{events.name}: is of rank {rank}, as is {self.files[rank]}")
        size = events.world_size
        if size is not None and self.world_size not in (None, size):
            raise InputError(
                f"{events.name}: is of a job of {size} ranks, others are of {self.world_size}"
            )
        self.world_size = size if size is not None else self.world_size
        if self.world_size is not None and rank >= self.world_size:
            raise InputError(f"{events.name}: rank {rank} of a job of {self.world_size}")
        self.files[rank] = events.name
        return rank


class _Maker:
    """Makes the recording of a rank from the events of its file."""

    def __init__(self, job: _Job, events: Events, rank: int) -> None:
        self._job = job
        self._events = events
        self._rank = rank
        self._program = RankProgram(rank)
        self._calls = CallMaker(rank, events.world_size, events.groups, job.groups, job.remarks)
        self._spans: list[Span] = []
        #: of each stream the ends of its work in order, and the places after it
        self._ends: dict[int, list[float]] = defaultdict(list)
        self._places: dict[int, list[StreamPlace]] = defaultdict(list)
        self._launched: dict[int, list[float]] = defaultdict(list)
        self._waited: dict[tuple[int, int], StreamPlace] = {}
        #: when others let a stream go on, that has waited for them
        self._released: dict[int, float] = {}
        self._origin = 0.0

    def make(self) -> tuple[RankTrace, tuple[Span, ...]]:
        """The recording, and what streams did when."""
        events = self._events
        work = [(op, events.step_of(op.launch_us)) for op in events.work]
        inside = [(op, step) for op, step in work if step is not None]
        if len(inside) < len(work):
            remark = "kernels outside of steps are left out"
            self._job.remarks.counts[remark] += len(work) - len(inside)
        if inside:
            self._origin = min(op.start_us for op, _ in inside)
            main = _main_stream([op for op, _ in inside])
            waits = iter([*events.waits, None])
            wait = next(waits)
            for op, step in inside:
                while wait is not None and wait.launch_us <= op.launch_us:
                    self._await(wait)
                    wait = next(waits)
                if not events.waits:
                    self._conclude(op, main)
                self._issue(op, step, main)
        else:
            self._add_collectives_of_cpu()
        self._spans.sort(key=lambda span: (span.start_s, span.stream))
        return self._program.recording(max(1, len(events.steps))), tuple(self._spans)

    def _issue(self, work: GpuWork, step: int, main: int) -> None:
        stream, program = work.stream, self._program
        phase = self._events.phase_of(work.launch_us, work.thread)
        calls = self._calls.calls(work, step, phase)
        released = self._released.pop(stream, 0.0)
        if not calls:
            since = work.start_us
            # the main stream stands still for its CPU, unless it has waited for another
            if stream == main and self._ends[stream]:
                since = min(since, max(self._ends[stream][-1], released))
            program.compute_on(stream, step, max(work.end_us - since, 0.0) * 1e-6, phase)
        indices = [program.call(call) for call in calls]
        self._ends[stream].append(max([work.end_us, *self._ends[stream][-1:]]))
        self._launched[stream].append(work.launch_us)
        self._places[stream].append(program.place(stream))
        self._show(work, step, calls, indices)

    def _show(self, work: GpuWork, step: int, calls: list[Call], indices: list[int]) -> None:
        """Note what the stream did: one span, or one for each of the kernel's calls."""
        kind = "communication" if work.communicates else "copy" if work.copies else "compute"
        start_s = (work.start_us - self._origin) * 1e-6
        if not calls:
            duration_s = (work.end_us - work.start_us) * 1e-6
            self._spans.append(Span(start_s, duration_s, work.stream, step, work.name, kind))
        begun: Counter[str] = Counter()
        for call, index in zip(calls, indices, strict=True):
            duration_s = call.duration_s or 0.0
            at_s = start_s + begun[call.op] * duration_s
            begun[call.op] += 1
            self._spans.append(Span(at_s, duration_s, work.stream, step, work.name, kind, index))

    def _await(self, event: StreamEvent) -> None:
        """Let a stream wait as it was told to."""
        self._wait(
            event.stream, event.other, bisect.bisect_left(
                self._launched[event.other], event.until_us
            )
        )  # fmt: skip

    def _conclude(self, work: GpuWork, main: int) -> None:
        """Let the stream of some work wait for what it seems to have waited for."""
        at_us = work.start_us + _SAME_US
        if work.stream != main:
            self._wait(work.stream, main, bisect.bisect_right(self._ends[main], at_us))
            return
        stood_since = self._ends[main][-1] if self._ends[main] else work.start_us
        for other, ends in self._ends.items():
            done = bisect.bisect_right(ends, at_us)
            if other == main or not done:
                continue
            end = ends[done - 1]
            if stood_since < end and work.launch_us < end and work.start_us - end <= NEAR_US:
                self._wait(main, other, done)

    def _wait(self, stream: int, other: int, number: int) -> None:
        """Let a stream wait for so much of the work of another."""
        if number:
            until = self._places[other][number - 1]
            if until > self._waited.get((stream, other), StreamPlace(other, -1, -1)):
                self._program.wait(stream, until)
                self._waited[stream, other] = until
            end = self._ends[other][number - 1]
            self._released[stream] = max(end, self._released.get(stream, end))

    def _add_collectives_of_cpu(self) -> None:
        """Calls of a program that communicates by gloo, which has no kernels."""
        calls = [
            (start, end, name, arguments, self._events.step_of(start))
            for start, end, name, arguments in self._events.collectives
        ]
        self._origin = min((call[0] for call in calls), default=0.0)
        for start, end, name, arguments, step in calls:
            op = operation_of(name.removeprefix("gloo:"))
            if op is None or step is None:
                continue
            if op in MESSAGES:
                self._job.remarks.counts["messages do not say between whom: they are no calls"] += 1
                continue
            group, ranks = self._calls.group({"Process Group Description": "gloo"})
            if len(ranks) > 1:
                self._job.groups.setdefault((group, ranks))
            tensors = tensors_of(arguments)
            size, dtype = sum(n for n, _ in tensors), tensors[0][1] if tensors else ""
            put, got = (0, 0) if op == "barrier" else message_bytes(op, size, len(ranks))
            duration_s = (end - start) * 1e-6
            index = self._program.call(
                replace(EMPTY_CALL, op=op, function=name, group=group, ranks=ranks, dtype=dtype,
                        input_bytes=put, output_bytes=got, step=step, duration_s=duration_s)
            )  # fmt: skip
            start_s = (start - self._origin) * 1e-6
            self._spans.append(Span(start_s, duration_s, 0, step, name, "communication", index))


def _main_stream(work: list[GpuWork]) -> int:
    """The stream whose kernels compute longest."""
    busy: dict[int, float] = defaultdict(float)
    for op in work:
        busy[op.stream] += 0.0 if op.communicates or op.copies else op.end_us - op.start_us
    return min(busy, key=lambda stream: (-busy[stream], stream))
