"""The same comparison over several numbers of GPUs, rates or types of GPU.

Each point is a comparison of its own, in a process of this machine. What has finished when the work
is interrupted, or when other points cannot be, is kept. Where the best fabric changes from a point
to the next, the crossover between them is interpolated: ratios and what they are over on a
logarithmic scale.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
from lightloom.study.workers import Answer, LocalWorkers, Send

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


#: a point, and what writes its timeline
_PointWork = tuple[ScalingPoint, WriteTimeline | None]


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
    workers: LocalWorkers[_PointWork] = LocalWorkers(_outcome, limit)
    try:
        _Points(scaling, watcher, write_timeline).run(workers)
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


class _Points:
    """Points at work, one after another on each worker: to start one takes a second."""

    def __init__(
        self, scaling: Scaling, watcher: Monitor[Row], write_timeline: WriteTimeline | None
    ) -> None:
        self._scaling = scaling
        self._write_timeline = write_timeline
        self._watcher = watcher
        self._waiting = [n for n in range(len(scaling.points)) if n not in scaling.failures]
        self._running: dict[int, int] = {}
        self._shares = dict.fromkeys(scaling.failures, 1.0)

    def run(self, workers: LocalWorkers[_PointWork]) -> None:
        """Work through all points."""
        while self._waiting or self._running:
            for worker in workers.idle()[: len(self._waiting)]:
                number = self._waiting.pop(0)
                self._running[worker] = number
                workers.give(worker, (self._scaling.points[number], self._write_timeline))
            for answer in workers.answers(0.5):
                self._take(answer)
            if self._watcher.progress(*self._progress()) is False:
                raise KeyboardInterrupt

    def _take(self, answer: Answer) -> None:
        """Take one message of a worker, or its end."""
        number = self._running[answer.worker]
        kind, content = answer.content if answer.kind != "lost" else ("failure", answer.content)
        if kind == "share":
            self._shares[number] = content
        elif kind == "row":
            self._watcher.finished(content)
        else:
            outcomes = self._scaling.results if kind == "done" else self._scaling.failures
            outcomes[number] = content
            self._shares[number] = 1.0
            del self._running[answer.worker]

    def _progress(self) -> tuple[float, str]:
        titles = [self._scaling.points[number].title for number in self._running.values()]
        return sum(self._shares.values()) / len(self._scaling.points), "; ".join(titles)


class _Reporter(Monitor[Row]):
    """Sends what a comparison reports to the process that started it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._sent = 0.0

    def progress(self, share: float, activity: str = "", /) -> bool | None:  # noqa: ARG002
        if share - self._sent >= 0.01:
            self._sent = share
            self._send(("share", share))
        return None

    def finished(self, result: Row) -> None:
        self._send(("row", result))


def _outcome(work: _PointWork, send: Send) -> tuple[str, Any]:
    """What comes of one point: ``done`` and the comparison, or ``failure`` and why."""
    point, write_timeline = work
    try:
        path = None if write_timeline is None else point.timeline
        comparison = compare(
            point.scenario, monitor=_Reporter(send), with_timeline=path is not None
        )
        if write_timeline is not None and path is not None:
            write_timeline(comparison, path)
        return "done", comparison.to_json()
    except LightloomError as error:
        return "failure", str(error)
    except MemoryError:
        return "failure", "not enough memory"
