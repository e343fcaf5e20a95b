"""The plan with the shortest predicted step, among all that divide the model and fit the memory.

Candidates (:mod:`.plan_candidates`) are ranked by a closed form of the step on a fat-tree
(:mod:`.step_estimate`). Simulated are the fastest of them, the fastest with every other EP, and the
published plan; where other fabrics are compared, the fastest with every other PP as well, and all
of these on each of them: one on which another plan of as many tokens per step is faster by more
than :data:`SAME_PLAN` has that one.

Steps are simulated with one and two fills of the pipeline (``fills.py``), all else as it is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from lightloom.errors import DemandError, FabricError, PlanError
from lightloom.fabric import Fabric, load_fabric
from lightloom.models import Model
from lightloom.parallel import Plan
from lightloom.progress import Monitor, Progress
from lightloom.study.compare.expansion_hint import with_expansion
from lightloom.study.compare.fills import Fills, Steps
from lightloom.study.compare.fit import FittedPlan, MisfitError
from lightloom.study.compare.job import (
    ModelJob,
    PlanCandidate,
    load_fabrics,
    model_of,
    prepare,
)
from lightloom.study.compare.kernels import dispatcher_of
from lightloom.study.compare.plan_candidates import Candidates, PracticeEstimates, PredictedPlan
from lightloom.study.compare.racks import with_servers
from lightloom.study.compare.scenario import Scenario
from lightloom.study.compare.shared_work import shared, usable_cores
from lightloom.units import show_time

#: the fabric that plans are screened on: one that no plan overloads
FABRIC = "fat-tree"
PLAIN = load_fabric(FABRIC)
#: ratio of predicted steps on a fabric up to which it keeps a plan that others have
SAME_PLAN = 1.02
#: candidates that are simulated because they are estimated to be the fastest
FINALISTS = 10
#: and those of another EP that are estimated to be slower than the fastest by this factor at most
OTHER_EP = 1.2
#: and, where other fabrics are compared, those of another PP, which sends less for replicas
OTHER_PP = 2.0
#: micro-batches that fill a pipeline times GPUs, up to which so many are simulated
FILLED_GPUS = 8192
#: fields of a scenario that no plan depends on
NOT_SEARCHED = {
    *("steps", "seeds", "compute_spread", "policies", "imbalances", "whole_steps", "fail"),
    *("predictor", "network", "packets", "counting", "prices", "power", "price_list", "power_list"),
    "designs",
}
#: candidates that results have, in the order of their predicted steps
RECORDED = 100

Kind = TypeVar("Kind")
Found = TypeVar("Found")


def planned_job(
    scenario: Scenario,
    monitor: Monitor[Any] | None = None,
    *,
    sequences: int | None = None,
    practice: bool = True,
) -> ModelJob:
    """The job with the plan of the first fabric, see :func:`planned_jobs`."""
    return planned_jobs(scenario, monitor, sequences=sequences, practice=practice)[0]


def planned_jobs(
    scenario: Scenario,
    monitor: Monitor[Any] | None = None,
    *,
    sequences: int | None = None,
    practice: bool = True,
) -> list[ModelJob]:
    """Look everything up; search plans where the scenario says so, or where none is stated.

    ``sequences`` are those of a step; by default those of the stated plan, or four per GPU. A
    search by name varies ``practice`` as well, unless it is false.

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
    candidates = Candidates(scenario, model, sequences, practice=practice)
    source, stated = scenario.plan.source, candidates.stated
    if source == "published" and (stated is None or model.plan is None):
        raise PlanError(
            f"{model.name} has no published plan for {scenario.gpus} GPUs; leave --plan out, or"
            " give --tp, --pp and --ep"
        )
    if source == "published" or (source is None and stated is not None):
        return [_prepared(scenario, model)]
    fitting = candidates.fitting()
    if fitting:
        with contextlib.suppress(DemandError):  # which may be for another EP
            prepare(scenario, fitting[0])
    fabrics = load_fabrics(scenario)
    monitor = monitor or Monitor()
    if fitting and monitor.progress(0.0, f"ranking {len(fitting):,} plans") is False:
        raise KeyboardInterrupt

    def search() -> list[PredictedPlan]:
        with _Pool(monitor) as pool:
            return _predicted(candidates, fitting, fabrics, pool)

    key = (scenario.model_dump_json(exclude=NOT_SEARCHED), model, sequences)
    predicted = shared("search for a plan", key, search)
    # without any, the rule finds none either, and says what is wrong with the closest
    return _searched(candidates, fabrics, predicted) if predicted else [_prepared(scenario, model)]


