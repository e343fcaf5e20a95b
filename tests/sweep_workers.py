"""Studies and workers of sweeps for tests: workers of this process that get lost at random."""

import random
from pathlib import Path

from lightloom.output.sweep_folder import SweepFolder
from lightloom.study.sweep.driver import SweepDriver
from lightloom.study.sweep.point import INPUTS, PLAN, RESULTS, PointOutcome, TaskOutcomes
from lightloom.study.sweep.study import SweepStudy
from lightloom.study.workers import Answer

BASE = {
    "model": "mixtral-8x7b",
    "gpus": 64,
    "fabrics": ["fat-tree", "mixnet"],
    "cluster": {"rate_gbps": 400},
}
AXES = {"cluster.rate_gbps": [100, 200, 400], "mixnet.ports": [4, 6], "seeds": [1, 2, 3, 4]}


def study_of(axes=AXES, base=BASE, folder=Path(), **options):
    return SweepStudy.of({**base, "sweep": {"axes": axes, **options}}, "s.toml", folder)


def rows_of(task):
    """Two rows that depend on the inputs of a point alone."""
    scenario = task.scenario
    base = {name: kind(1) for name, kind in {**INPUTS, **PLAN, **RESULTS}.items()}
    rate, seeds = scenario.cluster.rate_gbps, scenario.seeds
    ports = scenario.fabric_options["mixnet"]["ports"]
    return tuple(
        base | {"fabric": fabric, "step_time_s": rate / 3 + seeds * 1e-3 + ports + number,
                "perf_per_cluster_usd": rate / ports, "gpus": scenario.gpus,
                "plan_source": "searched" if scenario.gpus < 128 else "published"}
        for number, fabric in enumerate(("fat-tree", "mixnet"))
    )  # fmt: skip


def outcome_of(task):
    """What comes of a point; two of them fail."""
    if task.scenario.seeds == 3 and task.scenario.cluster.rate_gbps == 200:
        return PointOutcome(task.number, failure="no such seed")
    return PointOutcome(task.number, rows_of(task))


class LossyWorkers:
    """Workers that answer in any order, and are lost at random or at certain points."""

    def __init__(self, count, rng=None, lost=0.0, killers=(), stop_after=None):
        self.count, self.rng = count, rng or random.Random(0)
        self.lost, self.killers, self.left = lost, killers, stop_after
        self.busy, self.computed = {}, []

    def idle(self):
        return [worker for worker in range(self.count) if worker not in self.busy]

    def give(self, worker, work):
        assert worker not in self.busy
        self.busy[worker] = work

    def answers(self, _timeout_s):
        if self.left is not None and self.left <= 0:
            raise KeyboardInterrupt
        worker = self.rng.choice(sorted(self.busy))
        tasks = self.busy.pop(worker)
        dies = any(task.number in self.killers for task in tasks)
        if dies or self.rng.random() < self.lost:
            return [Answer(worker, "lost", "the process ended with status -9")]
        if self.left is not None:
            self.left -= len(tasks)
        self.computed += [task.number for task in tasks]
        outcomes = tuple(map(outcome_of, tasks))
        return [Answer(worker, "done", TaskOutcomes(outcomes, 0.1 * len(tasks), {}, {}))]

    def stop(self):
        self.busy.clear()


def sweep(study, out, workers, *, resume=False, budget_s=None, monitor=None):
    """Run a sweep; whether it was interrupted."""
    folder = SweepFolder(out, study)
    try:
        folder.open(resume=resume)
        SweepDriver(study, folder, workers, monitor, budget_s).run()
    except KeyboardInterrupt:
        return True
    finally:
        folder.close()
    return False
