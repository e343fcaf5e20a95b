"""Progress of a comparison on a terminal, and its rows as they are finished."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lightloom.output.files import RowWriter
from lightloom.study.compare import Monitor


class Watcher(Monitor):
    """Shows progress on a terminal and writes rows as runs finish."""

    def __init__(self, console: Console, rows: RowWriter) -> None:
        self._rows = rows
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=1.0)

    def __enter__(self) -> Watcher:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def at(self, share: float, what: str) -> None:
        """Show how much is done and what is being done."""
        self._progress.update(self._task, completed=share, description=what)

    def remark(self, text: str) -> None:
        """Print it above the progress."""
        self._console.print(text, style="dim", soft_wrap=True, markup=False)

    def finished(self, row: dict[str, object]) -> None:
        """Write the row of a run that ended."""
        self._rows.write(row)
