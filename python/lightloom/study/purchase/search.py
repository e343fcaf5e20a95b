"""The search among candidates: exact prices, bounds, short steps, and whole steps of the best.

A candidate's step is predicted from few layers and micro-batches, and is no shorter than its bound.
It is not simulated at all if even the bound leaves it behind :data:`LISTED` others, and another
candidate that costs no more is faster than the bound; so the best of all, and the front of price
and speed, are those of a search that simulates every candidate. The best ones, and the best of each
fabric, are simulated whole; they alone are recommended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from lightloom.cost import pareto_front
from lightloom.errors import FabricError
from lightloom.hardware import Ownership
from lightloom.progress import Monitor
from lightloom.simulate import simulate
from lightloom.study.compare.shared_work import usable_cores
from lightloom.study.purchase.candidates import Candidate, WholeSteps
from lightloom.study.purchase.options import PurchaseOptions

#: candidates that are listed as the best, and simulated whole
LISTED = 10
#: whole steps that are simulated at most where predicted ones miss the deadline after all
MOST_WHOLE = 40
#: candidates that are predicted between two looks at which are left
BATCH = 16
#: by what share a predicted step may be off: a deadline missed by less is decided by whole steps
MARGIN = 0.08


@dataclass
class Trial:
    """A candidate and what is known of its step, s; ``why`` says why it was given up."""

    candidate: Candidate
    bound_s: float
    predicted_s: float | None = None
    whole_s: float | None = None
    outcome: str = ""
    why: str = ""

    @property
    def step_s(self) -> float:
        """The step as far as it is known: whole, predicted, or the bound."""
        if self.whole_s is not None:
            return self.whole_s
        return self.bound_s if self.predicted_s is None else self.predicted_s


@dataclass(frozen=True)
class Yardstick:
    """What of candidates is as large as possible, and the limits."""

    options: PurchaseOptions
    ownership: Ownership

    def score(self, candidate: Candidate, step_s: float) -> float:
        """What the goal counts, of a step that takes a time."""
        return self.score_of(
            candidate.site.tokens / step_s, candidate.usd, candidate.costs.cluster_power.total_w
        )

    def score_of(self, tokens_per_s: float, usd: float, power_w: float) -> float:
        """Tokens per dollar, per second or per joule."""
        if self.options.goal == "time":
            return tokens_per_s
        if self.options.goal == "power":
            return 1 / self.ownership.energy_per_token_j(power_w, tokens_per_s)
        return 1 / self.ownership.usd_per_token(usd, power_w, tokens_per_s)

    def order(self, trial: Trial) -> tuple[float, float, int]:
        """The best first; of equal ones the cheapest."""
        candidate = trial.candidate
        # twelve digits: what rounding alone tells apart is equal
        score = float(f"{self.score(candidate, trial.step_s):.12g}")
        return -score, candidate.usd, candidate.number

    def seconds(self, candidate: Candidate, step_s: float) -> float | None:
        """Time in which the tokens are trained, s; ``None`` without a deadline."""
        if self.options.tokens is None:
            return None
        return self.options.tokens * step_s / candidate.site.tokens

    def is_late(self, trial: Trial, margin: float = 0.0) -> bool:
        """Whether the deadline is missed by more than a share."""
        seconds, limit = self.seconds(trial.candidate, trial.step_s), self.options.deadline_s
        return seconds is not None and limit is not None and seconds > limit * (1 + margin)


@dataclass
class Search:
    """Simulates what may be the best.

    Attributes
    ----------
    trials
        Every candidate.
    yardstick
        Goal and limits.
    monitor
        Takes progress.
    exhaustive
        Whether every candidate within the budget is simulated, which tests compare with.
    """

    trials: list[Trial]
    yardstick: Yardstick
    monitor: Monitor[Any]
    exhaustive: bool = False
    wholes: WholeSteps = field(default_factory=WholeSteps)

    def run(self) -> list[Trial]:
        """Predict, simulate the best whole, and return these: the best first."""
        self._refuse()
        self._predict()
        confirmed = self._confirm()
        confirmed.sort(key=self.yardstick.order)
        return confirmed

    def _refuse(self) -> None:
        """Give up what is beyond the budget, or misses the deadline whatever its network does."""
        budget = self.yardstick.options.budget_usd
        for trial in self.trials:
            usd = trial.candidate.usd
            if budget is not None and usd > budget:
                trial.outcome = "budget"
                trial.why = f"costs ${usd - budget:,.0f} more than the budget"
            elif self.yardstick.is_late(trial):
                self._is_late(trial, "at least ")

    def _is_late(self, trial: Trial, words: str) -> None:
        seconds = self.yardstick.seconds(trial.candidate, trial.step_s)
        assert seconds is not None
        trial.outcome, trial.why = "deadline", f"takes {words}{seconds / 86_400:,.1f} days"

    @property
    def _open(self) -> list[Trial]:
        return [trial for trial in self.trials if not trial.outcome]

    def _predict(self) -> None:
        waiting = sorted(self._open, key=self.yardstick.order)
        known: list[Trial] = []
        total = max(1, len(waiting))
        with ThreadPoolExecutor(max_workers=usable_cores()) as pool:
            while waiting:
                batch = list(self._next(waiting, known))
                share = 0.9 * (1 - len(waiting) / total)
                if self.monitor.progress(share, f"{len(known)} candidates simulated") is False:
                    raise KeyboardInterrupt
                for trial, step in zip(batch, pool.map(_predicted, batch), strict=True):
                    if isinstance(step, FabricError):
                        trial.outcome, trial.why = "refused", str(step)
                        continue
                    trial.predicted_s = max(step, trial.bound_s)
                    known.append(trial)
        for trial in known:
            if self.yardstick.is_late(trial, MARGIN):
                self._is_late(trial, "")

    def _next(self, waiting: list[Trial], known: Sequence[Trial]) -> Iterator[Trial]:
        """Take the next candidates to simulate; what cannot be among the best is given up."""
        order = self.yardstick.order
        kept = sorted(t for t in map(order, filter(self._is_in_time, known)))
        worst = kept[LISTED - 1] if len(kept) >= LISTED else None
        front = _Front([t for t in known if self._is_in_time(t)])
        count = 0
        while waiting and count < BATCH:
            trial = waiting.pop(0)
            if not self.exhaustive and worst is not None and order(trial) > worst:
                faster = front.beats(trial)
                if faster is not None:
                    trial.outcome = "bound"
                    trial.why = f"even with an ideal network behind {_name(faster)}"
                    continue
            count += 1
            yield trial

    def _is_in_time(self, trial: Trial) -> bool:
        return not self.yardstick.is_late(trial, -MARGIN)

    def _without_twins(self, ranked: Sequence[Trial]) -> list[Trial]:
        """Trials without those of the same parts and step as an earlier one."""
        first: dict[Any, Trial] = {}
        for trial in ranked:
            candidate, costs = trial.candidate, trial.candidate.costs
            parts = sorted(costs.network.by_component_usd.items())
            key = (*parts, candidate.usd, costs.cluster_power.total_w, trial.predicted_s,
                   candidate.site.tokens)  # fmt: skip
            twin = first.setdefault(key, trial)
            if twin is not trial:
                trial.outcome = "twin"
                trial.why = f"the same parts and step as {_name(twin)}"
        return list(first.values())

    def _confirm(self) -> list[Trial]:
        """Whole steps of the best, and of the best of each fabric."""
        ranked = self._without_twins(sorted(self._open, key=self.yardstick.order))
        firsts = {id(trial) for trial in _first_of_each(ranked)}
        chosen: list[Trial] = []
        tried = 0
        for place, trial in enumerate(ranked):
            is_listed = len([t for t in chosen if not t.outcome]) < LISTED
            if tried >= MOST_WHOLE or not (is_listed or id(trial) in firsts or self.exhaustive):
                continue
            share = 0.9 + 0.1 * min(1.0, place / LISTED)
            if self.monitor.progress(share, f"{tried} whole steps") is False:
                raise KeyboardInterrupt
            tried += 1
            graph, network = self.wholes.prepared(trial.candidate)
            trial.whole_s = simulate(graph, network).step_time_s
            if self.yardstick.is_late(trial):
                self._is_late(trial, "")
            else:
                chosen.append(trial)
        return chosen


def _predicted(trial: Trial) -> float | FabricError:
    candidate = trial.candidate
    try:
        return candidate.site.steps.step_time_s(candidate.fabric)
    except FabricError as error:
        return error


def _first_of_each(ranked: Sequence[Trial]) -> list[Trial]:
    """The best of each fabric, of those given the best first."""
    firsts: dict[str, Trial] = {}
    for trial in ranked:
        firsts.setdefault(trial.candidate.fabric.name, trial)
    return list(firsts.values())


def _name(trial: Trial) -> str:
    return f"candidate {trial.candidate.number}"


class _Front:
    """Candidates that no other is cheaper and faster than."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        points = [(t.candidate.usd, pace(t)) for t in trials]
        self._front = [(points[i][0], points[i][1], trials[i]) for i in pareto_front(points)]

    def beats(self, trial: Trial) -> Trial | None:
        """One that costs no more and is faster; ``None`` if there is none."""
        usd, own = trial.candidate.usd, pace(trial)
        for price, tokens_per_s, other in reversed(self._front):
            if price <= usd:
                return other if tokens_per_s > own else None
        return None


def pace(trial: Trial) -> float:
    """Tokens per second, as far as the step is known."""
    return trial.candidate.site.tokens / trial.step_s


def front_of(trials: Sequence[Trial]) -> list[Trial]:
    """Trials that none is cheaper and faster than, the cheapest first."""
    return [trials[i] for i in pareto_front([(t.candidate.usd, pace(t)) for t in trials])]
