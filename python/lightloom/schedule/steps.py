"""Steps of controllers: what switches hold next, from what was measured and what they hold now.

Each step is a pure function; runs over a known demand (:func:`~lightloom.schedule.helios_epochs`,
:func:`~lightloom.schedule.xnest_epochs`, :func:`~lightloom.schedule.rotornet_schedule`) call the
same code step by step, with what is left as their estimate, which no controller knows.
:func:`serve_over_time` plays periods of arriving demand with an estimator by name; the one that
assumes such knowledge is called ``"clairvoyant"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import DemandError, InputError, echo
from lightloom.inputs.arguments import instance
from lightloom.schedule.arrays import (
    as_array,
    is_number,
    one_of,
    square_matrix,
    whole_matrix,
    whole_number,
)
from lightloom.schedule.comparable import Comparable
from lightloom.schedule.helios import epoch_arguments
from lightloom.schedule.named_sets import choices
from lightloom.schedule.rotornet import RotorSwitches, rotor_options
from lightloom.schedule.served import MAX_BYTES

#: how measurements become an estimate, by name
ESTIMATORS = choices("estimator")
_TURNING = tuple(choices("turning"))
_READINGS = tuple(choices("reading"))
_SYSTEMS = ("helios", "xnest-plus")
_MAX_HYSTERESIS = 1e6


@dataclass(frozen=True)
class Periods:
    """Switches that hold a plan for a period each: an epoch, after the delay of those that turn.

    Attributes
    ----------
    epoch_s, switches, delay_s, rate_gbps
        As :func:`lightloom.schedule.helios_epochs`.
    """

    epoch_s: float | str
    switches: int = 1
    delay_s: float | str = 0.0
    rate_gbps: float = 400.0


@dataclass(frozen=True, eq=False)
class HeliosStep(Comparable):
    """What the switches of Helios hold next.

    Attributes
    ----------
    matchings
        Node that each node sends to over each switch, -1 if dark, ``(switches, n)``; the
        ``held`` of the next step.
    turned
        Which switches turn.
    """

    matchings: npt.NDArray[np.int32]
    turned: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class XnestStep(Comparable):
    """What the switches of X-NEST+ hold next.

    Attributes
    ----------
    settings
        Of each switch: its sub-matrix, and which of that one's configurations; the ``held`` of the
        next step.
    matchings
        The same as nodes that each node sends to, ``(switches, n)``.
    turned
        Which switches turn.
    next_turning
        The ``turning`` of the next step: the other half.
    """

    settings: tuple[tuple[int, int], ...]
    matchings: npt.NDArray[np.int32]
    turned: tuple[bool, ...]
    next_turning: str


@dataclass(frozen=True, eq=False)
class RotorSlot(Comparable):
    """What is sent in a slot of a round robin, and what waits afterwards.

    Attributes
    ----------
    hold_bytes
        Bytes that a circuit could carry in the slot; 0 if it may be skipped.
    moves
        ``(m, 5)``: the two ends of the circuit, source, destination, bytes.
    queues, relayed
        What waits, as :func:`rotor_slot` takes it.
    """

    hold_bytes: int
    moves: npt.NDArray[np.uint64]
    queues: npt.NDArray[np.uint64]
    relayed: npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class OverTime(Comparable):
    """What became of demand that arrived period by period.

    Attributes
    ----------
    backlog_bytes, carried_bytes
        Bytes that wait after each period, and that circuits carried in it, ``(periods,)``.
    turned
        How often a switch was set, the first time included.
    """

    backlog_bytes: npt.NDArray[np.uint64]
    carried_bytes: npt.NDArray[np.uint64]
    turned: int


def helios_step(
    estimate: npt.ArrayLike,
    held: npt.ArrayLike | None = None,
    *,
    periods: Periods,
    hysteresis: float | None = None,
) -> HeliosStep:
    """Plan one period of Helios (Farrington et al., SIGCOMM 2010).

    Parameters
    ----------
    estimate
        Bytes expected in the period, ``(n, n)``, from what was measured.
    held
        The matchings that are held, ``(switches, n)``; ``None`` before the first step.
    periods
        The switches, and how long a plan is held.
    hysteresis
        Share by which the circuits must carry more of the estimate before anything turns, such as
        0.1; ``None`` follows every plan.

    Returns
    -------
    HeliosStep
        The heaviest matching, then that of what it leaves, and so on; O(switches n^3).

    Raises
    ------
    DemandError
        If the estimate is not such a matrix.
    InputError
        If another argument cannot be used.

    Examples
    --------
    >>> from lightloom.schedule import Periods, helios_step
    >>> first = helios_step([[0, 9, 1], [0, 0, 5], [0, 0, 0]], periods=Periods("1 us"))
    >>> first.matchings.tolist(), first.turned
    ([[1, 0, -1]], (True,))
    """
    matrix, options = _arguments(estimate, periods, "estimate")
    before = None if held is None else _peers(held, (options["switches"], len(matrix)))
    try:
        step = _core.schedule_helios_step(matrix, before, options, _thousandths(hysteresis))
    except ValueError as error:
        raise InputError(f"held: {error}") from None
    return HeliosStep(**step)


def xnest_step(
    measured: npt.ArrayLike,
    held: Sequence[tuple[int, int]] = (),
    *,
    periods: Periods,
    reading: str = "pairings",
    turning: str = "first",
    hysteresis: float | None = None,
) -> XnestStep:
    """Plan one period of X-NEST+ (Gu et al.): a half turns, the other keeps its older plan.

    Parameters
    ----------
    measured
        Bytes that were measured, ``(n, n)``.
    held
        The ``settings`` that are held; empty before the first step, which sets all switches.
    periods, hysteresis
        As :func:`helios_step`.
    reading
        See :func:`lightloom.schedule.xnest_sub_matrices`.
    turning
        Which switches may turn: ``"first"`` or ``"second"`` half, or ``"all"`` at once.

    Returns
    -------
    XnestStep
        Each configuration on as many switches of the half as its share of the whole traffic;
        O(n^2 + switches^2). Sub-matrices as read in ``docs/explanation/scheduling.md``.

    Raises
    ------
    DemandError
        If what was measured is not such a matrix.
    InputError
        If another argument cannot be used.

    Examples
    --------
    >>> from lightloom.schedule import Periods, xnest_step
    >>> first = xnest_step([[0, 9], [5, 0]], periods=Periods("1 us", switches=2))
    >>> first.settings, first.next_turning
    (((0, 0), (0, 0)), 'second')
    """
    one_of(reading, "reading", _READINGS)
    one_of(turning, "turning", _TURNING)
    matrix, options = _arguments(measured, periods, "measured")
    if len(matrix) < 2:
        raise DemandError("measured: expected two nodes or more")
    rows = as_array(held, "held", InputError)
    fits = rows.size == 0 or (rows.ndim == 2 and rows.shape[1] == 2 and rows.dtype.kind in "iu")
    if not fits or (rows.size and (rows.min() < 0 or rows.max() >= 2**32)):
        raise InputError(f"held: expected pairs of whole numbers, got {echo(held)}")
    before = [(int(one), int(which)) for one, which in rows] if rows.size else []
    try:
        step = _core.schedule_xnest_step(
            matrix, before, options, reading, turning, _thousandths(hysteresis)
        )
    except ValueError as error:
        raise InputError(f"held: {error}") from None
    return XnestStep(**step)


def rotor_slot(
    queues: npt.ArrayLike,
    turn: int,
    rotor: RotorSwitches,
    *,
    relayed: npt.ArrayLike | None = None,
) -> RotorSlot:
    """Play one slot of RotorNet (Mellette et al., SIGCOMM 2017) from queues alone.

    Parameters
    ----------
    queues
        Bytes that each node has for each, ``(n, n)``; the diagonal is ignored.
    turn
        How often switches have turned before.
    rotor
        The switches; ``slot_s`` is required.
    relayed
        What nodes hold for others, oldest first, ``(m, 4)``: node, source, destination, bytes.

    Returns
    -------
    RotorSlot
        Moves, and what waits afterwards; O(switches n) circuits, with ``relay`` O(n log n) each.

    Raises
    ------
    DemandError
        If the queues are not such a matrix.
    InputError
        If another argument cannot be used.

    Examples
    --------
    >>> from lightloom.schedule import RotorSwitches, rotor_slot
    >>> rotor = RotorSwitches("1 ns", rate_gbps=40)
    >>> slot = rotor_slot([[0, 9, 5], [0, 0, 0], [0, 0, 0]], 0, rotor)
    >>> slot.moves.tolist(), slot.queues.tolist()[0]
    ([[0, 1, 0, 1, 5]], [0, 4, 5])
    """
    matrix = square_matrix(queues, "queues", MAX_BYTES, DemandError)
    options, _ = rotor_options(rotor)
    if options["slot_bytes"] is None:
        raise InputError("rotor: a slot needs its length; give slot_s, such as '50 us'")
    empty = np.zeros((0, 4), dtype=np.uint64)
    waiting = empty if relayed is None else whole_matrix(relayed, "relayed", MAX_BYTES, InputError)
    if waiting.shape[1] != 4:
        raise InputError(f"relayed: expected rows of 4, got shape {waiting.shape}")
    turn = whole_number(turn, "turn", 0, MAX_BYTES)
    try:
        slot = _core.schedule_rotor_slot(matrix, waiting, options, turn)
    except ValueError as error:
        raise InputError(f"rotor: {error}") from None
    return RotorSlot(**slot)


def serve_over_time(
    arrivals: npt.ArrayLike,
    *,
    periods: Periods,
    system: str = "helios",
    estimator: str = "smoothed",
    weight: float = 0.5,
    hysteresis: float | None = None,
) -> OverTime:
    """Serve demand that arrives period by period, with a step before each.

    A step sees what was measured in earlier periods and what waits. A period lasts an epoch and a
    delay.

    Parameters
    ----------
    arrivals
        Bytes that arrive in each period, ``(periods, n, n)``; diagonals are ignored.
    periods, hysteresis
        As :func:`helios_step`.
    system
        ``"helios"``, or ``"xnest-plus"``, whose halves turn in turn.
    estimator
        One of :data:`ESTIMATORS`. ``"clairvoyant"`` sees what no controller knows, the demand of
        the period itself.
    weight
        Weight of the newest measurement for ``"smoothed"``, from 0.001 to 1.

    Returns
    -------
    OverTime
        Bytes carried and waiting, and how often switches were set. A period takes a step, so
        O(switches n^3) for Helios (SIGCOMM 2010) and O(n^2 + switches^2) for X-NEST+.

    Raises
    ------
    DemandError
        If the arrivals are not such matrices.
    InputError
        If another argument cannot be used.

    Examples
    --------
    >>> from lightloom.schedule import Periods, serve_over_time
    >>> arrivals = [[[0, 40], [0, 0]]] * 3
    >>> serve_over_time(arrivals, periods=Periods("1 ns")).carried_bytes.tolist()
    [0, 50, 50]
    """
    one_of(system, "system", _SYSTEMS)
    one_of(estimator, "estimator", tuple(ESTIMATORS))
    array = as_array(arrivals, "arrivals", DemandError)
    if array.ndim != 3 or array.shape[1] != array.shape[2]:
        raise DemandError(f"arrivals: expected (periods, n, n), got shape {array.shape}")
    matrices = [
        square_matrix(period, f"arrivals[{index}]", MAX_BYTES, DemandError)
        for index, period in enumerate(array)
    ]
    if not is_number(weight, 0.001, 1):
        raise InputError(f"weight: expected 0.001 to 1, got {echo(weight)}")
    nothing = np.zeros((2, 2), dtype=np.uint64)
    _, options = _arguments(nothing, periods, "arrivals")
    thousandths = round(1000 * weight), _thousandths(hysteresis)
    try:
        served = _core.schedule_over_time(matrices, options, system, estimator, *thousandths)
    except ValueError as error:
        raise DemandError(f"arrivals: {error}") from None
    return OverTime(**served)


def _arguments(
    demand: npt.ArrayLike, periods: Periods, name: str
) -> tuple[npt.NDArray[np.uint64], dict[str, int]]:
    instance(periods, Periods, "periods", 'Periods, such as Periods("1 ms")')
    matrix, options, _ = epoch_arguments(
        demand, periods.epoch_s, periods.switches, periods.delay_s, periods.rate_gbps, name
    )
    return matrix, options


def _peers(held: npt.ArrayLike, shape: tuple[int, int]) -> npt.NDArray[np.int32]:
    array = as_array(held, "held", InputError)
    if array.shape != shape or array.dtype.kind not in "iu":
        raise InputError(f"held: expected whole numbers of shape {shape}, got {array.shape}")
    if array.min(initial=0) < -1 or array.max(initial=0) >= 2**31:
        raise InputError(f"held: expected nodes from 0 to {shape[1] - 1}, or -1")
    return np.ascontiguousarray(array.astype(np.int32))


def _thousandths(hysteresis: float | None) -> int | None:
    if hysteresis is None:
        return None
    if not is_number(hysteresis, 0, _MAX_HYSTERESIS):
        raise InputError(f"hysteresis: expected 0 to {_MAX_HYSTERESIS:g}, got {echo(hysteresis)}")
    return round(1000 * hysteresis)
