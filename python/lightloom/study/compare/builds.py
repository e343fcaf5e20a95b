"""Workloads and networks of a job, each made once and kept as long as it is of use."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from lightloom.fabric import Cluster, Fabric, FabricContext, MeanDemand, mean_demand
from lightloom.fabric.network import Network
from lightloom.study.compare.few_replicas import FewReplicasJob, is_alike
from lightloom.study.compare.job import Job, StepWorkload
from lightloom.study.compare.results import Sample
from lightloom.study.compare.shared_work import shared
from lightloom.study.compare.variants import FabricVariant
from lightloom.workload.task_graph import COLUMNS

#: samples over which the demand is averaged for topologies that are fixed for the whole job
CONTEXT_SAMPLES = 4
#: tasks and token counts of workloads that are kept for another use
KEPT_BYTES = 1_000_000_000


class Workloads:
    """Workloads by sample and size of server.

    A sample at another compute speed has the demand of its nominal one, which is folded once and
    counts once. The oldest are given up when all together exceed :data:`KEPT_BYTES`.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._kept: dict[tuple[Sample, int], StepWorkload] = {}

    def get(self, sample: Sample, gpus_per_server: int) -> StepWorkload:
        """The workload of a sample on servers of a given size."""
        key = (sample, gpus_per_server)
        if key not in self._kept:
            make = functools.partial(self._made, sample, gpus_per_server)
            step = self._job.step_key(sample, gpus_per_server)
            self._kept[key] = shared("task graph", step, make, lambda kept: size_of(*kept))
            self._give_up_old()
        return self._kept[key]

    def _made(self, sample: Sample, gpus_per_server: int) -> StepWorkload:
        if sample.compute_scale == 1.0:
            return self._job.workload(sample, gpus_per_server)
        nominal = self.get(Sample(sample.seed, sample.step), gpus_per_server)
        return self._job.scaled(nominal, sample)

    def forget(self) -> None:
        """Give all of them up: everything has run."""
        self._kept.clear()

    def _give_up_old(self) -> None:
        while len(self._kept) > 1 and size_of(*self._kept.values()) > KEPT_BYTES:
            del self._kept[next(iter(self._kept))]


def size_of(*workloads: StepWorkload) -> int:
    """Bytes of the tasks, token counts and tables of workloads; what they share counts once."""
    arrays = {id(array): array for workload in workloads for array in _arrays(workload)}
    return sum(array.nbytes for array in arrays.values())


def _arrays(workload: StepWorkload) -> Iterable[npt.NDArray[Any]]:
    graph = workload.graph
    for role in graph.roles:
        yield from (getattr(role.program, name) for name in COLUMNS)
    for demand in graph.demands:
        yield from (array for array in (demand.counts, demand.rank_counts) if array is not None)
    yield from (table.values for table in graph.tables)


@dataclass(frozen=True)
class FewReplicas:
    """A job of few replicas that stand for all, and its workloads."""

    job: FewReplicasJob
    workloads: Workloads

    @classmethod
    def of(cls, job: FewReplicasJob | None) -> FewReplicas | None:
        """Those of the job, if there is one."""
        return None if job is None else cls(job, Workloads(job))


class Networks:
    """Networks of fabrics, each planned once from the job's mean demand.

    ``is_averaged`` tells whether any fabric has looked at that, so that several samples were built.
    """

    def __init__(self, job: Job, workloads: Workloads, few: FewReplicas | None = None) -> None:
        self.job = job
        self.is_averaged = False
        self._workloads = workloads
        self._few = few
        self._contexts: dict[tuple[int, bool], FabricContext] = {}
        self._networks: dict[Fabric, Network] = {}

    def server_size(self, fabric: Fabric) -> int:
        """GPUs per server of a fabric."""
        return fabric.adapt(self.job.cluster).gpus_per_server

    def get(self, fabric: Fabric) -> Network:
        """The network of a fabric.

        Raises
        ------
        FabricError
            If the fabric cannot carry the job.
        """
        if fabric not in self._networks:
            self._networks[fabric] = fabric.network(self.job.cluster, self.context(fabric))
        return self._networks[fabric]

    def explain(self, fabric: Fabric, variant: FabricVariant, reason: str) -> None:
        """Let the network of a fabric say why it is this variant."""
        self._networks[fabric] = variant.explained(self.get(fabric), reason)

    def cluster(self, fabric: Fabric) -> Cluster:
        """The machines of the job, with the fabric's servers and NICs."""
        return fabric.adapt(self.job.cluster)

    def context(self, fabric: Fabric) -> FabricContext:
        """The job as a fabric may know it in advance: its first sample, and the mean of several."""
        size = self.server_size(fabric)
        few = self._few if is_alike(fabric) else None
        key = (size, few is None)
        if key not in self._contexts:
            workloads = few.workloads if few else self._workloads
            graph = workloads.get(self.job.samples()[0], size).graph
            mean = functools.cache(lambda: self._mean_demand(workloads, size))
            context = FabricContext.of(graph, mean)
            if few:
                context = dataclasses.replace(context, layout=few.job.layout(size))
            self._contexts[key] = context
        return self._contexts[key]

    def _mean_demand(self, workloads: Workloads, gpus_per_server: int) -> MeanDemand:
        """The mean of the nominal samples.

        At most :data:`CONTEXT_SAMPLES` of them, evenly spread, since each has to be built.
        """
        self.is_averaged = True
        nominal = [s for s in self.job.samples() if s.compute_scale == 1.0]
        chosen = nominal[:: -(-len(nominal) // CONTEXT_SAMPLES)]
        return mean_demand(workloads.get(sample, gpus_per_server).graph for sample in chosen)
