"""The predicted speed of every public run, kept as a file, so that a commit shows what it changes.

``predictions.csv`` is written by ``run.py --write``; ``release.csv`` is what it was at the last
release (``board.py --release``). A speed of 0 is that of a run that was refused.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from rows import Run

HERE = Path(__file__).parent
FILE, RELEASE = HERE / "predictions.csv", HERE / "release.csv"
COLUMNS = ("run", "class", "set", "published", "predicted")


def as_csv(runs: Sequence[Run], predicted: Mapping[str, float]) -> str:
    """One line for each run, in the order of the file; tokens/s per GPU."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in runs:
        speeds = f"{run.published:.6g}", f"{predicted[run.name]:.6g}"
        writer.writerow((run.name, run.group, run.part, *speeds))
    return text.getvalue()


def read(path: Path) -> dict[str, dict[str, str]]:
    """The lines of such a file by run."""
    with path.open(encoding="utf-8", newline="") as lines:
        return {row["run"]: row for row in csv.DictReader(lines)}
