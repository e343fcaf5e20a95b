"""The plan with the shortest predicted step, among all that divide the model and fit the memory.

Candidates are all TP x PP x EP, and for the fastest of them the chunks per stage (VPP), with what
the user gives, the same tokens per step and the least recomputation that fits. They are simulated
on a fat-tree, since a plan should not favor a fabric, in three rounds of successive halving:

1. with balanced load, few layers and replicas, one and two micro-batches: a layer takes as long
   in a whole step, and so does a micro-batch. Of plans that differ in EP alone, larger ones are
   tried as long as they are faster: they send more, but have larger products of matrices;
2. the fastest as they are, but for their number of micro-batches;
3. the fastest of these with chunks.

A step takes longer by the same time with each micro-batch beyond those that fill the pipeline, so
that two short runs tell how long it is with any number. What is left out: other sequence lengths,
micro-batch sizes, context parallelism and expert modes than the given or published ones.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeVar

from lightloom.demand.open import kind_of
from lightloom.errors import DemandError, PlanError
from lightloom.hardware import load_gpu
from lightloom.models import Model, load_model
from lightloom.parallel import Plan, stated_plan
from lightloom.parallel.choose import divisors
from lightloom.parallel.plan import DEFAULT_SEQ_LEN, MICRO_BATCHES_PER_STAGE
from lightloom.progress import Monitor
from lightloom.simulate import simulate
from lightloom.study.compare.builds import Networks, Workloads
from lightloom.study.compare.fit import FittedPlan, fitted_plan
from lightloom.study.compare.job import Job, PlanCandidate, prepare, workload_options
from lightloom.study.compare.results import Sample
from lightloom.study.compare.scenario import PlanOptions, Scenario
from lightloom.study.compare.short_step import with_layers
from lightloom.units import show_time

#: the fabric of the prediction: one that no plan overloads
FABRIC = "fat-tree"
#: candidates that are simulated with all their layers and replicas
FINALISTS = 8
#: of these, how many are tried with chunks, and the numbers of chunks
CHUNKED, CHUNKS = 2, (2, 4)
#: layers of a run that only chooses the finalists, and the GPUs that its replicas may take: of
#: wide plans one, whose experts have few gradients to reduce
SCREENING_LAYERS, SCREENING_GPUS = 4, 256
#: tokens of a step where nothing was given or published: at most those of DeepSeek-V3's
MAX_STEP_TOKENS = 2**26
#: what is done first
SCREENING = "screening plans"
#: candidates that the summary names
SHOWN = 5

Kind = TypeVar("Kind")
#: called with what is being done; ``False`` stops
Watch = Callable[[str], bool | None]


@dataclass(frozen=True)
class _Choice:
    """A plan that fits, the scenario that has it, and its predicted step."""

    scenario: Scenario
    fitted: FittedPlan
    step_time_s: float = math.inf
    is_screened: bool = False

    @property
    def order(self) -> tuple[float, ...]:
        """The fastest first; of equal ones that with least pipeline stages and TP."""
        plan = self.fitted.plan
        return self.step_time_s / plan.tokens_per_step, plan.pp, plan.tp, plan.ep, plan.vpp


def planned_job(scenario: Scenario, monitor: Monitor[Any] | None = None) -> Job:
    """Look everything up; search the plan where the scenario says so, or where none is stated.

    Raises
    ------
    InputError
        One line about the first thing that is wrong.
    KeyboardInterrupt
        If it was interrupted, or the monitor returned ``False``.
    """
    model = load_model(scenario.model)
    stated = _stated(scenario, model)
    source = scenario.plan.source
    if source == "published" and (stated is None or model.plan is None):
        raise PlanError(
            f"{model.name} has no published plan for {scenario.gpus} GPUs; leave --plan out, or"
            " give --tp, --pp and --ep"
        )
    if source == "published" or (source is None and stated is not None):
        return prepare(scenario)
    choices = _choices(scenario, model, stated)
    if choices:
        with contextlib.suppress(DemandError):  # which may be for another EP
            prepare(scenario, choices[0].fitted)
    predicted = _fastest(choices, stated, monitor or Monitor())
    found = [one for one in predicted if one.step_time_s < math.inf]
    # without any, the rule finds none either, and says what is wrong with the closest
    return _searched(scenario, found, len(choices)) if found else prepare(scenario)


def _stated(scenario: Scenario, model: Model) -> Plan | None:
    """The plan that is given or published."""
    given = scenario.plan.degrees
    size = scenario.cluster.gpus_per_server
    try:
        return stated_plan(model, scenario.gpus, overrides=given, gpus_per_server=size)
    except PlanError:
        if scenario.plan.source == "search":
            return None
        raise


def _choices(scenario: Scenario, model: Model, stated: Plan | None) -> list[_Choice]:
    """All plans that divide the model and fit the memory, with equal tokens per step.

    A given number of micro-batches stands; steps then differ in tokens.
    """
    gpu = load_gpu(scenario.cluster.gpu)
    options = workload_options(scenario, model)
    sequences = _sequences(scenario, model, stated)
    found = []
    for degrees in _degrees(scenario, model):
        micro_batches = _micro_batches(scenario, model, degrees, sequences)
        if micro_batches is None:
            continue
        values = {"micro_batches": micro_batches, **scenario.plan.degrees, **degrees}
        one = scenario.model_copy(update={"plan": PlanOptions(**values)})
        try:
            found.append(_Choice(one, fitted_plan(one, model, gpu, options)))
        except PlanError:
            continue
    return [choice for choice in found if choice.fitted.misfit is None]


def _degrees(scenario: Scenario, model: Model) -> Iterator[dict[str, int]]:
    """TP within a server, PP and EP that may divide the model."""
    given, gpus = scenario.plan, scenario.gpus
    cp = given.cp or 1
    tps = [given.tp] if given.tp else divisors(min(gpus, scenario.cluster.gpus_per_server))
    pps = [given.pp] if given.pp else [d for d in divisors(gpus) if d <= model.num_layers]
    eps = [given.ep] if given.ep else divisors(model.num_experts if model.num_moe_layers else 1)
    for tp in tps:
        for pp in pps:
            for ep in eps:
                yield {"tp": tp, "pp": pp, "ep": ep, "cp": cp}


def _sequences(scenario: Scenario, model: Model, stated: Plan | None) -> int:
    """Sequences of a step: those of the stated plan, else four per GPU, up to a limit of tokens."""
    if stated is not None:
        return stated.sequences_per_step
    per_replica = MICRO_BATCHES_PER_STAGE * _micro_batch_size(scenario, model)
    sequences = per_replica * scenario.gpus // (scenario.plan.cp or 1)
    published = model.plan.seq_len if model.plan else DEFAULT_SEQ_LEN
    seq_len = scenario.plan.seq_len or published
    while sequences % 2 == 0 and sequences * seq_len > MAX_STEP_TOKENS:
        sequences //= 2
    return sequences


def _micro_batches(
    scenario: Scenario, model: Model, degrees: dict[str, int], sequences: int
) -> int | None:
    """What is given, or what makes up the sequences of a step; ``None`` if nothing does."""
    replicas, rest = divmod(scenario.gpus, degrees["tp"] * degrees["pp"] * degrees["cp"])
    if rest or not replicas:
        return None
    if scenario.plan.micro_batches is not None:
        return scenario.plan.micro_batches
    micro_batches, rest = divmod(sequences, replicas * _micro_batch_size(scenario, model))
    return None if rest or not micro_batches else micro_batches


def _micro_batch_size(scenario: Scenario, model: Model) -> int:
    published = model.plan.micro_batch_size if model.plan else 1
    return scenario.plan.micro_batch_size or published


def _fastest(choices: list[_Choice], stated: Plan | None, monitor: Monitor[Any]) -> list[_Choice]:
    """Predict all choices, in rounds; the fastest first, then those that only were screened.

    The stated plan is among the finalists, so that it is compared as exactly as they are.
    """
    rest: list[_Choice] = []
    finalists = choices
    with _Pool(monitor) as pool:
        if len(choices) > FINALISTS:
            screened = sorted(_screen(choices, pool), key=lambda choice: choice.order)
            known = [choice for choice in choices if _is(choice.fitted.plan, stated)]
            others = [one for one in screened if not _is(one.fitted.plan, stated)]
            finalists, rest = [*known, *others[:FINALISTS]], others[FINALISTS:]
        if len(choices) > 1:
            finalists = pool.map(_short, finalists, "comparing plans")
        finalists.sort(key=lambda choice: choice.order)
        chunked = [more for one in finalists[:CHUNKED] for more in _with_chunks(one)]
        finalists += pool.map(_short, chunked, "comparing chunks")
    return [*sorted(finalists, key=lambda choice: choice.order), *rest]


def _screen(choices: Sequence[_Choice], pool: _Pool) -> list[_Choice]:
    """Predict choices roughly; of those that differ in EP alone, up to the fastest one."""
    waiting: dict[tuple[object, ...], list[_Choice]] = {}
    for choice in sorted(choices, key=lambda one: one.fitted.plan.ep):
        plan, level = choice.fitted.plan, choice.fitted.options.recompute
        waiting.setdefault((plan.tp, plan.pp, level), []).append(choice)
    screened: list[_Choice] = []
    best: dict[tuple[object, ...], _Choice] = {}
    round_of = {key: ones[:2] for key, ones in waiting.items()}
    while any(round_of.values()):
        keys = [key for key, ones in round_of.items() for _ in ones]
        found = pool.map(_screened, [one for ones in round_of.values() for one in ones], SCREENING)
        screened += found
        going = set()
        for key, one in zip(keys, found, strict=True):
            going.discard(key)
            if key not in best or one.step_time_s <= best[key].step_time_s:
                best[key] = one
                going.add(key)
        waiting = {key: ones[len(round_of[key]) :] for key, ones in waiting.items() if key in going}
        round_of = {key: ones[:1] for key, ones in waiting.items()}
    return screened


def _is(plan: Plan, stated: Plan | None) -> bool:
    return stated is not None and all(
        getattr(plan, name) == getattr(stated, name) for name in ("tp", "pp", "ep")
    )


def _with_chunks(choice: _Choice) -> Iterator[_Choice]:
    """The same plan with several chunks per stage, if these fit and nobody said how many."""
    plan, scenario = choice.fitted.plan, choice.scenario
    if plan.pp == 1 or plan.vpp > 1 or plan.schedule != "1f1b" or scenario.plan.vpp is not None:
        return
    job = _job(choice)
    for chunks in CHUNKS:
        values = {**scenario.plan.degrees, "vpp": chunks}
        one = scenario.model_copy(update={"plan": PlanOptions(**values)})
        try:
            fitted = fitted_plan(one, job.model, job.gpu, job.options)
        except PlanError:
            continue
        if fitted.misfit is None:
            yield _Choice(one, fitted)


def _job(choice: _Choice) -> Job:
    """The job of a choice on the fabric of the prediction."""
    alone: dict[str, Any] = {"seeds": 1, "steps": 1, "compute_spread": 0.0}
    alone |= {"fabrics": (FABRIC,), "fabric_options": {}, "network": "flow", "packets": None}
    scenario = choice.scenario.model_copy(update=alone)
    return prepare(scenario, choice.fitted)


def _screened(choice: _Choice, watch: Watch) -> _Choice:
    """Predicted from few layers and replicas."""
    try:
        job = _job(choice)
    except DemandError:  # a file for another EP
        return choice
    plan, layers = job.plan, job.model.num_layers
    per_stage = -(-SCREENING_LAYERS // plan.pp)
    if plan.pp * per_stage < layers:
        kinds = job.model.moe_layers[-plan.pp * per_stage :]
        job = dataclasses.replace(job, model=with_layers(job.model, kinds))
    else:
        per_stage = -(-layers // plan.pp)
    replicas = max(1, min(plan.dp, 2, SCREENING_GPUS * plan.dp // plan.gpus))
    gpus = plan.gpus // plan.dp * replicas
    few = _plain(dataclasses.replace(plan, gpus=gpus, dp=replicas))
    cluster = dataclasses.replace(job.cluster, gpus=gpus)
    scenario = job.scenario
    demand = scenario.demand.name
    if job.model.num_moe_layers and isinstance(demand, str) and kind_of(demand) == "regime":
        # which takes half the time to draw
        scenario = scenario.with_imbalance("balanced")
    job = dataclasses.replace(job, plan=few, cluster=cluster, scenario=scenario)
    seconds = _predicted(job, plan.micro_batches, watch) * -(-layers // plan.pp) / per_stage
    return dataclasses.replace(choice, step_time_s=seconds, is_screened=True)


def _plain(plan: Plan) -> Plan:
    """The plan without what needs a full pipeline to be of use."""
    values: dict[str, Any] = {"vpp": 1, "pp_layout": (), "schedule": "1f1b"}
    if plan.overlap_all_to_all == "batch":
        values["overlap_all_to_all"] = "none"
    return dataclasses.replace(plan, **values)


def _short(choice: _Choice, watch: Watch) -> _Choice:
    """Predicted from a step with few micro-batches, all else as it is."""
    try:
        job = _job(choice)
    except DemandError:
        return choice
    seconds = _predicted(job, job.plan.micro_batches, watch)
    return dataclasses.replace(choice, step_time_s=seconds, is_screened=False)


def _predicted(job: Job, micro_batches: int, watch: Watch) -> float:
    """The step with so many micro-batches, by runs with one and two fills of the pipeline.

    Where every micro-batch takes its turn alone, one and two of them are enough.
    """
    plan = job.plan
    is_plain = plan == _plain(plan)
    few = 1 if is_plain else plan.pp * plan.copies
    if micro_batches <= 2 * few:
        return _seconds(job, micro_batches, watch)
    first, second = (_seconds(job, fills * few, watch) for fills in (1, 2))
    return first + (micro_batches - few) * (second - first) / few


def _seconds(job: Job, micro_batches: int, watch: Watch) -> float:
    """Simulated step time with a number of micro-batches."""
    plan = dataclasses.replace(job.plan, micro_batches=micro_batches)
    job = dataclasses.replace(job, plan=plan)

    def progress(_share: float, _activity: str = "", /) -> bool:
        return watch(title(plan)) is not False

    if not progress(0.0):
        raise KeyboardInterrupt
    workloads = Workloads(job)
    fabric = job.fabrics[0]
    network = Networks(job, workloads).get(fabric)
    workload = workloads.get(Sample(job.scenario.seed, 0), job.cluster.gpus_per_server)
    return simulate(workload.graph, network, progress=progress).step_time_s


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
        self, predict: Callable[[Kind, Watch], Kind], items: Sequence[Kind], activity: str
    ) -> list[Kind]:
        """Predict all items, in their order."""

        def watch(_: str) -> bool:
            return not self._cancelled.is_set()

        futures = [self._pool.submit(predict, item, watch) for item in items]
        pending: set[Future[Kind]] = set(futures)
        while pending:
            done = len(futures) - len(pending)
            share = done / len(futures)
            if self._monitor.progress(share, f"{activity}, {done} of {len(futures)}") is False:
                raise KeyboardInterrupt
            pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED).not_done
        return [future.result() for future in futures]


def title(plan: Plan | PlanCandidate) -> str:
    """The degrees that the search chooses."""
    text = f"TP{plan.tp} PP{plan.pp} EP{plan.ep}"
    return text + (f" VPP{plan.vpp}" if plan.vpp > 1 else "")


def _searched(scenario: Scenario, found: Sequence[_Choice], fit: int) -> Job:
    """The job with the fastest plan, and all that were predicted of those that fit."""
    best, plan = found[0], found[0].fitted.plan
    finalists = [choice for choice in found if not choice.is_screened]
    others = ", ".join(
        f"{title(one.fitted.plan)} {show_time(one.step_time_s, 3)}" for one in finalists[1:SHOWN]
    )
    text = f"search: of {fit} plans that fit, the shortest predicted step"
    if len(found) > 1:
        own = f"{title(plan)} {show_time(best.step_time_s, 3)}"
        text += f" on {FABRIC}: {own}; then {others}"
    given = [f"given: {name.replace('_', '-')} {value}" for name, value in _given(scenario)]
    plan = dataclasses.replace(plan, provenance=(text, *given))
    candidates = tuple(
        PlanCandidate(
            **{name: getattr(one.fitted.plan, name) for name in PlanCandidate.DEGREES},
            recompute=one.fitted.options.recompute,
            peak_memory_bytes=max(stage.total_bytes for stage in one.fitted.memory),
            predicted_step_time_s=one.step_time_s,
            is_screened=one.is_screened,
        )
        for one in found
    )
    fitted = dataclasses.replace(best.fitted, plan=plan)
    return dataclasses.replace(prepare(scenario, fitted), candidates=candidates)


def _given(scenario: Scenario) -> list[tuple[str, Any]]:
    return sorted(scenario.plan.degrees.items())
