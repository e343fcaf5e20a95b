"""How a job spends its time while parts fail: all runs at once, from one change to the next.

Between two changes (a failure, a repair) nothing happens but training, checkpoints and recovery,
whose times follow without steps in between. Every second of a run goes to one of :data:`SPENT` and,
but for useful ones and checkpoints, to the kind of part that cost it; they sum to the length of the
run.

Of parts that are out at a time the worst sets the pace: all others wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lightloom.study.goodput.outages import FailureClass, Floats, Outages, Whole

#: what time goes to: steps at full pace; what steps take longer than that while parts are out;
#: checkpoints; what is computed again; noticing a failure; starting again; waiting for a repair
SPENT = ("useful", "slower", "checkpoints", "again", "detection", "restart", "waiting")
#: a step that is longer by less than this share is not worth a restart once its part is repaired
NOT_WORTH_A_RESTART = 0.005
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Recovery:
    """What a job does about failures.

    Attributes
    ----------
    interval_s
        Training time between checkpoints; infinity for none.
    checkpoint_s
        Time for which a checkpoint stops the training.
    detection_s, restart_s
        Until a failure is noticed, and from there until the job trains again.
    spares
        Servers that stand by.
    """

    interval_s: float
    checkpoint_s: float
    detection_s: float
    restart_s: float
    spares: int = 0


@dataclass(frozen=True)
class TimeSpent:
    """Where the time of each run went, s: (runs, kinds) of each of :data:`SPENT`.

    ``useful`` and ``checkpoints`` have one column; ``interruptions`` are those that the job
    restarted from.
    """

    kinds: tuple[str, ...]
    by: Mapping[str, Floats]
    interruptions: Whole
    horizon_s: float

    @property
    def useful_share(self) -> Floats:
        """Useful share of the time of each run: (runs,)."""
        return np.asarray(self.by["useful"].sum(axis=1) / self.horizon_s)

    def mean_share(self, what: str, kind: str | None = None) -> float:
        """Share of the time that went to something, mean of the runs; of a kind or all."""
        spent = self.by[what] if kind is None else self.by[what][:, [self.kinds.index(kind)]]
        return float(spent.sum(axis=1).mean() / self.horizon_s)


@dataclass(frozen=True)
class _Changes:
    """When what is out changes in each run, and what holds from then on: (runs, changes)."""

    at_s: Floats
    #: class that fails, or -1 - class that is repaired; the number of classes for nothing
    what: Whole
    pace: Floats
    #: class that sets the pace
    cause: Whole
    servers_out: Whole
    is_stopped: Bools


def _changes_of(outages: Outages) -> _Changes:
    classes, runs = outages.classes, outages.runs
    nothing = len(classes)
    repaired = np.where(outages.end_s > outages.start_s, outages.end_s, np.inf)
    at = np.concatenate([np.zeros((runs, 1)), outages.start_s, repaired], axis=1)
    first = np.full((runs, 1), nothing)
    what = np.concatenate([first, outages.class_of, -1 - outages.class_of], axis=1)
    order = np.argsort(at, axis=1, kind="stable")
    at = np.take_along_axis(at, order, axis=1)
    what = np.take_along_axis(what, order, axis=1)
    kept = max(1, int((at < outages.horizon_s).sum(axis=1).max(initial=1)))
    at, what = np.minimum(at[:, :kept], outages.horizon_s), what[:, :kept]
    pace, cause = np.ones(at.shape), np.full(at.shape, nothing)
    servers, stopped = np.zeros(at.shape, np.int64), np.zeros(at.shape, bool)
    for number, failure in enumerate(classes):
        if failure.repair_s <= 0:
            continue
        out = np.cumsum((what == number).astype(int) - (what == -1 - number), axis=1)
        slower = (out > 0) & (failure.pace < pace)
        pace[slower], cause[slower] = failure.pace, number
        servers += failure.servers * out
        stopped |= (out > 0) & failure.stops
    return _Changes(at, what, pace, cause, servers, stopped)


@dataclass
class _Job:
    """What each run is doing; arrays are (runs,), those by kind (runs, kinds + 1)."""

    recovery: Recovery
    kinds: int
    runs: int
    spent: dict[str, Floats] = field(init=False)
    position_s: Floats = field(init=False)
    open_useful_s: Floats = field(init=False)
    open_slower_s: Floats = field(init=False)
    open_checkpoint_s: Floats = field(init=False)
    detecting_s: Floats = field(init=False)
    restarting_s: Floats = field(init=False)
    down_by: Whole = field(init=False)
    interruptions: Whole = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.runs, self.kinds + 1)
        self.spent = {name: np.zeros(shape) for name in SPENT}
        # where in the cycle of training and a checkpoint it is, and what is not in a checkpoint yet
        self.position_s = np.zeros(self.runs)
        self.open_useful_s, self.open_checkpoint_s = np.zeros(self.runs), np.zeros(self.runs)
        self.open_slower_s = np.zeros(shape)
        self.detecting_s, self.restarting_s = np.zeros(self.runs), np.zeros(self.runs)
        self.down_by = np.full(self.runs, self.kinds)
        self.interruptions = np.zeros(self.runs, dtype=np.int64)

    def keep(self, rows: Whole) -> None:
        """Count what is not in a checkpoint yet as done."""
        self.spent["useful"][rows, -1] += self.open_useful_s[rows]
        self.spent["slower"][rows] += self.open_slower_s[rows]
        self.spent["checkpoints"][rows, -1] += self.open_checkpoint_s[rows]
        self._forget(rows)

    def _forget(self, rows: Whole) -> None:
        for waiting in (self.open_useful_s, self.open_slower_s, self.open_checkpoint_s):
            waiting[rows] = 0.0

    def fail(self, rows: Whole, kind: Whole, *, is_planned: Bools) -> None:
        """Interrupt runs; a planned interruption writes a checkpoint first."""
        # one that is down has nothing to lose, and does not stop on purpose
        is_down = self.detecting_s[rows] + self.restarting_s[rows] > 0
        counts = ~(is_down & is_planned)
        rows, kind, is_planned = rows[counts], kind[counts], is_planned[counts]
        self.interruptions[rows] += 1
        self.keep(rows[is_planned])
        open_s = self.open_useful_s + self.open_checkpoint_s + self.open_slower_s.sum(axis=1)
        self.spent["again"][rows, kind] += open_s[rows]
        self._forget(rows)
        self.position_s[rows] = 0.0
        self.down_by[rows] = kind
        written_s = self.recovery.checkpoint_s if np.isfinite(self.recovery.interval_s) else 0.0
        self.detecting_s[rows] = np.where(is_planned, 0.0, self.recovery.detection_s)
        self.restarting_s[rows] = self.recovery.restart_s + written_s * is_planned

    def go_on(self, length_s: Floats, pace: Floats, cause: Whole, waits: Bools) -> None:
        """Let time go by in which nothing changes; ``waits`` for a repair before it restarts."""
        rows = np.arange(self.runs)
        left = length_s.copy()
        self._recover("detection", self.detecting_s, left)
        self.spent["waiting"][rows, self.down_by] += np.where(waits, left, 0.0)
        left[waits] = 0.0
        self._recover("restart", self.restarting_s, left)
        self._train(left, pace, cause)

    def _recover(self, name: str, timer_s: Floats, left_s: Floats) -> None:
        """Take the time of a part of the recovery from what is left, in place."""
        spent = np.minimum(left_s, timer_s)
        self.spent[name][np.arange(self.runs), self.down_by] += spent
        timer_s -= spent
        left_s -= spent

    def _train(self, left_s: Floats, pace: Floats, cause: Whole) -> None:
        rows, interval = np.arange(self.runs), self.recovery.interval_s
        cycle = interval + self.recovery.checkpoint_s
        end = self.position_s + left_s
        whole = np.floor(end / cycle) if np.isfinite(cycle) else np.zeros(self.runs)
        # up to the last checkpoint that is complete, and from there
        until = np.where(whole > 0, whole * cycle if np.isfinite(cycle) else 0.0, self.position_s)
        for begin, stop, is_kept in ((self.position_s, until, whole > 0), (until, end, None)):
            trained = self._trained(stop, cycle) - self._trained(begin, cycle)
            self.open_useful_s += pace * trained
            self.open_slower_s[rows, cause] += (1 - pace) * trained
            self.open_checkpoint_s += np.maximum(0.0, stop - begin - trained)
            if is_kept is not None:
                self.keep(np.flatnonzero(is_kept))
        self.position_s = end - (whole * cycle if np.isfinite(cycle) else 0.0)

    def _trained(self, position_s: Floats, cycle_s: float) -> Floats:
        """Training time up to a position in cycles."""
        if not np.isfinite(cycle_s):
            return position_s
        whole = np.floor(position_s / cycle_s)
        rest = np.minimum(position_s - whole * cycle_s, self.recovery.interval_s)
        return np.asarray(whole * self.recovery.interval_s + rest)


def spend(outages: Outages, recovery: Recovery) -> TimeSpent:
    """Return where the time of each run goes.

    Parameters
    ----------
    outages
        What fails when.
    recovery
        What the job does about it.
    """
    classes = outages.classes
    kinds = tuple(dict.fromkeys(class_.kind for class_ in classes))
    kind_of = np.array([*(kinds.index(class_.kind) for class_ in classes), len(kinds)])
    changes = _changes_of(outages)
    waits = changes.is_stopped | (changes.servers_out > recovery.spares)
    job = _Job(recovery, len(kinds), outages.runs)
    ends = np.concatenate(
        [changes.at_s[:, 1:], np.full((outages.runs, 1), outages.horizon_s)], axis=1
    )
    interrupts, is_planned = _flags(classes)
    for column in range(changes.at_s.shape[1]):
        what = changes.what[:, column]
        begins = changes.at_s[:, column] < outages.horizon_s
        rows = np.flatnonzero(interrupts[what] & begins)
        if len(rows):
            number = np.where(what < 0, -1 - what, what)[rows]
            job.fail(rows, kind_of[number], is_planned=is_planned[what[rows]])
        job.go_on(
            ends[:, column] - changes.at_s[:, column],
            changes.pace[:, column],
            kind_of[changes.cause[:, column]],
            waits[:, column],
        )
    job.keep(np.arange(outages.runs))
    return TimeSpent(kinds, _columns(job.spent), job.interruptions, outages.horizon_s)


def _columns(spent: Mapping[str, Floats]) -> dict[str, Floats]:
    """By kind; what no kind costs has one column."""
    kindless = ("useful", "checkpoints")
    return {
        name: times[:, -1:] if name in kindless else times[:, :-1] for name, times in spent.items()
    }


def _must_restart(failure: FailureClass) -> bool:
    return failure.interrupts or failure.stops or failure.servers > 0


def _flags(classes: Sequence[FailureClass]) -> tuple[Bools, Bools]:
    """Whether a change interrupts, and whether on purpose: by class, nothing, and repairs."""
    # a negative number of a repair counts from the end: -1 is that of class 0
    puts_back = [
        _must_restart(failure) and failure.longer_share > NOT_WORTH_A_RESTART and not failure.stops
        for failure in classes
    ]
    interrupts = [*(map(_must_restart, classes)), False, *puts_back[::-1]]
    is_planned = [*(failure.is_planned for failure in classes), False, *(True for _ in classes)]
    return np.array(interrupts, dtype=bool), np.array(is_planned, dtype=bool)
