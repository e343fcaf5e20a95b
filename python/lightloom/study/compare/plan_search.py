"""The plan with the shortest predicted step, among all that divide the model and fit the memory.

Candidates (:mod:`.plan_candidates`) are all TP x PP x EP, with experts divided or whole, and CP
for long sequences; of the best of them also larger micro-batches, and chunks per stage (VPP). They
are simulated on a fat-tree, in rounds:

1. screened with balanced load, few stages, layers and replicas, one and two micro-batches: each
   takes as long in a whole step. Among plans that differ in EP alone, larger ones
   are tried as long as they are faster: they send more, but have larger products of matrices;
2. those that would be fastest without a bubble: larger micro-batches, as long as these are faster,
   and chunks, which divide the bubble of a screened step by their number;
3. the fastest of all, the fastest with every other EP, whose load is less balanced than a screened
   one, and the published plan: as they are, but for their micro-batches;
4. these, and the fastest with every other PP, on the fabrics of the comparison: one on which
   another plan of as many tokens per step is faster by more than :data:`SAME_PLAN` has that one.

Steps are predicted from one and two fills of the pipeline (``fills.py``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeVar

from lightloom.demand.open import kind_of
from lightloom.errors import DemandError, FabricError, PlanError
from lightloom.fabric import Fabric, load_fabric
from lightloom.parallel import Plan
from lightloom.parallel.choose import divisors
from lightloom.parallel.grid import RankGrid, check_servers
from lightloom.progress import Monitor, Progress
from lightloom.study.compare.fills import Fills, Steps, with_micro_batches
from lightloom.study.compare.job import (
    ModelJob,
    PlanCandidate,
    load_fabrics,
    model_of,
    prepare,
)
from lightloom.study.compare.plan_candidates import Candidates, PredictedPlan, may_have_chunks
from lightloom.study.compare.racks import with_servers
from lightloom.study.compare.scenario import Scenario
from lightloom.study.compare.short_step import with_layers
from lightloom.units import show_time

#: the fabric that plans are screened on: one that no plan overloads
FABRIC = "fat-tree"
PLAIN = load_fabric(FABRIC)
#: ratio of predicted steps on a fabric up to which it keeps a plan that others have
SAME_PLAN = 1.02
#: candidates that are tried with larger micro-batches and with chunks
LEADING = 16
#: candidates that are simulated with all their layers and replicas, and shown
FINALISTS = 10
#: and those of another EP that are screened as slower than the fastest by this factor at most
OTHER_EP = 1.2
#: and, where other fabrics are compared, those of another PP, which sends less for replicas
OTHER_PP = 2.0
#: stages and layers of a run that only screens, and the GPUs that its replicas may take: of wide
#: plans one, whose experts have few gradients to reduce
SCREENING_STAGES, SCREENING_LAYERS, SCREENING_GPUS = 2, 4, 256
#: what is done first
SCREENING = "screening plans"

Kind = TypeVar("Kind")
Found = TypeVar("Found")


@dataclass(frozen=True)
class _Pace:
    """Time of a step with one micro-batch and few stages and layers, and of each one more."""

    stages: int
    layers: int
    first_s: float
    more_s: float

    def step_time_s(self, plan: Plan, num_layers: int, chunks: int) -> float:
        """The step with all stages, layers and micro-batches, whose bubble chunks divide."""
        per_stage = chunks * -(-num_layers // (plan.pp * chunks))
        bubble = (plan.pp - 1) * self.more_s * (1 - 1 / chunks)
        more = plan.pp - self.stages + plan.micro_batches - 1
        seconds = self.first_s + more * self.more_s - bubble
        return seconds * per_stage / self.layers


def planned_job(
    scenario: Scenario, monitor: Monitor[Any] | None = None, *, sequences: int | None = None
) -> ModelJob:
    """The job with the plan of the first fabric, see :func:`planned_jobs`."""
    return planned_jobs(scenario, monitor, sequences=sequences)[0]


def planned_jobs(
    scenario: Scenario, monitor: Monitor[Any] | None = None, *, sequences: int | None = None
) -> list[ModelJob]:
    """Look everything up; search plans where the scenario says so, or where none is stated.

    ``sequences`` are those of a step; by default those of the stated plan, or four per GPU.

    Returns
    -------
    list
        A job for each plan, with the fabrics that have it; the first one has the first fabric. A
        stated plan is that of all fabrics.

    Raises
    ------
    InputError
        One line about the first thing that is wrong.
    KeyboardInterrupt
        If it was interrupted, or the monitor returned ``False``.
    """
    model = model_of(scenario)
    scenario = with_servers(scenario, model)
    candidates = Candidates(scenario, model, sequences)
    source, stated = scenario.plan.source, candidates.stated
    if source == "published" and (stated is None or model.plan is None):
        raise PlanError(
            f"{model.name} has no published plan for {scenario.gpus} GPUs; leave --plan out, or"
            " give --tp, --pp and --ep"
        )
    if source == "published" or (source is None and stated is not None):
        return [prepare(scenario)]
    whole = candidates.whole()
    if whole:
        with contextlib.suppress(DemandError):  # which may be for another EP
            prepare(scenario, whole[0].fitted)
    fabrics = load_fabrics(scenario)
    with _Pool(monitor or Monitor()) as pool:
        predicted = _Search(candidates, model.num_layers, fabrics, pool).fastest(whole)
    possible = [choice for choice in predicted if choice.step_time_s < math.inf]
    # without any, the rule finds none either, and says what is wrong with the closest
    return _searched(scenario, fabrics, possible) if possible else [prepare(scenario)]


class _Search:
    """Rounds of predictions; what was screened is not simulated again."""

    def __init__(
        self, candidates: Candidates, num_layers: int, fabrics: Sequence[Fabric], pool: _Pool
    ) -> None:
        self._candidates, self._num_layers, self._pool = candidates, num_layers, pool
        self._others = tuple(fabric for fabric in fabrics if fabric != PLAIN)
        self._paces: dict[Hashable, _Pace | None] = {}

    def fastest(self, whole: Sequence[PredictedPlan]) -> list[PredictedPlan]:
        """Predict all choices; the fastest first, then those that only were screened.

        The published plan is among the finalists, so that it is compared as exactly as they are.
        """
        screened = self._with_growing_ep(whole)
        leading = sorted(screened, key=self._without_bubble)[:LEADING]
        screened += self._with_larger_micro_batches(leading)
        leading = sorted(screened, key=self._without_bubble)[:LEADING]
        chunked = [more for choice in leading for more in self._candidates.with_chunks(choice)]
        screened += self._screened(chunked)
        published = self._candidates.published()
        stated = [] if published is None else [published]
        others = sorted(screened, key=lambda choice: choice.order)
        others = [choice for choice in others if all(choice.plan != it.plan for it in stated)]
        exact = [*stated, *others[:FINALISTS]]
        exact += _best_of_other(exact, others, "ep", OTHER_EP)
        if self._others:
            exact += _best_of_other(exact, others, "pp", OTHER_PP)
        finalists = self._pool.map(_short, exact, "comparing plans")
        finalists.sort(key=lambda choice: choice.order)
        if self._others:
            there = functools.partial(_elsewhere, fabrics=self._others)
            finalists = self._pool.map(there, finalists, "comparing plans by fabric")
        ids = {id(choice) for choice in exact}
        return [*finalists, *(choice for choice in others if id(choice) not in ids)]

    def _with_growing_ep(self, choices: Iterable[PredictedPlan]) -> list[PredictedPlan]:
        """Screen choices; of those that differ in EP alone, up to the fastest one."""
        waiting: dict[Hashable, list[PredictedPlan]] = {}
        for choice in sorted(choices, key=lambda one: one.plan.ep):
            plan, level = choice.plan, choice.fitted.options.recompute
            rest = (plan.tp, plan.pp, plan.cp, plan.expert_mode, level)
            waiting.setdefault(rest, []).append(choice)
        screened: list[PredictedPlan] = []
        best: dict[Hashable, PredictedPlan] = {}
        round_of = {key: ones[:2] for key, ones in waiting.items()}
        while any(round_of.values()):
            keys = [key for key, ones in round_of.items() for _ in ones]
            tried = self._screened([choice for group in round_of.values() for choice in group])
            screened += tried
            going = set()
            for key, candidate in zip(keys, tried, strict=True):
                going.discard(key)
                if key not in best or candidate.step_time_s <= best[key].step_time_s:
                    best[key] = candidate
                    going.add(key)
            waiting = {k: ones[len(round_of[k]) :] for k, ones in waiting.items() if k in going}
            round_of = {key: ones[:1] for key, ones in waiting.items()}
        return screened

    def _with_larger_micro_batches(self, choices: Sequence[PredictedPlan]) -> list[PredictedPlan]:
        """Screen choices with larger and larger micro-batches, as long as they are faster."""
        screened: list[PredictedPlan] = []
        while choices:
            pairs = [(c, self._candidates.with_larger_micro_batches(c)) for c in choices]
            larger = [(one, more) for one, more in pairs if more is not None]
            faster = self._screened([more for _, more in larger])
            screened += faster
            choices = [
                more
                for (one, _), more in zip(larger, faster, strict=True)
                if self._without_bubble(more) < self._without_bubble(one)
            ]
        return screened

    def _without_bubble(self, choice: PredictedPlan) -> float:
        """Time per token, with as many chunks as there are layers."""
        pace, plan = self._paces[_few(choice)[0]], choice.plan
        if pace is None or not may_have_chunks(plan):
            return choice.step_time_s / plan.tokens_per_step
        chunks = max(plan.vpp, -(-self._num_layers // plan.pp))
        return pace.step_time_s(plan, self._num_layers, chunks) / plan.tokens_per_step

    def _screened(self, choices: Sequence[PredictedPlan]) -> list[PredictedPlan]:
        """Predicted from few layers and replicas."""
        new = {key: choice for choice in choices if (key := _few(choice)[0]) not in self._paces}
        paces = self._pool.map(_pace, list(new.values()), SCREENING)
        self._paces.update(zip(new, paces, strict=True))
        return [self._estimated(choice) for choice in choices]

    def _estimated(self, choice: PredictedPlan) -> PredictedPlan:
        pace, plan = self._paces[_few(choice)[0]], choice.plan
        if pace is None:
            return choice
        seconds = pace.step_time_s(plan, self._num_layers, plan.vpp)
        return dataclasses.replace(choice, step_time_s=seconds, is_screened=True)


def _best_of_other(
    exact: Sequence[PredictedPlan], others: Sequence[PredictedPlan], degree: str, limit: float
) -> list[PredictedPlan]:
    """The first of ``others`` with each degree that no plan of ``exact`` has, unless far slower."""
    firsts: dict[int, PredictedPlan] = {}
    for choice in others:
        if choice.order[0] <= limit * others[0].order[0]:
            firsts.setdefault(getattr(choice.plan, degree), choice)
    tried = {getattr(choice.plan, degree) for choice in exact}
    return [choice for value, choice in firsts.items() if value not in tried]


def _job(choice: PredictedPlan) -> ModelJob:
    """The job of a choice on the fabric that plans are screened on."""
    alone: dict[str, Any] = {"seeds": 1, "steps": 1, "compute_spread": 0.0}
    alone |= {"fabrics": (FABRIC,), "fabric_options": {}, "network": "flow", "packets": None}
    scenario = choice.scenario.model_copy(update=alone)
    return prepare(scenario, choice.fitted)


def _few(choice: PredictedPlan) -> tuple[Hashable, Plan]:
    """What a screening run depends on, and its plan: few stages and replicas, one micro-batch."""
    few = _few_replicas(choice.plan, choice.scenario.cluster.used_gpus_per_server)
    return (few, choice.fitted.options.recompute), few


@functools.cache
def _few_replicas(plan: Plan, gpus_per_server: int) -> Plan:
    """Two replicas at most, or as few as fill servers."""
    stages = min(plan.pp, SCREENING_STAGES)
    whole = plan.gpus // plan.pp * stages
    plain = dataclasses.replace(_plain(plan), gpus=whole, pp=stages, micro_batches=1)
    wanted = max(1, min(plan.dp, 2, SCREENING_GPUS * plan.dp // whole))
    for replicas in divisors(plan.dp):
        if replicas >= wanted:
            with contextlib.suppress(PlanError):
                gpus = whole // plan.dp * replicas
                few = dataclasses.replace(plain, gpus=gpus, dp=replicas)
                check_servers(RankGrid(few), gpus_per_server)
                return few
    return plain


def _pace(choice: PredictedPlan, watch: Progress) -> _Pace | None:
    """Runs with one and two micro-batches; ``None`` if a file of demand is for another EP."""
    try:
        job = _job(choice)
    except DemandError:
        return None
    plan, model, scenario = _few(choice)[1], job.model, job.scenario
    per_stage = -(-SCREENING_LAYERS // plan.pp)
    if plan.pp * per_stage < model.num_layers:
        model = with_layers(model, model.moe_layers[-plan.pp * per_stage :])
    else:
        per_stage = -(-model.num_layers // plan.pp)
    cluster = dataclasses.replace(job.cluster, gpus=plan.gpus)
    demand = scenario.demand.name
    if model.num_moe_layers and isinstance(demand, str) and kind_of(demand) == "regime":
        # which takes half the time to draw
        scenario = scenario.with_imbalance("balanced")
    job = dataclasses.replace(job, model=model, plan=plan, cluster=cluster, scenario=scenario)
    fills = Fills(tuple(with_micro_batches(job, count) for count in (1, 2)))
    first, second = Steps(fills, watch, plans_once=True).seconds(PLAIN)
    return _Pace(plan.pp, per_stage, first, second - first)


def _plain(plan: Plan) -> Plan:
    """The plan without what needs a full pipeline to be of use."""
    values: dict[str, Any] = {"vpp": 1, "pp_layout": (), "schedule": "1f1b"}
    if plan.overlap_all_to_all == "batch":
        values["overlap_all_to_all"] = "none"
        # multiprocessors are taken from what an all-to-all overlaps
        values["communication_sms"] = plan.communication_sms if plan.overlap_shared_experts else 0
    return dataclasses.replace(plan, **values)


def _short(choice: PredictedPlan, watch: Progress) -> PredictedPlan:
    """Predicted from a step with few micro-batches, all else as it is."""
    try:
        job = _job(choice)
    except DemandError:
        return choice
    seconds = _steps(job, watch).step_time_s(PLAIN)
    times: dict[Fabric, float] = {PLAIN: seconds}
    return dataclasses.replace(choice, step_time_s=seconds, is_screened=False, times_s=times)


def _elsewhere(
    choice: PredictedPlan, watch: Progress, *, fabrics: Sequence[Fabric]
) -> PredictedPlan:
    """Predicted on other fabrics as it was on a fat-tree, where they can carry the plan."""
    if PLAIN not in choice.times_s:  # the demand is for another EP
        return choice
    steps, times = _steps(_job(choice), watch), dict(choice.times_s)
    for fabric in fabrics:
        with contextlib.suppress(*([FabricError] if len(fabrics) > 1 else [])):
            times[fabric] = steps.step_time_s(fabric)
    return dataclasses.replace(choice, times_s=times)


def _steps(job: ModelJob, watch: Progress) -> Steps:
    """The step of a job from one and two fills of the pipeline.

    Where every micro-batch takes its turn alone, one and two of them are enough.
    """
    plan = job.plan
    # micro-batches that overlap one another are two at least
    fill = 1 if plan == _plain(plan) else max(2, plan.pp * plan.copies)
    return Steps(Fills.of(job, fill), watch, plans_once=True)


class _Pool:
    """Threads that predict, and show how far they are."""

    def __init__(self, monitor: Monitor[Any]) -> None:
        self._monitor = monitor
        self._cancelled = threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._cancelled.set()
        self._pool.shutdown(cancel_futures=True)

    def map(
        self, predict: Callable[[Kind, Progress], Found], items: Sequence[Kind], activity: str
    ) -> list[Found]:
        """Predict all items, in their order."""

        def watch(_share: float, _activity: str = "", /) -> bool:
            return not self._cancelled.is_set()

        futures = [self._pool.submit(predict, item, watch) for item in items]
        pending: set[Future[Found]] = set(futures)
        while pending:
            done = len(futures) - len(pending)
            share = done / len(futures)
            if self._monitor.progress(share, f"{activity}, {done} of {len(futures)}") is False:
                raise KeyboardInterrupt
            pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED).not_done
        return [future.result() for future in futures]


def title(plan: Plan | PlanCandidate | Mapping[str, Any]) -> str:
    """The degrees that the search chooses, those that are usual left out."""
    of = plan if isinstance(plan, Mapping) else vars(plan)
    text = f"TP{of['tp']} PP{of['pp']} EP{of['ep']}"
    text += f" CP{of['cp']}" if of["cp"] > 1 else ""
    text += f" ETP{of['etp']}" if of["etp"] != of["tp"] else ""
    text += f" VPP{of['vpp']}" if of["vpp"] > 1 else ""
    return text + (f" MBS{of['micro_batch_size']}" if of["micro_batch_size"] > 1 else "")


def _searched(
    scenario: Scenario, fabrics: Sequence[Fabric], predicted: Sequence[PredictedPlan]
) -> list[ModelJob]:
    """A job for each plan that is the fastest on some fabric, and all that were predicted."""
    candidates = tuple(
        PlanCandidate(
            **{name: getattr(candidate.plan, name) for name in PlanCandidate.DEGREES},
            recompute=candidate.fitted.options.recompute,
            peak_memory_bytes=max(stage.total_bytes for stage in candidate.fitted.memory),
            predicted_step_time_s=candidate.step_time_s,
            predicted_by_fabric_s={
                fabric.name: seconds
                for fabric in fabrics
                if (seconds := candidate.on(fabric)) < math.inf
            },
            is_screened=candidate.is_screened,
        )
        for candidate in predicted
    )
    jobs = []
    for choice, kept_by in _by_plan(fabrics, predicted):
        where = PLAIN if choice is predicted[0] else kept_by[0]
        text = f"search: of {len(predicted)} plans that fit, the shortest predicted step"
        if len(predicted) > 1:
            text += f" on {where.name}: {title(choice.plan)} {show_time(choice.on(where), 3)}"
        degrees = sorted(scenario.plan.degrees.items())
        stated = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in degrees)
        provenance = (text, f"given: {stated}") if stated else (text,)
        plan = dataclasses.replace(choice.plan, origin="searched", provenance=provenance)
        job = prepare(scenario, dataclasses.replace(choice.fitted, plan=plan))
        kept = tuple(fabric for fabric in job.fabrics if fabric in kept_by)
        jobs.append(dataclasses.replace(job, fabrics=kept, candidates=candidates))
    return jobs


def _by_plan(
    fabrics: Sequence[Fabric], predicted: Sequence[PredictedPlan]
) -> list[tuple[PredictedPlan, list[Fabric]]]:
    """Plans, each with the fabrics that have it, in their order.

    A fabric has the fastest plan of all, or the first one that another has, if that is about as
    fast there as the best.
    """
    tokens = predicted[0].plan.tokens_per_step
    exact = [each for each in predicted if each.times_s and each.plan.tokens_per_step == tokens]
    chosen: list[tuple[PredictedPlan, list[Fabric]]] = [(predicted[0], [])]
    for fabric in fabrics:
        best = min(exact, key=lambda choice: choice.on(fabric))
        for choice, kept_by in chosen:
            if choice.on(fabric) <= best.on(fabric) * SAME_PLAN:
                kept_by.append(fabric)
                break
        else:
            chosen.append((best, [fabric]))
    used = [pair for pair in chosen if pair[1]]
    return sorted(used, key=lambda pair: fabrics.index(pair[1][0]))
