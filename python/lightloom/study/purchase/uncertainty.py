"""What would change the answer: one input at a time, all of them at once, and where it flips.

Prices count exactly. What changes a step is simulated at the ends of its range on the short steps
of the contenders, relative to where it is; a step with several changes takes the product of their
ratios. Sobol indices are those of the lead of the recommended candidate over the best other one:
the share of its variance that an input explains alone (estimator of Saltelli et al., Computer
Physics Communications 181, 2010) and with all others (Jansen, Computer Physics Communications 117,
1999). They need two matrices of random numbers and no library.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lightloom.cost import unit_price_usd
from lightloom.errors import InputError
from lightloom.fabric import Fabric, MixNet
from lightloom.study.compare.budget import Budget
from lightloom.study.compare.certainty import FAR, MACHINES, PARTS
from lightloom.study.compare.fills import Steps
from lightloom.study.compare.imbalance import LOADS
from lightloom.study.compare.job import prepare
from lightloom.study.purchase.candidates import Site, with_overlap
from lightloom.study.purchase.search import Trial, Yardstick

Floats = npt.NDArray[np.float64]
#: prices of machines, which are less uncertain than those of parts
MACHINE_PRICES = ("gpu", "server")
#: share by which computation may be faster or slower than assumed
EFFICIENCY = 0.1
#: chunks of the tokens where all-to-alls are hidden behind experts
CHUNKS = 4
#: random points of the indices, in each of two matrices
DRAWS = 8192
#: delays of a reconfiguration that are looked at, s
SHORTEST_S, LONGEST_S = 1e-6, 20.0
#: how far computation is looked at: times of operators
FASTEST, SLOWEST = 0.5, 2.0
#: steps of a bisection, and the ratio of two ends at which it is over
MOST_STEPS, CLOSE = 40, 1.002
#: contenders whose steps are simulated under other inputs: the best ones, and all at most, unless
#: there are more fabrics
BEST, CONTENDERS = 3, 6


@dataclass(frozen=True)
class InputEffect:
    """What an uncertain input does to the lead of the recommended candidate.

    Attributes
    ----------
    name
        A component of a bill, ``gpu``, ``server``; or ``efficiency``, ``load``, ``overlap``,
        ``delay``.
    low, high
        The ends of its range, in words.
    lead_now, lead_low, lead_high
        By what share the recommended candidate is ahead of the best other one, and is at the ends;
        negative where the other is ahead.
    best_low, best_high
        Number of the candidate that is the best there.
    first_order, total_order
        Sobol indices of the lead.
    """

    name: str
    low: str
    high: str
    lead_now: float
    lead_low: float
    lead_high: float
    best_low: int
    best_high: int
    first_order: float = 0.0
    total_order: float = 0.0

    @property
    def swing(self) -> float:
        """How far the lead moves."""
        return max(self.lead_low, self.lead_high) - min(self.lead_low, self.lead_high)


@dataclass(frozen=True)
class FlipPoint:
    """A value of an input at which the answer changes.

    Attributes
    ----------
    name
        As of :class:`InputEffect`, or a price.
    value, now
        Where the answer changes, and where the input is: USD, s, or a factor on times of
        computation.
    unit
        ``usd``, ``s`` or ``factor``.
    holds_below
        Whether the answer holds below it, else above.
    other
        Number of the candidate that is the best on the other side; ``None`` where the recommended
        one exceeds the budget there.
    """

    name: str
    value: float
    now: float
    unit: str
    holds_below: bool
    other: int | None

    @property
    def distance(self) -> float:
        """How far it is, as the logarithm of a ratio."""
        if self.value <= 0 or self.now <= 0:
            return math.inf
        return abs(math.log(self.value / self.now))


@dataclass
class Uncertainty:
    """The contenders under other inputs.

    Attributes
    ----------
    trials
        The recommended candidate first, then all others whose whole step is known.
    yardstick
        Goal and limits.
    watch
        Called with progress.
    """

    trials: Sequence[Trial]
    yardstick: Yardstick
    watch: Callable[..., bool | None]
    _steps: dict[Any, Steps] = field(default_factory=dict)
    _known: dict[Any, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._bills = [parts_usd(trial) for trial in self.trials]
        #: places of the contenders, whose steps are simulated under other inputs
        self._contenders = self._chosen()

    def _chosen(self) -> list[int]:
        """The best of all and of each fabric, then of each fabric, number of GPUs and rate."""
        firsts: dict[Any, int] = {}
        for number, trial in enumerate(self.trials):
            candidate = trial.candidate
            scenario = candidate.site.job.scenario
            firsts.setdefault(candidate.fabric.name, number)
            where = candidate.fabric.name, scenario.gpus, scenario.cluster.rate_gbps
            firsts.setdefault(where, number)
        chosen = {number for key, number in firsts.items() if isinstance(key, str)}
        chosen.update(range(min(BEST, len(self.trials))))
        rest = sorted(set(firsts.values()) - chosen)
        return sorted([*chosen, *rest[: max(0, CONTENDERS - len(chosen))]])

    # Scores

    def _score(self, number: int, factors: Mapping[str, float], step_s: float) -> float:
        """Of a trial, with prices times factors and a step."""
        trial = self.trials[number]
        usd = sum(usd * factors.get(name, 1.0) for name, usd in self._bills[number].items())
        candidate = trial.candidate
        power_w = candidate.costs.cluster_power.total_w
        return self.yardstick.score_of(candidate.site.tokens / step_s, usd, power_w)

    def lead(self, factors: Mapping[str, float], steps_s: Mapping[int, float]) -> tuple[float, int]:
        """The lead of the recommended one, and the number of the best candidate.

        ``steps_s`` are steps of trials, by their place; those of others are left out.
        """
        scores = {number: self._score(number, factors, s) for number, s in steps_s.items()}
        others = {number: score for number, score in scores.items() if number}
        if not others:
            return math.inf, self.trials[0].candidate.number
        best = max(others, key=lambda number: others[number])
        lead = scores[0] / others[best] - 1
        winner = 0 if lead >= 0 else best
        return lead, self.trials[winner].candidate.number

    def _base(self, numbers: Sequence[int] | None = None) -> dict[int, float]:
        wanted = range(len(self.trials)) if numbers is None else numbers
        return {number: self.trials[number].step_s for number in wanted}

    # Steps under other inputs

    def _ratio(self, number: int, change: _Change) -> float:
        """How many times longer the short step of a trial is after a change."""
        own, changed = self._short_s(number, _Change()), self._short_s(number, change)
        return changed / own

    def _short_s(self, number: int, change: _Change) -> float:
        candidate = self.trials[number].candidate
        fabric = change.fabric(candidate.fabric)
        key = (id(candidate.site), change.of_job, fabric)
        if key not in self._known:
            steps = self._steps_of(candidate.site, change)
            self._known[key] = steps.step_time_s(fabric)
        return self._known[key]

    def _steps_of(self, site: Site, change: _Change) -> Steps:
        key = (id(site), change.of_job)
        if key not in self._steps:
            self._steps[key] = change.steps(site, self.watch)
        return self._steps[key]

    # One at a time, and all together

    def effects(self, seed: int) -> tuple[list[InputEffect], float]:
        """Each input's effect, the largest swing first; how often the answer is the best.

        Parameters
        ----------
        seed
            Of the random points.
        """
        ranges = list(self._ranges())
        if len(self._contenders) < 2:
            return [], 1.0
        effects = []
        base = self._base(self._contenders)
        for one in ranges:
            ends = [self.lead(*one.at(end, base)) for end in (-1.0, 1.0)]
            (low, best_low), (high, best_high) = ends
            now = self.lead({}, base)[0]
            effects.append(InputEffect(one.name, *one.words, now, low, high, best_low, best_high))
        first, total, leads = sobol_indices(
            lambda points: self._leads(points, ranges), len(ranges), np.random.default_rng(seed)
        )
        effects = [
            dataclasses.replace(effect, first_order=float(f), total_order=float(t))
            for effect, f, t in zip(effects, first, total, strict=True)
        ]
        share = float((leads >= 0).mean())
        return sorted(effects, key=lambda effect: -effect.swing), share

    def _ranges(self) -> Iterator[_Range]:
        """What is uncertain: prices of parts and machines, and what changes steps."""
        bills = [self._bills[number] for number in self._contenders]
        for name in sorted({name for bill in bills for name in bill}):
            widest = MACHINES if name in MACHINE_PRICES else PARTS
            words = f"price / {widest:g}", f"price x {widest:g}"
            yield _Range(name, words, price=math.log(widest))
        for name, words, ends in _STEP_INPUTS:
            ratios = [self._ratios(change) for change in ends]
            if any(ratio != 1.0 for end in ratios for ratio in end.values()):
                yield _Range(name, words, ratios=(ratios[0], ratios[1]))

    def _ratios(self, change: _Change) -> dict[int, float]:
        """Ratios of the contenders' steps; 1 where a change cannot be."""
        found = {}
        for number in self._contenders:
            try:
                ratio = self._ratio(number, change)
                # nobody hides all-to-alls where that makes a step longer
                found[number] = min(1.0, ratio) if change.overlap == "chunks" else ratio
            except InputError:
                found[number] = 1.0
        return found

    def _leads(self, points: Floats, ranges: Sequence[_Range]) -> Floats:
        """Logarithm of the lead at points of all inputs, ``(points,)``."""
        scores = []
        for number in self._contenders:
            trial = self.trials[number]
            usd = np.zeros(len(points))
            step_s = np.full(len(points), trial.step_s)
            left = dict(self._bills[number])
            for column, one in enumerate(ranges):
                values = points[:, column]
                if one.ratios is None:
                    usd += left.pop(one.name, 0.0) * np.exp(values * one.price)
                else:
                    step_s *= one.ratio(number, values)
            usd += sum(left.values())
            power_w = trial.candidate.costs.cluster_power.total_w
            tokens_per_s = trial.candidate.site.tokens / step_s
            score: Any = self.yardstick.score_of
            scores.append(np.log(score(tokens_per_s, usd, power_w) + np.zeros(len(points))))
        return np.asarray(scores[0] - np.max(scores[1:], axis=0))

    # Where the answer changes

    def flips(self) -> list[FlipPoint]:
        """Where the answer changes, the closest first."""
        found = [*self._price_flips(), *self._budget_flips(), *self._delay_flips()]
        found += self._efficiency_flips()
        return sorted(found, key=lambda flip: flip.distance)

    def _price_flips(self) -> Iterator[FlipPoint]:
        """Both sides of each price: scores per dollar of two candidates are equal at one factor."""
        if self.yardstick.options.goal != "tokens-per-dollar":
            return
        base = self._base()
        for name in sorted({name for bill in self._bills for name in bill}):
            roots: list[tuple[float, int]] = []
            for number in base:
                if number:
                    roots += [(root, number) for root in self._roots(name, number, base)]
            for is_above in (False, True):
                side = [root for root in roots if (root[0] > 1) == is_above]
                if side:
                    factor, number = min(side) if is_above else max(side)
                    now = self.unit_usd(name, number)
                    other = self.trials[number].candidate.number
                    yield FlipPoint(name, factor * now, now, "usd", is_above, other)

    def _roots(self, name: str, number: int, base: Mapping[int, float]) -> Iterator[float]:
        """The factor on a price at which a trial costs as much per token as the recommended one.

        Dollars per token are linear in a price, so that two points give the line.
        """

        def gap(factor: float) -> float:
            own, its = (1 / self._score(n, {name: factor}, base[n]) for n in (0, number))
            return own - its

        at_none, now = gap(0.0), gap(1.0)
        if at_none != now:
            root = at_none / (at_none - now)
            if 1 / FAR <= root <= FAR:
                yield root

    def unit_usd(self, name: str, number: int) -> float:
        """What a part costs: that of the recommended cluster, or else of another one."""
        for which in (0, number):
            candidate = self.trials[which].candidate
            job = candidate.site.job
            if name == "gpu":
                return job.gpu.price()
            if name == "server":
                return job.rates.prices.server_usd_per_gpu()
            bill = candidate.fabric.bill_of_materials(job.installed, job.rates.counting)
            lines = [line for line in bill.lines if line.component == name and line.count]
            if lines:
                most = max(lines, key=lambda line: line.count)
                return unit_price_usd(most, bill, job.rates.prices)
        raise AssertionError(name)

    def _budget_flips(self) -> Iterator[FlipPoint]:
        """Prices at which the recommended cluster exceeds the budget."""
        budget = self.yardstick.options.budget_usd
        if budget is None:
            return
        bill = self._bills[0]
        for name, usd in bill.items():
            factor = 1 + (budget - sum(bill.values())) / usd if usd else math.inf
            if 1 <= factor <= FAR:
                now = self.unit_usd(name, 0)
                yield FlipPoint(name, factor * now, now, "usd", True, None)

    def _delay_flips(self) -> Iterator[FlipPoint]:
        """The delay of a reconfiguration up to which circuits are the best, or stay so."""
        for number in self._contenders:
            fabric = self.trials[number].candidate.fabric
            if not isinstance(fabric, MixNet):
                continue

            def gap(delay_s: float, number: int = number) -> float:
                steps = self._base(self._contenders)
                steps[number] *= self._ratio(number, _Change(delay_s=delay_s))
                if number:
                    steps = {0: steps[0], number: steps[number]}
                return self.lead({}, steps)[0] * (-1 if number else 1)

            root = bisected(gap, SHORTEST_S, LONGEST_S)
            if root is not None:
                other = self.trials[number or self._second()]
                timing = fabric.switch_timing()
                now = timing.fixed_s + timing.link_up_s
                yield FlipPoint("delay", root, now, "s", number == 0, other.candidate.number)
            return

    def _second(self) -> int:
        """The best contender after the recommended one."""
        base = self._base(self._contenders)
        return max((n for n in base if n), key=lambda n: self._score(n, {}, base[n]))

    def _efficiency_flips(self) -> Iterator[FlipPoint]:
        """Factors on times of computation at which another candidate is the best."""
        if len(self._contenders) < 2:
            return
        for end in (FASTEST, SLOWEST):
            gaps: dict[float, int] = {}

            def gap(scale: float, gaps: dict[float, int] = gaps) -> float:
                change = _Change(compute_scale=scale)
                base = self._base(self._contenders)
                lead, best = self.lead({}, {n: s * self._ratio(n, change) for n, s in base.items()})
                gaps[lead] = best
                return lead

            root = bisected(gap, 1.0, end)
            if root is not None:
                other = next(best for lead, best in sorted(gaps.items())[::-1] if lead < 0)
                yield FlipPoint("efficiency", root, 1.0, "factor", end > 1, other)


