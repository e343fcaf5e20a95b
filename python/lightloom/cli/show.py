"""What ``compare`` and ``run`` share: progress on the way, results at the end."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from lightloom.report.files import RowWriter, check_writable, write_json
from lightloom.report.table import print_comparison
from lightloom.study.compare import Monitor, compare
from lightloom.study.results import Comparison
from lightloom.study.scenario import Scenario


class Watcher(Monitor):
    """Shows progress on the terminal and writes rows as runs finish."""

    def __init__(self, console: Console, rows: RowWriter) -> None:
        self._rows = rows
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f} %"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("building the workload", total=1.0)

    def __enter__(self) -> Watcher:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
        self._rows.close()

    def at(self, share: float, what: str) -> None:
        """Show how much is done and what is being done."""
        self._progress.update(self._task, completed=share, description=what)

    def finished(self, row: dict[str, object]) -> None:
        """Write the row of a run that ended."""
        self._rows.write(row)


def run_and_report(
    scenario: Scenario,
    *,
    html: Path | None = None,
    json_path: str | None = None,
    csv: Path | None = None,
    parquet: Path | None = None,
    trace: Path | None = None,
) -> Comparison:
    """Compare, then print the tables and write what was asked for."""
    targets = [html, csv, parquet, trace]
    if json_path not in (None, "-"):
        targets.append(Path(str(json_path)))
    for target in targets:
        if target is not None:
            check_writable(target)
    # Standard output is for results alone when they go there as JSON.
    console = Console(stderr=json_path == "-")
    started = time.monotonic()
    with Watcher(console, RowWriter(csv, parquet)) as watcher:
        comparison = compare(
            scenario, monitor=watcher, with_timeline=trace is not None or html is not None
        )
    print_comparison(comparison, console)
    if json_path is not None:
        write_json(comparison.to_json(), json_path)
    if html is not None:
        from lightloom.report.page import write_page

        write_page(comparison, html)
    if trace is not None:
        from lightloom.report.timeline import write_timeline

        write_timeline(comparison, trace)
    for target in targets:
        if target is not None:
            console.print(f"wrote {target}", style="dim")
    console.print(f"compared in {time.monotonic() - started:.1f} s", style="dim")
    return comparison
