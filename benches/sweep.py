"""What a sweep costs beside its points, and what a second worker is worth.

    python benches/sweep.py            # processes of this machine
    python benches/sweep.py ray        # a cluster of this machine, which has begun

Points that do nothing tell what the driver takes for each, and whether its memory grows; points of
a small comparison, by one worker and by two, what the second is worth.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lightloom.output.sweep import run_sweep
from lightloom.output.sweep_folder import SweepFolder
from lightloom.study.ray_workers import RayWorkers
from lightloom.study.sweep.driver import SweepDriver
from lightloom.study.sweep.point import (
    INPUTS,
    PLAN,
    RESULTS,
    Evaluate,
    PointOutcome,
    PointTask,
    TaskOutcomes,
)
from lightloom.study.sweep.study import SweepStudy
from lightloom.study.workers import LocalWorkers

JOB = {
    "model": "mixtral-8x7b",
    "gpus": 64,
    "fabrics": ["fat-tree", "mixnet"],
    "cluster": {"rate_gbps": 400},
}
SMALL = {
    **JOB,
    "seeds": 1,
    "compute_spread": 0.0,
    "policies": False,
    "imbalances": False,
    "plan": {"tp": 2, "pp": 4, "ep": 8},
    "sweep": {
        "axes": {
            "plan.micro_batches": [8, 12, 16, 20],
            "mixnet.fixed_s": {"from": 1e-6, "to": 1, "count": 16, "scale": "log"},
        }
    },
}


class Nothing(Evaluate):
    """Computes nothing."""

    def __call__(self, tasks: list[PointTask], send: object = None) -> TaskOutcomes:
        """Return a row for each point."""
        del send
        began = time.perf_counter()
        row = {name: kind(1) for name, kind in {**INPUTS, **PLAN, **RESULTS}.items()}
        outcomes = tuple(PointOutcome(task.number, (row,)) for task in tasks)
        return TaskOutcomes(outcomes, time.perf_counter() - began, {}, {})


def empty_points(count: int, on: str) -> None:
    """Run points that do nothing; print what each took, and the driver's memory."""
    axes = {
        "mixnet.fixed_s": {"from": 1e-6, "to": 10, "count": count // 10, "scale": "log"},
        "plan.micro_batches": list(range(1, 11)),
    }
    study = SweepStudy.of({**JOB, "sweep": {"axes": axes}}, "nothing", Path())
    with tempfile.TemporaryDirectory() as folder:
        store = SweepFolder(Path(folder) / "out", study)
        store.open(resume=False)
        workers = RayWorkers(Nothing(), on) if on else LocalWorkers(Nothing(), 2)
        began, processor = time.perf_counter(), time.process_time()
        SweepDriver(study, store, workers).run()
        store.close()
    wall_ms = 1e3 * (time.perf_counter() - began) / count
    own_ms = 1e3 * (time.process_time() - processor) / count
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"{count:,} points: {wall_ms:.2f} ms each, {own_ms:.2f} of the driver; {peak_mb:.0f} MB")


def main() -> None:
    """Print both measures."""
    on = "ray" if sys.argv[1:] == ["ray"] else ""
    if sys.argv[1:2] == ["empty"]:
        empty_points(int(sys.argv[2]), "".join(sys.argv[3:]))
        return
    for count in (1_000, 10_000):  # each in a process of its own, whose peak is told
        command = [sys.executable, __file__, "empty", str(count), *filter(None, [on])]
        subprocess.run(command, check=True)
    study = SweepStudy.of(SMALL, "small", Path())
    wall, processor = [], []
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            began, before = time.perf_counter(), processor_s()
            run_sweep(study, Path(folder) / "out", workers=workers, on=on or None)
            wall.append(time.perf_counter() - began)
            processor.append(processor_s() - before)
    size = study.design.size
    print(f"{size} comparisons: two workers {wall[0] / wall[1]:.2f} x as fast as one", end="")
    print(
        f"; processor seconds {processor[0]:.1f} and {processor[1]:.1f}, so that two cores of",
        end="",
    )
    print(f" their own are up to {2 * processor[0] / processor[1]:.2f} x as fast")


def processor_s() -> float:
    """Processor time of this process and of workers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    main()
