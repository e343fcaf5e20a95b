"""How long a comparison of a step with many micro-batches takes, and in how much memory.

Task graph, time and memory are close to proportional to the micro-batches, so that a step with few
of them, built and simulated once on each fabric, says what the whole will take before it begins. A
step of few micro-batches needs none of this: its progress says as much within seconds.
"""

from __future__ import annotations

import dataclasses
import os
import time
from dataclasses import dataclass

from lightloom.errors import InputError
from lightloom.simulate import simulate
from lightloom.study.compare.builds import KEPT_BYTES, Networks, Workloads, size_of
from lightloom.study.compare.imbalance import other_loads
from lightloom.study.compare.job import Job
from lightloom.study.compare.packets import roughly
from lightloom.study.compare.policies import variants

#: a step is forecast if it has so many times the micro-batches of the one that is tried
MIN_RATIO = 4
#: all-to-alls that are tried on each fabric, about
_TRIALS = 2
#: copies of a task graph while it is written, and for each run that goes on, in columns of Python
_COPIES_WRITTEN, _COPIES_RUN = 3, 4
#: what is below this is not worth a word
LONG_S = 60.0


@dataclass(frozen=True)
class Requirements:
    """What a comparison will take on this machine: wall time and memory."""

    seconds: float
    memory_bytes: float

    def sentence(self) -> str:
        """What a user reads before the work begins."""
        return (
            f"forecast: about {roughly(self.seconds)}, {self.memory_bytes / 1e9:.2g} GB of memory"
        )


def forecast(job: Job) -> Requirements | None:
    """Try a step with few micro-batches; ``None`` where the job's own has few.

    Raises
    ------
    InputError
        If the comparison needs more memory than this machine has.
    """
    few = 2 * max(4, job.plan.pp * job.plan.copies)
    if job.plan.micro_batches < MIN_RATIO * few:
        return None
    tried = dataclasses.replace(job, plan=dataclasses.replace(job.plan, micro_batches=few))
    workloads = Workloads(tried)
    networks = Networks(tried, workloads)
    sample = job.samples()[0]
    tried.workload(
        sample, networks.server_size(job.fabrics[0])
    )  # the first one imports and looks up
    began = time.perf_counter()
    workload = workloads.get(sample, networks.server_size(job.fabrics[0]))
    build_s = time.perf_counter() - began
    loads = other_loads(job.scenario, job.model)
    cores = os.cpu_count() or 1
    builds = len(job.samples()) + len(loads)
    seconds = builds * build_s
    for fabric in job.fabrics:
        network = networks.get(fabric)
        graph = workloads.get(sample, networks.server_size(fabric)).graph
        began = time.perf_counter()
        simulate(graph, network)
        run_s = time.perf_counter() - began
        extra = len(variants(fabric, job.scenario.policies))
        runs = len(job.samples()) + extra + (1 + len(loads)) * _TRIALS
        seconds += runs * run_s / cores
    ratio = job.plan.micro_batches / few
    size = ratio * size_of(workload)
    kept = min(builds * size, max(KEPT_BYTES, size))
    found = Requirements(ratio * seconds, kept + size * (_COPIES_WRITTEN + _COPIES_RUN * cores))
    _check_memory(job, found)
    return found


def _check_memory(job: Job, found: Requirements) -> None:
    installed = _installed_bytes()
    if installed is not None and found.memory_bytes > installed:
        raise InputError(
            f"{job.plan.micro_batches:,} micro-batches take about {found.memory_bytes / 1e9:,.2g} "
            f"GB of memory, of {installed / 1e9:,.2g} GB here; simulate fewer micro-batches: the "
            "step is close to proportional to them"
        )


def _installed_bytes() -> float | None:
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on every system
        return None
