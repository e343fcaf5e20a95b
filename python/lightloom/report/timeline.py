"""A comparison's timelines as a trace for https://ui.perfetto.dev or ``chrome://tracing``.

The Chrome trace event format (JSON object form): a process per fabric; in it the critical path, a
lane per recorded pipeline stage, lanes for what runs alongside, a lane for the decisions of each
circuit switch, and a lane per pair of servers that ever had circuits. Arrows lead from pass to pass
of a micro-batch, and from a decision to its circuits; counters show circuits that are up and bytes
that are on their way. Times are microseconds. Spans of one lane never overlap, which viewers need
to draw complete events ("X"): what overlaps gets a further lane.

Files are bounded: each fabric keeps at most its share of :data:`MAX_EVENTS`, the earliest ones, of
all its lanes up to one instant. Where something was cut, an instant event marks it and
``otherData`` says so.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lightloom.fabric.network import Ocs
from lightloom.output.files import whole_file
from lightloom.report.explain import WORDS
from lightloom.report.spans import OWN, CircuitSpans, Spans, circuit_spans, worker_spans
from lightloom.report.timeline_arrows import (
    SAME_INSTANT_S,
    bytes_in_flight,
    circuits_up,
    handovers,
)
from lightloom.simulate import BytesInFlight, CriticalSpans, Snapshot
from lightloom.study.compare.results import Comparison

#: events of a file at most, over all fabrics; about 200 bytes each
MAX_EVENTS = 300_000
#: gaps between circuits below this are not shown as a state, seconds
SHORTEST_GAP_S = 1e-9

Event = dict[str, Any]


class Switching(NamedTuple):
    """A region's switching, its lane, and when it ends."""

    region: str
    lane: int
    ready_s: float


@dataclass
class Process:
    """A fabric: its events by lane, to be written in order of time."""

    pid: int
    name: str
    lanes: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    arrows: int = 0

    def lane(self, name: str) -> int:
        """Number of a new lane."""
        self.lanes.append(name)
        return len(self.lanes)

    def span(
        self, tid: int, name: str, category: str, span: tuple[float, float], **args: object
    ) -> None:
        """Add a complete event from a span in seconds."""
        self.events.append(
            {
                "name": name,
                "cat": category,
                "ph": "X",
                "ts": _microseconds(span[0]),
                "dur": _microseconds(span[1] - span[0]),
                "pid": self.pid,
                "tid": tid,
                "args": args,
            }
        )

    def instant(self, tid: int, name: str, category: str, at_s: float, **args: object) -> None:
        """Add something that happens at one instant, on one lane."""
        event = self._at("i", tid, name, at_s, args)
        self.events.append({**event, "cat": category, "s": "t"})

    def counter(self, name: str, at_s: float, **values: int) -> None:
        """Set values that are drawn as a curve, one above the other."""
        self.events.append(self._at("C", 0, name, at_s, values))

    def arrow(self, name: str, start: tuple[int, float], end: tuple[int, float]) -> None:
        """Add an arrow from a lane at a time to another; spans have to be there then."""
        self.arrows += 1
        # arrows of all processes are in one list
        number = f"{self.pid}.{self.arrows}"
        for phase, (tid, at_s) in (("s", start), ("f", end)):
            event = {**self._at(phase, tid, name, at_s, {}), "cat": "arrow", "id": number}
            self.events.append({**event, "bp": "e"} if phase == "f" else event)

    def _at(self, phase: str, tid: int, name: str, at_s: float, args: object) -> Event:
        at = {"ts": _microseconds(at_s), "pid": self.pid, "tid": tid}
        return {"name": name, "ph": phase, **at, "args": args}

    def metadata(self) -> Iterator[Event]:
        """Names and order of the process and its lanes."""
        yield self._about("process_name", 0, name=self.name)
        yield self._about("process_sort_index", 0, sort_index=self.pid)
        for tid, name in enumerate(self.lanes, 1):
            yield self._about("thread_name", tid, name=name)
            yield self._about("thread_sort_index", tid, sort_index=tid)

    def _about(self, what: str, tid: int, **args: object) -> Event:
        return {"name": what, "ph": "M", "ts": 0, "pid": self.pid, "tid": tid, "args": args}


