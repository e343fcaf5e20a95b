"""Progress on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lightloom.progress import Monitor

#: takes what will be done, in lines, and warnings about it
Opening = Callable[[Sequence[str], Sequence[str]], None]


class TerminalMonitor(Monitor[Any]):
    """Shows progress on a terminal, prints remarks above it and hands results over.

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
    """

    def __init__(
        self,
        console: Console,
        finished: Callable[[Any], None],
        *,
        patience_s: float = 0.0,
        opening: Opening | None = None,
    ) -> None:
        self._console = console
        self._hand_over = finished
        self._opening = opening
        self._patience_s = patience_s
        self._began = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=9 if patience_s else 40),
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
        if not self._is_shown:
            if time.monotonic() - self._began < self._patience_s:
                return
            self._is_shown = True
            self._bar.start()
        self._bar.update(self._task, completed=share, description=activity)

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
