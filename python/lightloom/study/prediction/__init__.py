"""How good predictors of expert loads are: top-k overlap, L1, and the time lost to circuits."""

from lightloom.study.prediction.run import Prediction, score_predictors
from lightloom.study.prediction.score import (
    MIN_STEPS,
    Evaluation,
    RegionOptions,
    Score,
    ScoringRange,
    inputs_of,
    l1_distance,
    score,
    shortcomings,
    top_k_overlap,
)

__all__ = [
    "MIN_STEPS",
    "Evaluation",
    "Prediction",
    "RegionOptions",
    "Score",
    "ScoringRange",
    "inputs_of",
    "l1_distance",
    "score",
    "score_predictors",
    "shortcomings",
    "top_k_overlap",
]
