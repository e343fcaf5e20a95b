"""Steps predicted from runs with one and two fills of the pipeline.

A step takes longer by the same time with each micro-batch beyond those that fill the pipeline, so
that two short runs tell how long it is with any number.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lightloom.fabric import Fabric, Setting
from lightloom.progress import Progress
from lightloom.simulate import simulate
from lightloom.study.compare import strategies
from lightloom.study.compare.builds import Networks, Workloads
from lightloom.study.compare.job import Job, ModelJob


@dataclass(frozen=True)
class Fills:
    """A step as it is predicted: from the first of two jobs, and the difference of the second.

    The difference is taken ``fills_more`` times, and the sum ``layers_more`` times. A short step is
    its only job.
    """

    jobs: tuple[Job, ...]
    fills_more: float = 0.0
    layers_more: float = 1.0

    @classmethod
    def of(cls, job: ModelJob, fill: int) -> Fills:
        """The step of a job from that with ``fill`` micro-batches, and with twice as many."""
        if job.plan.micro_batches <= 2 * fill:
            return cls((job,))
        jobs = tuple(with_micro_batches(job, count * fill) for count in (1, 2))
        return cls(jobs, (job.plan.micro_batches - fill) / fill)

    def step_time_s(self, seconds: Sequence[float]) -> float:
        """The step, given those of the jobs."""
        more = self.fills_more * (seconds[-1] - seconds[0])
        return self.layers_more * (seconds[0] + more)


def with_micro_batches(job: ModelJob, micro_batches: int) -> ModelJob:
    """The job with so many micro-batches."""
    plan = dataclasses.replace(job.plan, micro_batches=micro_batches)
    return dataclasses.replace(job, plan=plan)


class Steps:
    """Predictions of a step on any fabric, with the strategies that it estimates to be best.

    A network is planned for each job, or with ``plans_once`` for the first of them; computation
    takes ``compute_scale`` times as long as assumed.
    """

    def __init__(
        self,
        fills: Fills,
        progress: Progress,
        *,
        plans_once: bool = False,
        compute_scale: float = 1.0,
    ) -> None:
        self._fills, self._progress, self._lock = fills, progress, threading.Lock()
        jobs = fills.jobs
        sample = jobs[0].samples()[0]
        self._sample = dataclasses.replace(sample, compute_scale=compute_scale)
        self._workloads = [Workloads(job) for job in jobs]
        pairs = zip(jobs, self._workloads, strict=True)
        networks = [Networks(job, workloads) for job, workloads in pairs]
        self._networks = networks[:1] * len(jobs) if plans_once else networks

    def candidates(self, fabric: Fabric) -> Mapping[Setting, Fabric]:
        """The fabric with each value of what it leaves open; see :meth:`seconds` for errors."""
        with self._lock:
            return strategies.candidates(fabric, self._networks[0])

    def step_time_s(self, fabric: Fabric) -> float:
        """The predicted step; see :meth:`seconds` for errors."""
        return self._fills.step_time_s(self.seconds(fabric))

    def seconds(self, fabric: Fabric) -> list[float]:
        """The simulated step of each job.

        Raises
        ------
        FabricError
            If the fabric cannot carry a job.
        KeyboardInterrupt
            If ``progress`` returned ``False``.
        """
        pairs = zip(self._workloads, self._networks, strict=True)
        return [self._seconds(workloads, networks, fabric) for workloads, networks in pairs]

    def _seconds(self, workloads: Workloads, networks: Networks, fabric: Fabric) -> float:
        if self._progress(0.0) is False:
            raise KeyboardInterrupt
        with self._lock:
            network = networks.get(fabric)
            graph = workloads.get(self._sample, networks.server_size(fabric)).graph
        return simulate(graph, network, progress=self._progress).step_time_s