def _prepared(scenario: Scenario, model: Model) -> ModelJob:
    """The job with the plan that is given or published, or by the rule."""
    try:
        return prepare(scenario)
    except MisfitError as error:
        raise with_expansion(error, scenario, model, PLAIN) from None


def _predicted(
    candidates: Candidates, fitting: Sequence[FittedPlan], fabrics: Sequence[Fabric], pool: _Pool
) -> list[PredictedPlan]:
    """All plans: those that were simulated, the fastest first, then those that were estimated.

    The published plan is among the former, so that it is compared as exactly as they are.
    """
    others = tuple(fabric for fabric in fabrics if fabric != PLAIN)
    stated = candidates.published()
    published = [] if stated is None else [stated]
    unknown = [fitted for fitted in fitting if stated is None or fitted.plan != stated.plan]
    estimates = candidates.estimates(PLAIN.adapt(candidates.machines))
    estimated = candidates.estimated(unknown, estimates)
    leading = [*candidates.estimated(published, estimates), *estimated[:FINALISTS]]
    leading += _best_of_other(leading, estimated, "ep", OTHER_EP)
    if others:
        leading += _best_of_other(leading, estimated, "pp", OTHER_PP)
    simulate = functools.partial(_simulated, candidates.scenario, estimates)
    finalists = pool.map(simulate, leading, "comparing plans")
    finalists.sort(key=lambda choice: choice.order)
    if others:
        there = functools.partial(_elsewhere, candidates.scenario, others)
        finalists = pool.map(there, finalists, "comparing plans by fabric")
    ids = {id(choice) for choice in leading}
    return [*finalists, *(choice for choice in estimated if id(choice) not in ids)]


def _best_of_other(
    leading: Sequence[PredictedPlan], others: Sequence[PredictedPlan], degree: str, limit: float
) -> list[PredictedPlan]:
    """The first of ``others`` with each degree that none of ``leading`` has, unless far slower."""
    firsts: dict[int, PredictedPlan] = {}
    for choice in others:
        if choice.order[0] <= limit * others[0].order[0]:
            firsts.setdefault(getattr(choice.plan, degree), choice)
    tried = {getattr(choice.plan, degree) for choice in leading}
    return [choice for value, choice in firsts.items() if value not in tried]


def _job(scenario: Scenario, choice: PredictedPlan) -> ModelJob:
    """The job of a choice on the fabric that plans are compared on."""
    alone: dict[str, Any] = {"seeds": 1, "steps": 1, "compute_spread": 0.0}
    alone |= {"fabrics": (FABRIC,), "fabric_options": {}, "network": "flow", "packets": None}
    return prepare(scenario.model_copy(update=alone), choice.fitted)


def _simulated(
    scenario: Scenario, estimates: PracticeEstimates, choice: PredictedPlan, watch: Progress
) -> PredictedPlan:
    """Predicted from a step with few micro-batches, all else as it is.

    Of a large job these fill the pipeline once, and the closed form says how much longer the step
    is with all of them.
    """
    fills = _fills(_job(scenario, choice))
    seconds = fills.step_time_s(Steps(fills, watch, plans_once=True).seconds(PLAIN))
    few = fills.jobs[0]
    assert isinstance(few, ModelJob)
    if len(fills.jobs) == 1 and few.plan.micro_batches < choice.plan.micro_batches:
        short = estimates.of(dataclasses.replace(choice.fitted, plan=few.plan))
        seconds *= choice.step_time_s / short.step_time_s
    times: dict[Fabric, float] = {PLAIN: seconds}
    return dataclasses.replace(choice, step_time_s=seconds, is_screened=False, times_s=times)


