"""Runs the points of a sweep that are missing, and hands over what came of each.

One process drives, whatever the kind of workers: it deals points out and alone writes, so that a
point is written once even where it was computed twice. Its memory does not grow with the points.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from lightloom.errors import InputError
from lightloom.progress import Monitor
from lightloom.study.compare.runner import Row
from lightloom.study.sweep.axes import GOALS
from lightloom.study.sweep.dealer import Dealer
from lightloom.study.sweep.design import Values
from lightloom.study.sweep.identity import Identities
from lightloom.study.sweep.numbers import NumberSet
from lightloom.study.sweep.point import PointOutcome, PointTask, TaskOutcomes
from lightloom.study.sweep.study import SweepStudy
from lightloom.study.workers import Answer, WorkerCrew
from lightloom.units import show_option

#: characters of the best point beside the progress
MOST_TEXT = 32
#: workers that may be lost with a point before that point is given up
MOST_LOST = 3


@dataclass(frozen=True)
class FinishedPoint:
    """A point that is done or has failed, for whoever keeps it."""

    identity: str
    values: Values
    outcome: PointOutcome


class PointStore(Protocol):
    """Keeps what came of points."""

    #: points whose rows are there
    done: NumberSet
    #: points that would fail again
    failed: NumberSet
    #: combinations that conditions leave out
    left_out: NumberSet

    def add(self, point: FinishedPoint) -> None:
        """Take a point."""
        ...

    def keep(self, *, wall_s: float, reuse: Reuse, now: bool = False) -> None:
        """Write what was taken, if it is time to."""
        ...


@dataclass
class Reuse:
    """How often something that points share was made and taken again, by kind."""

    made: Counter[str] = field(default_factory=Counter)
    reused: Counter[str] = field(default_factory=Counter)

    def sentence(self) -> str:
        """Such as ``task graphs: 4 built, 36 reused``; empty if nothing was."""
        plurals = {"task graph": "task graphs: {} built", "search for a plan": "searches: {} done"}
        kinds = [kind for kind in plurals if self.made[kind] + self.reused[kind]]
        parts = [f"{plurals[k].format(self.made[k])}, {self.reused[k]} reused" for k in kinds]
        return "; ".join(parts)


@dataclass
class Best:
    """The best row so far, by a goal of :data:`GOALS`."""

    goal: str
    value: float | None = None
    text: str = ""

    def see(self, row: Values, values: Values) -> None:
        """Look at one more row."""
        value = row.get(self.goal)
        more_is_better = GOALS[self.goal][1]
        if value is None:
            return
        if self.value is None or (value > self.value if more_is_better else value < self.value):
            self.value = float(value)
            given = {k: v for k, v in values.items() if v is not None}
            where = " ".join(f"{k.rpartition('.')[2]}={show_option(v)}" for k, v in given.items())
            text = f"{row['fabric']} at {where}"
            self.text = text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 3]}..."


class SweepDriver:
    """Runs a sweep.

    Parameters
    ----------
    study
        Which points there are.
    store
        Where their rows go, and which are there.
    workers
        Who computes.
    monitor
        Takes progress.
    budget_s
        After so many seconds no point is begun.
    """

    def __init__(
        self,
        study: SweepStudy,
        store: PointStore,
        workers: WorkerCrew[list[PointTask]],
        monitor: Monitor[Row] | None = None,
        budget_s: float | None = None,
    ) -> None:
        self._study, self._store, self._workers = study, store, workers
        self._monitor: Monitor[Row] = monitor or Monitor()
        self._budget_s = budget_s
        self._dealer = Dealer(study.design.runs())
        self._identities = Identities()
        self._given: dict[int, dict[int, tuple[str, Values]]] = {}
        self._lost: Counter[int] = Counter()
        self._best = Best(study.options.best)
        self._began = time.monotonic()
        #: points that came in, and those of them that failed
        self.finished = self.failed = 0
        self.reuse = Reuse()
        self._at_start = len(store.done) + len(store.failed)

    @property
    def wall_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    @property
    def is_late(self) -> bool:
        """Whether the budget is used up."""
        return self._budget_s is not None and self.wall_s >= self._budget_s

    def run(self) -> None:
        """Run what is missing; what is finished is written, whatever ends it.

        Raises
        ------
        KeyboardInterrupt
            If it was interrupted, or the monitor returned ``False``.
        OutputError
            If rows cannot be written.
        """
        try:
            while self._deal() or self._given:
                for answer in self._workers.answers(0.25):
                    self._take(answer)
                self._keep()
                self._show()
        finally:
            try:
                self._keep(now=True)
            finally:
                self._workers.stop()

    def _keep(self, *, now: bool = False) -> None:
        self._store.keep(wall_s=self.wall_s, reuse=self.reuse, now=now)

    def _deal(self) -> bool:
        """Give every idle worker work; whether there was any."""
        dealt = False
        for worker in [] if self.is_late else self._workers.idle():
            tasks = self._tasks(worker)
            if not tasks:
                break
            dealt = True
            self._workers.give(worker, tasks)
        return dealt

    def _tasks(self, worker: int) -> list[PointTask]:
        """The next points of a worker that are missing."""
        store, points = self._store, self._given.get(worker, {})
        while numbers := self._dealer.next(worker, self._workers.count):
            tasks = []
            for number in numbers:
                if number in store.done or number in store.failed or number in store.left_out:
                    continue
                task = self._task(number)
                if task is None:
                    continue
                identity, values, point = task
                points[number] = identity, values
                tasks.append(point)
            if tasks:
                self._given[worker] = points
                return tasks
            self._show()
            self._keep()
        return []

    def _task(self, number: int) -> tuple[str, Values, PointTask] | None:
        """A point to compute; one that is no scenario has failed."""
        values = self._study.design.values(number)
        if values is None:
            self._store.left_out.add(number)
            return None
        try:
            scenario = self._study.scenario(values)
        except InputError as error:
            self._finish("", values, PointOutcome(number, failure=str(error)))
            return None
        return self._identities.of(scenario), values, PointTask(number, scenario)

    def _take(self, answer: Answer) -> None:
        points = self._given.pop(answer.worker, {})
        if answer.kind == "lost":
            self._take_back(points, str(answer.content))
            return
        content = answer.content
        assert isinstance(content, TaskOutcomes)
        self._dealer.took(len(content.outcomes), content.wall_s)
        self.reuse.made.update(content.made)
        self.reuse.reused.update(content.reused)
        for outcome in content.outcomes:
            identity, values = points[outcome.number]
            self._finish(identity, values, outcome)

    def _take_back(self, given: dict[int, tuple[str, Values]], reason: str) -> None:
        """Deal points again that were lost with their worker; one that was alone may be why."""
        again = list(given)
        if len(again) == 1:
            number = again[0]
            self._lost[number] += 1
            if self._lost[number] >= MOST_LOST:
                identity, values = given[number]
                text = f"lost with {MOST_LOST} workers: {reason}"
                self._finish(identity, values, PointOutcome(number, failure=text, is_final=False))
                return
        self._dealer.return_(again)

    def _finish(self, identity: str, values: Values, outcome: PointOutcome) -> None:
        self._store.add(FinishedPoint(identity, values, outcome))
        self.finished += 1
        self.failed += bool(outcome.failure)
        for row in outcome.rows:
            self._best.see(row, values)

    def _show(self) -> None:
        """Say how far the work is."""
        store = self._store
        size = max(1, self._study.design.size - len(store.left_out))
        rate = self.finished / max(self.wall_s, 1e-9)
        done = self._at_start + self.finished
        per_s = f"{rate:,.0f}/s" if rate >= 100 else f"{rate:.3g}/s"
        pace = per_s if rate >= 0.1 else f"{60 * rate:.3g}/min"
        parts = [f"{done:,} of {size:,}", f"{self.failed:,} failed" if self.failed else ""]
        parts += [pace if self.finished else "", self._best.text and f"best: {self._best.text}"]
        share = min(1.0, done / size)
        if self._monitor.progress(share, ", ".join(filter(None, parts))) is False:
            raise KeyboardInterrupt
