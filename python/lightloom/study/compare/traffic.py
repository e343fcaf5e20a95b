"""The traffic of a whole job, without a network: who sends how many bytes to whom in a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lightloom.errors import InputError
from lightloom.study.compare.job import ModelJob, prepare
from lightloom.study.compare.results import Sample
from lightloom.study.compare.scenario import Scenario
from lightloom.workload.build import Workload
from lightloom.workload.matrix import TrafficMatrix, traffic_matrix

#: GPUs up to which rows and columns are GPUs by default, and rows at all
DEFAULT_GPUS, MAX_ROWS = 512, 4096


@dataclass(frozen=True)
class JobTraffic:
    """A job, its step, and the bytes that the step sends."""

    job: ModelJob
    workload: Workload
    matrix: TrafficMatrix


def job_traffic(scenario: Scenario, unit: Literal["gpu", "server"] | None = None) -> JobTraffic:
    """The traffic of one step of a scenario's job.

    Parameters
    ----------
    scenario
        The job; its fabrics and rates are not looked at.
    unit
        What rows and columns are; by default GPUs, or servers of jobs of more than
        :data:`DEFAULT_GPUS`.

    Raises
    ------
    InputError
        If the job cannot be, or there are too many rows.
    """
    unit = unit or ("gpu" if scenario.gpus <= DEFAULT_GPUS else "server")
    rows = scenario.gpus
    if unit == "server":
        rows = -(-rows // scenario.cluster.used_gpus_per_server)
    if rows > MAX_ROWS:
        raise InputError(
            f"{rows:,} rows and columns: expected at most {MAX_ROWS:,}; "
            + ("use --by server" if unit == "gpu" else "use fewer GPUs: replicas are alike")
        )
    job = prepare(scenario.model_copy(update={"fabrics": ("fat-tree",)}))
    workload = job.workload(
        Sample(scenario.seed, scenario.demand.trained_steps), job.cluster.gpus_per_server
    )
    return JobTraffic(job, workload, traffic_matrix(workload, by_server=unit == "server"))
