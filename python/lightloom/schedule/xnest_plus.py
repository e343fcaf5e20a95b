"""X-NEST+ (Gu et al.): a few fixed configurations, and how many switches hold each.

The traffic matrix is split into sub-matrices, each with its configuration of a switch; the number
of switches that hold a configuration follows its share of the traffic. As printed,
``round(W * switches / 2)``, the numbers need not add up to the switches that there are; here each
switch goes to the sub-matrix with most traffic per switch, which makes the most as small as can
be. Bytes take one hop; the packet switches alongside the circuits are left out. By ``hops``, a rule
of this project, a search makes what the busiest circuit carries small, relayed bytes included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import DemandError, InputError, echo
from lightloom.schedule.arrays import as_array, one_of, square_matrix, whole_number
from lightloom.schedule.helios import EpochRun, epoch_arguments
from lightloom.schedule.named_sets import choices
from lightloom.schedule.results import Result, ResultTable, summary
from lightloom.schedule.served import MAX_BYTES, MAX_SWITCHES
from lightloom.units import show_bytes

_MAX_NODES = 1024

_READINGS = tuple(choices("reading"))
_RULES = tuple(choices("rule"))


@dataclass(frozen=True, eq=False)
class XnestPlan(Result):
    """What the switches hold next, and which of them turn.

    Attributes
    ----------
    weights_bytes
        Bytes of each sub-matrix.
    counts
        Switches of each sub-matrix; they add up to the number of switches.
    settings
        Of each switch: its sub-matrix, and which of that one's configurations.
    phases
        Switches that turn first, and those of the other half, which turn when the first carry
        bytes again. Both are empty if the topology stays.
    busiest_bytes, crossed_bytes
        What the busiest circuit carries if bytes take the shortest ways, equal ones evenly; and all
        circuits together.
    stranded_bytes
        Bytes that have no way.
    """

    weights_bytes: tuple[int, ...]
    counts: tuple[int, ...]
    settings: tuple[tuple[int, int], ...]
    phases: tuple[tuple[int, ...], tuple[int, ...]]
    busiest_bytes: float
    crossed_bytes: float
    stranded_bytes: int

    def tables(self) -> list[ResultTable]:
        """Return the tables that are printed: the sub-matrices, and what turns when."""
        rows = [
            (str(index), show_bytes(size), str(count))
            for index, (size, count) in enumerate(zip(self.weights_bytes, self.counts, strict=True))
        ]
        first, second = (", ".join(map(str, phase)) or "-" for phase in self.phases)
        busiest = show_bytes(round(self.busiest_bytes))
        return [
            ResultTable("X-NEST+ plan", ("sub-matrix", "traffic", "switches"), rows),
            summary("Switches that turn", first=first, second=second),
            summary(
                "Shortest ways",
                busiest_circuit=busiest,
                without_a_way=show_bytes(self.stranded_bytes) if self.stranded_bytes else "-",
            ),
        ]


def xnest_sub_matrices(
    nodes: int, *, reading: str = "pairings"
) -> tuple[npt.NDArray[np.int32], ...]:
    """Return the configurations of each sub-matrix, ``(1 or 2, nodes)``: peer of each node, or -1.

    Parameters
    ----------
    nodes
        Number of nodes (top-of-rack switches of a pod).
    reading
        How the paper's figure is read. ``"pairings"``: each sub-matrix pairs all nodes (the
        circle method: n - 1 of them if n is even, else n with one node alone in each).
        ``"diagonals"``: each holds the two diagonals at one distance, one configuration each.

    Returns
    -------
    tuple of numpy.ndarray
        One per sub-matrix; O(n^2). X-NEST+ (Gu et al.), as read in
        ``docs/explanation/scheduling.md``.

    Examples
    --------
    >>> from lightloom.schedule import xnest_sub_matrices
    >>> [matrix.tolist() for matrix in xnest_sub_matrices(4)]
    [[[3, 2, 1, 0]], [[2, 3, 0, 1]], [[1, 0, 3, 2]]]

    Raises
    ------
    InputError
        If an argument cannot be used.
    """
    nodes = whole_number(nodes, "nodes", 2, _MAX_NODES)
    return tuple(_core.schedule_sub_matrices(nodes, _known(reading)))


def xnest_plan(
    demand: npt.ArrayLike,
    *,
    switches: int,
    reading: str = "pairings",
    rule: str = "greedy",
    previous: Sequence[tuple[int, int]] | None = None,
) -> XnestPlan:
    """Plan the configurations of the switches for a demand.

    Parameters
    ----------
    demand
        Bytes from row to column, ``(n, n)``, whole numbers up to 2^53; the diagonal is ignored.
    switches
        Number of switches; each node has a port at each.
    reading
        See :func:`xnest_sub_matrices`.
    rule
        How many switches a sub-matrix gets: ``"paper"``, ``"greedy"``, or ``"hops"``, so that the
        busiest circuit carries least of what takes the shortest ways, all nodes joined if possible.
    previous
        The ``settings`` of an earlier plan: a switch whose configuration is still wanted stays.

    Returns
    -------
    XnestPlan
        Weights of the sub-matrices, and the configuration of each switch; O(n^2 switches), and as
        much for every change that ``"hops"`` tries. X-NEST+ (Gu et al.), as read in
        ``docs/explanation/scheduling.md``.

    Examples
    --------
    >>> from lightloom.schedule import xnest_plan
    >>> demand = [[0, 9, 1, 1], [9, 0, 1, 1], [1, 1, 0, 9], [1, 1, 9, 0]]
    >>> xnest_plan(demand, switches=2).weights_bytes
    (4, 4, 36)

    Raises
    ------
    DemandError
        If the demand is not such a matrix.
    InputError
        If another argument cannot be used.
    """
    matrix = square_matrix(demand, "demand", MAX_BYTES, DemandError)
    switches = whole_number(switches, "switches", 1, MAX_SWITCHES)
    reading = _known(reading)
    one_of(rule, "rule", _RULES)
    settings = None
    if previous is not None:
        rows = as_array(previous, "previous", InputError)
        fits = rows.shape == (switches, 2) and rows.dtype.kind in "iu"
        if not fits or rows.min() < 0 or rows.max() > _MAX_NODES:
            raise InputError(
                f"previous: expected {switches} pairs of whole numbers, got {echo(previous)}"
            )
        settings = [(int(matrix_id), int(which)) for matrix_id, which in rows]
    try:
        plan = _core.schedule_xnest_plan(matrix, switches, reading, rule, settings)
    except ValueError as error:
        raise DemandError(f"demand: {error}") from None
    return XnestPlan(**plan)


def xnest_epochs(
    demand: npt.ArrayLike,
    *,
    epoch_s: float | str,
    switches: int = 2,
    delay_s: float | str = 0.0,
    rate_gbps: float = 400.0,
    reading: str = "pairings",
) -> EpochRun:
    """Serve demand epoch by epoch, the switches planned anew for what is left.

    Parameters
    ----------
    demand, epoch_s, switches, delay_s, rate_gbps
        As :func:`lightloom.schedule.helios_epochs`.
    reading
        See :func:`xnest_sub_matrices`.

    Returns
    -------
    EpochRun
        The matchings and how long they take; O(n^2) per epoch. X-NEST+ (Gu et al.), as read in
        ``docs/explanation/scheduling.md``.

    Examples
    --------
    >>> from lightloom.schedule import xnest_epochs
    >>> run = xnest_epochs([[0, 9, 1], [1, 0, 9], [9, 1, 0]], epoch_s="1 ns")
    >>> run.turned, len(run.matchings)
    (4, 2)

    Raises
    ------
    DemandError
        If the demand is not such a matrix, or 16,384 epochs do not serve it.
    InputError
        If another argument cannot be used.
    """
    reading = _known(reading)
    matrix, options, bits = epoch_arguments(demand, epoch_s, switches, delay_s, rate_gbps)
    try:
        plan = _core.schedule_xnest_plus(matrix, options, reading)
    except ValueError as error:
        raise DemandError(f"demand: {error}") from None
    return EpochRun(rate_bps=bits, **plan)


def _known(reading: str) -> str:
    one_of(reading, "reading", _READINGS)
    return reading
