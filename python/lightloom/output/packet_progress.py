"""How far a packet simulation is, on a terminal; and what has finished, to whoever wants it."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from lightloom.packets import Finished, Progress
from lightloom.units import show_count, show_time

#: a run that takes less than this shows nothing
_PATIENCE_S = 1.0


class PacketWatcher:
    """Shows progress after a moment, hands over rows of finished flows.

    Parameters
    ----------
    console
        Where to.
    flows
        How many there are.
    finished
        Called with the flows that have just finished.
    until_s
        Simulated time at which the run stops, if it does.
    """

    def __init__(
        self,
        console: Console,
        flows: int,
        finished: Callable[[Finished], None],
        until_s: float | None,
    ) -> None:
        #: which flows have finished
        self.done = np.zeros(flows, dtype=np.bool_)
        self._hand_over = finished
        self._until_s = until_s
        self._begin = time.monotonic()
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=9),
            TextColumn("{task.percentage:3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=1.0)
        self._is_shown = False

    def __enter__(self) -> PacketWatcher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_shown:
            self._bar.stop()

    def progress(self, at: Progress) -> None:
        """Take what has finished, show how far the run is."""
        if len(at.finished):
            self.done[at.finished.flow] = True
            self._hand_over(at.finished)
        elapsed_s = time.monotonic() - self._begin
        if elapsed_s < _PATIENCE_S:
            return
        if not self._is_shown:
            self._is_shown = True
            self._bar.start()
        self._bar.update(self._task, completed=self._share(at), description=self._text(at))

    def _share(self, at: Progress) -> float:
        """How much is done: of the hops that will be, or of the time, whichever is nearer."""
        shares = [at.data_hops / max(1, at.expected_hops)]
        if self._until_s is not None:
            shares.append(at.time_s / self._until_s)
        return min(1.0, max(shares))

    def _text(self, at: Progress) -> str:
        rate = at.data_hops / (time.monotonic() - self._begin)
        done = f"{int(self.done.sum()):,}/{len(self.done):,} flows"
        return f"{show_time(at.time_s, 3)}, {done}, {show_count(rate)} data hops/s"