def write_timeline(comparison: Comparison, path: Path, *, max_events: int = MAX_EVENTS) -> None:
    """Write the recorded timelines of all fabrics; ``path`` appears only when it is whole.

    Parameters
    ----------
    comparison
        Made with timelines.
    path
        A ``.json`` file, or a ``.json.gz`` one.
    max_events
        Events at most, names of lanes not counted.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    runs = comparison.details.get("runs", {})
    share = max(1, max_events // max(1, len(runs)))
    workloads = comparison.details.get("workloads", {})
    processes, cuts = [], {}
    for pid, (name, done) in enumerate(runs.items(), 1):
        process = _process(pid, name, done, workloads.get(name))
        left_out = cut(process, share)
        if left_out is not None:
            cuts[name] = left_out
        processes.append(process)
    about = {
        "generator": f"lightloom {comparison.inputs.get('lightloom', '')}".strip(),
        "model": str(comparison.inputs.get("model", {}).get("name", "")),
        "step_time_s": {r.fabric: r.step_time_s for r in comparison.results},
        **_sample(comparison),
        "cut": cuts or "nothing was cut",
    }
    write_processes(processes, about, path)


def write_processes(processes: Iterable[Process], about: Mapping[str, object], path: Path) -> None:
    """Write a trace of some processes; ``path`` appears only when it is whole.

    Parameters
    ----------
    processes
        With their events in order of time.
    about
        What is said of the file.
    path
        A ``.json`` file, or a ``.json.gz`` one.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    with whole_file(path) as stream:
        stream.write('{"displayTimeUnit":"ms","otherData":')
        stream.write(json.dumps(about))
        stream.write(',"traceEvents":[\n')
        events = itertools.chain.from_iterable(
            itertools.chain(process.metadata(), process.events) for process in processes
        )
        for number, event in enumerate(events):
            stream.write(",\n" if number else "")
            stream.write(json.dumps(event, separators=(",", ":")))
        stream.write("\n]}\n")


def _sample(comparison: Comparison) -> dict[str, Any]:
    """Which sample is shown: the first one."""
    samples = comparison.inputs.get("samples", [])
    return {"sample": dict(samples[0])} if samples else {}


def _microseconds(seconds: float) -> float:
    """Microseconds with all the picoseconds that the core counts."""
    return round(seconds * 1e6, 6)


def _process(pid: int, name: str, done: Any, workload: Any) -> Process:
    process = Process(pid, name)
    roles = {} if workload is None else workload.worker_names()
    spans = worker_spans(done.run)
    _add_critical_path(process, done.run.critical_spans)
    lanes = {}
    for worker in sorted(set(spans.worker.tolist())):
        mine = spans.take(spans.worker == worker)
        role = roles.get(worker, f"worker {worker}")
        lane = lanes[worker] = process.lane(role)
        _add_spans(process, mine.take(mine.stream == OWN), itertools.repeat(lane))
        _add_concurrent(process, mine.take(mine.stream != OWN), role)
    _add_handovers(process, spans, lanes)
    regions, circuits = _regions(done.network), circuit_spans(done.run)
    began = _add_decisions(process, done.run.snapshots, regions)
    _add_circuits(process, circuits, done.run.step_time_s, regions, began)
    _add_counters(process, circuits, done.run.in_flight)
    process.events.sort(key=lambda event: (event["ts"], event["tid"], -event.get("dur", 0)))
    return process


def _add_critical_path(process: Process, path: CriticalSpans | None) -> None:
    if path is None:
        return
    lane, start = process.lane("critical path"), 0.0
    for number, end in zip(path.category.tolist(), path.end_s.tolist(), strict=True):
        name = path.categories[number]
        process.span(lane, WORDS.get(name, name), name, (start, end))
        start = end


def _add_handovers(process: Process, spans: Spans, lanes: Mapping[int, int]) -> None:
    for handover in handovers(spans):
        direction = "backward" if handover.backward else "forward"
        # an arrow starts within the span that ends there
        start = (lanes[handover.worker], max(0.0, handover.end_s - SAME_INSTANT_S / 2))
        end = (lanes[handover.next_worker], handover.start_s)
        process.arrow(f"micro-batch {handover.micro_batch} {direction}", start, end)


def _add_counters(process: Process, circuits: CircuitSpans, flying: BytesInFlight | None) -> None:
    for at_s, count in circuits_up(circuits):
        process.counter("circuits up", at_s, circuits=count)
    if flying is not None:
        for at_s, values in bytes_in_flight(flying):
            process.counter("bytes in flight", at_s, **values)


def _regions(network: Any) -> dict[int, str]:
    """The region of each server of a fabric with regional switches."""
    ocs = network.part(Ocs)
    if ocs is None:
        return {}
    numbers = np.asarray(ocs.region_of_server).tolist()
    return {server: f"region {region}" for server, region in enumerate(numbers)}


def _add_spans(process: Process, spans: Spans, lanes: Iterable[int]) -> None:
    columns = (spans.start_s, spans.end_s, spans.layer, spans.micro_batch)
    rows = zip(spans.category_names(), *(column.tolist() for column in columns), strict=True)
    for lane, (name, start, end, layer, micro_batch) in zip(lanes, rows, strict=False):
        args = {"layer": layer} if layer >= 0 else {}
        args |= {"micro_batch": micro_batch} if micro_batch >= 0 else {}
        process.span(lane, WORDS.get(name, name), name, (start, end), **args)


