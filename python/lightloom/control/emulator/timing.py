"""How long the emulated mirrors take to settle."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from lightloom.errors import InputError
from lightloom.hardware import measured_turnaround


class SettleTime(Protocol):
    """Time from a command to settled circuits."""

    def draw_s(self, num_pairs: int, rng: random.Random) -> float:
        """Return the time that a change of ``num_pairs`` circuits takes."""
        ...


class FixedTime:
    """The same time for every change."""

    def __init__(self, seconds: float) -> None:
        if not 0 <= seconds <= 3600:
            raise InputError(f"settle time {seconds:g} s: expected 0 to 3600")
        self._seconds = seconds

    def draw_s(self, num_pairs: int, rng: random.Random) -> float:  # noqa: ARG002
        """Return the time."""
        return self._seconds


class MeasuredTime:
    """Log-normal times with the mean and 99th percentile that were measured on a Polatis switch.

    MixNet, Appendix C: means 41.44, 42.44 and 46.75 ms and 99th percentiles 60, 62 and 68 ms for
    1, 4 and 16 pairs; see :func:`lightloom.hardware.measured_turnaround`.

    Parameters
    ----------
    scale
        Factor on every time, so that a test need not wait.
    """

    def __init__(self, scale: float = 1.0) -> None:
        if not 0 <= scale <= 1000:
            raise InputError(f"scale of settle times {scale:g}: expected 0 to 1000")
        self._scale = scale

    def draw_s(self, num_pairs: int, rng: random.Random) -> float:
        """Return a random time."""
        delay = measured_turnaround(num_pairs)
        return rng.lognormvariate(delay.mu, delay.sigma) * self._scale


class RecordedTimes:
    """Recorded times, one per change, again from the first after the last."""

    def __init__(self, seconds: Sequence[float]) -> None:
        if not seconds or not all(0 <= one <= 3600 for one in seconds):
            raise InputError("recorded settle times: expected at least one, of 0 to 3600 s each")
        self._seconds = tuple(seconds)
        self._index = 0

    def draw_s(self, num_pairs: int, rng: random.Random) -> float:  # noqa: ARG002
        """Return the next time."""
        seconds = self._seconds[self._index]
        self._index = (self._index + 1) % len(self._seconds)
        return seconds
