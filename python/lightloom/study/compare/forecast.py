"""How long a long comparison takes, and in how much memory, before it begins.

Task graph, time and memory are close to proportional to the all-to-alls of a step, so that a step
with few layers and micro-batches, built and simulated once on each fabric, says what the whole will
take. A short comparison needs none of this: its progress says as much within seconds.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lightloom.errors import InputError
from lightloom.fabric import Fabric
from lightloom.simulate import simulate
from lightloom.study.compare import strategies
from lightloom.study.compare.budget import Budget
from lightloom.study.compare.builds import CONTEXT_SAMPLES, KEPT_BYTES, Networks, Workloads
from lightloom.study.compare.imbalance import LEARNED, is_load_of, other_loads
from lightloom.study.compare.job import ModelJob, StepWorkload
from lightloom.study.compare.other_strategies import STRATEGIES
from lightloom.study.compare.packets import roughly
from lightloom.study.compare.part_step import PartStep
from lightloom.study.compare.scenario import Scenario
from lightloom.study.compare.variants import (
    OWN,
    FabricVariant,
    Strategy,
    switching_variants,
    traffic_variants,
)
from lightloom.workload.task_graph import COLUMNS, TaskGraph

#: the interpreter with its libraries, and what runs take in addition to their task graph
_BASE_BYTES = 150e6
#: bytes of a task in the core, and in Python while its program is written, by those of its columns
_TASK_IN_CORE, _TASK_WRITTEN = 3.0, 12.0
#: bytes that a count of tokens takes while each token is sent once, with its sums
_COUNT_BYTES = 20
#: what is below this is not worth a word
LONG_S = 60.0


@dataclass(frozen=True)
class Requirements:
    """What a comparison will take on this machine: wall time and memory.

    ``run_s`` has the processor's time of a run by fabric, load and candidate, :data:`OWN` for the
    one that the fabric will have; those that are clearly slower have none.
    """

    seconds: float
    memory_bytes: float
    run_s: Mapping[tuple[str, str, FabricVariant], float] = field(default_factory=dict)

    def cost(self, fabric: str, load: str, variant: FabricVariant) -> float:
        """Time of a run; that of the fabric's own where the variant is no candidate."""
        if (fabric, load, variant) in self.run_s:
            return self.run_s[fabric, load, variant]
        if variant.is_candidate:
            return 0.0
        return self.run_s.get((fabric, load, OWN), self.run_s[fabric, "", OWN])

    @classmethod
    def of_all(cls, jobs: Sequence[Requirements]) -> Requirements:
        """The requirements of several jobs, one after another."""
        return cls(
            sum(requirements.seconds for requirements in jobs),
            max(requirements.memory_bytes for requirements in jobs),
        )

    def sentence(self) -> str:
        """What a user reads before the work begins."""
        return (
            f"forecast: about {roughly(self.seconds)}, {self.memory_bytes / 1e9:.2g} GB of memory"
        )


@dataclass(frozen=True)
class _Sizes:
    """Bytes of a workload: its tasks, and token counts and tables of one sample."""

    tasks: float
    counts: float
    tables: float

    @classmethod
    def of(cls, workload: StepWorkload, ratio: float) -> _Sizes:
        """The sizes of a step that has ``ratio`` times as many all-to-alls."""
        graph = workload.graph
        tasks = [getattr(role.program, name) for role in graph.roles for name in COLUMNS]
        counts = [table for d in graph.demands for table in (d.counts, d.rank_counts)]
        return cls(
            ratio * sum(counts.nbytes for counts in tasks),
            ratio * sum(counts.nbytes for counts in counts if counts is not None),
            ratio * sum(table.values.nbytes for table in graph.tables),
        )


