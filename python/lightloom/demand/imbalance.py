"""How evenly a gate loads the EP ranks: the names, numbers and files that describe it.

A demand is given by one value. It is a name of :data:`IMBALANCES`, another regime of the generator
(:data:`~lightloom.demand.regime.REGIMES`), the path of a token matrix or of a routing log, or a
number: the copies of the busiest EP rank over those of the mean rank. A number is reached by a
gate as that of ``auxiliary`` whose spread is found by :mod:`.solve`.
"""

from __future__ import annotations

from lightloom.errors import DemandError

#: names of how balanced a gate is, with what each means
IMBALANCES = {
    "balanced": "every expert gets equally many copies, as with a gate that is forced to balance",
    "auxiliary": "a trained gate with an auxiliary loss",
    "natural": "a trained gate balanced by biases over whole batches",
    "skewed": "the stress case, a gate without effective balancing",
}

#: what is assumed where nothing is said: gates are trained with a balancing loss
DEFAULT_IMBALANCE = "auxiliary"

#: a name, a path, or the load of the busiest EP rank over the mean load
DemandName = str | float


def parse_demand(text: DemandName) -> DemandName:
    """Return a name or path as it is, and a number as a number.

    Raises
    ------
    DemandError
        If it is a number below 1.
    """
    try:
        ratio = float(text)
    except ValueError:
        return text
    if not 1 <= ratio < float("inf"):
        raise DemandError(
            f"demand: expected the load of the busiest EP rank over the mean load, a number of "
            f"at least 1, got {text}"
        )
    return ratio
