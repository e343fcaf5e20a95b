"""The same comparison over several numbers of GPUs, rates or types of GPU.

Each point is a comparison of its own, in a process of this machine. What has finished when the work
is interrupted, or when other points cannot be, is kept. Where the best fabric changes from a point
to the next, the crossover between them is interpolated: ratios and what they are over on a
logarithmic scale.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from lightloom.errors import InputError, LightloomError
from lightloom.progress import Monitor
from lightloom.study.compare.job import prepare
from lightloom.study.compare.program_job import given_job
from lightloom.study.compare.results import SAME, SCHEMA_VERSION, Comparison
from lightloom.study.compare.run import compare
from lightloom.study.compare.runner import Row
from lightloom.study.compare.scaling_plans import with_one_source
from lightloom.study.compare.scenario import Scenario

#: what the best fabric is chosen by: the name in results and what it is
METRICS = {
    "tokens_per_s": "fastest",
    "perf_per_cluster_usd": "best per dollar of the cluster",
}
#: writes the timeline of a comparison to a file; called in another process
WriteTimeline = Callable[[Comparison, Path], None]
#: cores for each process, whose runs use several
_CORES_EACH = 4


@dataclass(frozen=True)
class ScalingPoint:
    """One comparison, and what tells it from others: ``gpus``, ``rate_gbps`` and ``gpu``.

    ``timeline`` is where its timeline goes.
    """

    values: dict[str, Any]
    scenario: Scenario
    timeline: Path | None = None

    @property
    def title(self) -> str:
        """What a user reads: ``512 GPUs, 200 Gb/s, h100``."""
        shown = {"gpus": "{:,} GPUs", "rate_gbps": "{:g} Gb/s", "gpu": "{}"}
        return ", ".join(shown[name].format(value) for name, value in self.values.items())


@dataclass(frozen=True)
class Crossover:
    """Between two points the best fabric changes.

    ``metric`` is of :data:`METRICS`, ``axis`` what increases from ``low`` to ``high``; ``fixed``
    are the other values. The two fabrics are equal at about ``at``.
    """

    metric: str
    axis: str
    fixed: dict[str, Any]
    below: str
    above: str
    low: float
    high: float
    at: float


@dataclass
class Scaling:
    """All points, with the content of their results where there is one, or why there is none.

    ``plans`` says where their plans come from, ``command`` what was typed.
    """

    points: tuple[ScalingPoint, ...]
    results: dict[int, dict[str, Any]] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    interrupted: bool = False
    plans: str = ""
    command: str = ""

    def lines(self, axis: str) -> list[list[int]]:
        """Finished points that differ in ``axis`` alone, each line in its order."""
        lines: dict[tuple[Any, ...], list[int]] = {}
        for number in sorted(self.results):
            values = self.points[number].values
            key = tuple(value for name, value in values.items() if name != axis)
            lines.setdefault(key, []).append(number)
        for line in lines.values():
            line.sort(key=lambda number: self.points[number].values[axis])
        return list(lines.values())

    @property
    def numeric_axes(self) -> list[str]:
        """Axes that points can be in order along."""
        return [name for name in ("gpus", "rate_gbps") if name in self.points[0].values]

    @property
    def pace_unit(self) -> str:
        """What speed is in: steps where it is not known how many tokens one trains."""
        results = next(iter(self.results.values()))["results"]
        return "steps/h" if results[0]["tokens_per_s"] is None else "tokens/s"

    def metric(self, number: int, metric: str) -> dict[str, float]:
        """A metric of every fabric of a finished point; ``tokens_per_s`` in :attr:`pace_unit`."""
        return {
            r["fabric"]: 3600 / r["step_time_s"] if r[metric] is None else float(r[metric])
            for r in self.results[number]["results"]
        }

    def crossovers(self) -> list[Crossover]:
        """Where the best fabric changes, along every line and by every metric."""
        return [
            crossover
            for metric in METRICS
            for axis in self.numeric_axes
            for line in self.lines(axis)
            for low, high in itertools.pairwise(line)
            if (crossover := self._crossover(metric, axis, low, high)) is not None
        ]

    def _crossover(self, metric: str, axis: str, low: int, high: int) -> Crossover | None:
        first, second = self.metric(low, metric), self.metric(high, metric)
        below, above = max(first, key=first.__getitem__), max(second, key=second.__getitem__)
        if below not in second or above not in first or second[below] * SAME >= second[above]:
            return None
        start, end = (math.log(ratio[below] / ratio[above]) for ratio in (first, second))
        places = [float(self.points[number].values[axis]) for number in (low, high)]
        share = start / (start - end)
        at = math.exp(math.log(places[0]) + share * math.log(places[1] / places[0]))
        fixed = {k: v for k, v in self.points[low].values.items() if k != axis}
        return Crossover(metric, axis, fixed, below, above, places[0], places[1], at)

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file: every comparison in full, and the crossovers."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": self.command,
            "plans": self.plans,
            "points": [
                {
                    "values": point.values,
                    "failure": self.failures.get(number),
                    "comparison": self.results.get(number),
                }
                for number, point in enumerate(self.points)
            ],
            "crossovers": [vars(crossover) for crossover in self.crossovers()],
            "interrupted": self.interrupted,
        }


def compare_points(
    points: Sequence[ScalingPoint],
    *,
    monitor: Monitor[Row] | None = None,
    processes: int | None = None,
    write_timeline: WriteTimeline | None = None,
) -> Scaling:
    """Compare fabrics at every point, in local processes.

    Parameters
    ----------
    points
        What to compare; a point that cannot be is noted, and the others are done.
    monitor
        Takes progress, and the rows of all runs.
    processes
        How many at once; by default one for every four cores.
    write_timeline
        Writes the timeline of a point that wants one, in the process of that point.

    Returns
    -------
    Scaling
        What has finished; after an interrupt it says so.

    Raises
    ------
    InputError
        If no point can be compared: what is wrong with the first.
    """
    watcher: Monitor[Row] = monitor or Monitor()
    scaling = _prepared(points)
    limit = processes or max(1, (os.cpu_count() or 1) // _CORES_EACH)
    workers = _Workers(scaling, watcher, write_timeline)
    try:
        workers.run(limit)
    except KeyboardInterrupt:
        scaling.interrupted = True
    finally:
        workers.stop()
    if not scaling.results and not scaling.interrupted:
        raise InputError(next(iter(scaling.failures.values())))
    return scaling


def _prepared(points: Sequence[ScalingPoint]) -> Scaling:
    """What cannot be compared, and the others with plans of one source."""
    failures = {}
    points = list(points)
    for number, point in enumerate(points):
        try:
            job = given_job(point.scenario)
            if job is None:
                prepare(point.scenario)
            else:  # which may say how many GPUs it has
                values = point.values | {"gpus": job.scenario.gpus}
                points[number] = replace(point, values=values)
        except LightloomError as error:
            failures[number] = str(error)
    if len(failures) == len(points):
        raise InputError(failures[0])
    possible = [number for number in range(len(points)) if number not in failures]
    scenarios, plans = with_one_source([points[number].scenario for number in possible])
    changed = list(points)
    for number, scenario in zip(possible, scenarios, strict=True):
        changed[number] = replace(points[number], scenario=scenario)
    return Scaling(tuple(changed), failures=failures, plans=plans)


class _Workers:
    """Processes at work on points, each on one after another: to start one takes a second."""

    def __init__(
        self, scaling: Scaling, watcher: Monitor[Row], write_timeline: WriteTimeline | None
    ) -> None:
        self._scaling = scaling
        self._write_timeline = write_timeline
        self._watcher = watcher
        self._waiting = [n for n in range(len(scaling.points)) if n not in scaling.failures]
        self._running: dict[Connection, tuple[int, Any]] = {}
        self._shares = dict.fromkeys(scaling.failures, 1.0)

    def run(self, limit: int) -> None:
        """Work through all points, ``limit`` at once."""
        while self._waiting or self._running:
            while self._waiting and len(self._running) < limit:
                self._start()
            for ready in wait(list(self._running), timeout=0.5):
                assert isinstance(ready, Connection)
                self._take(ready)
            if self._watcher.progress(*self._progress()) is False:
                raise KeyboardInterrupt

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(self._write_timeline, theirs), daemon=True)
        process.start()
        theirs.close()
        self._give(ours, process)

    def _give(self, connection: Connection, process: Any) -> None:
        """Give a process the next point, or its end."""
        if self._waiting:
            number = self._waiting.pop(0)
            self._running[connection] = (number, process)
            with contextlib.suppress(ConnectionError):  # it has ended, as `_take` will see
                connection.send(self._scaling.points[number])
        else:
            del self._running[connection]
            connection.close()
            process.join()

    def _take(self, connection: Connection) -> None:
        """Take one message of a process, or its end."""
        number, process = self._running[connection]
        try:
            kind, content = connection.recv()
        except (EOFError, ConnectionError):
            process.join()
            del self._running[connection]
            kind, content = "failure", f"the process ended with status {process.exitcode}"
        if kind == "share":
            self._shares[number] = content
        elif kind == "row":
            self._watcher.finished(content)
        else:
            outcomes = self._scaling.results if kind == "done" else self._scaling.failures
            outcomes[number] = content
            self._shares[number] = 1.0
            if connection in self._running:
                self._give(connection, process)

    def _progress(self) -> tuple[float, str]:
        titles = [self._scaling.points[number].title for number, _ in self._running.values()]
        return sum(self._shares.values()) / len(self._scaling.points), "; ".join(titles)

    def stop(self) -> None:
        """End what still runs."""
        for connection, (_, process) in self._running.items():
            process.terminate()
            process.join()
            connection.close()
        self._running.clear()


class _Reporter(Monitor[Row]):
    """Sends what a comparison reports to the process that started it."""

    def __init__(self, send: Callable[[tuple[str, Any]], None]) -> None:
        self._send = send
        self._sent = 0.0

    def progress(self, share: float, activity: str = "", /) -> bool | None:  # noqa: ARG002
        if share - self._sent >= 0.01:
            self._sent = share
            self._send(("share", share))
        return None

    def finished(self, result: Row) -> None:
        self._send(("row", result))


def _work(write_timeline: WriteTimeline | None, connection: Connection) -> None:
    """Compare points in a process of its own, which Ctrl-C leaves to the one that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # its end leaves no part of a file
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while True:
            connection.send(_outcome(connection.recv(), write_timeline, connection))
    except (EOFError, ConnectionError, KeyboardInterrupt):
        return  # there are no more points, or whoever started this has gone
    finally:
        connection.close()


def _outcome(
    point: ScalingPoint, write_timeline: WriteTimeline | None, connection: Connection
) -> tuple[str, Any]:
    """What comes of one point: ``done`` and the comparison, or ``failure`` and why."""
    try:
        path = None if write_timeline is None else point.timeline
        reporter = _Reporter(connection.send)
        comparison = compare(point.scenario, monitor=reporter, with_timeline=path is not None)
        if write_timeline is not None and path is not None:
            write_timeline(comparison, path)
        return "done", comparison.to_json()
    except LightloomError as error:
        return "failure", str(error)
    except MemoryError:
        return "failure", "not enough memory"
