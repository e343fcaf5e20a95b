"""The file of several jobs: what they have in common, as in a study, and a table for each.

The cluster, the fabrics and their options are common; everything else may be given for all, or for
a job alone.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from lightloom.errors import InputError, echo
from lightloom.inputs.arguments import path_of
from lightloom.inputs.formats import read_toml
from lightloom.inputs.strict import Name, Strict, Whole, check
from lightloom.study.compare.scenario import Scenario, study_of
from lightloom.study.shared_cluster.placement import PLACEMENTS, Placement

#: what the jobs of a cluster cannot have of their own
COMMON = ("cluster", "fabrics", "fabric_options")
#: jobs of one file at most
MOST_JOBS = 64

_Server = Annotated[int, Field(strict=True, ge=0, lt=1_000_000)]


class SharedOptions(Strict):
    """What a file of jobs says beside studies."""

    gpus: Whole | None = Field(
        None, description="GPUs of the cluster; by default those of the servers of all jobs."
    )
    placements: tuple[Placement, ...] = Field(
        PLACEMENTS, description="Where jobs are placed: packed, spread, by ToR, by region."
    )
    starts: Annotated[Whole, Field(le=1000)] = Field(
        3, description="Draws of when in each other's steps jobs begin; at once in the first."
    )


class JobOptions(Strict):
    """What the table of a job says beside studies."""

    name: Name | None = Field(None, description="What results call the job; by default its model.")
    copies: Annotated[Whole, Field(le=MOST_JOBS)] = Field(1, description="How many such jobs.")
    servers: tuple[_Server, ...] | None = Field(
        None, description="Servers of the job, in place of placements; all jobs have them, or none."
    )


@dataclass(frozen=True)
class SharedJob:
    """A job of several: its name, what it trains, and its servers if they are given."""

    name: str
    scenario: Scenario
    servers: tuple[int, ...] | None = None


@dataclass(frozen=True)
class SharedCluster:
    """Jobs, and the cluster that they share.

    Attributes
    ----------
    jobs
        The jobs, in the order in which they are placed.
    gpus
        GPUs of the cluster; ``None`` for those of the servers of all jobs.
    placements
        Where jobs are placed, one after another; not used where servers are given.
    starts
        Draws of when in each other's steps the jobs begin; in the first all do at once.

    Raises
    ------
    InputError
        If there is no job, there are too many, or some have servers and others do not.
    """

    jobs: tuple[SharedJob, ...]
    gpus: int | None = None
    placements: tuple[Placement, ...] = PLACEMENTS
    starts: int = 3

    def __post_init__(self) -> None:
        if not 1 <= len(self.jobs) <= MOST_JOBS:
            raise InputError(f"{len(self.jobs)} jobs: expected 1 to {MOST_JOBS}")
        if not self.placements:
            raise InputError(f"placements: expected some of {', '.join(PLACEMENTS)}")
        given = [job.name for job in self.jobs if job.servers is not None]
        if given and len(given) < len(self.jobs):
            raise InputError(f"job {given[0]} has servers, others have none: give all, or none")
        for job in self.jobs:
            _check_scenario(job)

    @property
    def has_servers(self) -> bool:
        """Whether the servers of jobs are given."""
        return self.jobs[0].servers is not None


def _check_scenario(job: SharedJob) -> None:
    """Refuse what only a comparison of one job does: to accept it would be to ignore it."""
    scenario = job.scenario
    if scenario.network != "flow":
        raise InputError(f"job {job.name}: several jobs are simulated as flows: no packets")
    given = scenario.model_fields_set
    for name in ("fail", "seeds", "steps", "compute_spread", "designs", "policies", "imbalances"):
        if name in given:
            raise InputError(f"job {job.name}: {name} is of one job: several have no use for it")


def load_jobs(path: Path | str) -> SharedCluster:
    """Read jobs and their cluster, one strict TOML file; see ``lightloom example jobs``.

    Raises
    ------
    InputError
        If the file cannot be read, is no TOML, or has a wrong or unknown key.
    """
    path = path_of(path, "jobs", "the path of a TOML file")
    return jobs_of(read_toml(path, "jobs"), str(path), path.parent)


def has_jobs(values: Mapping[str, object]) -> bool:
    """Whether the values of a TOML file are jobs that share a cluster."""
    return "jobs" in values


def jobs_of(values: Mapping[str, object], name: str, folder: Path) -> SharedCluster:
    """The jobs of a file's tables; ``name`` begins messages, paths are below ``folder``.

    Raises
    ------
    InputError
        As :func:`load_jobs`.
    """
    tables = values.get("jobs")
    if not isinstance(tables, Sequence) or not all(isinstance(t, Mapping) for t in tables):
        raise InputError(f"{name}: jobs: expected a table [[jobs]] for each")
    common = {key: value for key, value in values.items() if key != "jobs"}
    own = {key: common.pop(key) for key in SharedOptions.model_fields if key in common}
    options = check(SharedOptions, own, name)
    jobs: list[SharedJob] = []
    for number, table in enumerate(tables, 1):
        jobs += _jobs_of_table(common, table, f"{name}: job {number}", folder)
        if len(jobs) > MOST_JOBS:
            break
    return SharedCluster(_named_apart(jobs), options.gpus, options.placements, options.starts)


def _jobs_of_table(
    common: Mapping[str, object], table: Mapping[str, object], where: str, folder: Path
) -> list[SharedJob]:
    """The copies of one job."""
    for key in COMMON:
        if key in table:
            raise InputError(f"{where}: {key} is of the whole cluster: move it above the jobs")
    own = {key: table[key] for key in JobOptions.model_fields if key in table}
    options = check(JobOptions, own, where)
    rest = {key: value for key, value in table.items() if key not in own}
    scenario = study_of(_merged(common, rest), where, folder)
    if options.servers is not None and options.copies > 1:
        raise InputError(f"{where}: copies cannot be on the same servers: a table for each")
    counts = Counter(options.servers or ())
    for server, count in counts.items():
        if count > 1:
            raise InputError(f"{where}: servers: {server} is there {count} times")
    name = options.name or scenario.model or str(scenario.workload)
    return [SharedJob(name, scenario, options.servers)] * options.copies


def _merged(common: Mapping[str, object], own: Mapping[str, object]) -> dict[str, Any]:
    """What is common, with what is a job's own in its place, table by table."""
    merged = dict(common)
    for key, value in own.items():
        shared = merged.get(key)
        if isinstance(value, Mapping) and isinstance(shared, Mapping):
            merged[key] = _merged(shared, value)
        else:
            merged[key] = value
    return merged


def _named_apart(jobs: Sequence[SharedJob]) -> tuple[SharedJob, ...]:
    """The jobs with numbers behind names that several have.

    Raises
    ------
    InputError
        If a given name is then there twice.
    """
    names = [job.name for job in jobs]
    apart: list[SharedJob] = []
    for number, job in enumerate(jobs):
        if names.count(job.name) == 1:
            apart.append(job)
            continue
        nth = names[: number + 1].count(job.name)
        apart.append(dataclasses.replace(job, name=f"{job.name} ({nth})"))
    final = [job.name for job in apart]
    for name in final:
        if final.count(name) > 1:
            raise InputError(f"two jobs are called {echo(name)}: give each another name")
    return tuple(apart)