class _Tried:
    """A short step under one load, and what it says of fabrics."""

    def __init__(self, job: ModelJob, are_tried: bool) -> None:
        self.are_tried = are_tried
        self.workloads = Workloads(job)
        self.networks = Networks(job, self.workloads)
        self._sample = job.samples()[0]

    def trials(self, fabric: Fabric) -> dict[FabricVariant, tuple[float, float]]:
        """How long the step of each candidate takes, and its simulation [s].

        A fabric that leaves nothing open, or whose estimate decides, is its only candidate.
        """
        candidates = strategies.candidates(fabric, self.networks) if self.are_tried else {}
        tried: dict[FabricVariant, Fabric] = {
            Strategy(setting): candidate for setting, candidate in candidates.items()
        }
        graph = self.workloads.get(self._sample, self.networks.server_size(fabric)).graph
        return {key: self._trial(graph, each) for key, each in (tried or {OWN: fabric}).items()}

    def _trial(self, graph: TaskGraph, fabric: Fabric) -> tuple[float, float]:
        network = self.networks.get(fabric)
        began = time.process_time()
        step_s = simulate(graph, network).step_time_s
        return step_s, time.process_time() - began


def forecast(budget: Budget) -> Requirements | None:
    """Try a step with few layers and micro-batches; ``None`` for a short comparison.

    Raises
    ------
    InputError
        If the comparison needs more memory than this machine has.
    """
    if budget.tried is None:
        return None
    job, tried, ratio = budget.tried
    part = budget.part
    trial = _Tried(tried, budget.tries_candidates)
    sample = tried.samples()[0]
    size = trial.networks.server_size(tried.fabrics[0])
    tried.workload(sample, size)  # the first one imports and looks up
    build_s = _cpu_s(trial.workloads.get, sample, size)
    workload = trial.workloads.get(sample, size)
    rebuild_s = _cpu_s(tried.scaled, workload, sample)
    others = {
        name: _Tried(dataclasses.replace(tried, scenario=load), trial.are_tried)
        for name, load in ({} if part else _loads_to_run(tried)).items()
        if name not in LEARNED
    }
    costs = {each.name: _costs(trial, others, each) for each in tried.fabrics}
    played = {each.name: budget.share_played(each) for each in tried.fabrics}
    run_s = sum(
        _runs(job, each, part, played[each.name]) * costs[each.name][""][OWN]
        + played[each.name] * _in_vain_s(costs[each.name])
        for each in tried.fabrics
    )
    cores = os.cpu_count() or 1
    first, later, scaled = _builds(job, trial.networks.is_averaged)
    if part is not None:
        # the first whole sample, and all of them in part
        later, scaled = part.share * (first + later), part.share * scaled
        first = max(played.values())
    # nothing runs while the first samples are built
    seconds = first * build_s + (later * build_s + scaled * rebuild_s + run_s) / cores
    sizes = _Sizes.of(workload, ratio * max(played.values()))
    by_run = {
        (name, load, candidate): ratio * played[name] * run_s
        for name, loads in costs.items()
        for load, runs in loads.items()
        for candidate, run_s in runs.items()
    }
    requirements = Requirements(ratio * seconds, _memory(job, sizes, cores, part), by_run)
    _check_memory(job, requirements)
    return requirements


def _cpu_s(work: Callable[..., object], *arguments: object) -> float:
    """Time of all cores that it takes."""
    began = time.process_time()
    work(*arguments)
    return time.process_time() - began


def _loads_to_run(job: ModelJob) -> dict[str, Scenario]:
    """The job under other loads than its own."""
    loads = other_loads(job)
    return {name: load for name, load in loads.items() if not is_load_of(job, name)}


def _builds(job: ModelJob, is_averaged: bool) -> tuple[float, float, float]:
    """Demands that are drawn before anything runs, and later; samples that share one of them.

    Several are drawn beforehand where a fabric looks at their mean.
    """
    samples = job.samples()
    averaged = CONTEXT_SAMPLES if is_averaged else 1
    drawn = [sample for sample in samples if sample.compute_scale == 1.0]
    first = min(len(drawn), averaged)
    later = len(drawn) - first
    for load in _loads_to_run(job).values():
        other = dataclasses.replace(job, scenario=load).samples()
        nominal = [sample for sample in other if sample.compute_scale == 1.0]
        later += min(len(nominal), averaged)
    return first, later, len(samples) - len(drawn)