def sobol_indices(
    value: Callable[[Floats], Floats], inputs: int, random: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Shares of a value's variance that inputs between -1 and 1 explain.

    Parameters
    ----------
    value
        Of points ``(points, inputs)``, ``(points,)``.
    inputs
        How many there are.
    random
        Draws the points.

    Returns
    -------
    tuple
        Of each input alone and with all others, ``(inputs,)``; and the values at random points.
    """
    a, b = (random.uniform(-1, 1, (DRAWS, inputs)) for _ in range(2))
    at_a, at_b = value(a), value(b)
    both = np.concatenate([at_a, at_b])
    variance = max(float(both.var()), 1e-300)
    first, total = np.zeros(inputs), np.zeros(inputs)
    for column in range(inputs):
        mixed = a.copy()
        mixed[:, column] = b[:, column]
        at_mixed = value(mixed)
        # without the mean, whose product with the difference is noise alone
        first[column] = float(((at_b - both.mean()) * (at_mixed - at_a)).mean()) / variance
        total[column] = float(((at_a - at_mixed) ** 2).mean()) / (2 * variance)
    return first, total, both


def parts_usd(trial: Trial) -> dict[str, float]:
    """What a cluster's price is made of."""
    costs = trial.candidate.costs
    machines = {"gpu": costs.cluster.gpus_usd, "server": costs.cluster.servers_usd}
    return {**costs.network.by_component_usd, **machines}


def bisected(gap: Callable[[float], float], low: float, high: float) -> float | None:
    """Where a function of a positive number changes its sign, the side of ``low`` first.

    Returns
    -------
    float or None
        The geometric mean of two numbers closer than :data:`CLOSE`, between which it changes;
        ``None`` if it has the same sign at both ends.
    """
    at_low = gap(low)
    if (gap(high) < 0) == (at_low < 0):
        return None
    for _ in range(MOST_STEPS):
        if max(low, high) / min(low, high) < CLOSE:
            break
        middle = math.sqrt(low * high)
        low, high = (middle, high) if (gap(middle) < 0) == (at_low < 0) else (low, middle)
    return math.sqrt(low * high)


@dataclass(frozen=True)
class _Change:
    """Another input of a job or a fabric; none by default."""

    load: str | None = None
    overlap: Literal["none", "chunks"] | None = None
    compute_scale: float = 1.0
    delay_s: float | None = None

    @property
    def of_job(self) -> tuple[Any, ...]:
        """What of it changes the job."""
        return self.load, self.overlap, self.compute_scale

    def fabric(self, fabric: Fabric) -> Fabric:
        """The fabric after it."""
        if self.delay_s is None or not isinstance(fabric, MixNet):
            return fabric
        return fabric.replace(fixed_s=self.delay_s, link_up_s=0.0, per_pair_s=0.0,
                              label=fabric.name)  # fmt: skip

    def steps(self, site: Site, watch: Callable[..., bool | None]) -> Steps:
        """The short steps of a site after it."""
        job = site.job
        if self.load is not None:
            job = prepare(job.scenario.with_imbalance(self.load), job.fitted)
        hidden = job.plan.overlap_all_to_all != "none"
        if self.overlap == "chunks" and not hidden:
            job = with_overlap(site, "chunks", CHUNKS)
        elif self.overlap == "none" and hidden:
            job = with_overlap(site, "none", 1)
        return Steps(Budget(job).fills, watch, compute_scale=self.compute_scale)


_STEP_INPUTS: tuple[tuple[str, tuple[str, str], tuple[_Change, _Change]], ...] = (
    (
        "efficiency",
        (f"{100 * EFFICIENCY:.0f} % faster", f"{100 * EFFICIENCY:.0f} % slower"),
        (_Change(compute_scale=1 / (1 + EFFICIENCY)), _Change(compute_scale=1 / (1 - EFFICIENCY))),
    ),
    ("load", (LOADS[0], LOADS[1]), (_Change(load=LOADS[0]), _Change(load=LOADS[1]))),
    (
        "overlap",
        ("nothing is hidden", "where it helps"),
        (_Change(overlap="none"), _Change(overlap="chunks")),
    ),
    ("delay", ("at once", "as today"), (_Change(delay_s=0.0), _Change())),
)


@dataclass(frozen=True)
class _Range:
    """An uncertain input: a price by a factor, or ratios of steps at both ends."""

    name: str
    words: tuple[str, str]
    price: float = 0.0
    ratios: tuple[Mapping[int, float], Mapping[int, float]] | None = None

    def ratio(self, number: int, values: Floats) -> Floats:
        """How many times longer the step of a trial is: 1 in the middle of the range."""
        assert self.ratios is not None
        low, high = self.ratios[0][number], self.ratios[1][number]
        return np.where(values < 0, 1 + (1 - low) * values, 1 + (high - 1) * values)

    def at(
        self, end: float, base: Mapping[int, float]
    ) -> tuple[Mapping[str, float], Mapping[int, float]]:
        """Factors on prices, and steps, at one end."""
        if self.ratios is None:
            return {self.name: math.exp(end * self.price)}, base
        here = np.array([end])
        return {}, {n: step_s * float(self.ratio(n, here)[0]) for n, step_s in base.items()}