def _elsewhere(
    scenario: Scenario, fabrics: Sequence[Fabric], choice: PredictedPlan, watch: Progress
) -> PredictedPlan:
    """Predicted on other fabrics as it was on a fat-tree, where they can carry the plan."""
    steps = Steps(_fills(_job(scenario, choice)), watch, plans_once=True)
    ratio = choice.step_time_s / steps.step_time_s(PLAIN)
    times = dict(choice.times_s)
    for fabric in fabrics:
        with contextlib.suppress(*([FabricError] if len(fabrics) > 1 else [])):
            times[fabric] = ratio * steps.step_time_s(fabric)
    return dataclasses.replace(choice, times_s=times)


def _fills(job: ModelJob) -> Fills:
    """The step of a job from one and two fills of the pipeline, of a large job from one."""
    plan = job.plan
    alternates = plan.overlap_all_to_all == "batch"
    fill = max(1 + alternates, plan.pp * plan.copies if plan.pp > 1 else 1)
    fills = Fills.of(job, fill)
    return Fills(fills.jobs[:1]) if fill * plan.gpus > FILLED_GPUS else fills


class _Pool:
    """Threads that predict, and show how far they are."""

    def __init__(self, monitor: Monitor[Any]) -> None:
        self._monitor = monitor
        self._cancelled = threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=usable_cores())

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
    text += f" MBS{of['micro_batch_size']}" if of["micro_batch_size"] > 1 else ""
    # earlier versions recorded neither of candidates
    usual = {"schedule": "1f1b", "strategy": "O1"}
    return text + "".join(f" {of[n]}" for n in usual if of.get(n, usual[n]) != usual[n])


def _searched(
    known: Candidates, fabrics: Sequence[Fabric], predicted: Sequence[PredictedPlan]
) -> list[ModelJob]:
    """A job for each plan that is the fastest on some fabric, and all that were predicted."""
    scenario = known.scenario
    usual = dispatcher_of(scenario, model_of(scenario))
    candidates = tuple(
        PlanCandidate(
            **{name: getattr(candidate.plan, name) for name in PlanCandidate.DEGREES},
            dispatcher=candidate.fitted.dispatcher or usual,
            sharded=candidate.fitted.options.sharded if candidate.plan.zero1 else "states",
            recompute=candidate.fitted.options.recompute,
            peak_memory_bytes=max(stage.total_bytes for stage in candidate.fitted.memory),
            predicted_step_time_s=candidate.step_time_s,
            estimated_s=None if candidate.estimate is None else vars(candidate.estimate),
            predicted_by_fabric_s={
                fabric.name: seconds
                for fabric in fabrics
                if (seconds := candidate.on(fabric)) < math.inf
            },
            is_screened=candidate.is_screened,
        )
        for candidate in predicted[:RECORDED]
    )
    jobs = []
    for choice, kept_by in _by_plan(fabrics, predicted):
        where = PLAIN if choice is predicted[0] else kept_by[0]
        text = f"search: of {len(predicted):,} plans that fit, the shortest predicted step"
        if len(predicted) > 1:
            text += f" on {where.name}: {title(choice.plan)} {show_time(choice.on(where), 3)}"
        degrees = sorted(scenario.plan.degrees.items())
        stated = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in degrees)
        provenance = (text, f"given: {stated}") if stated else (text,)
        plan = dataclasses.replace(choice.plan, origin="searched", provenance=provenance)
        fitted = known.explained(choice.fitted)
        job = prepare(scenario, dataclasses.replace(fitted, plan=plan))
        kept = tuple(fabric for fabric in job.fabrics if fabric in kept_by)
        job = dataclasses.replace(job, candidates=candidates, plans_that_fit=len(predicted))
        jobs.append(dataclasses.replace(job, fabrics=kept))
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