def _runs(job: ModelJob, fabric: Fabric, part: PartStep | None, played: float) -> float:
    """Runs of a fabric with what was chosen for it, under all loads; on a part, by its share.

    ``played`` is the share of the replicas that is simulated of what is not on the part.
    """
    loads = len(_loads_to_run(job))
    scenario = job.scenario
    changed = len(scenario.fail) + len(switching_variants(fabric, scenario.policies))
    changed += len(traffic_variants(scenario.traffic.priorities))
    changed += len(STRATEGIES) if job.plan.strategy == "auto" else 0
    samples = len(job.samples())
    if part is None:
        return samples + changed + loads
    return played * (1 + changed) + part.share * (samples + loads)


def _costs(
    tried: _Tried, others: Mapping[str, _Tried], fabric: Fabric
) -> dict[str, dict[FabricVariant, float]]:
    """Time of the runs of a fabric by load and candidate, of the tried step in place of the job's.

    What the fabric leaves open is tried under each load as the comparison does: candidates that are
    not much slower are run once, all else with the fastest. A flat all-to-all may take forty times
    longer to simulate than a hierarchical one.
    """
    trials = tried.trials(fabric)
    costs = {"": _by_candidate(trials)}
    if len(trials) > 1:
        costs |= {name: _by_candidate(other.trials(fabric)) for name, other in others.items()}
    return costs


def _by_candidate(
    trials: Mapping[FabricVariant, tuple[float, float]],
) -> dict[FabricVariant, float]:
    """Time of the candidates that are not much slower than the fastest, and of that one."""
    fastest, own_s = min(trials.values())
    close = fastest * (1 + strategies.MARGIN)
    costs = {variant: run_s for variant, (step_s, run_s) in trials.items() if step_s <= close}
    return {**costs, OWN: own_s}


def _in_vain_s(costs: Mapping[str, Mapping[FabricVariant, float]]) -> float:
    """Time of the candidates that a fabric will not have, under all loads."""
    return sum(
        sum(run_s for variant, run_s in runs.items() if variant != OWN) - runs[OWN]
        for runs in costs.values()
        if len(runs) > 1
    )


def _memory(job: ModelJob, sizes: _Sizes, cores: int, part: PartStep | None) -> float:
    """Bytes of samples that are kept, written and drawn, and of those that run."""
    nominal, _, scaled = _builds(job, is_averaged=True)
    plan, model = job.plan, job.model
    alone_bytes = sizes.tasks + sizes.tables
    sample_bytes = alone_bytes + sizes.counts
    share = 1.0 if part is None else part.share
    kept = min(
        share * (nominal * sample_bytes + scaled * alone_bytes), max(KEPT_BYTES, sample_bytes)
    )
    # the first sample stays, and each other load has its own
    kept += sample_bytes
    running = cores * (sample_bytes + (_TASK_IN_CORE - 1) * sizes.tasks)
    written = _TASK_WRITTEN * sizes.tasks / plan.pp
    drawn = 0.0
    if job.options.deduplicate:
        layers = -(-model.num_moe_layers // plan.pp)
        drawn = _COUNT_BYTES * layers * plan.micro_batches * plan.ep * model.num_experts
    return _BASE_BYTES + kept + running + written + drawn


def _check_memory(job: ModelJob, needed: Requirements) -> None:
    installed = _installed_bytes()
    if installed is not None and needed.memory_bytes > installed:
        raise InputError(
            f"{job.plan.micro_batches:,} micro-batches take about {needed.memory_bytes / 1e9:,.2g} "
            f"GB of memory, of {installed / 1e9:,.2g} GB here; simulate fewer micro-batches: the "
            "step is close to proportional to them"
        )


def _installed_bytes() -> float | None:
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on every system
        return None
