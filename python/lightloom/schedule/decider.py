"""Which circuits a region has: the decision that the simulator and a controller share.

A :class:`Decider` knows the region, the policy and how long switches take.
:meth:`Decider.decide` takes the circuits held and the upcoming all-to-alls, and returns a
:class:`Decision`: the circuits, the NICs of each, what changes, after how long they are up, and
why. The decision itself is Rust (``crates/decide``), the same that a simulated run takes; it
releases the interpreter lock. Times are at line rate, as in :mod:`lightloom.schedule.circuits`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import DemandError, InputError, echo
from lightloom.inputs.arguments import function, instance
from lightloom.schedule.allocator import AllocatorCallback, CircuitAllocator
from lightloom.schedule.arrays import as_array, one_of, square_matrix, whole_number
from lightloom.schedule.circuits import check_circuits
from lightloom.schedule.failures import check_demand
from lightloom.schedule.named_sets import PLANES
from lightloom.schedule.records import Policy, Region, SwitchTiming
from lightloom.units import parse_quantity, to_ps

#: times are whole picoseconds in 64 bits in the core
_MAX_S = 1e6
_MAX_NODES = 1_024

Held = _core.Held
Decision = _core.Decision
Upcoming = _core.Upcoming


class CarriedDemand(NamedTuple):
    """The paths of a demand, sorted by source and destination.

    Attributes
    ----------
    paths
        Rows of source, relay (-1 for none), destination and kind, a place in
        :data:`~lightloom.schedule.relaying.RELAY_KINDS`; ``(paths, 4)``.
    size_bytes
        What each of them carries, ``(paths,)``.
    """

    paths: npt.NDArray[np.int32]
    size_bytes: npt.NDArray[np.uint64]


class Decider:
    """Decides which circuits a region has.

    What is held is the caller's to keep: the same inputs lead to the same decision. One thread at a
    time may use a decider.

    Parameters
    ----------
    servers
        Servers of the region.
    region
        Their ports and rates, and what has failed.
    policy
        How circuits follow the demand.
    timing
        How long a switch takes; a plain time is that of any switch.
    planes
        How fibers are laid where NIC i of every server is on a circuit switch of its own:
        ``"duplex"`` or ``"crossed"``, see :func:`assign_planes`. By default one switch joins any
        two NICs.
    numa_nodes
        NUMA nodes of a server, see :func:`map_nics`.
    allocator
        Proposes circuits instead of the policy's allocator.

    Raises
    ------
    InputError
        If an argument cannot be used.

    Examples
    --------
    >>> import lightloom
    >>> decider = lightloom.Decider(4, lightloom.Region(2, 400.0, 400.0), timing="25 ms")
    >>> callable(decider.decide)
    True
    """

    def __init__(
        self,
        servers: int,
        region: Region,
        *,
        policy: Policy | None = None,
        timing: SwitchTiming | float | str,
        planes: str | None = None,
        numa_nodes: int = 2,
        allocator: CircuitAllocator | None = None,
    ) -> None:
        instance(region, Region, "region", "a Region")
        policy = Policy() if policy is None else instance(policy, Policy, "policy", "a Policy")
        function(allocator, "allocator")
        if planes is not None:
            one_of(planes, "planes", list(PLANES))
        count = whole_number(servers, "servers", 0, 4_096)
        values = vars(region) | {
            "planes": planes,
            "numa_nodes": whole_number(numa_nodes, "numa_nodes", 1, _MAX_NODES),
        }
        callback = None if allocator is None else AllocatorCallback(allocator)
        self._region = region
        self._callback = callback
        try:
            self._working_ports = _core.schedule_working_region(count, values)["ports"]
            self._core = _core.Decider(
                count, values, asdict(policy), SwitchTiming.of(timing), callback
            )
        except (ValueError, OverflowError) as error:
            raise InputError(str(error)) from None

    def start(self) -> Held:
        """Return demand-oblivious circuits to start with."""
        return self._core.start()

    def hold(self, circuits: npt.ArrayLike) -> Held:
        """Return given circuits, ``(n, n)``, as held, on NICs that suit them.

        Raises
        ------
        InputError
            If they take more ports than there are, or cannot be built.
        """
        checked = self._checked(circuits)
        try:
            return self._core.hold(checked)
        except ValueError as error:
            raise InputError(f"circuits: {error}") from None

    def hold_on(self, nics: npt.ArrayLike, chosen: str = "best") -> Held:
        """Return given circuits as held: rows of server, NIC, server, NIC, ``(circuits, 4)``.

        Raises
        ------
        InputError
            If a NIC does not exist or ends two circuits, or two NICs cannot be joined.
        """
        instance(chosen, str, "chosen", "text")
        rows = as_array(nics, "nics", InputError)
        if rows.ndim != 2 or rows.shape[1] != 4 or rows.dtype.kind not in "iu":
            raise InputError(
                f"nics: expected rows of 4 whole numbers, got {rows.dtype} of shape {rows.shape}"
            )
        try:
            return self._core.hold_on(rows.astype(np.uint32), chosen)
        except ValueError as error:
            raise InputError(f"nics: {error}") from None

    def decide(
        self,
        held: Held,
        upcoming: Sequence[Upcoming] | npt.ArrayLike,
        *,
        hidden_s: float | str | Sequence[float | str] = 0.0,
        proposals: Sequence[npt.ArrayLike] | None = None,
    ) -> Decision:
        """Decide on circuits for the upcoming all-to-alls.

        Parameters
        ----------
        held
            The circuits that the region has.
        upcoming
            The upcoming all-to-alls, in order: those of :func:`upcoming_all_to_alls`, or bytes from
            source to destination as it takes them.
        hidden_s
            See there.
        proposals
            Circuits to compare with what is held, each ``(n, n)``: what pays is taken, whatever the
            policy, and no allocator is called.

        Raises
        ------
        DemandError
            If a demand is not a square matrix of whole numbers from 0 to 2^64 - 1.
        InputError
            If another argument cannot be used.
        """
        instance(held, Held, "held", "circuits of Decider.start, hold or a Decision")
        following = _upcoming(upcoming, hidden_s)
        if self._region.failed is not None and self._region.failed.servers:
            for all_to_all in following:
                check_demand(all_to_all.demand, self._region.failed)
        checked = None
        if proposals is not None:
            if not isinstance(proposals, Iterable):
                raise InputError(f"proposals = {echo(proposals)}: expected a list of circuits")
            checked = [self._checked(circuits) for circuits in proposals]
        try:
            return self._core.decide(held, following, checked)
        except (ValueError, OverflowError) as error:
            if self._callback is not None and self._callback.raised is error:
                raise
            raise InputError(str(error)) from None

    def carry(self, held: Held, demand: npt.ArrayLike) -> CarriedDemand:
        """Return the paths that the bytes of an all-to-all take over the circuits held.

        Over relays where that pays, else over the circuits of a pair and the EPS, as the region
        and the policy have it: what an all-to-all of a simulated run takes, too.

        Parameters
        ----------
        held
            The circuits that the region has.
        demand
            Bytes from source to destination, ``(n, n)``; the diagonal takes no path.

        Raises
        ------
        DemandError
            If it is not a square matrix of whole numbers from 0 to 2^64 - 1.
        InputError
            If it has another size than the region, or more bytes than relays can divide.
        """
        instance(held, Held, "held", "circuits of Decider.start, hold or a Decision")
        matrix = square_matrix(demand, "demand", 2**64 - 1, DemandError)
        try:
            return CarriedDemand(*self._core.carry(held, matrix))
        except ValueError as error:
            raise InputError(str(error)) from None

    def _checked(self, circuits: npt.ArrayLike) -> npt.NDArray[np.uint16]:
        return check_circuits(circuits, self._working_ports)


def _upcoming(
    value: Sequence[Upcoming] | npt.ArrayLike, hidden_s: float | str | Sequence[float | str]
) -> Sequence[Upcoming]:
    if isinstance(value, list | tuple) and all(type(entry) is Upcoming for entry in value):
        return cast(Sequence[Upcoming], value)
    return upcoming_all_to_alls(cast(npt.ArrayLike, value), hidden_s)


def upcoming_all_to_alls(
    demand: npt.ArrayLike, hidden_s: float | str | Sequence[float | str] = 0.0
) -> list[Upcoming]:
    """Return upcoming all-to-alls of known demand.

    Parameters
    ----------
    demand
        Bytes from source to destination of the next all-to-all, ``(n, n)``, or of the next ``k``,
        ``(k, n, n)``; whole numbers. Circuits are duplex: a combine that follows its dispatch may
        be given as the transpose, and costs nothing to consider.
    hidden_s
        Time from now until the all-to-all is reached, and for later ones from the end of the one
        before; one for all, or ``k``. A switch that takes no longer costs nothing.

    Returns
    -------
    list of Upcoming
        One per demand, in order; each is a copy, O(n^2).

    Raises
    ------
    DemandError
        If a demand is not a square matrix of whole numbers from 0 to 2^64 - 1.
    InputError
        If a time cannot be used.

    Examples
    --------
    >>> from lightloom.schedule import upcoming_all_to_alls
    >>> len(upcoming_all_to_alls([[[0, 5], [7, 0]], [[0, 7], [5, 0]]], "1 ms"))
    2
    """
    array = as_array(demand, "demand", DemandError)
    if array.ndim not in (2, 3) or len(array) == 0:
        raise DemandError(
            f"demand: expected one matrix or several of equal size, got shape {array.shape}"
        )
    matrices = [array] if array.ndim == 2 else array
    hidden = _hidden_ps(hidden_s, len(matrices))
    return [
        Upcoming(_whole_bytes(matrix), time_ps)
        for matrix, time_ps in zip(matrices, hidden, strict=True)
    ]


def _whole_bytes(matrix: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    if matrix.dtype == np.uint64 and matrix.shape[0] == matrix.shape[1]:
        return matrix  # nothing to check
    return square_matrix(matrix, "demand", 2**64 - 1, DemandError)


def _hidden_ps(hidden_s: float | str | Sequence[float | str], count: int) -> list[int]:
    # One time is told by its type: whether anything else is a sequence takes longer to find out.
    if isinstance(hidden_s, float | str) or not isinstance(hidden_s, Sequence | np.ndarray):
        return [_ps(hidden_s, "hidden_s")] * count
    if len(hidden_s) != count:
        raise InputError(f"hidden_s: expected one time or {count}, got {len(hidden_s)}")
    return [_ps(value, "hidden_s") for value in hidden_s]


def _ps(value: float | str, name: str) -> int:
    seconds = parse_quantity(value, "second", name)
    if not 0 <= seconds <= _MAX_S:
        raise InputError(f"{name}: expected 0 to {_MAX_S:g} s, got {echo(value)}")
    return to_ps(seconds)
