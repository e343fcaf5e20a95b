"""Helios (Farrington et al., SIGCOMM 2010): matchings of largest weight, epoch by epoch.

Circuits are duplex, so demand is taken symmetrically: a pair is worth the bytes that a circuit
would carry in one epoch, both directions together. Bytes take one hop; packet switches alongside
circuits are left out (see :func:`lightloom.schedule.route`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import DemandError
from lightloom.schedule.arrays import rate_bps, square_matrix, time_bytes, whole_number
from lightloom.schedule.served import MAX_BYTES, MAX_SWITCHES, Served


@dataclass(frozen=True, eq=False)
class EpochRun(Served):
    """Epochs in which each switch holds one matching; the end is when the last byte is sent.

    Attributes
    ----------
    matchings
        Node that each node sends to over each switch, -1 if dark, ``(epochs, switches, n)``.
    turned
        How often a switch was set, the first time included; a switch whose matching stays carries
        bytes through the whole epoch.
    """

    matchings: npt.NDArray[np.int32]
    turned: int

    def _more(self) -> dict[str, str]:
        return {"epochs": f"{len(self.matchings):,}", "switches_set": f"{self.turned:,}"}


def helios_epochs(
    demand: npt.ArrayLike,
    *,
    epoch_s: float | str,
    switches: int = 1,
    delay_s: float | str = 0.0,
    rate_gbps: float = 400.0,
) -> EpochRun:
    """Serve demand epoch by epoch, each switch by the heaviest matching of what is left.

    Parameters
    ----------
    demand
        Bytes from row to column, ``(n, n)``, whole numbers up to 2^53; the diagonal is ignored.
    epoch_s
        Time that circuits carry bytes in an epoch, after the delay.
    switches
        Circuit switches; each node has a port at each.
    delay_s
        Time that a switch takes to turn.
    rate_gbps
        Rate of a port.

    Returns
    -------
    EpochRun
        The matchings and how long they take; an assignment, O(n^3), per epoch and switch. After
        Farrington et al., "Helios" (SIGCOMM 2010).

    Examples
    --------
    >>> from lightloom.schedule import helios_epochs
    >>> run = helios_epochs([[0, 9, 1], [1, 0, 9], [9, 1, 0]], epoch_s="1 ns")
    >>> run.matchings[:, 0].tolist()
    [[-1, 2, 1], [2, -1, 0], [1, 0, -1]]

    Raises
    ------
    DemandError
        If the demand is not such a matrix, or 16,384 epochs do not serve it.
    InputError
        If another argument cannot be used.
    """
    matrix, options, bits = epoch_arguments(demand, epoch_s, switches, delay_s, rate_gbps)
    try:
        plan = _core.schedule_helios(matrix, options)
    except ValueError as error:
        raise DemandError(f"demand: {error}") from None
    return EpochRun(rate_bps=bits, **plan)


def helios_matchings(
    demand: npt.ArrayLike,
    *,
    epoch_s: float | str,
    switches: int = 1,
    rate_gbps: float = 400.0,
) -> npt.NDArray[np.int32]:
    """Return the matchings of one epoch, ``(switches, n)``: partner of each node, or -1.

    Parameters and errors are those of :func:`helios_epochs`. Pairs may be matched on several
    switches: what one circuit would carry is subtracted before the next matching. O(n^3) for each
    switch (Farrington and others, SIGCOMM 2010).

    Returns
    -------
    numpy.ndarray
        Partner of each node on each switch.

    Examples
    --------
    >>> from lightloom.schedule import helios_matchings
    >>> helios_matchings([[0, 9, 1], [1, 0, 9], [9, 1, 0]], epoch_s=1.0).tolist()
    [[-1, 2, 1]]
    """
    matrix, options, _ = epoch_arguments(demand, epoch_s, switches, 0.0, rate_gbps)
    try:
        return _core.schedule_helios_matchings(matrix, options)
    except ValueError as error:
        raise DemandError(f"demand: {error}") from None


def epoch_arguments(
    demand: npt.ArrayLike,
    epoch_s: float | str,
    switches: int,
    delay_s: float | str,
    rate_gbps: float,
    name: str = "demand",
) -> tuple[npt.NDArray[np.uint64], dict[str, int], int]:
    """Return demand, switches with their epochs, and bits per second."""
    matrix = square_matrix(demand, name, MAX_BYTES, DemandError)
    bits = rate_bps(rate_gbps, "rate_gbps", minimum=1e-9)
    epoch = time_bytes(epoch_s, "epoch_s", bits, minimum=1)
    delay = time_bytes(delay_s, "delay_s", bits)
    switches = whole_number(switches, "switches", 1, MAX_SWITCHES)
    return matrix, {"switches": switches, "epoch_bytes": epoch, "delay_bytes": delay}, bits
