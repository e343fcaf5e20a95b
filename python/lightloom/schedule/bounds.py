"""What no schedule and no circuits can beat: the bounds that commands print, as functions.

Results state these bounds too, and their ``check`` computes them again. Bounds that are proved by a
search come with what it finds: ``bound_s`` of :func:`lightloom.schedule.allocate_exactly`, and
``lower_bound_s`` of :func:`lightloom.schedule.relay`, from its duals.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import DemandError
from lightloom.schedule.arrays import (
    flag,
    rate_bps,
    square_matrix,
    time_bytes,
    whole_matrix,
    whole_number,
)
from lightloom.schedule.chunks import chunk_arguments
from lightloom.schedule.circuits import request_of
from lightloom.schedule.hybrid import hybrid_arguments
from lightloom.schedule.permutations import switch_count
from lightloom.schedule.records import Region
from lightloom.schedule.served import MAX_BYTES, MAX_SWITCHES

Time = float | str
Times = npt.ArrayLike | Sequence[float | str]


def line_time_s(demand: npt.ArrayLike, *, switches: int = 1, rate_gbps: float = 400.0) -> float:
    """Return the seconds that the largest line takes over all its ports, without any delay.

    What other systems are compared with. Over one switch without delay it can be reached: Gonzalez
    and Sahni, Journal of the ACM 23(4), 1976.

    Parameters
    ----------
    demand
        Bytes from node to node, ``(n, n)``, whole numbers up to 2^53; the diagonal is ignored.
    switches
        Ports of each node, one at each switch.
    rate_gbps
        Rate of each port.

    Returns
    -------
    float
        Largest sum of a row or column over the rate of its ports; O(n^2).

    Raises
    ------
    DemandError, InputError
        As :func:`lightloom.schedule.rotornet_schedule`.

    Examples
    --------
    >>> from lightloom.schedule import line_time_s
    >>> line_time_s([[0, 500], [700, 0]], switches=2, rate_gbps=8)
    3.5e-07
    """
    sizes = square_matrix(demand, "demand", MAX_BYTES, DemandError).astype(np.float64)
    ports = whole_number(switches, "switches", 1, MAX_SWITCHES)
    bits = rate_bps(rate_gbps, "rate_gbps", minimum=1e-9)
    np.fill_diagonal(sizes, 0)
    largest = max(float(sizes.sum(axis=axis).max(initial=0)) for axis in (0, 1))
    return largest * 8 / (bits * ports)


def permutation_lower_bound_s(
    demand: npt.ArrayLike,
    *,
    delay_s: Time = 0.0,
    rate_gbps: float = 400.0,
    partial: bool = False,
    switches: int = 1,
) -> float:
    """Return the seconds that no schedule of permutations can beat.

    Parameters and errors are those of :func:`lightloom.schedule.decompose`.

    Returns
    -------
    float
        All-stop: at least the longest line, and a delay for each peer of the busiest one (Gopal and
        Wong, IEEE Transactions on Communications 33(6), 1985); more where pairs of different size
        must share slots: of K slots a line with d peers divides K - d at most. Over s switches: at
        least an s-th of that, and q + 1 of the longest q s + 1 slots share a switch (as for jobs on
        parallel machines, Dell'Amico and Martello, ORSA Journal on Computing 7(2), 1995). Partial:
        the largest line with a delay for each of its peers. O(n^2 log n) and, all-stop, O(n^2) for
        each number of slots.

    Examples
    --------
    >>> from lightloom.schedule import permutation_lower_bound_s
    >>> permutation_lower_bound_s([[0, 5], [7, 0]], delay_s=3, rate_gbps=8e-9)
    10.0
    >>> permutation_lower_bound_s([[0, 5], [7, 0]], delay_s=3, rate_gbps=8e-9, switches=2)
    7.0
    """
    bits = rate_bps(rate_gbps, "rate_gbps", minimum=1e-9)
    delay_bytes, partial = time_bytes(delay_s, "delay_s", bits), flag(partial, "partial")
    switches = switch_count(switches, partial=partial)
    matrix = whole_matrix(demand, "demand", MAX_BYTES, DemandError)
    try:
        bound_bytes = _core.schedule_decomposition_bound(matrix, delay_bytes, partial, switches)
    except ValueError as error:
        raise DemandError(str(error)) from None
    return bound_bytes * 8 / bits


def hybrid_lower_bound_s(
    demand: npt.ArrayLike,
    *,
    eps_gbps: float,
    delay_s: Time = 0.0,
    rate_gbps: float = 400.0,
    relay: bool = False,
) -> float:
    """Return the seconds that no schedule of circuits and packets can beat.

    Parameters and errors are those of :func:`lightloom.schedule.decompose_hybrid`.

    Returns
    -------
    float
        A schedule of K slots sends over no line more than its length without K delays over
        circuits, and reaches at most K of a line's peers by them; the rest goes as packets. The
        bound is the least over K. With relaying K >= 2 slots reach every peer, but what is not
        among the K largest pairs of a line takes the time of two circuits. The formula is ours;
        O(n^2 log n).

    Examples
    --------
    >>> from lightloom.schedule import hybrid_lower_bound_s
    >>> hybrid_lower_bound_s([[0, 5000], [0, 0]], eps_gbps=40, delay_s="1 us", rate_gbps=400)
    1e-06
    """
    matrix, ports = hybrid_arguments(demand, eps_gbps, delay_s, rate_gbps)
    relay = flag(relay, "relay")
    try:
        return _core.schedule_hybrid_bound(matrix, ports, relay) * 8 / ports["circuit_bps"]
    except ValueError as error:
        raise DemandError(str(error)) from None


def chunk_lower_bound_s(
    chunks: npt.ArrayLike,
    releases_s: Times,
    *,
    eps_gbps: float = 0.0,
    delay_s: Time = 0.0,
    rate_gbps: float = 400.0,
) -> float:
    """Return the seconds before which no schedule sends the last byte of all chunks.

    Parameters and errors are those of :func:`lightloom.schedule.decompose_chunks`.

    Returns
    -------
    float
        What is released at r or later is sent from r on, so r and its bound as of
        :func:`hybrid_lower_bound_s` (the first delay may pass before r); the largest over 16
        releases (as for open shops with release and due times: Cho and Sahni, Operations Research
        29(3), 1981). O(n^2 log n) for each.

    Examples
    --------
    >>> from lightloom.schedule import chunk_lower_bound_s
    >>> chunk_lower_bound_s([[[0, 500]], [[0, 500]]], [0, "20 ns"], delay_s="4 ns")
    3e-08
    """
    return _chunk_bounds(chunks, releases_s, None, (eps_gbps, delay_s, rate_gbps))[0]


def chunk_lateness_bound_s(
    chunks: npt.ArrayLike,
    releases_s: Times,
    deadlines_s: Times,
    *,
    eps_gbps: float = 0.0,
    delay_s: Time = 0.0,
    rate_gbps: float = 400.0,
) -> float:
    """Return the lateness in seconds that no schedule of chunks can beat.

    Lateness is the largest time from the deadline of a chunk to its last byte, below 0 if all are
    met. Parameters and errors are those of :func:`lightloom.schedule.decompose_chunks`.

    Returns
    -------
    float
        The largest, over 16 deadlines d, of the bound of :func:`chunk_lower_bound_s` on what is due
        by d, less d (as for open shops with due times: Cho and Sahni, Operations Research 29(3),
        1981); O(n^2 log n) for each pair of a release and a deadline. Infinite, below 0, if there
        is nothing to send.

    Examples
    --------
    >>> from lightloom.schedule import chunk_lateness_bound_s
    >>> two = [[[0, 500]], [[0, 500]]]
    >>> chunk_lateness_bound_s(two, [0, 0], ["10 ns", "15 ns"], delay_s="4 ns")
    9e-09
    """
    ports = eps_gbps, delay_s, rate_gbps
    bound_s = _chunk_bounds(chunks, releases_s, deadlines_s, ports)[1]
    return float("-inf") if bound_s is None else bound_s


def _chunk_bounds(
    chunks: npt.ArrayLike,
    releases_s: Times,
    deadlines_s: Times | None,
    ports: tuple[float, Time, float],
) -> tuple[float, float | None]:
    _, _, request = chunk_arguments(chunks, releases_s, deadlines_s, ports)
    try:
        end, lateness = _core.schedule_chunk_bound(**request)
    except ValueError as error:
        raise DemandError(str(error)) from None
    bits = request["ports"]["circuit_bps"]
    return end * 8 / bits, None if lateness is None else lateness * 8 / bits


def port_bound_s(demand: npt.ArrayLike, region: Region) -> float:
    """Return the seconds that no circuits under a port budget can beat, by rates alone.

    Parameters and errors are those of :func:`lightloom.schedule.allocate_region`.

    Returns
    -------
    float
        The largest of what servers send or receive, over the rate of all their NICs (the objective
        of MixNet, SIGCOMM 2025, if circuits could be divided at will); O(n^2).

    Examples
    --------
    >>> from lightloom.schedule import Region, port_bound_s
    >>> port_bound_s([[0, 10**9], [0, 0]], Region(ports=1, circuit_gbps=6, eps_gbps=2))
    1.0
    """
    return _core.schedule_port_bound(request_of(demand, region, None))


def line_bound_s(demand: npt.ArrayLike, region: Region) -> float:
    """Return the seconds that no circuits under a port budget can beat, line by line.

    Parameters and errors are those of :func:`lightloom.schedule.allocate_region`.

    Returns
    -------
    float
        At least :func:`port_bound_s`; more where a server has more peers than ports: the time that
        a server would take to send, or receive, with the circuits that suit it best and the rest
        over the EPS, if others took what that leaves. The formula is ours; the least time is found
        by Newton's method (Dinkelbach, Management Science 13(7), 1967), a few steps of O(n) each.

    Examples
    --------
    >>> from lightloom.schedule import Region, line_bound_s
    >>> demand = [[0, 6, 2], [0, 0, 0], [0, 0, 0]]
    >>> line_bound_s(demand, Region(ports=1, circuit_gbps=6e-9, eps_gbps=1e-9))
    16.0
    """
    return _core.schedule_line_bound(request_of(demand, region, None))
