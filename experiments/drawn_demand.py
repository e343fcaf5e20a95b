"""Demand of one dispatch that is drawn, for experiments with schedules of one demand."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.demand import rank_matrix, synthetic


def dispatch_tokens(regime: str, seed: int, **values: Any) -> npt.NDArray[np.uint32]:
    """Tokens from each EP rank to each other one; ``values`` are those of a generator of loads."""
    source = synthetic(regime, seed=seed, **values)
    return rank_matrix(source.tokens(group=0, layers=[0], micro_batches=1, step=0)[0, 0])
