"""Which plans a search considers: those that divide the model and fit the memory of the GPUs.

They are all combinations of TP, PP, EP, CP, expert-TP, chunks per stage and sizes of micro-batches,
with what the user gives, the same tokens per step, and the least recomputation that fits. Experts
are divided by TP as other layers are, or by a divisor of it, folded. Sequences, orders and
schedules are the given or published ones.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lightloom.errors import DemandError, PlanError
from lightloom.fabric import Cluster, Fabric
from lightloom.hardware import load_gpu
from lightloom.models import Model
from lightloom.parallel import Plan, stated_plan
from lightloom.parallel.choose import BATCH, divisors
from lightloom.parallel.memory import RECOMPUTE, MemoryOptions
from lightloom.parallel.plan import MICRO_BATCHES_PER_STAGE, usual_length
from lightloom.study.compare.fit import (
    FittedPlan,
    allowed_recomputation,
    fitted_plan,
    least_recomputation,
    memory_options,
)
from lightloom.study.compare.job import (
    cluster_of,
    compute_model,
    with_published_gate,
    workload_options,
)
from lightloom.study.compare.scenario import Scenario
from lightloom.study.compare.step_estimate import StepEstimate, StepEstimates
from lightloom.workload.options import WorkloadOptions

#: tokens of a step where nothing was given or published: at most those of DeepSeek-V3's
MAX_STEP_TOKENS = 2**26
#: sequences of a micro-batch, at most
MAX_MICRO_BATCH_SIZE = 8
#: tokens of a sequence that each CP rank has at least
MIN_CP_TOKENS = 4096


@dataclass(frozen=True)
class PredictedPlan:
    """A plan that fits, its step as it is estimated, and as it is predicted.

    ``times_s`` are predicted steps by fabric, where these were simulated; the plan
    ``is_screened`` where the estimate is all.
    """

    fitted: FittedPlan
    estimate: StepEstimate | None = None
    step_time_s: float = math.inf
    is_screened: bool = False
    times_s: Mapping[Fabric, float] = field(default_factory=dict)

    def on(self, fabric: Fabric) -> float:
        """The predicted step on a fabric; infinite if it cannot carry the plan."""
        return self.times_s.get(fabric, math.inf)

    @property
    def plan(self) -> Plan:
        """The plan."""
        return self.fitted.plan

    @property
    def order(self) -> tuple[float, ...]:
        """The fastest first; of equal ones that with least pipeline stages and TP."""
        plan = self.plan
        simple = plan.pp, plan.tp, plan.cp, plan.ep, plan.vpp, plan.micro_batch_size, -plan.etp
        return self.step_time_s / plan.tokens_per_step, *simple


class Candidates:
    """Plans of one scenario, of so many sequences per step; as many as usual if not given."""

    def __init__(self, scenario: Scenario, model: Model, sequences: int | None = None) -> None:
        self.stated = _stated(scenario, model)
        self.scenario, self._model = scenario, model
        self._gpu = load_gpu(scenario.cluster.gpu)
        self._options = workload_options(scenario, model)
        self._sequences = sequences or _sequences(scenario, model, self.stated)
        self._memory = memory_options(scenario, model, self._gpu, self._options)
        self._levels = allowed_recomputation(scenario, model)

    def plans(self) -> Iterator[Plan]:
        """All plans that divide the model, whether they fit or not."""
        for degrees in self._degrees():
            base = self._plan({**degrees, "micro_batch_size": self._sizes[0]})
            if base is None:
                continue
            for size in self._sizes:
                yield from self._with_chunks(self._resized(base, size))

    def fitting(self) -> list[FittedPlan]:
        """All plans, with the least recomputation that fits."""
        fitted = (
            least_recomputation(self._model, plan, self._gpu, self._memory, self._levels)
            for plan in self.plans()
        )
        return [one for one in fitted if one is not None]

    def published(self) -> FittedPlan | None:
        """The stated plan as it is, if it fits."""
        if self.stated is None:
            return None
        try:
            fitted = fitted_plan(self.scenario, self._model, self._gpu, self._options)
        except PlanError:
            return None
        return None if fitted.misfit else fitted

    def estimates(self, cluster: Cluster) -> StepEstimates:
        """Steps in closed form on machines as a fabric has them."""
        return step_estimates(self.scenario, self._model, self._options, self._memory, cluster)

    @staticmethod
    def estimated(plans: Sequence[FittedPlan], estimates: StepEstimates) -> list[PredictedPlan]:
        """Plans with their steps in closed form, the fastest first.

        Those that cannot be placed on servers are left out, and those that a file of demand is
        not for.
        """
        found = []
        for fitted in plans:
            with contextlib.suppress(DemandError, PlanError):
                step = estimates.of(fitted.plan, fitted.options.recompute)
                found.append(PredictedPlan(fitted, step, step.step_time_s, is_screened=True))
        return sorted(found, key=lambda choice: choice.order)

    @property
    def machines(self) -> Cluster:
        """What the job runs on."""
        return cluster_of(self.scenario, self._gpu)

    def _plan(self, values: dict[str, Any]) -> Plan | None:
        """A plan of some degrees, with what is given and published; ``None`` if impossible."""
        values = {**values, **self.scenario.plan.degrees}
        values.pop(BATCH, None)
        if "micro_batches" not in values:
            ranks, rest = divmod(self.scenario.gpus, values["tp"] * values["pp"] * values["cp"])
            count = self._micro_batches(ranks, values["micro_batch_size"])
            if rest or not count:
                return None
            values["micro_batches"] = count
        size = self.scenario.cluster.used_gpus_per_server
        try:
            return stated_plan(
                self._model, self.scenario.gpus, overrides=values, gpus_per_server=size
            )
        except PlanError:
            return None

    def _micro_batches(self, ranks: int, size: int) -> int:
        """Micro-batches of so many data-parallel ranks; 0 if they cannot share the sequences."""
        count, rest = divmod(self._sequences, ranks * size) if ranks else (0, 0)
        return 0 if rest else count

    def _resized(self, base: Plan, size: int) -> Plan | None:
        """The plan with micro-batches of another size, and as many tokens per step."""
        if size == base.micro_batch_size:
            return base
        count = self._micro_batches(base.dense_dp, size)
        if not count:
            return None
        try:
            return dataclasses.replace(base, micro_batch_size=size, micro_batches=count)
        except PlanError:
            return None

    def _with_chunks(self, plan: Plan | None) -> Iterator[Plan]:
        """The plan, and the same with chunks of equally many layers, where nobody said how many."""
        if plan is None:
            return
        yield plan
        if not _may_have_chunks(plan) or plan.vpp > 1 or self.scenario.plan.vpp is not None:
            return
        for chunks in divisors(-(-self._model.num_layers // plan.pp))[1:]:
            if chunks * plan.pp <= self._model.num_layers + 2:
                with contextlib.suppress(PlanError):
                    yield dataclasses.replace(plan, vpp=chunks, pp_layout=())

    def _degrees(self) -> Iterator[dict[str, Any]]:
        """TP within a server, PP, EP and CP that may divide the model, and ways of its experts."""
        scenario, model = self.scenario, self._model
        options, gpus = scenario.plan, scenario.gpus
        experts = model.num_experts if model.num_moe_layers else 1
        within = min(gpus, scenario.cluster.used_gpus_per_server)
        tps = [options.tp] if options.tp else divisors(within)
        pps = [options.pp] if options.pp else [d for d in divisors(gpus) if d <= model.num_layers]
        eps = [options.ep] if options.ep else divisors(experts)
        for tp, pp, cp in itertools.product(tps, pps, self._context_degrees()):
            if gpus % (tp * pp * cp) == 0:
                for ep, mode in itertools.product(eps, self._expert_modes(tp, cp)):
                    yield {"tp": tp, "pp": pp, "ep": ep, "cp": cp, **mode}

    def _context_degrees(self) -> list[int]:
        degree = self.scenario.plan.cp
        if degree:
            return [degree]
        length = self.scenario.plan.seq_len or _published_length(self._model)
        return [2**power for power in range(max(1, length // MIN_CP_TOKENS).bit_length())]

    def _expert_modes(self, tp: int, cp: int) -> list[dict[str, Any]]:
        """As an axis of its own, with the TP of other layers; folded, with a divisor of it."""
        plan = self.scenario.plan
        if plan.expert_mode or plan.etp:
            return [{}]
        modes: list[dict[str, Any]] = [{"expert_mode": "axis", "etp": tp}]
        if self._model.num_moe_layers:
            degrees = [etp for etp in divisors(tp) if etp < tp or cp > 1]
            modes += [{"expert_mode": "folded", "etp": etp} for etp in degrees]
        return modes

    @property
    def _sizes(self) -> list[int]:
        """Sequences of a micro-batch, the fewest first; those given or published alone if any."""
        given = self.scenario.plan
        if given.micro_batches is not None or given.micro_batch_size is not None:
            return [_micro_batch_size(self.scenario, self._model)]
        return [2**power for power in range(MAX_MICRO_BATCH_SIZE.bit_length())]


def step_estimates(
    scenario: Scenario,
    model: Model,
    options: WorkloadOptions,
    memory: MemoryOptions,
    cluster: Cluster,
) -> StepEstimates:
    """Steps of the plans of a scenario in closed form, on machines as a fabric has them."""
    scenario = with_published_gate(scenario, model)
    compute = {
        level: compute_model(scenario, model, options, dataclasses.replace(memory, recompute=level))
        for level in RECOMPUTE
    }
    return StepEstimates(scenario, model, options, cluster, compute)


def _may_have_chunks(plan: Plan) -> bool:
    """Whether the plan's schedule may interleave chunks."""
    return plan.pp > 1 and plan.schedule == "1f1b" and plan.micro_batches % plan.pp == 0


