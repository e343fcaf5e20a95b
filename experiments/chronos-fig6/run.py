"""Compare all-to-alls of 16 experts over circuits and over a packet switch: Chronos, Figure 6.

    python experiments/chronos-fig6/run.py [--write | --check] [--resume]

Simulates every matrix packet by packet (some 15 minutes on two idle cores) and prints the table.
``--write`` puts it into table.md and the completion times into runs.csv, now and then;
``--resume`` takes what is already there from runs.csv and simulates the rest; ``--check`` says
whether the files are what would be written.
"""

from __future__ import annotations

import csv
import io
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cases
import tables
from settings import Settings, load

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from results import command_line, write_or_check  # noqa: E402

TABLE, RUNS = HERE / "table.md", HERE / "runs.csv"
#: seconds between two looks at runs.csv
SAVE_EVERY_S = 20.0

#: completion time by packet simulation and matrix
Runs = dict[tuple[str, int], float]


def read_runs() -> Runs:
    """Completion times of runs.csv."""
    if not RUNS.exists():
        return {}
    with RUNS.open(encoding="utf-8") as lines:
        return {
            (row["packets"], int(row["matrix"])): float(row["completion_us"]) * 1e-6
            for row in csv.DictReader(lines)
        }


def runs_csv(settings: Settings, runs: Runs) -> str:
    """Text of runs.csv, in the order of the settings."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("packets", "matrix", "completion_us"))
    for name, index in jobs(settings):
        if (name, index) in runs:
            lines.writerow((name, index, f"{runs[name, index] * 1e6:.3f}"))
    return text.getvalue()


def jobs(settings: Settings) -> Iterator[tuple[str, int]]:
    """Every packet simulation: name and matrix."""
    for name, packets in settings.packet.items():
        yield from ((name, index) for index in range(packets.count))


def simulate_all(settings: Settings, demands: cases.Matrix, known: Runs, *, write: bool) -> Runs:
    """Completion time of every packet simulation; what is known is not simulated again."""
    runs = dict(known)
    todo = [job for job in jobs(settings) if job not in known]
    scenarios = {name: cases.packet_case(settings, name) for name in settings.packet}

    def one(job: tuple[str, int]) -> float:
        # Rounded as in the file, so that a resumed run prints the same table.
        return round(cases.packet_s(scenarios[job[0]], demands[job[1]]), 9)

    started = saved = time.perf_counter()
    pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
    try:
        for job, completion_s in zip(todo, pool.map(one, todo), strict=True):
            runs[job] = completion_s
            now = time.perf_counter()
            if now - saved > SAVE_EVERY_S:
                saved = now
                new = len(runs) - len(known)
                _tell(job[0], len(runs), len(todo) - new, (now - started) / new)
                if write:
                    RUNS.write_text(runs_csv(settings, runs), encoding="utf-8")
    finally:
        # An interrupt leaves what is finished.
        pool.shutdown(cancel_futures=True)
        if write:
            RUNS.write_text(runs_csv(settings, runs), encoding="utf-8")
    return runs


def _tell(name: str, done: int, left: int, each_s: float) -> None:
    print(
        f"{name}: {done} of {done + left} simulated, {left * each_s / 60:.1f} min left",
        file=sys.stderr,
        flush=True,
    )


def main() -> int:
    """Simulate, print, write or check."""
    options = command_line(__doc__, resume=True).parse_args()
    settings = load()
    matrices = cases.Matrices.draw(settings)
    known = read_runs() if options.resume else {}
    runs = simulate_all(settings, matrices.demands, known, write=options.write)
    made = {TABLE: tables.table(settings, matrices, runs), RUNS: runs_csv(settings, runs)}
    if not (options.write or options.check):
        print(made[TABLE], end="")
    return write_or_check(made, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
