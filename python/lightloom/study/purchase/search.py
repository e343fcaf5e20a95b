"""The search among candidates: exact prices, bounds, short steps, and whole steps of the best.

A candidate's step is predicted from few layers and micro-batches, in proportion to one whole step
for each plan, number of GPUs and rate, and is no shorter than its bound. It is not simulated at all
if even the bound leaves it behind :data:`LISTED` others, and another candidate that costs no more
is faster than the bound; so the best of all, and the front of price and speed, are those of a
search that predicts every candidate. The best ones, the best of each fabric, and those predicted to
be about as good, are simulated whole; they alone are recommended.
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
from lightloom.study.compare.runner import Row
from lightloom.study.compare.shared_work import usable_cores
from lightloom.study.purchase.candidates import Candidate, WholeSteps
from lightloom.study.purchase.options import PurchaseOptions

#: options that are no parts of a network
OF_SOFTWARE = ("all_to_all", "split")
#: candidates that are listed as the best, and simulated whole
LISTED = 10
#: whole steps that are simulated at most of the best
MOST_WHOLE = 20
#: candidates that are predicted between two looks at which are left
BATCH = 16
#: by what share a predicted step may be off: what is decided by less is decided by whole steps
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
    monitor: Monitor[Row]
    exhaustive: bool = False
    wholes: WholeSteps = field(default_factory=WholeSteps)
    #: whole over short step of each site
    _scales: dict[int, float] = field(default_factory=dict)

    def run(self) -> list[Trial]:
        """Predict, simulate the best whole, and return these: the best first."""
        self._refuse()
        with ThreadPoolExecutor(max_workers=usable_cores()) as pool:
            known = self._calibrate(pool)
            self._predict(pool, known)
            self._simulate(pool, self._finalists())
            self._give_up_late(0.0)
            while (cheaper := self._cheaper()) is not None and cheaper.whole_s is None:
                self._simulate(pool, [cheaper])
        confirmed = [trial for trial in self._open if trial.whole_s is not None]
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

    def _calibrate(self, pool: ThreadPoolExecutor) -> list[Trial]:
        """Simulate the first candidate of each site, short and whole."""
        by_site: dict[int, list[Trial]] = {}
        for trial in self._open:
            by_site.setdefault(id(trial.candidate.site), []).append(trial)
        found = []
        while by_site:
            firsts = {site: trials.pop(0) for site, trials in by_site.items()}
            shorts = list(pool.map(_short, firsts.values()))
            self._simulate(pool, list(firsts.values()))
            for (site, trial), short in zip(firsts.items(), shorts, strict=True):
                if trial.whole_s is not None and not isinstance(short, FabricError):
                    trial.predicted_s = trial.whole_s
                    self._scales[site] = trial.whole_s / short
                    found.append(trial)
                if site in self._scales or not by_site[site]:
                    del by_site[site]
        return found

    def _predict(self, pool: ThreadPoolExecutor, known: list[Trial]) -> None:
        waiting = [trial for trial in self._open if trial.predicted_s is None]
        waiting.sort(key=self.yardstick.order)
        total = max(1, len(waiting))
        while waiting:
            batch = list(self._next(waiting, known))
            share = 0.2 + 0.6 * (1 - len(waiting) / total)
            self._progress(share, f"{len(known):,} candidates simulated")
            for trial, step in zip(batch, pool.map(_short, batch), strict=True):
                if isinstance(step, FabricError):
                    trial.outcome, trial.why = "refused", str(step)
                    continue
                scale = self._scales[id(trial.candidate.site)]
                trial.predicted_s = max(step * scale, trial.bound_s)
                known.append(trial)
        self._give_up_late(MARGIN)

    def _give_up_late(self, margin: float) -> None:
        """Give up what misses the deadline, by more than a share where the step is predicted."""
        for trial in self._open:
            if self.yardstick.is_late(trial, 0.0 if trial.whole_s else margin):
                self._is_late(trial, "" if trial.whole_s else "about ")

    def _cheaper(self) -> Trial | None:
        """The dearest of the front that is cheaper than the best one; it is recommended too."""
        found = min((t for t in self._open if t.whole_s), key=self.yardstick.order, default=None)
        if found is None:
            return None
        front = front_of([trial for trial in self._open if trial.predicted_s is not None])
        cheaper = [trial for trial in front if point(trial)[0] < point(found)[0]]
        return cheaper[-1] if cheaper else None

    def _progress(self, share: float, activity: str) -> None:
        if self.monitor.progress(share, activity) is False:
            raise KeyboardInterrupt

    def _next(self, waiting: list[Trial], known: Sequence[Trial]) -> Iterator[Trial]:
        """Take the next candidates to simulate; what cannot be among the best is given up."""
        order = self.yardstick.order
        kept = _distinct(sorted(filter(self._is_in_time, known), key=order), {})
        worst = order(kept[LISTED - 1]) if len(kept) >= LISTED else None
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

    def _distinct(self, ranked: Sequence[Trial]) -> list[Trial]:
        """Trials that are another purchase than all before; the others are given up."""
        if self.exhaustive:
            return list(ranked)
        same: dict[int, tuple[Trial, str]] = {}
        kept = _distinct(ranked, same)
        for trial in ranked:
            if id(trial) in same:
                earlier, trial.outcome = same[id(trial)]
                what = "parts and step" if trial.outcome == "twin" else "purchase"
                trial.why = f"the same {what} as {_name(earlier)}"
        return kept

    def _finalists(self) -> list[Trial]:
        """What is worth a whole step: the best, the best of each fabric, and what is about as good.

        If the deadline is missed by some of them, the next ones count.
        """
        ranked = self._distinct(sorted(self._open, key=self.yardstick.order))
        if self.exhaustive:
            return ranked
        firsts = {id(trial) for trial in _first_of_each(ranked)}
        best = self._score(ranked[0]) if ranked else 0.0
        chosen: list[Trial] = []
        sure = 0
        for trial in ranked:
            is_close = self._score(trial) >= best * (1 - MARGIN) and len(chosen) < MOST_WHOLE
            if sure < LISTED or is_close or id(trial) in firsts:
                chosen.append(trial)
                sure += self._is_in_time(trial)
        return chosen

    def _score(self, trial: Trial) -> float:
        return self.yardstick.score(trial.candidate, trial.step_s)

    def _simulate(self, pool: ThreadPoolExecutor, trials: Sequence[Trial]) -> None:
        """Simulate whole steps of trials, as many at a time as there are cores."""
        waiting = [trial for trial in trials if trial.whole_s is None]
        size = usable_cores()
        for start in range(0, len(waiting), size):
            self._progress(
                0.8 + 0.1 * start / len(waiting) if self._scales else 0.1 * start / len(waiting),
                f"{start} whole steps of {len(waiting)}",
            )
            batch = []
            for trial in waiting[start : start + size]:
                try:
                    batch.append((trial, self.wholes.prepared(trial.candidate)))
                except FabricError as error:
                    trial.outcome, trial.why = "refused", str(error)
            steps = pool.map(lambda pair: simulate(*pair[1]).step_time_s, batch)
            for (trial, _), step_s in zip(batch, steps, strict=True):
                trial.whole_s = trial.candidate.site.factor * step_s
                if self._scales and self.yardstick.is_late(trial):
                    self._is_late(trial, "")

    def is_simulated(self, trial: Trial) -> bool:
        """Simulate the whole step of a candidate that was given up; ``False`` if it cannot be."""
        if trial.whole_s is None:
            try:
                graph, network = self.wholes.prepared(trial.candidate)
            except FabricError:
                return False
            trial.whole_s = trial.candidate.site.factor * simulate(graph, network).step_time_s
        return True


def _short(trial: Trial) -> float | FabricError:
    candidate = trial.candidate
    try:
        return candidate.site.steps.step_time_s(candidate.fabric)
    except FabricError as error:
        return error


def _distinct(ranked: Sequence[Trial], same: dict[int, tuple[Trial, str]]) -> list[Trial]:
    """Trials that buy something else than all before, those given the best first.

    Of the others, ``same`` gets which one that was, and ``twin`` where another fabric or design has
    the same parts and step, ``setting`` where plan or all-to-all alone differ.
    """
    first: dict[Any, Trial] = {}
    kept = []
    for trial in ranked:
        candidate, costs = trial.candidate, trial.candidate.costs
        scenario = candidate.site.job.scenario
        bought = {n: v for n, v in candidate.options.items() if n not in OF_SOFTWARE}
        parts = sorted(costs.network.by_component_usd.items())
        power_w, tokens = costs.cluster_power.total_w, candidate.site.tokens
        keys = {
            "setting": (scenario.gpus, scenario.cluster.rate_gbps, candidate.fabric.name,
                        *bought.items()),
            "twin": (*parts, candidate.usd, power_w, trial.step_s, tokens),
        }  # fmt: skip
        found = [(first[key], what) for what, key in keys.items() if key in first]
        if found:
            same[id(trial)] = found[0]
        else:
            kept.append(trial)
        for key in keys.values():
            first.setdefault(key, trial)
    return kept


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
        self._front = [(*point(trial), trial) for trial in front_of(trials)]

    def beats(self, trial: Trial) -> Trial | None:
        """One that costs no more and is faster; ``None`` if there is none."""
        usd, own = point(trial)
        for price, tokens_per_s, other in reversed(self._front):
            if price <= usd:
                return other if tokens_per_s > own else None
        return None


def pace(trial: Trial) -> float:
    """Tokens per second, as far as the step is known."""
    return trial.candidate.site.tokens / trial.step_s


def point(trial: Trial) -> tuple[float, float]:
    """Price and pace without what rounding alone tells apart: in cents, and to twelve digits."""
    return round(trial.candidate.usd, 2), float(f"{pace(trial):.12g}")


def front_of(trials: Sequence[Trial]) -> list[Trial]:
    """Trials that none is cheaper and faster than, the cheapest first."""
    return [trials[i] for i in pareto_front([point(trial) for trial in trials])]
