"""What the core is given: each class has the fields of the Rust struct that reads it.

The structs are in ``crates/python/src/schedule``. Rates are whole bits per second, times whole
picoseconds, sizes whole bytes, as the unit at the end of each name says. The core checks that
arrays fit each other; what a user may give wrong is checked before, with the user's names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from lightloom.schedule.records import RelayCost


class CircuitRequest(NamedTuple):
    """The demand of one region and the ports that can serve it.

    ``ports`` and ``eps_bps`` have one entry per server; ``allowed`` are the pairs that may have
    circuits, ``previous`` the circuits that are held.
    """

    demand: npt.NDArray[np.uint64]
    ports: npt.NDArray[np.uint32]
    allowed: npt.NDArray[np.bool_] | None
    previous: npt.NDArray[np.uint16] | None
    circuit_bps: int
    eps_bps: npt.NDArray[np.uint64]
    split: bool


class RoutingRequest(NamedTuple):
    """A demand to route over circuits, the EPS and relays."""

    demand: npt.NDArray[np.uint64]
    circuits: npt.NDArray[np.uint16]
    circuit_bps: int
    eps_bps: int
    charges: RelayCost
