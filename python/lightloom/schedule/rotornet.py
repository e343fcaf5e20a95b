"""RotorNet's round robin (Mellette et al., SIGCOMM 2017), in ``crates/schedule``.

The n - 1 shifts ``i -> i + s`` follow each other, as many at a time as there are switches. They
ignore the demand: slots are all equally long, or end when nothing is left to send. With relaying
(RotorLB) the room that is left in a slot takes bytes to nodes that can deliver them in their next
one. Switches turn together or one after another; propagation is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import DemandError, InputError
from lightloom.inputs.arguments import instance
from lightloom.schedule.arrays import (
    flag,
    one_of,
    rate_bps,
    square_matrix,
    time_bytes,
    whole_number,
)
from lightloom.schedule.named_sets import choices
from lightloom.schedule.served import MAX_BYTES, MAX_SWITCHES, Served
from lightloom.units import show_bytes


@dataclass(frozen=True)
class RotorSwitches:
    """Rotor switches, each with a port of every node.

    Attributes
    ----------
    slot_s, switches, delay_s, rate_gbps, held, relay
        As :func:`rotornet_schedule`.
    cycling
        ``"fixed"``: each switch cycles through a subset of the shifts of its own; ``"staggered"``:
        in addition one switch after the other turns, and only it loses the delay; ``"shared"``: all
        shifts pass all switches.
    """

    slot_s: float | str | None = None
    switches: int = 1
    delay_s: float | str = 0.0
    rate_gbps: float = 400.0
    held: bool = False
    relay: bool = False
    cycling: str = "fixed"


@dataclass(frozen=True, eq=False)
class RotorSchedule(Served):
    """Slots of a round robin, each after a delay, and every byte that is sent in them.

    Attributes
    ----------
    turns
        Position in the round robin of each slot, ``(k,)``: at turn t switch w of s joins node i
        to ``i + 1 + (t s + w) mod (n - 1)``, unless ``cycling`` says otherwise.
    holds_bytes
        Bytes that a circuit could carry in each slot, ``(k,)``.
    moves
        ``(m, 6)``: slot, the two ends of the circuit, source, destination, bytes.
    """

    turns: npt.NDArray[np.uint64]
    holds_bytes: npt.NDArray[np.uint64]
    moves: npt.NDArray[np.uint64]
    slot_bytes: int | None
    delay_bytes: int
    held: bool
    relay: bool
    cycling: str

    @property
    def relayed_bytes(self) -> int:
        """Bytes that took two hops."""
        first_hops = self.moves[:, 2] != self.moves[:, 4]
        return int(self.moves[first_hops, 5].sum())

    def _more(self) -> dict[str, str]:
        return {"slots": f"{len(self.turns):,}", "relayed": show_bytes(self.relayed_bytes)}

    def check(self, demand: npt.ArrayLike) -> None:
        """Follow every byte, independently of how the schedule was found.

        Raises
        ------
        InputError
            The first thing that is wrong.
        """
        matrix = square_matrix(demand, "demand", MAX_BYTES, DemandError)
        try:
            _core.schedule_check_rotornet(matrix, self)
        except ValueError as error:
            raise InputError(f"rotornet: {error}") from None


def rotornet_schedule(
    demand: npt.ArrayLike,
    *,
    switches: int = 1,
    slot_s: float | str | None = None,
    delay_s: float | str = 0.0,
    rate_gbps: float = 400.0,
    held: bool = False,
    relay: bool = False,
) -> RotorSchedule:
    """Serve demand by a round robin of fixed matchings.

    Parameters
    ----------
    demand
        Bytes from row to column, ``(n, n)``, whole numbers up to 2^53; the diagonal is ignored.
    switches
        Rotor switches; each node has a port at each.
    slot_s
        Longest slot. By default the largest entry takes one; with ``relay`` the mean entry of
        the longest line takes ten. Relaying does nothing in slots that hold the largest entry.
    delay_s
        Time that the switches take to turn, before each slot.
    rate_gbps
        Rate of a port.
    held
        Whether a slot ends when nothing is left for the nodes now connected; else all slots are
        equally long.
    relay
        Whether spare room takes bytes to relays.

    Returns
    -------
    RotorSchedule
        Slots and their holds; O(n^2) per turn of n - 1 matchings, O(n^3) with ``relay``. After
        Mellette et al., "RotorNet" (SIGCOMM 2017).

    Examples
    --------
    >>> from lightloom.schedule import rotornet_schedule
    >>> run = rotornet_schedule([[0, 9, 1], [1, 0, 9], [9, 1, 0]], held=True)
    >>> run.holds_bytes.tolist()
    [9, 1]

    Raises
    ------
    DemandError
        If the demand is not such a matrix, or 65,536 slots (256 per node) do not serve it.
    InputError
        If another argument cannot be used.
    """
    return rotate(
        demand,
        RotorSwitches(slot_s, switches, delay_s, rate_gbps, held, relay, "shared"),
    )


def rotate(demand: npt.ArrayLike, rotor: RotorSwitches) -> RotorSchedule:
    """Serve demand by switches that cycle through fixed subsets of the shifts, or through all.

    Parameters
    ----------
    demand
        As :func:`rotornet_schedule`.
    rotor
        The switches.

    Returns
    -------
    RotorSchedule
        Of staggered switches a slot is the time from one turn to the next, delays included. As
        :func:`rotornet_schedule`, O(n^2) per turn of n - 1 matchings, O(n^3) with ``relay``;
        RotorNet (Mellette et al., SIGCOMM 2017), staggered as Opera (Mellette et al., NSDI 2020).

    Raises
    ------
    DemandError
        If the demand is not such a matrix, or 65,536 slots (256 per node) do not serve it.
    InputError
        If the switches cannot be used.

    Examples
    --------
    >>> from lightloom.schedule import RotorSwitches, rotate
    >>> demand = [[0, 9, 9], [9, 0, 9], [9, 9, 0]]
    >>> rotate(demand, RotorSwitches(switches=2, cycling="fixed")).length_bytes
    9
    """
    matrix = square_matrix(demand, "demand", MAX_BYTES, DemandError)
    options, bits = rotor_options(rotor)
    try:
        run = _core.schedule_rotornet(matrix, options)
    except ValueError as error:
        raise DemandError(f"demand: {error}") from None
    return RotorSchedule(rate_bps=bits, **run, **options)


def rotor_options(rotor: RotorSwitches) -> tuple[dict[str, Any], int]:
    """Return the switches as the core reads them, and the bits per second of a port.

    Raises
    ------
    InputError
        If they cannot be used.
    """
    instance(rotor, RotorSwitches, "rotor", 'RotorSwitches, such as RotorSwitches("50 us")')
    bits = rate_bps(rotor.rate_gbps, "rate_gbps", minimum=1e-9)
    slot = None if rotor.slot_s is None else time_bytes(rotor.slot_s, "slot_s", bits, minimum=1)
    delay = time_bytes(rotor.delay_s, "delay_s", bits)
    switches = whole_number(rotor.switches, "switches", 1, MAX_SWITCHES)
    held, relay = flag(rotor.held, "held"), flag(rotor.relay, "relay")
    one_of(rotor.cycling, "cycling", tuple(choices("cycling")))
    options = {
        "switches": switches,
        "slot_bytes": slot,
        "delay_bytes": delay,
        "held": held,
        "relay": relay,
        "cycling": rotor.cycling,
    }
    return options, bits
