"""How completion times and slowdowns spread."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: quantiles of completion times and slowdowns that are told, by name
QUANTILES = {"min": 0.0, "p50": 0.5, "p99": 0.99, "max": 1.0}


def spread(values: npt.NDArray[np.float64]) -> dict[str, float] | None:
    """Least, mean, quantiles and greatest of what has finished; ``None`` if nothing has.

    Quantiles are values that occurred: the smallest that so large a share does not exceed.
    """
    there = np.sort(values[~np.isnan(values)])
    if not len(there):
        return None
    places = {
        name: max(0, int(np.ceil(share * len(there))) - 1) for name, share in QUANTILES.items()
    }
    quantiles = {name: float(there[place]) for name, place in places.items()}
    return {"min": quantiles.pop("min"), "mean": float(there.mean()), **quantiles}
