"""Which plans a search considers: those that divide the model and fit the memory of the GPUs.

They are all combinations of TP, PP, EP, CP, expert-TP, chunks per stage and sizes of micro-batches,
with what the user gives, the same tokens per step, and the least recomputation that fits. Experts
are divided by TP as other layers are, or by a divisor of it, folded. Sequences and orders are the
given or published ones. Where plans are searched for by name (``--plan search``), so are schedules,
strategies of all-to-alls, dispatchers and what ranks share out (ZeRO), unless these are given.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

from lightloom.demand.folding import RankSums
from lightloom.errors import DemandError, PlanError
from lightloom.fabric import Cluster, Fabric
from lightloom.hardware import load_gpu
from lightloom.models import Model
from lightloom.parallel import Plan, stated_plan
from lightloom.parallel.choose import BATCH, divisors
from lightloom.parallel.memory import MemoryOptions, PlanMemory
from lightloom.parallel.overlap import CHUNKED
from lightloom.parallel.plan import MICRO_BATCHES_PER_STAGE, usual_length
from lightloom.practice import Dispatcher, PipelineSchedule, PlanStrategy, Recompute, Sharded
from lightloom.study.compare.fit import (
    FittedPlan,
    allowed_recomputation,
    fitted_plan,
    least_recomputation,
    memory_options,
    with_misfit,
)
from lightloom.study.compare.job import cluster_of, with_published_gate, workload_options
from lightloom.study.compare.kernels import compute_model, dispatcher_of, keeps_scores
from lightloom.study.compare.scenario import Scenario
from lightloom.study.compare.step_estimate import StepEstimate, StepEstimates
from lightloom.workload.options import WorkloadOptions

#: tokens of a step where nothing was given or published: at most those of DeepSeek-V3's
MAX_STEP_TOKENS = 2**26
#: sequences of a micro-batch, at most
MAX_MICRO_BATCH_SIZE = 8
#: what a search chooses of, the usual ones first
SCHEDULES, STRATEGIES = get_args(PipelineSchedule), get_args(PlanStrategy)
DISPATCHERS, SHARDED = get_args(Dispatcher), get_args(Sharded)
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
        usual = SCHEDULES.index(plan.schedule), STRATEGIES.index(plan.strategy)
        shared = SHARDED.index(self.fitted.options.sharded)
        return self.step_time_s / plan.tokens_per_step, *simple, *usual, shared


class Candidates:
    """Plans of one scenario, of so many sequences per step; as many as usual if not given.

    Of searches by name ``practice`` varies as well, unless it is false.
    """

    def __init__(
        self,
        scenario: Scenario,
        model: Model,
        sequences: int | None = None,
        *,
        practice: bool = True,
    ) -> None:
        self._practice = practice
        self.stated = _stated(scenario, model)
        self.scenario, self._model = scenario, model
        self._gpu = load_gpu(scenario.cluster.gpu)
        self.options = workload_options(scenario, model)
        self._sequences = sequences or _sequences(scenario, model, self.stated)
        self._memory = memory_options(scenario, model, self._gpu, self.options)
        self._levels = allowed_recomputation(scenario, model)

    def plans(self) -> Iterator[Plan]:
        """All plans that divide the model, whether they fit or not."""
        for degrees in self._degrees():
            base = self._plan({**degrees, "micro_batch_size": self._sizes[0]})
            if base is None:
                continue
            for size in self._sizes:
                for plan in self._with_chunks(self._resized(base, size)):
                    yield from self._practices(plan)

    def fitting(self) -> list[FittedPlan]:
        """All plans, with the least recomputation that fits, by each dispatcher.

        Ranks share out more than states only where that saves recomputation.
        """
        found: list[FittedPlan] = []
        for plan in self.plans():
            dispatchers = self._dispatchers if plan.ep > 1 else self._dispatchers[:1]
            for fitted in self._fitted(plan):
                found += [dataclasses.replace(fitted, dispatcher=name) for name in dispatchers]
        return found

    def _fitted(self, plan: Plan) -> Iterator[FittedPlan]:
        """The plan with less and less recomputation, as ranks share out more."""
        levels, of_plan = self._levels, PlanMemory(self._model, plan)
        for memory in self._memories if plan.zero1 else self._memories[:1]:
            if not levels:
                return
            try:
                fitted = least_recomputation(of_plan, plan, self._gpu, memory, levels)
            except PlanError:
                return  # a schedule that cannot share them
            if fitted is not None:
                yield fitted
                levels = levels[: levels.index(fitted.options.recompute)]

    def explained(self, fitted: FittedPlan) -> FittedPlan:
        """A plan, with what does not fit with less recomputation."""
        return with_misfit(self._model, fitted, self._gpu, self._levels)

    @property
    def _searches_practice(self) -> bool:
        """Whether plans are searched for by name."""
        return self._practice and self.scenario.plan.source == "search"

    @functools.cached_property
    def _dispatchers(self) -> tuple[Dispatcher | None, ...]:
        """Ways to send copies that nobody said, the usual one first; ``None`` for what is said."""
        demand = self.scenario.demand
        is_said = demand.dispatcher is not None or demand.deduplicate is not None
        if is_said or not self._searches_practice or not self._model.num_moe_layers:
            return (None,)
        usual = dispatcher_of(self.scenario, self._model)
        return tuple(sorted(DISPATCHERS, key=lambda name: name != usual))

    @functools.cached_property
    def _memories(self) -> list[MemoryOptions]:
        """What ranks may share out, the least first."""
        is_said = "sharded" in self.scenario.memory.model_fields_set
        if is_said or not self._searches_practice:
            return [self._memory]
        return [dataclasses.replace(self._memory, sharded=name) for name in SHARDED]

    def _practices(self, plan: Plan) -> Iterator[Plan]:
        """The plan, and the same by other schedules and strategies that nobody said."""
        yield plan
        if not self._searches_practice:
            return
        plans, given = [plan], self.scenario.plan
        if given.schedule is None and plan.pp > 1 and plan.vpp == 1 and plan.schedule == "1f1b":
            plans += _changed(plan, [{"schedule": name} for name in SCHEDULES[1:]])
        strategies: list[dict[str, Any]] = []
        if given.strategy is None and min(plan.ep, plan.etp) > 1 and plan.strategy == "O1":
            strategies = [{"strategy": name} for name in CHUNKED]
            whole = {"sequence_parallel": False, "overlap_tp": False}
            strategies.append({"strategy": "baseline", **whole})
        yield from plans[1:]
        for each in plans:
            yield from _changed(each, strategies)

    def published(self) -> FittedPlan | None:
        """The stated plan as it is, if it fits."""
        if self.stated is None:
            return None
        try:
            fitted = fitted_plan(self.scenario, self._model, self._gpu, self.options)
        except PlanError:
            return None
        return None if fitted.misfit else fitted

    def estimates(self, cluster: Cluster) -> PracticeEstimates:
        """Steps in closed form on machines as a fabric has them."""
        drawn: dict[Hashable, RankSums] = {}
        return PracticeEstimates(
            {
                name: self._estimates_of(name, cluster, drawn)
                for name in dict.fromkeys((*self._dispatchers, None))
            }
        )

    def _estimates_of(
        self, dispatcher: Dispatcher | None, cluster: Cluster, drawn: dict[Hashable, RankSums]
    ) -> StepEstimates:
        scenario = self.scenario
        if dispatcher is not None:
            demand = scenario.demand.model_copy(update={"dispatcher": dispatcher})
            scenario = scenario.model_copy(update={"demand": demand})
        options = workload_options(scenario, self._model)
        return step_estimates(scenario, self._model, options, self._memory, cluster, drawn)

    @staticmethod
    def estimated(plans: Sequence[FittedPlan], estimates: PracticeEstimates) -> list[PredictedPlan]:
        """Plans with their steps in closed form, the fastest first.

        Those that cannot be placed on servers are left out, and those that a file of demand is
        not for.
        """
        predicted = []
        for fitted in plans:
            with contextlib.suppress(DemandError, PlanError):
                step = estimates.of(fitted)
                predicted.append(PredictedPlan(fitted, step, step.step_time_s, is_screened=True))
        return sorted(predicted, key=lambda choice: choice.order)

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
        if degree or keeps_scores(self.scenario, self._model):
            return [degree or 1]
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
        options = self.scenario.plan
        if options.micro_batches is not None or options.micro_batch_size is not None:
            return [_micro_batch_size(self.scenario, self._model)]
        return [2**power for power in range(MAX_MICRO_BATCH_SIZE.bit_length())]


class PracticeEstimates(NamedTuple):
    """Steps in closed form by each dispatcher."""

    by_dispatcher: Mapping[Dispatcher | None, StepEstimates]

    def of(self, fitted: FittedPlan) -> StepEstimate:
        """The step of a plan as it fits; see :meth:`.StepEstimates.of` for errors."""
        estimates = self.by_dispatcher[fitted.dispatcher]
        return estimates.of(fitted.plan, fitted.options.recompute, fitted.options.sharded)


def _changed(plan: Plan, changes: Sequence[Mapping[str, Any]]) -> Iterator[Plan]:
    """The plan with each of some changes that is possible."""
    for change in changes:
        with contextlib.suppress(PlanError):
            yield dataclasses.replace(plan, **change)


def step_estimates(
    scenario: Scenario,
    model: Model,
    options: WorkloadOptions,
    memory: MemoryOptions,
    cluster: Cluster,
    drawn: dict[Hashable, RankSums] | None = None,
) -> StepEstimates:
    """Steps of the plans of a scenario in closed form, on machines as a fabric has them."""
    scenario = with_published_gate(scenario, model)
    compute = {
        level: compute_model(scenario, model, options, dataclasses.replace(memory, recompute=level))
        for level in get_args(Recompute)
    }
    return StepEstimates(scenario, model, options, cluster, compute, drawn)


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
