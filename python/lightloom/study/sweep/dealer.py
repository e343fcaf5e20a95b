"""Who computes which points next: those that share work go to one worker, none waits idly."""

from __future__ import annotations

from collections.abc import Iterator

#: seconds that a worker should have work for at once
AT_ONCE_S = 1.0
#: points that a worker is given at once at most
MOST_AT_ONCE = 500
#: how much the last points say of the time of the next
WEIGHT = 0.3


class Dealer:
    """Deals numbers out: to each worker runs of points that share work.

    A worker whose runs have ended takes half of what another one has not begun.

    Parameters
    ----------
    runs
        All numbers, those that share work in one range.
    """

    def __init__(self, runs: Iterator[range]) -> None:
        self._runs = runs
        self._own: dict[int, range] = {}
        self._again: list[int] = []
        self._seconds: float | None = None

    def next(self, worker: int, workers: int) -> range:
        """The numbers that a worker computes next; none at the end."""
        if self._again:
            number = self._again.pop()
            return range(number, number + 1)
        run = self._own.get(worker) or next(self._runs, range(0)) or self._half()
        # the last points of a run are divided among all
        count = max(1, min(self._at_once(), -(-len(run) // workers)))
        self._own[worker] = run[count:]
        return run[:count]

    def _half(self) -> range:
        """Half of what the worker with the most points has not begun."""
        if not any(self._own.values()):
            return range(0)
        other = max(self._own, key=lambda worker: len(self._own[worker]))
        run = self._own[other]
        middle = len(run) // 2
        self._own[other] = run[:middle]
        return run[middle:]

    def _at_once(self) -> int:
        if self._seconds is None:
            return 1
        return int(min(MOST_AT_ONCE, AT_ONCE_S / max(self._seconds, 1e-9)))

    def took(self, points: int, wall_s: float) -> None:
        """Note how long points took."""
        each = wall_s / points
        before = each if self._seconds is None else self._seconds
        self._seconds = before + WEIGHT * (each - before)

    def return_(self, numbers: list[int]) -> None:
        """Take numbers back that were lost with their worker; each is then dealt alone."""
        self._again.extend(reversed(numbers))
