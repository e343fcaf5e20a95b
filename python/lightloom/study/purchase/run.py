"""Advice on a purchase: the space of candidates, the search, and what would change the answer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

from lightloom.errors import FabricError, InputError
from lightloom.fabric.read import fabric_kinds
from lightloom.hardware import load_ownership
from lightloom.progress import Monitor
from lightloom.study.compare.costs import costs_of
from lightloom.study.compare.job import ModelJob
from lightloom.study.compare.plan_search import title
from lightloom.study.compare.racks import installed
from lightloom.study.compare.runner import Row
from lightloom.study.compare.scenario import Scenario
from lightloom.study.compare.shared_work import SharedWork, sharing
from lightloom.study.purchase.candidates import Candidate, PlanChoice, Space
from lightloom.study.purchase.options import GOALS, PurchaseOptions
from lightloom.study.purchase.results import CandidateResult, PurchaseAdvice
from lightloom.study.purchase.search import LISTED, Search, Trial, Yardstick, front_of, pace, point
from lightloom.study.purchase.uncertainty import FlipPoint, InputEffect, Uncertainty
from lightloom.units import show_usd

DAY_S = 86_400


#: candidates that are made at most
MOST_CANDIDATES = 20_000
#: what no candidate differs in
LEFT_OUT = (
    "failures and spare servers (lightloom goodput)",
    "storage, management networks, cabling labor, floor space and financing",
    "other jobs on the same cluster",
)


def advise_purchase(
    scenario: Scenario,
    options: PurchaseOptions,
    *,
    monitor: Monitor[Row] | None = None,
    exhaustive: bool = False,
) -> PurchaseAdvice:
    """Find what to buy for a job.

    Parameters
    ----------
    scenario
        The job, as for a comparison; its GPUs, rate and fabrics are those of ``options``.
    options
        Candidates, the goal, budget and deadline.
    monitor
        Takes the job's summary and progress.
    exhaustive
        Whether every candidate within the limits is simulated, short and whole.

    Raises
    ------
    InputError
        If anything cannot be used, or no candidate keeps the limits; the message says what would.
    KeyboardInterrupt
        If it was interrupted, or the monitor returned ``False``.
    """
    watcher: Monitor[Row] = monitor or Monitor()
    with sharing(SharedWork()):
        return _Purchase(Space(scenario, options), watcher, exhaustive).advice()


class _Purchase:
    """One call, step by step."""

    def __init__(self, space: Space, watcher: Monitor[Row], exhaustive: bool) -> None:
        self.space, self.options, self.watcher = space, space.options, watcher
        self.yardstick = Yardstick(space.options, load_ownership())
        self.exhaustive = exhaustive

    def advice(self) -> PurchaseAdvice:
        """Everything."""
        choices = [self._plans(gpus) for gpus in dict.fromkeys(self.options.gpus)]
        trials = [
            Trial(candidate, bound_s)
            for choice in choices
            for candidate, bound_s in self._candidates(choice)
        ]
        trials = [
            dataclasses.replace(
                trial, candidate=dataclasses.replace(trial.candidate, number=number)
            )
            for number, trial in enumerate(trials)
        ]
        if not trials:
            raise InputError(_no_candidate(choices, self.space.refused))
        job = trials[0].candidate.site.job
        self.watcher.begun(job.opening(), job.warnings())
        search = Search(trials, self.yardstick, self.watcher, self.exhaustive)
        confirmed = search.run()
        if not confirmed:
            raise InputError(self._nothing_fits(trials))
        return self._summed_up(choices, search, confirmed)

    def _watch(self, *_: object) -> bool:
        return self.watcher.progress(0.95, "what would change the answer") is not False

    def _plans(self, gpus: int) -> PlanChoice:
        if self.watcher.progress(0.0, f"ranking plans of {gpus:,} GPUs") is False:
            raise KeyboardInterrupt
        return self.space.plans(gpus)

    def _candidates(self, choice: PlanChoice) -> Iterator[tuple[Candidate, float]]:
        """Candidates of a number of GPUs, each with its bound."""
        count = 0
        for fitted in choice.fitted:
            for site in self.space.sites(choice.gpus, fitted, lambda *_: True):
                known: dict[Any, float] = {}
                for candidate in self.space.of(site, count):
                    count += 1
                    if count > MOST_CANDIDATES:
                        raise InputError(
                            f"more than {MOST_CANDIDATES:,} candidates: give fewer GPUs, rates or"
                            " fabrics"
                        )
                    fabric = candidate.fabric
                    key = fabric.adapt(site.job.cluster), fabric.kind
                    if key not in known:
                        known[key] = site.bound_s(fabric)
                    yield candidate, known[key]

    # Results

    def _summed_up(
        self, choices: Sequence[PlanChoice], search: Search, confirmed: list[Trial]
    ) -> PurchaseAdvice:
        trials = search.trials
        in_reach = [t for t in trials if t.predicted_s is not None and not t.outcome]
        front = front_of(in_reach)
        self._judge(trials, confirmed, front)
        effects: list[InputEffect] = []
        share, flips, examined = None, list[FlipPoint](), list[str]()
        if self.options.uncertainty:
            refused = [t for t in trials if t.outcome in ("budget", "deadline")]
            contest = Uncertainty(
                confirmed, self.yardstick, self._watch, refused, search.is_simulated, examined
            )
            effects, share = contest.effects(self.space.scenario.seed)
            flips = contest.flips()
        job = confirmed[0].candidate.site.job
        return PurchaseAdvice(
            inputs=self._inputs(choices),
            candidates=tuple(self._result(trial) for trial in trials),
            best=tuple(trial.candidate.number for trial in confirmed[:LISTED]),
            front=tuple(trial.candidate.number for trial in front),
            effects=tuple(effects),
            lead_share=share,
            flips=tuple(flips),
            examined=tuple(sorted(examined)),
            not_considered=tuple(self._not_considered(choices)),
            summary=tuple(job.opening() + job.plan_summary()),
            warnings=tuple(job.warnings()),
        )

    def _judge(self, trials: list[Trial], confirmed: list[Trial], front: Sequence[Trial]) -> None:
        """Say of every candidate that was simulated why it is not the answer."""
        best, listed = confirmed[0], {id(trial) for trial in confirmed[:LISTED]}
        top, on_front = self._score(best), {id(trial) for trial in front}
        fastest_first = sorted(front, key=lambda t: (-point(t)[1], point(t)[0]))
        for trial in trials:
            if trial.outcome:
                continue
            behind = 1 - self._score(trial) / top
            words = f"{100 * behind:.2g} % fewer {GOALS[self.options.goal]}"
            if trial is best:
                trial.outcome = "recommended"
            elif id(trial) in listed:
                trial.outcome, trial.why = "listed", words
            elif id(trial) in on_front:
                trial.outcome, trial.why = "front", words
            else:
                better = next(t for t in fastest_first if _beats(t, trial))
                trial.outcome = "dominated"
                trial.why = f"{words}; candidate {better.candidate.number} is no dearer and as fast"

    def _score(self, trial: Trial) -> float:
        return self.yardstick.score(trial.candidate, trial.step_s)

    def _result(self, trial: Trial) -> CandidateResult:
        candidate, costs = trial.candidate, trial.candidate.costs
        site, tokens_per_s = candidate.site, pace(trial)
        scenario, ownership = site.job.scenario, self.yardstick.ownership
        power_w, usd = costs.cluster_power.total_w, candidate.usd
        seconds = self.yardstick.seconds(candidate, trial.step_s)
        return CandidateResult(
            number=candidate.number,
            gpus=scenario.gpus,
            rate_gbps=scenario.cluster.rate_gbps,
            plan=site.plan,
            fabric=candidate.fabric.name,
            kind=candidate.fabric.kind,
            options=dict(candidate.options),
            outcome=trial.outcome,
            why=trial.why,
            network_cost_usd=costs.network.total_usd,
            cluster_cost_usd=usd,
            cluster_power_w=power_w,
            bound_s=trial.bound_s,
            predicted_s=trial.predicted_s,
            whole_s=trial.whole_s,
            tokens_per_s=tokens_per_s,
            tokens_per_usd=1 / ownership.usd_per_token(usd, power_w, tokens_per_s),
            tokens_per_j=1 / ownership.energy_per_token_j(power_w, tokens_per_s),
            days=None if seconds is None else seconds / DAY_S,
        )

    def _inputs(self, choices: Sequence[PlanChoice]) -> dict[str, Any]:
        scenario = self.space.at(self.options.gpus[0], self.options.rates_gbps[0])
        return {
            "scenario": scenario.model_dump(mode="json", exclude_defaults=True),
            "options": self.options.model_dump(mode="json"),
            "plans": [
                {
                    "gpus": choice.gpus,
                    "tried": [title(fitted.plan) for fitted in choice.fitted],
                    "considered": choice.considered,
                    "fitting": choice.fitting,
                    "misfit": choice.misfit,
                }
                for choice in choices
            ],
        }

    def _not_considered(self, choices: Sequence[PlanChoice]) -> Iterator[str]:
        others = [name for name in fabric_kinds() if name not in self.options.fabrics]
        if others:
            yield f"fabrics {', '.join(others)} (--fabrics)"
        for choice in choices:
            if not choice.fitted:
                yield f"{choice.gpus:,} GPUs: {choice.misfit}"
        yield f"other GPUs than {self.space.scenario.cluster.gpu} (--gpu)"
        yield from LEFT_OUT

    # Nothing fits

    def _nothing_fits(self, trials: Sequence[Trial]) -> str:
        """What would keep the limits, in a sentence."""
        options, late = self.options, self.yardstick.is_late
        budget = options.budget_usd
        refusals = [trial.why for trial in trials if trial.outcome == "refused"]
        if len(refusals) == len(trials):
            return f"no network can carry the job: {refusals[0]}"
        cheapest = min(trials, key=lambda t: t.candidate.usd)
        if budget is not None and cheapest.candidate.usd > budget:
            usd, scenario = cheapest.candidate.usd, cheapest.candidate.site.job.scenario
            return (
                f"no candidate costs {show_usd(budget)} at most: the cheapest,"
                f" {cheapest.candidate.fabric.name} of {scenario.gpus:,} GPUs at"
                f" {scenario.cluster.rate_gbps:g} Gb/s, costs {show_usd(usd)};"
                f" {self._buys(cheapest.candidate, budget)}"
            )
        assert options.deadline_s is not None
        in_time = [t for t in trials if t.outcome != "refused" and not late(t)]
        days = options.deadline_s / DAY_S
        if in_time:
            least = min(t.candidate.usd for t in in_time)
            return (
                f"no candidate keeps both limits: what may train the tokens in {days:,.4g} days"
                f" costs {show_usd(least)} or more; give a budget of that, or a later deadline"
            )
        fastest = max(trials, key=pace)
        seconds = self.yardstick.seconds(fastest.candidate, fastest.step_s)
        assert seconds is not None
        gpus = fastest.candidate.site.job.scenario.gpus
        more = math.ceil(gpus * seconds / options.deadline_s)
        return (
            f"no candidate trains the tokens in {days:,.4g} days: the fastest, of {gpus:,} GPUs,"
            f" takes {seconds / DAY_S:,.1f} days; at its pace that needs {more:,} GPUs or more"
        )

    def _buys(self, candidate: Candidate, budget_usd: float) -> str:
        """The most GPUs that a budget buys of a candidate's fabric, in words."""
        job: ModelJob = candidate.site.job
        each = job.cluster.gpus_per_server

        def usd(servers: int) -> float:
            cluster = dataclasses.replace(job.cluster, gpus=servers * each)
            bought = installed(cluster, job.scenario.cluster)
            try:
                return costs_of(candidate.fabric, bought, job.gpu, job.rates).cluster.total_usd
            except FabricError:
                return math.inf

        low, high = 0, -(-job.cluster.gpus // each)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if usd(middle) <= budget_usd else (low, middle)
        if not low:
            return "the budget buys no server of it"
        return f"the budget buys {low * each:,} GPUs of it at most"


def _beats(one: Trial, other: Trial) -> bool:
    """Whether a trial costs no more and is as fast, and is better in one of both."""
    (usd, own), (its_usd, its) = point(one), point(other)
    return one is not other and usd <= its_usd and own >= its


def _no_candidate(choices: Sequence[PlanChoice], refused: Sequence[tuple[str, str]]) -> str:
    """Why there is nothing to choose from."""
    for choice in choices:
        if choice.misfit:
            return f"{choice.gpus:,} GPUs: {choice.misfit}"
    if refused:
        name, reason = refused[0]
        return f"no fabric can be built: {name}: {reason}"
    return "no plan fits; give other GPUs"
