"""What a user supplies instead of the built-in allocators and predictor of circuits."""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.schedule import CircuitAllocator
from lightloom.simulate.predictor import PredictorFactory


@dataclass(frozen=True)
class Plugins:
    """Parts of a decision that Python takes over; called once per decision, for all regions.

    Attributes
    ----------
    allocator
        Chooses circuits instead of the network's own allocator: called with the requests of a
        decision, it returns circuits ``(n, n)`` for each. What it raises ends the run and is
        raised as it is.
    predictor
        Predicts the demand of first all-to-alls, for which circuits are requested, and by which
        they are judged, before their gate is evaluated: a name of
        :data:`~lightloom.demand.predictors.PREDICTORS`, or a function that makes a
        :class:`~lightloom.demand.predictors.DemandPredictor` for a number of members. By default
        circuits are judged by the last demand of the same layer, and requested for the one before.
        What it raises ends the run and is raised as it is.
    """

    allocator: CircuitAllocator | None = None
    predictor: str | PredictorFactory | None = None


#: nothing is taken over
BUILT_IN = Plugins()
