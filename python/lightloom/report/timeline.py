"""A comparison's timelines as a trace for https://ui.perfetto.dev or ``chrome://tracing``.

The Chrome trace event format (JSON object form): a process per fabric; in it a lane per recorded
pipeline stage, lanes for what runs alongside, a lane for the decisions of each circuit switch, and
a lane per pair of servers that ever had circuits. Times are microseconds. Spans of one lane never
overlap, which viewers need to draw complete events ("X"): what overlaps gets a further lane.

Files are bounded: each fabric keeps at most its share of :data:`MAX_EVENTS`, the earliest ones, of
all its lanes up to one instant. Where something was cut, an instant event marks it and
``otherData`` says so.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.fabric.network import Ocs
from lightloom.output.files import whole_file
from lightloom.report.explain import WORDS
from lightloom.report.spans import OWN, CircuitSpans, Spans, circuit_spans, worker_spans
from lightloom.simulate import Snapshot
from lightloom.study.compare.results import Comparison

#: events of a file at most, over all fabrics; about 200 bytes each
MAX_EVENTS = 300_000
#: gaps between circuits below this are not shown as a state, seconds
SHORTEST_GAP_S = 1e-9

Event = dict[str, Any]


@dataclass
class Process:
    """A fabric: its events by lane, to be written in order of time."""

    pid: int
    name: str
    lanes: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

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
        A ``.json`` file.
    max_events
        Events at most, names of lanes not counted.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    runs = comparison.details.get("runs", {})
    share = max(1, max_events // max(1, len(runs)))
    processes, cuts = [], {}
    for pid, (name, done) in enumerate(runs.items(), 1):
        process = _process(pid, name, done, comparison.details.get("workload"))
        cut = _cut(process, share)
        if cut is not None:
            cuts[name] = cut
        processes.append(process)
    about = {
        "generator": f"lightloom {comparison.inputs.get('lightloom', '')}".strip(),
        "model": str(comparison.inputs.get("model", {}).get("name", "")),
        "step_time_s": {r.fabric: r.step_time_s for r in comparison.results},
        "cut": cuts or "nothing was cut",
    }
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


def _microseconds(seconds: float) -> float:
    """Microseconds with all the picoseconds that the core counts."""
    return round(seconds * 1e6, 6)


def _process(pid: int, name: str, done: Any, workload: Any) -> Process:
    process = Process(pid, name)
    roles = _roles(workload)
    spans = worker_spans(done.run)
    for worker in sorted(set(spans.worker.tolist())):
        mine = spans.take(spans.worker == worker)
        role = roles.get(worker, f"worker {worker}")
        own = process.lane(role)
        _add_spans(process, mine.take(mine.stream == OWN), itertools.repeat(own))
        _add_concurrent(process, mine.take(mine.stream != OWN), role)
    regions = _regions(done.network)
    _add_decisions(process, done.run.snapshots, regions)
    _add_circuits(process, circuit_spans(done.run), done.run.step_time_s, regions)
    process.events.sort(key=lambda event: (event["ts"], event["tid"], -event["dur"]))
    return process


def _roles(workload: Any) -> dict[int, str]:
    """What each worker is, in words."""
    if workload is None:
        return {}
    servers = workload.workers.server
    names = {}
    for worker, server in enumerate(servers.ravel().tolist()):
        stage, replica, member = np.unravel_index(worker, servers.shape)
        names[worker] = (
            f"stage {stage} · {workload.workers.gpus_per_worker} GPUs of server {server} "
            f"(replica {replica}, EP member {member})"
        )
    return names


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
) -> None:
    """One lane per group: when its circuits were switched, and how well they serve."""
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
        for decision, lane, span in zip(decisions, chosen, spans, strict=True):
            process.span(
                lanes[lane],
                "switching" if span[1] > span[0] else "circuits kept",
                "decision",
                span,
                layer=int(decision.layer),
                micro_batch=int(decision.micro_batch),
                allocator=str(decision.chosen),
                makespan_us=_microseconds(decision.makespan_s),
                demand_bytes=int(np.asarray(decision.demand).sum()),
            )


def _add_circuits(
    process: Process, circuits: CircuitSpans, step_s: float, regions: Mapping[int, str]
) -> None:
    """One lane per pair of servers: up with a number of circuits, or without any in between."""
    for a, b in circuits.pairs():
        mine = circuits.take((circuits.a == a) & (circuits.b == b))
        region = regions.get(a, "circuits")
        lane = process.lane(f"{region} · circuit server {a} - server {b}")
        before = 0.0
        columns = (mine.up_s, mine.down_s, mine.count)
        for up, down, count in zip(*(column.tolist() for column in columns), strict=True):
            _add_gap(process, lane, before, up)
            process.span(lane, f"up x {count}", "circuit", (up, down), circuits=count)
            before = max(before, down)
        _add_gap(process, lane, before, step_s)


def _add_gap(process: Process, lane: int, start: float, end: float) -> None:
    if end - start > SHORTEST_GAP_S:
        process.span(lane, "down or reconfiguring", "circuit", (start, end), circuits=0)


def _cut(process: Process, share: int) -> str | None:
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
