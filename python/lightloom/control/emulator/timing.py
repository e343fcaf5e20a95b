"""How long the emulated mirrors take to settle."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from lightloom.errors import InputError, echo
from lightloom.hardware import measured_turnaround
from lightloom.units import parse_quantity

#: longest settle time, and maximum number of recorded ones
MAX_SECONDS = 3600.0
MAX_RECORDED = 1_000_000


class SettleTime(Protocol):
    """Time from a command to settled circuits."""

    def draw_s(self, num_pairs: int, rng: random.Random) -> float:
        """Return the time that a change of ``num_pairs`` circuits takes."""
        ...

    def expected_s(self, num_pairs: int) -> float:
        """Return the mean of these times."""
        ...


class FixedTime:
    """The same time for every change."""

    def __init__(self, seconds: float) -> None:
        if not 0 <= seconds <= MAX_SECONDS:
            raise InputError(f"settle time {seconds:g} s: expected 0 to 3600")
        self._seconds = seconds

    def draw_s(self, num_pairs: int, rng: random.Random) -> float:  # noqa: ARG002
        """Return the time."""
        return self._seconds

    def expected_s(self, num_pairs: int) -> float:  # noqa: ARG002
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

    def expected_s(self, num_pairs: int) -> float:
        """Return the published mean."""
        return measured_turnaround(num_pairs).mean_s * self._scale


class RecordedTimes:
    """Recorded times, one per change, again from the first after the last."""

    def __init__(self, seconds: Sequence[float]) -> None:
        if not seconds or not all(0 <= second <= MAX_SECONDS for second in seconds):
            raise InputError("recorded settle times: expected at least one, of 0 to 3600 s each")
        self._seconds = tuple(seconds)
        self._index = 0

    def draw_s(self, num_pairs: int, rng: random.Random) -> float:  # noqa: ARG002
        """Return the next time."""
        seconds = self._seconds[self._index]
        self._index = (self._index + 1) % len(self._seconds)
        return seconds

    def expected_s(self, num_pairs: int) -> float:  # noqa: ARG002
        """Return the mean of all recorded times."""
        return sum(self._seconds) / len(self._seconds)


def parts_of_settling(time: SettleTime) -> tuple[float, float]:
    """Mean seconds of any change, and in addition for each pair that changes."""
    fixed_s = time.expected_s(0)
    return fixed_s, time.expected_s(1) - fixed_s


def parse_settle_time(text: str) -> SettleTime:
    """Return the settle time that a text describes.

    Parameters
    ----------
    text
        ``measured``, a time such as ``20 ms``, or the path of a file with one time per line.

    Raises
    ------
    InputError
        If it describes none.
    """
    if text == "measured":
        return MeasuredTime()
    path = Path(text)
    if path.is_file():
        return RecordedTimes(_recorded(path))
    try:
        return FixedTime(parse_quantity(text, "second", "settle time"))
    except InputError:
        raise InputError(
            f"settle time {echo(text)}: expected measured, a time such as '20 ms', or a file with "
            "one time per line"
        ) from None


def _recorded(path: Path) -> list[float]:
    """Return the times of a file, one per line."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        texts = [line.strip() for line, _ in zip(lines, range(MAX_RECORDED + 1), strict=False)]
    if len(texts) > MAX_RECORDED:
        raise InputError(f"{path}: expected at most {MAX_RECORDED} times")
    seconds = []
    for number, text in enumerate(texts, 1):
        if text:
            try:
                seconds.append(float(text))
            except ValueError:
                seconds.append(parse_quantity(text, "second", f"{path}:{number}"))
    return seconds
