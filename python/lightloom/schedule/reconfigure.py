"""Whether to reconfigure at all: the Python face of ``crates/schedule/src/reconfigure.rs``.

Other circuits pay if and only if the all-to-alls ahead, whose demand is known or predicted, gain
more by them than the part of the switching delay that no compute hides. Times are at line rate, as
in :mod:`lightloom.schedule.circuits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import DemandError, InputError, echo
from lightloom.schedule.arrays import as_array
from lightloom.schedule.circuits import Region, check_circuits, check_method, request_of
from lightloom.units import parse_quantity, show_time, to_ps

#: times are whole picoseconds in 64 bits in the core
_MAX_S = 1e6


@dataclass(frozen=True)
class Switching:
    """How long the way from one set of circuits to another takes.

    Attributes
    ----------
    delay_s, delay_per_pair_s
        Time from the decision to usable circuits: ``delay_s + delay_per_pair_s * pairs``, and none
        if nothing changes; numbers, or text such as ``"25 ms"``.
    keep_unchanged
        Whether circuits that do not change stay up; if not, all pairs count as changed.
    """

    delay_s: float | str
    delay_per_pair_s: float | str = 0.0
    keep_unchanged: bool = True


@dataclass(frozen=True)
class BreakEven:
    """What keeping the circuits held and what the best switch come to.

    Attributes
    ----------
    hold_s
        Seconds of all all-to-alls ahead if the next one keeps what is held. Later ones may switch
        where that pays; what they expose is included.
    switch_s
        The same after the best switch now, without what it exposes itself; infinite if nothing
        other than what is held was proposed.
    exposed_s
        The part of that switch's delay that is not hidden.
    reconfigure
        Whether to switch: ``hold_s - switch_s > exposed_s``.
    new_circuits, pairs
        Where that switch leads to, ``(n, n)``, and the pairs that it changes; what is held if there
        was no other proposal.
    plan
        Circuits of each all-to-all ahead under the shorter plan, ``(k, n, n)``.
    """

    hold_s: float
    switch_s: float
    exposed_s: float
    reconfigure: bool
    new_circuits: npt.NDArray[np.uint16]
    pairs: int
    plan: npt.NDArray[np.uint16]

    @property
    def decision(self) -> str:
        """The decision in words, with both times."""
        if self.pairs == 0:
            return f"hold: {show_time(self.hold_s)}, and no other circuits were proposed"
        both = (
            f"{show_time(self.hold_s)} with the circuits held, {show_time(self.switch_s)} with "
            f"{self.pairs} pair{'s' * (self.pairs > 1)} changed"
        )
        cost = f"{show_time(self.exposed_s)} exposed"
        return f"{'switch' if self.reconfigure else 'hold'}: {both} plus {cost}"


def break_even(
    demand: npt.ArrayLike,
    held: npt.ArrayLike,
    region: Region,
    *,
    switching: Switching | float | str,
    hidden_s: float | str | Sequence[float | str] = 0.0,
    method: str | None = "best",
    proposals: Sequence[npt.ArrayLike] = (),
) -> BreakEven:
    """Decide whether other circuits are worth their switching delay.

    Parameters
    ----------
    demand
        Bytes from source to destination of the next all-to-all, ``(n, n)``, or of the next ``k``,
        ``(k, n, n)``; whole numbers. Circuits are duplex: a combine that follows its dispatch may
        be given as the transpose, and costs nothing to look at.
    held
        Circuits that are there now, ``(n, n)``.
    region
        Ports and rates.
    switching
        What a switch costs; a plain time is that of any switch.
    hidden_s
        Time from now until the all-to-all is reached, and for later ones from the end of the one
        before; one for all, or ``k``. A switch that takes no longer costs nothing.
    method
        The allocator that proposes circuits, for each demand and for their sum; ``None`` for none.
    proposals
        Further circuits to weigh, each ``(n, n)``.

    Raises
    ------
    DemandError
        If a demand is not a square matrix of whole numbers from 0 to 2^64 - 1.
    InputError
        If another argument cannot be used.
    """
    given = as_array(demand, "demand", DemandError)
    if given.ndim not in (2, 3) or len(given) == 0:
        raise DemandError(
            f"demand: expected one matrix or several of equal size, got shape {given.shape}"
        )
    matrices = given[np.newaxis] if given.ndim == 2 else given
    requests = [request_of(matrix, region, held) for matrix in matrices]
    ports = requests[0][1]
    check_circuits(held, ports)
    further = np.zeros((len(proposals), len(ports), len(ports)), dtype=np.uint16)
    for number, proposal in enumerate(proposals):
        further[number] = check_circuits(proposal, ports)
    hidden = _hidden_ps(hidden_s, len(requests))
    if method is not None:
        check_method(method)
    times, pays, (circuits, pairs), plan = _core.schedule_break_even(
        method,
        requests[0],
        (np.stack([request[0] for request in requests]), hidden),
        further,
        _switching_ps(switching),
    )
    return BreakEven(*times, pays, circuits, pairs, plan)


def _switching_ps(switching: Switching | float | str) -> tuple[tuple[int, int], bool]:
    if not isinstance(switching, Switching):
        return (_ps(switching, "switching"), 0), True
    fixed = _ps(switching.delay_s, "delay_s")
    per_pair = _ps(switching.delay_per_pair_s, "delay_per_pair_s")
    return (fixed, per_pair), bool(switching.keep_unchanged)


def _hidden_ps(hidden_s: float | str | Sequence[float | str], count: int) -> list[int]:
    if isinstance(hidden_s, str) or not isinstance(hidden_s, Sequence | np.ndarray):
        return [_ps(hidden_s, "hidden_s")] * count
    if len(hidden_s) != count:
        raise InputError(f"hidden_s: expected one time or {count}, got {len(hidden_s)}")
    return [_ps(value, "hidden_s") for value in hidden_s]


def _ps(value: float | str, name: str) -> int:
    seconds = parse_quantity(value, "second", name)
    if not 0 <= seconds <= _MAX_S:
        raise InputError(f"{name}: expected 0 to {_MAX_S:g} s, got {echo(value)}")
    return to_ps(seconds)
