"""Progress: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import bisect
import math
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from lightloom.progress import Monitor

#: takes what will be done, in lines, and warnings about it
Opening = Callable[[Sequence[str], Sequence[str]], None]


#: without a terminal, a line is printed so often
LINE_EVERY_S = 30.0
#: and, once so much time has gone, one on what takes longer than a minute
FORECAST_AFTER_S, LONG_S = 5.0, 60.0
#: the time left follows what was measured within this share of the time that has gone, or seconds
SMOOTHING, MIN_SMOOTHING_S = 0.2, 3.0
#: share of the time that has gone, in which shares are not told apart
RESOLUTION = 0.01
#: share of the work that has to be done before its speed says how long the rest takes
MIN_SHARE = 0.02


class Remaining:
    """How long work will still take, from the share of it that is done, without jumps.

    A share that becomes smaller begins other work, whose speed is measured anew.

    Examples
    --------
    >>> remaining = Remaining(began_s=0.0)
    >>> remaining.update(0.25, at_s=10.0)
    30.0
    """

    def __init__(self, began_s: float) -> None:
        self._begin(0.0, began_s)

    def _begin(self, share: float, at_s: float) -> None:
        self._share, self._at_s, self._end_s = share, at_s, math.nan
        #: times and shares, of which the first one is at the beginning
        self._known = [(at_s, share)]

    def update(self, share: float, at_s: float) -> float | None:
        """Seconds left at a time; ``None`` where nothing is known."""
        if share < self._share:
            self._begin(share, at_s)
        self._share = share
        gone_s = at_s - self._known[0][0]
        # the second half of the time tells more of the speed than all of it
        half = bisect.bisect(self._known, (at_s - gone_s / 2, math.inf)) - 1
        from_s, done = self._known[max(0, half)]
        if share <= done:
            return None
        if at_s - self._known[-1][0] > RESOLUTION * gone_s:
            self._known.append((at_s, share))
        if share < MIN_SHARE:
            return None
        left_s = (at_s - from_s) * (1 - share) / (share - done)
        if math.isnan(self._end_s):
            self._end_s = at_s + left_s
        pace_s = max(MIN_SMOOTHING_S, SMOOTHING * gone_s)
        self._end_s += (at_s + left_s - self._end_s) * -math.expm1((self._at_s - at_s) / pace_s)
        self._at_s = at_s
        return min(max(self._end_s - at_s, left_s / 2), 2 * left_s)


class TerminalMonitor(Monitor[Any]):
    """Shows progress, prints remarks above it and hands results over.

    Without a terminal it prints how long the work will take, if that is over a minute, and then a
    line every half a minute.

    Parameters
    ----------
    console
        Where progress is shown, if it is a terminal.
    finished
        Called with what has finished.
    patience_s
        Work that takes less than this shows nothing.
    opening
        Called with what will be done, and with warnings about it.
    bar_width
        Characters of the bar, where what is being done takes more of the line.
    """

    def __init__(
        self,
        console: Console,
        finished: Callable[[Any], None],
        *,
        patience_s: float = 0.0,
        opening: Opening | None = None,
        bar_width: int = 0,
    ) -> None:
        self._console = console
        self._hand_over = finished
        self._opening = opening
        self._patience_s = patience_s
        self._began = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=bar_width or (9 if patience_s else 40)),
            TextColumn("{task.percentage:3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=1.0, left="")
        self._remaining = Remaining(self._began)
        self._is_shown = False
        self._next_line_s = FORECAST_AFTER_S

    def __enter__(self) -> TerminalMonitor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_shown:
            self._bar.stop()

    def progress(self, share: float, activity: str = "", /) -> None:
        """Show how much is done and what is being done."""
        now = time.monotonic()
        left_s = self._remaining.update(share, now)
        if not self._console.is_terminal:
            self._print_line(share, left_s, activity)
            return
        if not self._is_shown:
            if now - self._began < self._patience_s:
                return
            self._is_shown = True
            self._bar.start()
        left = "" if left_s is None else f"left: {_clock(left_s)}"
        self._bar.update(self._task, completed=share, description=activity, left=left)

    def _print_line(self, share: float, left_s: float | None, activity: str) -> None:
        """Print how far the work is, if it is time to."""
        spent_s = time.monotonic() - self._began
        if spent_s < self._next_line_s:
            return
        if spent_s < LINE_EVERY_S:  # a forecast, once there is something to judge by
            if left_s is None or spent_s + left_s < LONG_S:
                self._next_line_s = spent_s + 1.0
                return
            self._next_line_s = LINE_EVERY_S
        else:
            self._next_line_s = spent_s + LINE_EVERY_S
        left = "" if left_s is None else f", about {_clock(left_s)} left"
        self.remark(f"{100 * share:.0f} % in {_clock(spent_s)}{left}: {activity}".rstrip(": "))

    def begun(self, summary: Sequence[str], warnings: Sequence[str]) -> None:
        """Hand over what will be done."""
        if self._opening is not None:
            self._opening(summary, warnings)

    def remark(self, text: str) -> None:
        """Print a sentence above the progress."""
        self._console.print(text, style="dim", soft_wrap=True, markup=False)

    def finished(self, result: Any) -> None:
        """Hand over what has finished."""
        self._hand_over(result)


def _clock(time_s: float) -> str:
    """Minutes and seconds, of long times hours and minutes."""
    seconds = round(time_s)
    if seconds >= 5400:
        return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
    return f"{seconds // 60}:{seconds % 60:02d}"
