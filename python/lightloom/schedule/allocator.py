"""A custom allocator: what it is given, and how the core calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import InputError
from lightloom.schedule.arrays import square_matrix
from lightloom.schedule.circuits import Region


@dataclass(frozen=True)
class AllocationRequest:
    """What an allocator is given, see :func:`allocate_region`.

    Attributes
    ----------
    demand
        Bytes from source to destination, ``(n, n)``.
    region
        Ports and rates, without what has failed.
    previous
        Circuits that are held now, ``(n, n)``, where the proposal may change as few as it can;
        ``None`` where others come first.
    """

    demand: npt.NDArray[np.uint64]
    region: Region
    previous: npt.NDArray[np.uint16] | None


#: proposes circuits, ``(n, n)``, for each request of a decision
CircuitAllocator = Callable[[Sequence[AllocationRequest]], Sequence[npt.ArrayLike]]


class AllocatorCallback:
    """Hands the core's requests to a custom allocator, and its proposals back."""

    def __init__(self, allocator: CircuitAllocator) -> None:
        self._allocator = allocator
        #: what results call the allocator
        self.name: str = getattr(allocator, "__name__", "custom")
        self.raised: BaseException | None = None

    def __call__(self, given: list[_core.ProposalRequest]) -> list[npt.NDArray[np.uint16]]:
        """Return the circuits of each request, flat."""
        requests = [_request(request) for request in given]
        try:
            proposals = list(self._allocator(requests))
        except BaseException as error:
            self.raised = error
            raise
        return [
            square_matrix(circuits, "allocator: circuits", 65_535, InputError)
            .astype(np.uint16)
            .reshape(-1)
            for circuits in proposals
        ]


def _request(given: _core.ProposalRequest) -> AllocationRequest:
    eps_bps = given.eps_bps
    one_rate = len(set(eps_bps)) == 1
    region = Region(
        ports=given.ports,
        circuit_gbps=given.circuit_bps / 1e9,
        eps_gbps=eps_bps[0] / 1e9 if one_rate else np.array(eps_bps) / 1e9,
        split=given.split,
        allowed=given.allowed,
    )
    return AllocationRequest(given.demand, region, given.previous)
