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
from lightloom.study.purchase.search import OF_SOFTWARE, Trial, Yardstick

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
#: candidates beyond the budget, and late ones, that are simulated whole to see whether they win
MOST_BEYOND, MOST_LATE = 8, 4
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
        Number of the candidate that is the best on the other side; ``None`` where none is known.
    limit
        ``budget`` or ``deadline`` if the recommended candidate breaks it on the other side.
    """

    name: str
    value: float
    now: float
    unit: str
    holds_below: bool
    other: int | None
    limit: str | None = None

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
    refused
        Candidates that are beyond the budget or late, which other inputs may bring into reach.
    simulate
        Simulates a trial whole, and says whether that can be.
    examined
        What :meth:`flips` looked at: of ``prices``, ``delay`` and ``efficiency``.
    """

    trials: Sequence[Trial]
    yardstick: Yardstick
    watch: Callable[..., bool | None]
    refused: Sequence[Trial] = ()
    simulate: Callable[[Trial], bool] = lambda _: False
    examined: list[str] = field(default_factory=list)
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
        usd = sum(usd * factors.get(name, 1.0) for name, usd in self._bills[number].items())
        return self._score_of(self.trials[number], usd, step_s)

    def _score_of(self, trial: Trial, usd: float, step_s: float) -> float:
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

    def effects(self, seed: int) -> tuple[list[InputEffect], float | None]:
        """Each input's effect, the largest swing first; how often the answer is the best.

        There is none without another candidate.

        Parameters
        ----------
        seed
            Of the random points.
        """
        ranges = list(self._ranges())
        if len(self._contenders) < 2:
            return [], None
        effects = []
        base = self._base(self._contenders)
        for spread in ranges:
            ends = [self.lead(*spread.at(end, base)) for end in (-1.0, 1.0)]
            (low, best_low), (high, best_high) = ends
            now = self.lead({}, base)[0]
            effects.append(
                InputEffect(spread.name, *spread.words, now, low, high, best_low, best_high)
            )
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
            for column, spread in enumerate(ranges):
                values = points[:, column]
                if spread.ratios is None:
                    usd += left.pop(spread.name, 0.0) * np.exp(values * spread.price)
                else:
                    step_s *= spread.ratio(number, values)
            usd += sum(left.values())
            power_w = trial.candidate.costs.cluster_power.total_w
            tokens_per_s = trial.candidate.site.tokens / step_s
            score: Any = self.yardstick.score_of
            scores.append(np.log(score(tokens_per_s, usd, power_w) + np.zeros(len(points))))
        return np.asarray(scores[0] - np.max(scores[1:], axis=0))

    # Where the answer changes

    def flips(self) -> list[FlipPoint]:
        """Where the answer changes, the closest first."""
        found = [*self._price_flips(), *self._over_budget(), *self._within_budget()]
        found += [*self._delay_flips(), *self._efficiency_flips()]
        return sorted(found, key=lambda flip: flip.distance)

    def _price_flips(self) -> Iterator[FlipPoint]:
        """Both sides of each price: scores per dollar of two candidates are equal at one factor."""
        if self.yardstick.options.goal != "tokens-per-dollar" or len(self.trials) < 2:
            return
        self.examined.append("prices")
        base = self._base()
        for name in sorted({name for bill in self._bills for name in bill}):
            roots = [
                (root, number)
                for number in base
                if number
                for root in self._roots(name, number, base)
                if all(self._room_usd(self._bills[n], name, root) >= 0 for n in (0, number))
            ]
            for is_above in (False, True):
                side = [root for root in roots if (root[0] > 1) == is_above]
                if side:
                    factor, number = min(side) if is_above else max(side)
                    yield self._price_flip(name, factor, number)

    def _price_flip(self, name: str, factor: float, number: int) -> FlipPoint:
        now, other = self.unit_usd(name, number), self.trials[number].candidate.number
        return FlipPoint(name, factor * now, now, "usd", factor > 1, other)

    def _room_usd(self, bill: Mapping[str, float], name: str, factor: float) -> float:
        """What the budget leaves at a factor on a price; nothing limits it without a budget."""
        budget = self.yardstick.options.budget_usd
        if budget is None:
            return math.inf
        return budget - sum(bill.values()) - bill.get(name, 0.0) * (factor - 1)

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

    def _over_budget(self) -> Iterator[FlipPoint]:
        """Prices at which the recommended cluster exceeds the budget."""
        bill = self._bills[0]
        for name, usd in bill.items():
            factor = 1 + self._room_usd(bill, name, 1.0) / usd if usd else math.inf
            if 1 <= factor <= FAR:
                now = self.unit_usd(name, 0)
                yield FlipPoint(name, factor * now, now, "usd", True, None, "budget")

    def _within_budget(self) -> Iterator[FlipPoint]:
        """Prices down to which a better candidate, which is beyond the budget, comes within it.

        Lower bounds of steps say which candidates may be; the closest are simulated whole.
        """
        if self.yardstick.options.budget_usd is None:
            return
        waiting = []
        for place, trial in enumerate(self.refused):
            if trial.outcome == "budget" and not self.yardstick.is_late(trial):
                bill = parts_usd(trial)
                for name in bill:
                    factor = self._better_below(trial, bill, name)
                    if factor is not None:
                        waiting.append((-factor, place, name))
        found: dict[str, tuple[float, int]] = {}
        tried: dict[int, int | None] = {}
        for negative, place, name in sorted(waiting):
            if name in found and found[name][0] >= -negative:
                continue
            if place not in tried:
                is_left = len(tried) < MOST_BEYOND
                tried[place] = self._added(self.refused[place]) if is_left else None
            number = tried[place]
            if number is not None:
                bill = self._bills[number]
                factor = self._better_below(self.trials[number], bill, name)
                if factor is not None:
                    found[name] = max(found.get(name, (0.0, 0)), (factor, number))
        # unless some that may be better were left out
        complete = len(tried) <= MOST_BEYOND
        self.examined[:] = {*self.examined, "prices"} if complete else {*self.examined} - {"prices"}
        for name, (factor, number) in found.items():
            yield self._price_flip(name, factor, number)

    def _added(self, trial: Trial) -> int | None:
        """The place of a refused trial after its whole step; ``None`` where that cannot be."""
        if not self.simulate(trial):
            return None
        self.trials = [*self.trials, trial]
        self._bills.append(parts_usd(trial))
        return len(self.trials) - 1

    def _better_below(self, trial: Trial, bill: Mapping[str, float], name: str) -> float | None:
        """The factor on a price below which a trial is within the budget, in time, and better."""
        if not bill[name] or self.yardstick.is_late(trial):
            return None
        # a little less, so that rounding leaves it within the budget
        fits = 1 + self._room_usd(bill, name, 1.0) / bill[name] - 1e-12

        def gap(factor: float) -> float:
            usd = sum(bill.values()) + bill[name] * (factor - 1)
            own = 1 / self._score(0, {name: factor}, self.trials[0].step_s)
            return 1 - 1 / (own * self._score_of(trial, usd, trial.step_s))

        if not 1 / FAR <= fits < 1 or gap(1 / FAR) <= 1e-12:
            return fits if 1 / FAR <= fits < 1 and gap(fits) > 1e-12 else None
        return fits if gap(fits) > 0 else bisected(gap, fits, 1 / FAR)

    def _delay_flips(self) -> Iterator[FlipPoint]:
        """Delays of a reconfiguration at which another candidate is the best, or it is late."""
        fabrics = [self.trials[number].candidate.fabric for number in self._contenders]
        timings = [fabric.switch_timing() for fabric in fabrics if isinstance(fabric, MixNet)]
        now = timings[0].fixed_s + timings[0].link_up_s if timings else 0.0
        if SHORTEST_S < now < LONGEST_S:
            ends = SHORTEST_S / now, LONGEST_S / now
            for flip in self._step_flips("delay", ends, self._contenders):
                yield dataclasses.replace(flip, value=flip.value * now, now=now, unit="s")

    def _efficiency_flips(self) -> Iterator[FlipPoint]:
        """Factors on times of computation at which another candidate is the best, or it is late."""
        numbers = [*self._contenders, *self._late()]
        yield from self._step_flips("efficiency", (FASTEST, SLOWEST), numbers)

    def _late(self) -> list[int]:
        """Places of late candidates that would be better, the closest to the deadline."""
        best = self._score(0, {}, self.trials[0].step_s)
        closest: dict[Any, Trial] = {}
        late = [trial for trial in self.refused if trial.outcome == "deadline"]
        for trial in sorted(late, key=lambda t: t.step_s / t.candidate.site.tokens):
            candidate = trial.candidate
            if self._score_of(trial, candidate.usd, trial.step_s) > best:
                practice = [candidate.options.get(name) for name in OF_SOFTWARE]
                key = (candidate.fabric.name, id(candidate.site), *practice)
                closest.setdefault(key, trial)
        added = [self._added(trial) for trial in list(closest.values())[:MOST_LATE]]
        places = [number for number in added if number is not None]
        # a prediction may have been wrong
        return [number for number in places if self.yardstick.is_late(self.trials[number])]

    def _step_flips(
        self, name: str, ends: Sequence[float], numbers: Sequence[int]
    ) -> Iterator[FlipPoint]:
        """Factors on what makes steps longer, on both sides of 1, at which the answer changes."""
        if len(numbers) < 2 and self.yardstick.options.deadline_s is None:
            return
        self.examined.append(name)
        is_delay = name == "delay"
        for end in ends:
            seen: dict[float, tuple[float, int | None]] = {}

            def gap(scale: float, seen: dict[float, tuple[float, int | None]] = seen) -> float:
                change = _Change(delay_scale=scale) if is_delay else _Change(compute_scale=scale)
                base = self._base(numbers)
                seen[scale] = self._answer({n: s * self._ratio(n, change) for n, s in base.items()})
                return seen[scale][0]

            root = bisected(gap, 1.0, end)
            if root is not None:
                beyond = [scale for scale in seen if seen[scale][0] < 0]
                lead, other = seen[min(beyond, key=lambda scale: abs(math.log(scale / root)))]
                limit = "deadline" if lead == -math.inf else None
                yield FlipPoint(name, root, 1.0, "factor", end > 1, other, limit)

    def _answer(self, steps_s: Mapping[int, float]) -> tuple[float, int | None]:
        """As :meth:`lead`, among those in time: minus infinity if the recommended one is late."""
        limit_s = self.yardstick.options.deadline_s
        in_time = {}
        for number, step_s in steps_s.items():
            seconds = self.yardstick.seconds(self.trials[number].candidate, step_s)
            if seconds is None or limit_s is None or seconds <= limit_s:
                in_time[number] = step_s
        if 0 in in_time:
            return self.lead({}, in_time)
        scores = {number: self._score(number, {}, step_s) for number, step_s in in_time.items()}
        best = max(scores, key=lambda number: scores[number], default=None)
        return -math.inf, None if best is None else self.trials[best].candidate.number


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
    delay_scale: float = 1.0

    @property
    def of_job(self) -> tuple[Any, ...]:
        """What of it changes the job."""
        return self.load, self.overlap, self.compute_scale

    def fabric(self, fabric: Fabric) -> Fabric:
        """The fabric after it."""
        if self.delay_scale == 1 or not isinstance(fabric, MixNet):
            return fabric
        timing = fabric.switch_timing()
        parts = ("fixed_s", "per_pair_s", "link_up_s")
        scaled = {part: getattr(timing, part) * self.delay_scale for part in parts}
        return fabric.replace(**scaled, label=fabric.name)

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
    ("delay", ("at once", "as today"), (_Change(delay_scale=0.0), _Change())),
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
