"""Predictors of expert loads: the built-in ones, and the protocol of those of others."""

from __future__ import annotations

from lightloom.demand.predictors.built_in import (
    PREDICTORS,
    BuiltInPredictor,
    make_predictor,
    predictor_names,
)
from lightloom.demand.predictors.protocol import DemandPredictor, Loads

__all__ = [
    "PREDICTORS",
    "BuiltInPredictor",
    "DemandPredictor",
    "Loads",
    "make_predictor",
    "predictor_names",
]
