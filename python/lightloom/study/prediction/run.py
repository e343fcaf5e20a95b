"""Score several predictors on one history; what an interrupt leaves is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lightloom.demand.predictors import DemandPredictor
from lightloom.optional import need
from lightloom.progress import Monitor
from lightloom.shown import Shown
from lightloom.study.prediction.score import Evaluation, Score, inputs_of

if TYPE_CHECKING:
    import polars

SCHEMA_VERSION = 1


@dataclass(frozen=True, repr=False)
class Prediction(Shown):
    """How good predictors of expert loads are on one history.

    Attributes
    ----------
    evaluation
        The history, and what it was scored by.
    scores
        One per predictor, static circuits last.
    inputs
        What was scored, as plain data.
    interrupted
        Whether predictors are missing.

    Examples
    --------
    >>> import lightloom
    >>> lightloom.Prediction.__name__
    'Prediction'
    """

    evaluation: Evaluation
    scores: tuple[Score, ...]
    inputs: dict[str, Any]
    interrupted: bool = False

    def __repr__(self) -> str:
        best = min(
            (score for score in self.scores if score.l1 is not None),
            key=lambda score: score.l1 or 0.0,
            default=None,
        )
        summary = "no scores" if best is None else f"best {best.predictor}, L1 {best.l1:.3f}"
        return f"Prediction({self.evaluation.history.name}: {len(self.scores)} scores, {summary})"

    def to_polars(self) -> polars.DataFrame:
        """Return a row per predictor."""
        need("polars", "to_polars")
        import polars

        return polars.DataFrame([score.as_row() for score in self.scores])

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {
            "schema_version": SCHEMA_VERSION,
            "inputs": self.inputs,
            "interrupted": self.interrupted,
            "scores": [score.as_row() for score in self.scores],
        }


def score_predictors(
    evaluation: Evaluation,
    predictors: Mapping[str, DemandPredictor],
    *,
    window: int,
    monitor: Monitor[dict[str, object]] | None = None,
) -> Prediction:
    """Score every predictor.

    Parameters
    ----------
    evaluation
        The history and the region.
    predictors
        By name.
    window
        Steps that predictors fit, for the inputs.
    monitor
        Takes progress, and the row of each score.

    Raises
    ------
    KeyboardInterrupt
        If it was interrupted, or the monitor returned ``False``, before the first score.
    """
    scores: list[Score] = []
    interrupted = False
    try:
        # one at a time, so that an interrupt leaves what was scored before
        scores.extend(_scores(evaluation, predictors, monitor or Monitor()))
    except KeyboardInterrupt:
        if not scores:
            raise
        interrupted = True
    inputs = {**inputs_of(evaluation), **_region_inputs(evaluation, window)}
    return Prediction(evaluation, tuple(scores), inputs, interrupted)


def _scores(
    evaluation: Evaluation,
    predictors: Mapping[str, DemandPredictor],
    monitor: Monitor[dict[str, object]],
) -> Iterator[Score]:
    parts = len(predictors) + 1

    def follow(part: int, activity: str, share: float) -> None:
        if monitor.progress((part + share) / parts, activity) is False:
            raise KeyboardInterrupt

    evaluation.prepare(partial(follow, 0, "circuits for the truth"))
    static = evaluation.static()
    for part, (name, predictor) in enumerate(predictors.items(), 1):
        score = evaluation.run(name, predictor, partial(follow, part, name))
        monitor.finished(score.as_row())
        yield score
    if static is not None:
        monitor.finished(static.as_row())
        yield static


def _region_inputs(evaluation: Evaluation, window: int) -> dict[str, Any]:
    if evaluation.truth is None:
        return {"window": window}
    options = evaluation.truth.options
    region = options.region
    return {
        "window": window,
        "servers": evaluation.servers,
        "experts_per_server": options.experts_per_server,
        "ports": region.ports,
        "circuit_gbps": region.circuit_gbps,
        "eps_gbps": region.eps_gbps,
        "split": region.split,
        "bytes_per_token": options.token_bytes,
        "optimum_s": evaluation.optimum_s(),
    }
