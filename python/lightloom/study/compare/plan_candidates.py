"""Which plans a search considers: those that divide the model and fit the memory of the GPUs.

All have what the user gives, the same tokens per step and the least recomputation that fits.
Experts are divided by TP as other layers are or, where TP or CP divides these, whole (folded,
expert-TP 1). CP grows with long sequences alone, as long as it saves recomputation.
Left out: expert-TP between 1 and TP, and sequences, orders and schedules other than the given or
published ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lightloom.errors import PlanError
from lightloom.fabric import Fabric
from lightloom.hardware import load_gpu
from lightloom.models import Model
from lightloom.parallel import Plan, stated_plan
from lightloom.parallel.choose import BATCH, divisors
from lightloom.parallel.plan import MICRO_BATCHES_PER_STAGE, usual_length
from lightloom.study.compare.fit import FittedPlan, fitted_plan
from lightloom.study.compare.job import workload_options
from lightloom.study.compare.scenario import PlanOptions, Scenario

#: tokens of a step where nothing was given or published: at most those of DeepSeek-V3's
MAX_STEP_TOKENS = 2**26
#: sequences of a micro-batch, at most
MAX_MICRO_BATCH_SIZE = 8
#: tokens of a sequence that each CP rank has at least
MIN_CP_TOKENS = 4096


@dataclass(frozen=True)
class PredictedPlan:
    """A plan that fits, the scenario that has it, and its predicted step.

    ``times_s`` are predicted steps by fabric, where these were simulated.
    """

    scenario: Scenario
    fitted: FittedPlan
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
        self._scenario, self._model = scenario, model
        self._gpu = load_gpu(scenario.cluster.gpu)
        self._options = workload_options(scenario, model)
        self._sequences = sequences or _sequences(scenario, model, self.stated)

    def whole(self) -> list[PredictedPlan]:
        """All degrees, with the smallest micro-batches and with stages in one piece."""
        return list(self._whole())

    def _whole(self) -> Iterator[PredictedPlan]:
        for degrees in self._degrees():
            for mode in self._expert_modes(degrees["tp"]):
                yield from self._with_growing_cp({**degrees, **mode})

    def _with_growing_cp(self, values: dict[str, Any]) -> Iterator[PredictedPlan]:
        """Plans that differ in CP alone, as long as it saves recomputation."""
        for cp in self._context_degrees():
            if cp * values["tp"] == 1 and values.get("expert_mode") == "folded":
                continue
            more = {"cp": cp, "micro_batch_size": self._smallest_size}
            choice = self._choice({**values, **more})
            if choice is not None:
                yield choice
                if choice.fitted.repaired is None:
                    return

    def published(self) -> PredictedPlan | None:
        """The stated plan as it is, if it fits."""
        if self.stated is None:
            return None
        try:
            fitted = fitted_plan(self._scenario, self._model, self._gpu, self._options)
        except PlanError:
            return None
        return None if fitted.misfit else PredictedPlan(self._scenario, fitted)

    def with_larger_micro_batches(self, choice: PredictedPlan) -> PredictedPlan | None:
        """The same degrees with twice as many sequences per micro-batch, if that fits."""
        given, size = self._scenario.plan, choice.plan.micro_batch_size
        if given.micro_batch_size or given.micro_batches or size >= MAX_MICRO_BATCH_SIZE:
            return None
        values = choice.scenario.plan.degrees
        del values["micro_batches"]
        return self._choice({**values, "micro_batch_size": 2 * size})

    def with_chunks(self, choice: PredictedPlan) -> Iterator[PredictedPlan]:
        """The same plan with chunks of equally many layers, where nobody said how many."""
        plan = choice.plan
        if not may_have_chunks(plan) or plan.vpp > 1 or self._scenario.plan.vpp is not None:
            return
        for chunks in divisors(-(-self._model.num_layers // plan.pp))[1:]:
            more = self._choice({**choice.scenario.plan.degrees, "vpp": chunks})
            if more is not None:
                yield more

    def _choice(self, values: dict[str, Any]) -> PredictedPlan | None:
        values = {**values, **self._scenario.plan.degrees}
        values.pop(BATCH, None)
        if "micro_batches" not in values:
            replicas, rest = divmod(self._scenario.gpus, values["tp"] * values["pp"] * values["cp"])
            if rest or not replicas:
                return None
            per_step = replicas * values["micro_batch_size"]
            values["micro_batches"], rest = divmod(self._sequences, per_step)
            if rest or not values["micro_batches"]:
                return None
        scenario = self._scenario.model_copy(update={"plan": PlanOptions(**values)})
        try:
            fitted = fitted_plan(scenario, self._model, self._gpu, self._options)
        except PlanError:
            return None
        return None if fitted.misfit else PredictedPlan(scenario, fitted)

    def _degrees(self) -> Iterator[dict[str, int]]:
        """TP within a server, PP and EP that may divide the model."""
        scenario, model = self._scenario, self._model
        options, gpus = scenario.plan, scenario.gpus
        experts = model.num_experts if model.num_moe_layers else 1
        within = min(gpus, scenario.cluster.used_gpus_per_server)
        tps = [options.tp] if options.tp else divisors(within)
        pps = [options.pp] if options.pp else [d for d in divisors(gpus) if d <= model.num_layers]
        eps = [options.ep] if options.ep else divisors(experts)
        for tp in tps:
            for pp in pps:
                for ep in eps:
                    yield {"tp": tp, "pp": pp, "ep": ep}

    def _context_degrees(self) -> list[int]:
        degree = self._scenario.plan.cp
        if degree:
            return [degree]
        length = self._scenario.plan.seq_len or _published_length(self._model)
        return [2**power for power in range(max(1, length // MIN_CP_TOKENS).bit_length())]

    def _expert_modes(self, tp: int) -> list[dict[str, Any]]:
        plan = self._scenario.plan
        if plan.expert_mode or plan.etp:
            return [{}]
        modes: list[dict[str, Any]] = [{"expert_mode": "axis", "etp": tp}]
        if self._model.num_moe_layers:
            modes.append({"expert_mode": "folded", "etp": 1})
        return modes

    @property
    def _smallest_size(self) -> int:
        """Sequences of the smallest micro-batch; the published one if their number is given."""
        if self._scenario.plan.micro_batches is None:
            return 1
        return _micro_batch_size(self._scenario, self._model)


def may_have_chunks(plan: Plan) -> bool:
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
