"""A run over circuits of a testbed, as a trace for https://ui.perfetto.dev or ``chrome://tracing``.

Lanes are the steps, what the first rank sends and waits for, reconfigurations, and one for each
circuit that ever carried traffic; a counter shows how many do. All of it was measured. Times are
microseconds from the beginning of the first step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from lightloom.report.timeline import MAX_EVENTS, Process, cut, write_processes
from lightloom.testbed.training import TrainedStep

#: what an all-to-all is called
_NAMES = {"all_to_all": "dispatch", "combine": "combine", "gradient": "gradients"}

Circuit = tuple[int, ...]


class LitSpan(NamedTuple):
    """A circuit that carried traffic, and from when until when."""

    circuit: Circuit
    up_s: float
    down_s: float

    @property
    def name(self) -> str:
        """As the controller writes it."""
        server, nic, peer, peer_nic = self.circuit
        return f"{server}/{nic}-{peer}/{peer_nic}"


def lit_spans(steps: Sequence[TrainedStep]) -> list[LitSpan]:
    """When each circuit carried traffic, as its first server saw it; sorted by circuit and time.

    Parameters
    ----------
    steps
        All of a run: each has the changes of circuits that its servers saw meanwhile.
    """
    end_s = max((step.end_s for step in steps), default=0.0)
    servers = max((len(step.circuit_changes) for step in steps), default=0)
    found: list[LitSpan] = []
    for server in range(servers):
        up: dict[Circuit, float] = {}
        for step in steps:
            for at_s, rows in step.circuit_changes[server]:
                lit = {tuple(row) for row in rows if row[0] == server}
                found += [LitSpan(row, up.pop(row), at_s) for row in sorted(up.keys() - lit)]
                up |= dict.fromkeys(lit - up.keys(), at_s)
        found += [LitSpan(row, since_s, end_s) for row, since_s in up.items()]
    return sorted(found)


def write_training_timeline(
    steps: Sequence[TrainedStep], path: Path, *, name: str, max_events: int = MAX_EVENTS
) -> None:
    """Write the timeline of a run; ``path`` appears only when it is whole.

    Parameters
    ----------
    steps
        Of the run.
    path
        A ``.json`` file, or a ``.json.gz`` one.
    name
        Of the run, such as its policy.
    max_events
        Events at most, names of lanes not counted; the earliest ones are kept.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    process = Process(1, name)
    origin_s = steps[0].begin_s if steps else 0.0
    _add_steps(process, steps, origin_s)
    _add_circuits(process, lit_spans(steps), origin_s)
    process.events.sort(key=lambda event: (event["ts"], event["tid"], -event.get("dur", 0)))
    what = cut(process, max_events)
    about = {"generator": "lightloom testbed train", "cut": what or "nothing was cut"}
    write_processes([process], about, path)


def _add_steps(process: Process, steps: Iterable[TrainedStep], origin_s: float) -> None:
    lane, first = process.lane("steps"), process.lane("rank 0 · all-to-alls")
    for step in steps:
        begin = step.begin_s - origin_s
        span = (begin, begin + step.step_time_s)
        process.span(lane, f"step {step.step}", "step", span, loss=step.loss)
        for moved in step.all_to_alls:
            begin, end = moved["begin_s"] - origin_s, moved["end_s"] - origin_s
            about = {key: moved[key] for key in ("layer", "remote_bytes", "circuits")}
            if moved["waited_s"] > 0:
                waited = (begin - moved["waited_s"], begin)
                process.span(first, "waits for circuits", "reconfiguration", waited, **about)
            process.span(first, _NAMES[moved["name"]], "ep", (begin, end), **about)


def _add_circuits(process: Process, spans: Sequence[LitSpan], origin_s: float) -> None:
    """A lane per circuit, and how many carry traffic."""
    lanes: dict[Circuit, int] = {}
    changes: list[tuple[float, int]] = []
    for span in spans:
        if span.circuit not in lanes:
            lanes[span.circuit] = process.lane(f"circuit {span.name}")
        # those of before the first step are up as it begins
        up, down = max(0.0, span.up_s - origin_s), max(0.0, span.down_s - origin_s)
        process.span(lanes[span.circuit], "carries traffic", "circuit", (up, down))
        changes += [(up, 1), (down, -1)]
    count = 0
    for at_s, change in sorted(changes):
        count += change
        process.counter("circuits", at_s, circuits=count)
