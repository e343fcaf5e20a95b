"""How the cluster of a job grows for longer sequences: rule, network, plan, memory and step.

The rule is that of :mod:`lightloom.planner.expansion`. Its plan has the degrees of the job and as
many context-parallel ranks as the rule says, or the next power of two, which lengths divide by.
Horizontally there are so many times more GPUs. Vertically CP ranks are those of the EP group, whose
experts are folded over them, and GPUs become more only where a stage has fewer than TP x CP. All
keep the micro-batches of the job, so that the tokens of a step differ; the step is estimated in
closed form, on a fat-tree.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from lightloom.errors import PlanError
from lightloom.fabric import load_fabric
from lightloom.parallel import Plan, does_not_fit, memory_per_stage
from lightloom.parallel.choose import check_plan
from lightloom.parallel.memory import PlanMemory, recomputation_from
from lightloom.planner.expansion import ClusterExpansion, expand
from lightloom.study.compare.fit import FittedPlan, least_recomputation
from lightloom.study.compare.job import cluster_of, workload_options
from lightloom.study.compare.memory import JobMemory
from lightloom.study.compare.plan_candidates import step_estimates

#: longest sequence that is looked for, and lengths that an expansion is shown for
MAX_KILO_TOKENS = 2**20
LENGTHS = tuple(2**power for power in range(12, 21))


@dataclass(frozen=True)
class GrownCluster:
    """A cluster for sequences of one length.

    Attributes
    ----------
    rule
        How the sequence is cut.
    fitted
        The plan with the least recomputation that fits, and its memory; ``None`` where no such plan
        is possible, and ``reason`` says why.
    step_time_s
        Its step.
    """

    rule: ClusterExpansion
    fitted: FittedPlan | None = None
    step_time_s: float | None = None
    reason: str | None = None

    @property
    def peak_bytes(self) -> float | None:
        """Memory of the largest stage."""
        if self.fitted is None:
            return None
        return max(stage.total_bytes for stage in self.fitted.memory)


@dataclass(frozen=True)
class GrownClusters:
    """The longest sequence of one context-parallel rank, and the cluster for each length."""

    longest_sequence: int
    rows: Sequence[GrownCluster]


def longest_sequence(memory: JobMemory) -> int:
    """Tokens of the longest sequence that fits the plan, in steps of 1,024; 0 for none.

    Everything is recomputed.
    """
    options = dataclasses.replace(memory.fitted.options, recompute="full")

    def fits(kilo: int) -> bool:
        plan = dataclasses.replace(memory.fitted.plan, seq_len=1024 * kilo)
        stages = memory_per_stage(memory.model, plan, options)
        return does_not_fit(stages, memory.gpu.hbm_capacity_bytes, options.reserve) is None

    low, high = 0, 1
    while high < MAX_KILO_TOKENS and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return 1024 * low


def expansion(memory: JobMemory) -> GrownClusters:
    """Return how the cluster of a job grows.

    Raises
    ------
    PlanError
        If not even 1,024 tokens fit.
    """
    longest = longest_sequence(memory)
    if not longest:
        raise PlanError("expansion: not even 1,024 tokens fit this plan; add GPUs, or --tp or --pp")
    ep = memory.fitted.plan.ep
    return GrownClusters(
        longest, [_grown(memory, expand(seq, longest=longest, ep=ep)) for seq in LENGTHS]
    )


def expanded_plan(plan: Plan, rule: ClusterExpansion) -> Plan:
    """Return the plan for sequences that a rule cuts.

    Raises
    ------
    PlanError
        If the degrees divide no number of GPUs so.
    """
    if rule.cp == 1:
        return dataclasses.replace(plan, seq_len=rule.seq)
    cp = 2 ** (rule.cp - 1).bit_length()
    if rule.way == "horizontal":
        # EP as an axis of its own has CP beside it; folded, each EP group holds more experts
        dp = plan.dp if plan.expert_mode == "axis" else plan.dp * cp
        return dataclasses.replace(plan, seq_len=rule.seq, cp=cp, gpus=cp * plan.gpus, dp=dp)
    stage = math.lcm(plan.gpus // plan.pp, plan.tp * cp)
    return dataclasses.replace(
        plan,
        seq_len=rule.seq,
        cp=cp,
        gpus=stage * plan.pp,
        expert_mode="folded",
        dp=stage // (plan.etp * plan.ep),
    )


def _grown(memory: JobMemory, rule: ClusterExpansion) -> GrownCluster:
    """The plan, memory and step of a row."""
    model, base = memory.model, memory.fitted.options
    servers = memory.scenario.cluster.used_gpus_per_server
    levels = recomputation_from(base.recompute)
    try:
        plan = expanded_plan(memory.fitted.plan, rule)
        check_plan(plan, model, servers)
        fitted = least_recomputation(PlanMemory(model, plan), plan, memory.gpu, base, levels)
        if fitted is None:
            raise PlanError("does not fit the memory")
        scenario = memory.scenario.model_copy(update={"gpus": plan.gpus})
        machines = load_fabric("fat-tree").adapt(cluster_of(scenario, memory.gpu))
        options = workload_options(scenario, model)
        estimates = step_estimates(scenario, model, options, fitted.options, machines)
        step = estimates.of(plan, fitted.options.recompute)
    except PlanError as error:
        return GrownCluster(rule, reason=str(error))
    return GrownCluster(rule, fitted, step.step_time_s)