def _stated(scenario: Scenario, model: Model) -> Plan | None:
    """The plan that is given or published."""
    degrees = scenario.plan.degrees
    size = scenario.cluster.used_gpus_per_server
    try:
        return stated_plan(model, scenario.gpus, overrides=degrees, gpus_per_server=size)
    except PlanError:
        if scenario.plan.source == "search":
            return None
        raise


def _sequences(scenario: Scenario, model: Model, stated: Plan | None) -> int:
    """Sequences of a step: those given or of the stated plan, else four per GPU, up to a limit."""
    if scenario.plan.global_batch_size is not None:
        return scenario.plan.global_batch_size
    if stated is not None:
        return stated.sequences_per_step
    per_replica = MICRO_BATCHES_PER_STAGE * _micro_batch_size(scenario, model)
    sequences = per_replica * scenario.gpus // (scenario.plan.cp or 1)
    seq_len = scenario.plan.seq_len or _published_length(model)
    while sequences % 2 == 0 and sequences * seq_len > MAX_STEP_TOKENS:
        sequences //= 2
    return sequences


def _published_length(model: Model) -> int:
    return model.plan.seq_len if model.plan else usual_length(model)


def _micro_batch_size(scenario: Scenario, model: Model) -> int:
    published = model.plan.micro_batch_size if model.plan else 1
    return scenario.plan.micro_batch_size or published