def _add_concurrent(process: Process, spans: Spans, role: str) -> None:
    """Spread overlapping spans over as few lanes as they need."""
    chosen = first_free_lanes(zip(spans.start_s.tolist(), spans.end_s.tolist(), strict=True))
    lanes = [
        process.lane(f"{role.split(' · ', maxsplit=1)[0]} · concurrent{f' ({n})' if n else ''}")
        for n in range(max(chosen, default=-1) + 1)
    ]
    _add_spans(process, spans, (lanes[number] for number in chosen))


def first_free_lanes(spans: Iterable[tuple[float, float]]) -> list[int]:
    """Give each span the lowest lane that is free at its start.

    Parameters
    ----------
    spans
        Starts and ends, by ascending start.

    Returns
    -------
    list of int
        Lane of each span; as many lanes as spans overlap at most.
    """
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    chosen, count = [], 0
    for start, end in spans:
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, count = count, count + 1
        heapq.heappush(busy, (end, lane))
        chosen.append(lane)
    return chosen


def _add_decisions(
    process: Process, snapshots: Iterable[Snapshot], regions: Mapping[int, str]
) -> list[Switching]:
    """One lane per group: when its circuits were switched, and how well they serve.

    Returns those that switched.
    """
    switched = []
    by_group: dict[int, list[Snapshot]] = {}
    for snapshot in snapshots:
        by_group.setdefault(snapshot.group, []).append(snapshot)
    for group, decisions in sorted(by_group.items()):
        region = regions.get(int(decisions[0].servers[0]), "circuits")
        decisions.sort(key=lambda decision: decision.time_s)
        spans = [(d.time_s, d.ready_s) for d in decisions]
        chosen = first_free_lanes(spans)
        lanes = [
            process.lane(f"{region} · decisions for EP group {group}{f' ({n})' if n else ''}")
            for n in range(max(chosen) + 1)
        ]
        for decision, number, span in zip(decisions, chosen, spans, strict=True):
            about = {
                "layer": int(decision.layer),
                "micro_batch": int(decision.micro_batch),
                "allocator": str(decision.chosen),
                "makespan_us": _microseconds(decision.makespan_s),
                "demand_bytes": int(np.asarray(decision.demand).sum()),
            }
            lane, is_switched = lanes[number], span[1] > span[0]
            name = "decision: switch" if is_switched else "decision: keep the circuits"
            process.instant(lane, name, "decision", span[0], **about)
            if is_switched:
                process.span(lane, "switching", "decision", span, **about)
                switched.append(Switching(region, lane, span[1]))
    return switched


def _add_circuits(
    process: Process,
    circuits: CircuitSpans,
    step_s: float,
    regions: Mapping[int, str],
    switched: Sequence[Switching],
) -> None:
    """One lane per pair of servers: up with a number of circuits, or without any in between.

    Arrows lead to circuits from the switching that ends as they come up.
    """
    for a, b in circuits.pairs():
        mine = circuits.take((circuits.a == a) & (circuits.b == b))
        region = regions.get(a, "circuits")
        lane = process.lane(f"{region} · circuit server {a} - server {b}")
        before = 0.0
        columns = (mine.up_s, mine.down_s, mine.count)
        for up, down, count in zip(*(column.tolist() for column in columns), strict=True):
            _add_gap(process, lane, before, up)
            process.span(lane, f"up x {count}", "circuit", (up, down), circuits=count)
            cause = _cause(switched, regions.get(a, "circuits"), up)
            if cause is not None:
                process.arrow("new circuits", (cause.lane, up - SAME_INSTANT_S / 2), (lane, up))
            before = max(before, down)
        _add_gap(process, lane, before, step_s)


def _cause(switched: Sequence[Switching], region: str, up_s: float) -> Switching | None:
    """The switching of a region that ends as circuits come up."""
    return next(
        (s for s in switched if s.region == region and abs(s.ready_s - up_s) < SAME_INSTANT_S), None
    )


def _add_gap(process: Process, lane: int, start: float, end: float) -> None:
    if end - start > SHORTEST_GAP_S:
        process.span(lane, "down or reconfiguring", "circuit", (start, end), circuits=0)


def cut(process: Process, share: int) -> str | None:
    """Keep the earliest events; one line about it if any had to go."""
    total = len(process.events)
    if total <= share:
        return None
    end = process.events[share]["ts"]
    process.events = process.events[:share]
    process.events.append(
        {
            "name": f"cut here: {total - share} of {total} events left out",
            "cat": "cut",
            "ph": "i",
            "s": "p",
            "ts": end,
            "pid": process.pid,
            "tid": 0,
            "args": {},
        }
    )
    return f"{total - share} of {total} events after {end / 1e6:.6g} s are left out"
