"""How good predictors of expert loads are: top-k overlap, L1, and the time lost to circuits.

Circuits for the first all-to-all of a layer must be chosen before its loads are known. Each
predictor is told the loads of a history in the order of a step and predicts each layer before it
is told. Three things are measured:

- *top-k overlap*: how many of the k busiest experts it finds (MixNet's Figure 19);
- *L1*: the sum over experts of predicted minus true share, 0 to 2;
- *regret*: circuits are allocated for the demand that it predicts (who sends how much is known,
  where to is predicted), the true demand is routed over them, and the time that circuits
  allocated for the truth would have taken is subtracted;
- *held regret*: the same if the static circuits are there before and the allocator is told, so
  that it changes them only where the prediction sees a gain.

The same regret of the *static* circuits, demand-oblivious ones, says whether prediction matters.

Assumed: the experts lie on the servers of one region in order; a source of the history sits on a
server, or, where the history does not tell, every server sends the same. Times are at line rate, of
dispatch alone; the delay of reconfiguring is not in them. The allocator ``best`` is near the
optimum but not exact, so that a regret may come out slightly negative.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.demand.load_history import LoadHistory
from lightloom.demand.placement import rank_matrix
from lightloom.demand.predictors import DemandPredictor, Loads
from lightloom.demand.source import shown_divisors, whole
from lightloom.errors import DemandError, InputError, echo
from lightloom.schedule import Region, allocate_region, route

#: steps that are scored, at least: fewer leave the mean L1 uncertain by more than a tenth of the
#: spread between steps
MIN_STEPS = 100

#: token copies per expert and step, at least: fewer, and sampling noise alone is an L1 of up to
#: 0.1, sqrt(2 / (64 pi))
MIN_COPIES_PER_EXPERT = 64

#: the name of circuits that follow no prediction, among the predictors
STATIC = "static circuits"

#: bytes of one token copy, at most
MAX_TOKEN_BYTES = 10**9


@dataclass(frozen=True)
class RegionOptions:
    """The region whose circuits are chosen.

    Parameters
    ----------
    experts_per_server
        Experts on each server; the servers of the region follow.
    region
        Ports and rates of a server.
    token_bytes
        Bytes of one token copy.
    method
        Allocator, see :func:`lightloom.schedule.allocate`.
    """

    experts_per_server: int
    region: Region
    token_bytes: int
    method: str = "best"


@dataclass(frozen=True)
class Score:
    """What one predictor reached, over all scored steps and layers.

    ``regret_s`` and ``regret_ratio`` are means, the latter of regret over the time that circuits
    for the truth take; ``worst_regret_ratio`` is the largest; ``held_regret_ratio`` is the mean
    where static circuits were there before. Processor time of one observation and one prediction
    together: ``time_s`` the mean, ``best_time_s`` the least. Static circuits have nothing but the
    regret, and no regret is known without a region.
    """

    predictor: str
    predictions: int
    top_k_overlap: float | None = None
    l1: float | None = None
    regret_s: float | None = None
    regret_ratio: float | None = None
    worst_regret_ratio: float | None = None
    held_regret_ratio: float | None = None
    time_s: float | None = None
    best_time_s: float | None = None

    def as_row(self) -> dict[str, object]:
        """As a row of a table."""
        return asdict(self)


@dataclass(frozen=True)
class ScoringRange:
    """Which steps and layers are scored, and by what.

    ``first_step`` steps are observed and not scored; ``first_layer`` is 1 where there are several
    layers, since nothing precedes layer 0.
    """

    top_k: int
    first_step: int
    first_layer: int

    @classmethod
    def of(cls, history: LoadHistory, *, top_k: int | None, window: int) -> ScoringRange:
        """The setting for a history: scored once windows are full, or from its middle on.

        Raises
        ------
        DemandError
            If the history has a single step, or ``top_k`` is not a number of its experts.
        """
        if history.steps < 2:
            raise DemandError(
                f"{history.name}: a log of one step, of which nothing can be predicted; expected "
                f"{MIN_STEPS} steps and more (--tokens-per-step cuts a stream into steps)"
            )
        if top_k is None:
            top_k = max(1, history.experts // 4)
        if not whole(top_k) or not 1 <= top_k <= history.experts:
            raise DemandError(f"top-k: expected 1 to {history.experts} experts, got {echo(top_k)}")
        return cls(top_k, min(window + 1, history.steps // 2), min(1, history.layers - 1))

    def scored_steps(self, history: LoadHistory) -> int:
        """Steps that count."""
        return history.steps - self.first_step

    def places(self, history: LoadHistory) -> int:
        """Predictions that count."""
        return self.scored_steps(history) * (history.layers - self.first_layer)


def shortcomings(history: LoadHistory, setting: ScoringRange) -> list[str]:
    """Why a history is too short to judge a predictor by, in words; empty if it is not."""
    reasons = []
    steps = setting.scored_steps(history)
    if steps < MIN_STEPS:
        reasons.append(
            f"{steps} scored step{'s' * (steps > 1)} of {history.steps}, "
            f"at least {MIN_STEPS} are needed"
        )
    copies = history.copies_per_step / history.experts
    if copies < MIN_COPIES_PER_EXPERT:
        reasons.append(
            f"{copies:.3g} token copies per expert and step, at least {MIN_COPIES_PER_EXPERT} are "
            "needed"
        )
    return reasons


def top_k_overlap(predicted: Loads, actual: Loads, top_k: int) -> float:
    """Share of the predicted top k that is in the actual top k.

    Ties in the prediction are broken at random, in the mean; an expert as busy as the k-th is in
    the actual top k. So a uniform prediction finds k of E where no loads are equal.
    """
    bound = np.partition(predicted, -top_k)[-top_k]
    sure = predicted > bound
    tied = predicted == bound
    chance = sure + tied * ((top_k - sure.sum()) / tied.sum())
    hit = actual >= np.partition(actual, -top_k)[-top_k]
    return float(chance @ hit / top_k)


def l1_distance(predicted: Loads, actual: Loads) -> float:
    """Sum of the absolute differences of shares, 0 to 2."""
    return float(np.abs(predicted - actual).sum())


def server_rows(counts: npt.NDArray[np.float64], servers: int) -> npt.NDArray[np.float64]:
    """Token copies that each server sends to each expert, ``(servers, experts)``.

    Sources fill the servers in order; if they do not divide over them, every server is taken to
    send the same.
    """
    sources, experts = counts.shape
    if sources % servers == 0:
        grouped: npt.NDArray[np.float64] = counts.reshape(servers, -1, experts).sum(axis=1)
        return grouped
    return np.tile(counts.sum(axis=0) / servers, (servers, 1))


def region_demand(rows: npt.NDArray[np.float64], token_bytes: int) -> npt.NDArray[np.int64]:
    """Bytes from server to server, ``(servers, servers)``, from token copies to experts."""
    size: npt.NDArray[np.int64] = np.rint(rows * token_bytes).astype(np.int64)
    return rank_matrix(size)


@dataclass
class Truth:
    """For each scored place: true demand, static circuits, times of both kinds of circuits, s."""

    options: RegionOptions
    rows: list[npt.NDArray[np.float64]] = field(default_factory=list)
    demands: list[npt.NDArray[np.int64]] = field(default_factory=list)
    best_s: list[float] = field(default_factory=list)
    static_s: list[float] = field(default_factory=list)
    static: npt.NDArray[np.uint16] | None = None

    def add(self, counts: npt.NDArray[np.float64], servers: int) -> None:
        """Take the next place."""
        options = self.options
        rows = server_rows(counts, servers)
        demand = region_demand(rows, options.token_bytes)
        best = allocate_region(demand, options.region, method=options.method)
        static = allocate_region(demand, options.region, method="static")
        self.rows.append(rows)
        self.demands.append(demand)
        self.best_s.append(best.makespan_s)
        self.static_s.append(static.makespan_s)
        self.static = static.circuits

    def regret_s(self, place: int, predicted: Loads, *, held: bool = False) -> float:
        """Seconds that circuits chosen on predicted shares lose at a place.

        With ``held`` the static circuits are there before.
        """
        options = self.options
        sent = self.rows[place].sum(axis=1)
        guess = region_demand(sent[:, np.newaxis] * predicted, options.token_bytes)
        previous = self.static if held else None
        plan = allocate_region(guess, options.region, method=options.method, previous=previous)
        taken = route(self.demands[place], plan.circuits, options.region).makespan_s
        return taken - self.best_s[place]

    def score(self, lost_s: Sequence[float], held_s: Sequence[float]) -> dict[str, float]:
        """Regrets from the seconds lost at each place."""
        lost, held, best = (np.array(times) for times in (lost_s, held_s, self.best_s))
        # where nothing is to be sent, nothing is lost
        ratio, held_ratio = (
            np.divide(times, best, out=np.zeros_like(best), where=best > 0)
            for times in (lost, held)
        )
        return {
            "regret_s": float(lost.mean()),
            "regret_ratio": float(ratio.mean()),
            "worst_regret_ratio": float(ratio.max()),
            "held_regret_ratio": float(held_ratio.mean()),
        }

    def static_score(self) -> Score:
        """What demand-oblivious circuits lose."""
        lost = [taken - best for taken, best in zip(self.static_s, self.best_s, strict=True)]
        return Score(STATIC, len(lost), **self.score(lost, lost))


class Evaluation:
    """Scores predictors on one history, one after the other.

    Parameters
    ----------
    history
        Loads of at least two steps.
    top_k
        Busiest experts to be found; a quarter of them by default.
    window
        Steps that pass before any is scored, as long as half of the history is left.
    options
        The region, for regret; none is computed without.

    Raises
    ------
    InputError
        If the history is a single step, or the region does not fit its experts.
    """

    def __init__(
        self,
        history: LoadHistory,
        *,
        top_k: int | None = None,
        window: int = 32,
        options: RegionOptions | None = None,
    ) -> None:
        self.history = history
        self.setting = ScoringRange.of(history, top_k=top_k, window=window)
        self.servers = 0 if options is None else _servers(history, options)
        self.truth = None if options is None else Truth(options)
        loads = history.counts.sum(axis=2)
        self._shares: npt.NDArray[np.float64] = loads / loads.sum(axis=-1, keepdims=True)

    def prepare(self, progress: Callable[[float], None] = lambda _: None) -> None:
        """Allocate circuits for the truth; ``progress`` is told the share that is done.

        Raises
        ------
        InputError
            If the ports or rates of the region cannot be used, or the demand exceeds it.
        """
        if self.truth is None:
            return
        total = self.setting.places(self.history)
        for step, layer in self._places():
            self.truth.add(self.history.counts[step, layer], self.servers)
            progress(len(self.truth.best_s) / total)
        if not np.isfinite(self.truth.best_s).all():
            raise InputError(
                "some servers cannot reach each other: more peers than circuits, and no EPS; "
                "give the servers packet NICs or more circuits"
            )

    def _places(self) -> Iterator[tuple[int, int]]:
        setting, history = self.setting, self.history
        for step in range(setting.first_step, history.steps):
            for layer in range(setting.first_layer, history.layers):
                yield step, layer

    def run(
        self,
        name: str,
        predictor: DemandPredictor,
        progress: Callable[[float], None] = lambda _: None,
    ) -> Score:
        """Score a predictor, after :meth:`prepare`; ``progress`` is told the share that is done."""
        tally = _Tally()
        steps, layers = self.history.steps, self.history.layers
        for step in range(steps):
            for layer in range(layers):
                actual = self._shares[step, layer]
                started = time.process_time_ns()
                predicted = predictor.predict(step, layer)
                predictor.observe(step, layer, actual)
                spent_s = (time.process_time_ns() - started) * 1e-9
                if step >= self.setting.first_step and layer >= self.setting.first_layer:
                    self._score(tally, predicted, actual)
                    tally.time_s.append(spent_s)
            progress((step + 1) / steps)
        return tally.score(name, self.truth)

    def _score(self, tally: _Tally, predicted: Loads, actual: Loads) -> None:
        if self.truth is not None:
            place = len(tally.l1)
            tally.lost_s.append(self.truth.regret_s(place, predicted))
            tally.held_s.append(self.truth.regret_s(place, predicted, held=True))
        tally.overlap.append(top_k_overlap(predicted, actual, self.setting.top_k))
        tally.l1.append(l1_distance(predicted, actual))

    @property
    def equal_sources(self) -> bool:
        """Whether every server is taken to send the same."""
        return bool(self.servers and self.history.sources % self.servers)

    def optimum_s(self) -> float:
        """Mean time of the circuits for the truth, s; NaN without a region."""
        times = [] if self.truth is None else self.truth.best_s
        return math.fsum(times) / len(times) if times else math.nan

    def static(self) -> Score | None:
        """The score of demand-oblivious circuits, if there is a region."""
        return None if self.truth is None else self.truth.static_score()


@dataclass
class _Tally:
    """One number per scored place."""

    overlap: list[float] = field(default_factory=list)
    l1: list[float] = field(default_factory=list)
    lost_s: list[float] = field(default_factory=list)
    held_s: list[float] = field(default_factory=list)
    time_s: list[float] = field(default_factory=list)

    def score(self, name: str, truth: Truth | None) -> Score:
        regrets: dict[str, float] = {} if truth is None else truth.score(self.lost_s, self.held_s)
        return Score(
            name,
            len(self.l1),
            top_k_overlap=math.fsum(self.overlap) / len(self.overlap),
            l1=math.fsum(self.l1) / len(self.l1),
            time_s=math.fsum(self.time_s) / len(self.time_s),
            best_time_s=min(self.time_s),
            **regrets,
        )


def score(
    history: LoadHistory,
    predictors: Mapping[str, DemandPredictor],
    *,
    top_k: int | None = None,
    window: int = 32,
    options: RegionOptions | None = None,
) -> list[Score]:
    """Score predictors on a history; with a region, static circuits come last.

    See :class:`Evaluation` for the arguments and errors.
    """
    evaluation = Evaluation(history, top_k=top_k, window=window, options=options)
    evaluation.prepare()
    scores = [evaluation.run(name, predictor) for name, predictor in predictors.items()]
    static = evaluation.static()
    return scores if static is None else [*scores, static]


def _servers(history: LoadHistory, options: RegionOptions) -> int:
    experts, per_server = history.experts, options.experts_per_server
    if not whole(per_server):
        raise DemandError(f"experts_per_server: expected a whole number, got {echo(per_server)}")
    if not whole(options.token_bytes) or not 1 <= options.token_bytes <= MAX_TOKEN_BYTES:
        text = echo(options.token_bytes)
        raise DemandError(f"token_bytes: expected 1 to {MAX_TOKEN_BYTES:,}, got {text}")
    if per_server < 1 or experts % per_server or experts // per_server < 2:
        raise DemandError(
            f"{experts} experts do not fill two or more servers of {per_server} experts each; "
            f"expected a part of them: {shown_divisors(experts)}"
        )
    return experts // per_server


def inputs_of(evaluation: Evaluation) -> dict[str, Any]:
    """What was scored, as plain data."""
    history, setting = evaluation.history, evaluation.setting
    return {
        "trace": history.name,
        "synthetic": history.synthetic,
        "provenance": history.provenance,
        "steps": history.steps,
        "layers": history.layers,
        "sources": history.sources if history.sources_known else None,
        "experts": history.experts,
        "first_scored_step": setting.first_step,
        "first_scored_layer": setting.first_layer,
        "top_k": setting.top_k,
        "sampling_noise_l1": history.sampling_noise(),
        "too_short": shortcomings(history, setting),
    }
