"""Very long steps: a few replicas of the experts stand for all of them.

Replicas are alike but for the tokens that they route, share no server, and meet only where
gradients and parameters go around data-parallel rings. So a few of them are built and simulated, on
the servers of the first, and rings go on as if the others were there: as many bytes over each edge
and as many steps as in the whole job. Under a balanced load the step is as long, but for edges
between leaves of a tree, of which few servers have a smaller share (1e-4 of a step); under a drawn
one the slowest of a few replicas stands for the slowest of all. Fabrics whose circuits join
servers of several replicas are simulated whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from lightloom.fabric import Fabric
from lightloom.fabric.base import PacketTrees
from lightloom.fabric.mixnet_options import MixNetOptions
from lightloom.parallel import RankGrid, place_workers
from lightloom.simulate import Run
from lightloom.study.compare.job import ModelJob, StepWorkload
from lightloom.study.compare.results import Sample
from lightloom.study.compare.short_step import with_few_replicas
from lightloom.workload.build import Workload
from lightloom.workload.collectives import DENSE, EXPERT
from lightloom.workload.compute import ComputeModel
from lightloom.workload.task_graph import GroupFamily, Layout, Role

#: what results count of circuits, over all regions
_COUNTS = (
    *("decisions", "reconfigurations", "skipped", "pairs_changed", "delay_s", "saved_s"),
    *("makespan_s", "bound_s", "relayed", "one_hop", "allocations", "shared"),
)


@dataclass(frozen=True)
class _ComputeOfAll(ComputeModel):
    """Times of a job whose optimizer has ``times`` as many ranks to share out its states."""

    times: int = 1

    def optimizer(self, parameters_per_gpu: float) -> float:
        """See :meth:`~lightloom.workload.compute.ComputeModel.optimizer`."""
        return super().optimizer(parameters_per_gpu / self.times)


@dataclass(frozen=True, kw_only=True)
class FewReplicasJob(ModelJob):
    """The first replicas of the ``whole`` job, with ``absent`` others for each of them."""

    whole: ModelJob
    absent: int

    @classmethod
    def of(cls, whole: ModelJob) -> FewReplicasJob | None:
        """The job with few of many replicas; ``None`` where all are needed."""
        few = with_few_replicas(whole)
        times = whole.plan.groups_per_stage // few.plan.groups_per_stage
        if times == 1 or not any(map(is_alike, whole.fabrics)):
            return None
        compute = {each.name: getattr(few.compute, each.name)
                   for each in dataclasses.fields(ComputeModel)}  # fmt: skip
        sharing = times if few.plan.zero1 else 1
        few = dataclasses.replace(few, compute=_ComputeOfAll(**compute, times=sharing))
        return cls.like(few, whole=whole, absent=times - 1)

    def workload(self, sample: Sample, gpus_per_server: int) -> Workload:
        """The task graph of one step on servers of a given size."""
        return self._among_all(super().workload(sample, gpus_per_server), gpus_per_server)

    def scaled(self, workload: StepWorkload, sample: Sample) -> StepWorkload:
        """The step of a workload at the compute speed of ``sample``."""
        scaled = super().scaled(workload, sample)
        assert isinstance(scaled, Workload)
        return self._among_all(scaled, scaled.workers.gpus_per_server)

    def step_key(self, sample: Sample, gpus_per_server: int) -> Hashable | None:
        """That of a job of so few replicas, and how many are absent."""
        return (super().step_key(sample, gpus_per_server), self.absent)

    def layout(self, gpus_per_server: int) -> Layout:
        """Where the workers of all replicas sit."""
        workers = place_workers(RankGrid(self.whole.plan), gpus_per_server)
        servers = workers.server.ravel().astype(np.uint32)
        stages, replicas, members = workers.server.shape
        return Layout.grid(stages, replicas, members, workers.gpus_per_worker, servers)

    def _among_all(self, workload: Workload, gpus_per_server: int) -> Workload:
        """The step on the servers of the whole job, with rings that have all members."""
        whole = place_workers(RankGrid(self.whole.plan), gpus_per_server).server
        first = whole[:, : workload.workers.server.shape[1]].ravel().astype(np.uint32)
        families = tuple(
            dataclasses.replace(family, absent=self.absent)
            if family.name in {DENSE, EXPERT}
            else family
            for family in workload.graph.families
        )
        graph = dataclasses.replace(
            workload.graph,
            families=families,
            worker_server=first,
            roles=tuple(self._with_rings_of_all(role, families) for role in workload.graph.roles),
        )
        return dataclasses.replace(workload, graph=graph)

    def _with_rings_of_all(self, role: Role, families: tuple[GroupFamily, ...]) -> Role:
        """A role whose rings move as much inside servers as with all members."""
        program = role.program
        inside = program.inside.copy()
        for number, family in enumerate(families):
            servers = int(family.offsets[1])
            rows = np.flatnonzero(program.family == number)
            if not family.absent or servers == 1:
                continue
            gpus = 1 + program.peers[rows].astype(np.int64)
            few, whole = gpus * servers, gpus * servers * (1 + self.absent)
            inside[rows] = np.rint(inside[rows] * (1 - 1 / whole) / (1 - 1 / few))
        return dataclasses.replace(role, program=dataclasses.replace(program, inside=inside))


def is_alike(fabric: Fabric) -> bool:
    """Whether replicas on the fabric share nothing but packet switches."""
    if isinstance(fabric, MixNetOptions):
        return fabric.region_servers is None
    return isinstance(fabric, PacketTrees)


def with_absent(run: Run, absent: int) -> Run:
    """A run of few replicas as one of all: what it counts in bytes, links and circuits."""
    times = 1 + absent
    links = tuple(
        dataclasses.replace(use, carried_bytes=times * use.carried_bytes, mean=times * use.mean)
        for use in run.links
    )
    circuits = {name: times * getattr(run.circuits, name) for name in _COUNTS}
    purpose_bytes = {
        purpose: {carrier: times * count for carrier, count in counts.items()}
        for purpose, counts in run.purpose_bytes.items()
    }
    return dataclasses.replace(
        run,
        purpose_bytes=purpose_bytes,
        links=links,
        circuits=dataclasses.replace(run.circuits, **circuits),
    )
