"""Predictors of demand that a user supplies, as the core calls them: once for all regions.

The built-in ones run in the core (``crates/predict``) by the same rules. At a decision the core
hands over the token copies of every first all-to-all that is over, once each, and names those that
are to be predicted. Each group of members has a predictor of its own, which observes the
shares of the copies that each member receives; who sends how many is taken from what was seen last.
A micro-batch is a step of the predictor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.demand.predictors import BuiltInPredictor, DemandPredictor, make_predictor
from lightloom.errors import InputError

#: makes a predictor for a number of members
PredictorFactory = Callable[[int], DemandPredictor]

Tokens = npt.NDArray[np.uint64]


def check_predictor(predictor: str | PredictorFactory) -> str | PredictorFactory:
    """Return the name of a built-in predictor, or what makes a user's or a package's.

    Raises
    ------
    DemandError
        If there is no built-in predictor of that name.
    InputError
        If it is neither a name nor something to call.
    """
    if isinstance(predictor, str):
        built_in = make_predictor(predictor, 2)
        if not isinstance(built_in, BuiltInPredictor):
            return functools.partial(make_predictor, predictor)
    elif not callable(predictor):
        raise InputError(
            "predictor: expected a name, or a function that makes a predictor for a number of "
            f"members, got {predictor!r}"
        )
    return predictor


@dataclass
class _Group:
    """What is kept of one group: its predictor, and who sent how much of each layer last."""

    predictor: DemandPredictor
    sent: dict[int, Tokens] = field(default_factory=dict)

    def observe(self, layer: int, index: int, tokens: Tokens) -> None:
        """Take the token copies of an all-to-all, members x members."""
        self.sent[layer] = tokens.sum(axis=1)
        if tokens.any():
            self.predictor.observe(index, layer, tokens.sum(axis=0))

    def predict(self, layer: int, index: int) -> Tokens | None:
        """Estimate the token copies of one that is to come, flat; nothing if none was seen."""
        sent = self.sent.get(layer)
        if sent is None:
            return None
        shares = np.asarray(self.predictor.predict(index, layer), dtype=np.float64)
        if shares.shape != sent.shape or not (np.isfinite(shares) & (shares >= 0)).all():
            raise InputError(
                f"predictor: expected {len(sent)} shares of at least 0, got {shares!r}"
            )
        return np.rint(sent[:, np.newaxis] * shares).astype(np.uint64).reshape(-1)


class PredictorCallback:
    """Converts the core's requests for a predictor of every group.

    Parameters
    ----------
    factory
        Makes a predictor for a number of members.
    """

    def __init__(self, factory: PredictorFactory) -> None:
        self._factory = factory
        self._groups: dict[int, _Group] = {}
        self.raised: BaseException | None = None

    def __call__(self, requests: list[_core.PredictionRequest]) -> list[Tokens | None]:
        """Return the token copies of each request, flat, or nothing."""
        try:
            return [self._predict(request) for request in requests]
        except BaseException as error:
            self.raised = error
            raise

    def _predict(self, request: _core.PredictionRequest) -> Tokens | None:
        for observed in request.seen:
            members = round(len(observed.tokens) ** 0.5)
            if request.group not in self._groups:
                self._groups[request.group] = _Group(self._factory(members))
            square = observed.tokens.reshape(members, members)
            self._groups[request.group].observe(observed.layer, observed.index, square)
        state = self._groups.get(request.group)
        return None if state is None else state.predict(request.layer, request.index)
