"""A custom allocator: what it is given, how the core calls it, and those of installed packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint

import numpy as np
import numpy.typing as npt

from lightloom import _core, plugins
from lightloom.errors import InputError
from lightloom.inputs.arguments import instance
from lightloom.schedule.arrays import square_matrix
from lightloom.schedule.circuits import (
    Allocation,
    check_circuits,
    request_of,
    route,
    whole_ports,
)
from lightloom.schedule.records import Region


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


def custom_allocators() -> Mapping[str, EntryPoint]:
    """Return the allocators of installed packages, by name.

    Returns
    -------
    Mapping
        Entry points of the group ``lightloom.allocators``, which are not imported yet.

    Examples
    --------
    >>> from lightloom.schedule import custom_allocators
    >>> "best" in custom_allocators()
    False
    """
    return plugins.ALLOCATORS.installed()


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


def allocator_by_name(name: str) -> CircuitAllocator:
    """Return the allocator of an installed package, whose proposals are checked.

    A package adds one through the entry point group ``lightloom.allocators``. What is returned
    raises InputError, in one line, where the allocator raises anything or proposes circuits that
    its region does not admit.

    Returns
    -------
    CircuitAllocator
        It takes what the package's takes, and O(n^2) for the checks. How to write one:
        ``docs/how-to/add-an-allocator.md``.

    Examples
    --------
    >>> from lightloom.schedule import allocator_by_name
    >>> allocator_by_name("mine")
    Traceback (most recent call last):
    lightloom.errors.InputError: allocator 'mine': no installed package has one

    Raises
    ------
    InputError
        If no package has an allocator of this name, or it cannot be imported.
    """
    instance(name, str, "allocator", "a name")
    allocator: CircuitAllocator = plugins.ALLOCATORS.load(name)

    def checked(requests: Sequence[AllocationRequest]) -> list[npt.NDArray[np.uint16]]:
        with plugins.ALLOCATORS.in_one_line(name):
            proposals = list(allocator(requests))
            if len(proposals) != len(requests):
                raise InputError(
                    f"expected circuits for {len(requests)} requests, got {len(proposals)}"
                )
            return [_admitted(*both) for both in zip(requests, proposals, strict=True)]

    checked.__name__ = name
    return checked


def allocate_by_name(
    name: str,
    demand: npt.ArrayLike,
    region: Region,
    previous: npt.ArrayLike | None = None,
) -> Allocation:
    """Let the allocator of an installed package turn the demand of a region into circuits.

    Raises
    ------
    DemandError, InputError
        See :func:`allocator_by_name` and :func:`allocate_region`.
    """
    allocator = allocator_by_name(name)
    request = request_of(demand, region, previous)
    working = replace(
        region, ports=request.ports, eps_gbps=np.array(request.eps_bps) / 1e9, failed=None
    )
    (circuits,) = allocator([AllocationRequest(request.demand, working, request.previous)])
    return replace(route(demand, circuits, region), chosen=name)


def _admitted(request: AllocationRequest, proposal: npt.ArrayLike) -> npt.NDArray[np.uint16]:
    """Return circuits that keep to the ports and allowed pairs of their request."""
    region = request.region
    circuits = check_circuits(proposal, whole_ports(region.ports, len(request.demand)))
    if region.allowed is not None:
        for a, b in np.argwhere((circuits > 0) & ~np.asarray(region.allowed, dtype=bool)):
            raise InputError(f"circuits: servers {a} and {b} may not have circuits")
    return circuits


def _request(request: _core.ProposalRequest) -> AllocationRequest:
    eps_bps = request.eps_bps
    one_rate = len(set(eps_bps)) == 1
    region = Region(
        ports=request.ports,
        circuit_gbps=request.circuit_bps / 1e9,
        eps_gbps=eps_bps[0] / 1e9 if one_rate else np.array(eps_bps) / 1e9,
        split=request.split,
        allowed=request.allowed,
    )
    return AllocationRequest(request.demand, region, request.previous)
