"""Runs a sweep into a folder: opens it, chooses the workers, and keeps what is finished."""

from __future__ import annotations

from pathlib import Path

from lightloom.errors import InputError
from lightloom.output.sweep_folder import SweepFolder
from lightloom.output.sweep_results import SweepResults
from lightloom.progress import Monitor
from lightloom.study.compare.runner import Row
from lightloom.study.ray_workers import RayWorkers
from lightloom.study.sweep.driver import SweepDriver
from lightloom.study.sweep.point import Evaluate, PointTask
from lightloom.study.sweep.study import SweepStudy
from lightloom.study.workers import LocalWorkers, WorkerCrew, available_cores


def run_sweep(
    study: SweepStudy,
    out: Path,
    *,
    workers: int | None = None,
    on: str | None = None,
    resume: bool = False,
    budget_s: float | None = None,
    monitor: Monitor[Row] | None = None,
) -> SweepResults:
    """Run the points of a study that a folder does not have.

    Parameters
    ----------
    study
        Which points there are.
    out
        The folder; it is made if there is none.
    workers
        How many points at once; by default one for each core of the machine or the cluster.
    on
        ``ray`` or ``ray://HOST:PORT``; by default processes of this machine.
    resume
        Whether a folder with results is gone on with.
    budget_s
        After so many seconds no point is begun.
    monitor
        Takes progress.

    Raises
    ------
    InputError
        If the folder has other results, or the cluster cannot be used.
    OutputError
        If rows cannot be written; those that are there stay.
    KeyboardInterrupt
        If it was interrupted; what is finished is written.
    """
    crew = workers_of(study.design.size, workers, on)
    folder = SweepFolder(out, study)
    try:
        folder.open(resume=resume)
        if folder.open_points:
            SweepDriver(study, folder, crew, monitor, budget_s).run()
    finally:
        crew.stop()
        folder.close()
    return SweepResults.read(out)


def workers_of(points: int, count: int | None, on: str | None) -> WorkerCrew[list[PointTask]]:
    """Processes of this machine, or actors of a cluster; each computes with its share of cores.

    Raises
    ------
    InputError
        If the cluster cannot be used.
    """
    if on is not None:
        return RayWorkers(Evaluate(1), on, count)
    cores = available_cores()
    number = min(count or cores, max(1, points))
    if number > 64 * cores:
        raise InputError(f"--workers {number:,}: expected at most 64 for each of {cores} cores")
    return LocalWorkers(Evaluate(max(1, cores // number)), number)
