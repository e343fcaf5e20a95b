"""Demand over circuits and packets: schedules of permutations alongside a packet switch (EPS).

A crossbar joins each row (source) to at most one column (destination) at a time, all-stop as in
:mod:`lightloom.schedule.permutations`. In addition every port has a link of a given rate into an
EPS, which carries bytes from the first moment on, also while the crossbar changes. The EPS is
fluid and nonblocking: a pair sends its share at a constant rate until the end. With *relaying*
bytes also go to a third server in one slot and on in a later one. Release times and queues are left
out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import DemandError, InputError
from lightloom.schedule.arrays import (
    flag,
    one_of,
    optional_seconds,
    rate_bps,
    time_bytes,
    whole_matrix,
)
from lightloom.schedule.named_sets import choices
from lightloom.schedule.results import Result, ResultTable, summary
from lightloom.schedule.served import MAX_BYTES
from lightloom.units import show_bytes, show_time

#: methods of :func:`decompose_hybrid`: ours, then the references
HYBRID_METHODS = tuple(choices("hybrid method"))
#: rows and columns of a demand, as the core has it
MAX_HYBRID_LINES = 256


@dataclass(frozen=True, eq=False)
class HybridSchedule(Result):
    """Matchings over time, and what packets carry in addition.

    Attributes
    ----------
    permutations
        Column that each row is joined to in each slot, or -1, ``(k, rows)``.
    holds_bytes
        Bytes that a circuit carries in each slot, ``(k,)``; a delay comes before each.
    eps_bytes
        Bytes of each pair as packets, ``(rows, columns)``; circuits carry the rest.
    relays
        Rows of source, relay, destination, first slot, later slot, bytes, ``(m, 6)``: what a third
        server keeps from one slot to another. ``None`` without relaying.
    relay_memory_bytes
        Bytes that each row keeps for others at most, ``(rows,)``, if in a slot all that arrives
        does so before any leaves.
    length_bytes
        Bytes that a circuit could carry from the first reconfiguration to the last byte.
    lower_bound_bytes
        Bytes that no schedule can beat, see :func:`hybrid_lower_bound_s`.
    delay_bytes, circuit_bps, eps_bps
        The ports: the delay as bytes of a circuit, and what a port sends per second.
    method
        Whose schedule it is.
    time_spent_s
        Seconds that it took to find it.

    Examples
    --------
    >>> from lightloom.schedule import decompose_hybrid
    >>> plan = decompose_hybrid([[0, 80, 6], [6, 0, 80], [80, 6, 0]], eps_gbps=40, delay_s=4e-11)
    >>> plan.holds_bytes.tolist(), int(plan.eps_bytes.sum()), plan.length_bytes
    ([78], 24, 80)
    """

    permutations: npt.NDArray[np.int32]
    holds_bytes: npt.NDArray[np.uint64]
    eps_bytes: npt.NDArray[np.uint64]
    relays: npt.NDArray[np.uint64] | None
    relay_memory_bytes: npt.NDArray[np.uint64]
    length_bytes: int
    lower_bound_bytes: int
    delay_bytes: int
    circuit_bps: int
    eps_bps: int
    method: str
    time_spent_s: float = field(compare=False)

    @property
    def length_s(self) -> float:
        """Seconds from the first reconfiguration to the last byte."""
        return self.length_bytes * 8 / self.circuit_bps

    @property
    def lower_bound_s(self) -> float:
        """Seconds that no schedule can beat."""
        return self.lower_bound_bytes * 8 / self.circuit_bps

    @property
    def over_bound(self) -> float:
        """Length over lower bound; 1 is optimal (and 1 if there is nothing to send)."""
        return self.length_bytes / self.lower_bound_bytes if self.lower_bound_bytes else 1.0

    @property
    def configurations(self) -> int:
        """How often the crossbar is set."""
        return len(self.holds_bytes)

    @property
    def relayed_bytes(self) -> int:
        """Bytes that go over two circuits."""
        return 0 if self.relays is None else int(self.relays[:, 5].sum(dtype=object))

    def tables(self) -> list[ResultTable]:
        """Return the table that is printed."""
        return [
            summary(
                "Hybrid schedule",
                method=self.method,
                configurations=f"{self.configurations:,}",
                length=show_time(self.length_s),
                over_lower_bound=f"{self.over_bound:.3f}",
                as_packets=show_bytes(int(self.eps_bytes.sum(dtype=object))),
                **({} if self.relays is None else {"relayed": show_bytes(self.relayed_bytes)}),
            )
        ]

    def check(self, demand: npt.ArrayLike) -> None:
        """Replay circuits and packets, independently of how the schedule was found.

        Every slot is a matching, relays send on in a later slot what they got, circuits carry what
        neither they nor the EPS do, no port exceeds its rate by the stated length, and the lower
        bound is the one that holds.

        Raises
        ------
        InputError
            The first thing that is wrong.
        """
        matrix = whole_matrix(demand, "demand", MAX_BYTES, DemandError)
        if matrix.shape != self.eps_bytes.shape:
            rows, columns = self.eps_bytes.shape
            raise InputError(f"demand: expected {rows} x {columns}, got shape {matrix.shape}")
        try:
            _core.schedule_check_hybrid(matrix, self)
        except ValueError as error:
            raise InputError(str(error)) from None


def decompose_hybrid(
    demand: npt.ArrayLike,
    *,
    eps_gbps: float,
    delay_s: float | str = 0.0,
    rate_gbps: float = 400.0,
    method: str = "balanced",
    time_limit_s: float | str | None = None,
    relay: bool = False,
) -> HybridSchedule:
    """Divide demand between circuits that are held one after another and packets.

    Parameters
    ----------
    demand
        Whole bytes from row to column, ``(rows, columns)``, up to 2^53; the diagonal counts.
    eps_gbps
        Rate of a port into the EPS, and out of it.
    delay_s
        Time that one reconfiguration takes; a number, or text such as ``"25 ms"``.
    rate_gbps
        Rate of a circuit.
    method
        ``"balanced"``: slots for what the EPS cannot carry by a target length, their holds and
        further slots by linear programs. ``"solstice"`` (Liu et al., CoNEXT 2015) and ``"eclipse"``
        (Bojja Venkatakrishnan et al., SIGMETRICS 2016): as their papers define them.
    time_limit_s
        Time until which ``"balanced"`` and relaying search (packets alone come first).
    relay
        Whether bytes go to a third server in one slot and on in a later one where that is shorter.

    Returns
    -------
    HybridSchedule
        With n lines and k slots ``"balanced"`` takes O(k n^2 log n) and as many pivots of
        O(n^2 + k^2) as its linear programs need: 1 to 5 ms at 8 lines, some 0.5 s at 64. Relaying
        takes a few thousand steps of O(n^2 + n k^2) per schedule that it tries.

    Raises
    ------
    DemandError
        If the demand is not such a matrix, or has more than 256 lines.
    InputError
        If another argument cannot be used.

    Examples
    --------
    >>> from lightloom.schedule import decompose_hybrid
    >>> decompose_hybrid([[0, 5], [0, 0]], eps_gbps=40, delay_s="1 us").configurations
    0
    """
    one_of(method, "method", HYBRID_METHODS)
    search = optional_seconds(time_limit_s, "time_limit_s"), flag(relay, "relay")
    matrix, ports = hybrid_arguments(demand, eps_gbps, delay_s, rate_gbps)
    try:
        plan = _core.schedule_hybrid_plan(matrix, ports, method, *search)
    except ValueError as error:
        raise DemandError(str(error)) from None
    return HybridSchedule(method=method, **{**plan, **ports})


def hybrid_arguments(
    demand: npt.ArrayLike, eps_gbps: float, delay_s: float | str, rate_gbps: float
) -> tuple[npt.NDArray[np.uint64], dict[str, int]]:
    """Check a demand and its ports and return them as the core takes them."""
    circuit = rate_bps(rate_gbps, "rate_gbps", minimum=1e-9)
    eps = rate_bps(eps_gbps, "eps_gbps", minimum=1e-9)
    delay = time_bytes(delay_s, "delay_s", circuit)
    ports = {"delay_bytes": delay, "circuit_bps": circuit, "eps_bps": eps}
    return whole_matrix(demand, "demand", MAX_BYTES, DemandError), ports
