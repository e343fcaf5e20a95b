"""Demand to schedules of permutations: the Python interface of ``crates/schedule``.

A crossbar joins each row (source) to at most one column (destination) at a time. Demand is whole
bytes, so what is left after every slot is exact; the time to reconfigure counts as the bytes that
a port could have sent meanwhile. All ports run at one rate. Propagation, relaying and copies
inside a server are left out.

All-stop (the default), nothing is sent while the crossbar changes: a schedule is a list of slots,
its length the sum of holds plus one delay per slot, the first included. With partial
reconfiguration a new circuit costs its own two ports the delay and disturbs no other.

Over several switches every row and column has a port at each; a pair may be joined on several at
once. Each switch has slots of its own, all-stop by itself: while it changes, the others go on. The
slots that a method makes for one crossbar are placed on them, the longest first, and divided where
that balances the switches (as Spectra does, arXiv 2603.07373); ``"auto"`` searches further.

From step to step demand drifts. The method ``"previous"`` keeps the matchings of an earlier
all-stop schedule of one crossbar, in their order, with the shortest holds (a linear program): no
circuit moves to other ports, idle ports are joined where that helps, and pairs that no slot serves
get new ones, as few as they need; ``new_slots`` allows more of them. ``"auto"`` keeps them too
unless it finds a shorter schedule.

Where pairs drift by 5 %, the kept matchings are within 1.5 % of ``"auto"`` anew in 92 % of 512
cases, in 94 % with 1 new slot and in 95 % with 2 or 4; the longest is 4.2 % above. In 2 % of the
cases no holds are within it, as a linear program proves: other pairs must meet, as ``"auto"`` lets
them, which is never longer than without an earlier one (``benches/kept_matchings.py 8,16 16``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import DemandError, InputError
from lightloom.inputs.arguments import names
from lightloom.schedule.arrays import (
    flag,
    one_of,
    optional_seconds,
    rate_bps,
    time_bytes,
    whole_matrix,
    whole_number,
)
from lightloom.schedule.named_sets import choices
from lightloom.schedule.results import MAX_SHOWN, Result, ResultTable, summary
from lightloom.shown import views
from lightloom.units import show_time

if TYPE_CHECKING:
    from lightloom.report.figure import Figure

#: methods that make use of an earlier schedule
_FROM_PREVIOUS = ("previous", "auto")
#: every method that makes permutations of its own, cheapest first
PERMUTATION_METHODS = tuple(
    name for name in choices("permutation method") if name not in _FROM_PREVIOUS
)

#: the whole numbers that a double holds exactly
_MAX_BYTES = 2**53
#: rows and columns of a demand for permutations, as the core has it
MAX_LINES = 1_024
#: switches of a schedule, as the core has it
MAX_SWITCHES = 1_024
#: slots that may be added to those of an earlier schedule
_MAX_NEW_SLOTS = 1_024
#: methods that make about a slot per pair where all ports stop, and the cells that these may have
_BY_PAIR = ("open-shop", "maximal")
_MAX_CELLS = 2**27
_NAMES = (*PERMUTATION_METHODS, *_FROM_PREVIOUS)
_U64 = np.dtype(np.uint64)
_I64 = np.dtype(np.int64)


@dataclass(frozen=True, eq=False)
class PermutationSchedule(Result):
    """Matchings over time.

    Attributes
    ----------
    slots
        Of an all-stop schedule: the column that each row is joined to or -1, ``(k, rows)``, and
        the bytes that a port sends in each slot, ``(k,)``.
    switches
        Number of switches.
    switch_of_slot
        Over several switches, the switch of each slot, ``(k,)``: all slots of switch 0 in order,
        then those of switch 1. A pair that is joined in several slots sends in the first of
        these first. ``None`` for a single switch.
    transfers
        Of a schedule with partial reconfiguration, ``(m, 4)``: row, column, the bytes that a port
        could have sent before its two ports begin to turn, and the bytes that it sends.
    length_bytes
        Bytes that a port could send from the first reconfiguration to the last byte.
    lower_bound_bytes
        Bytes that no schedule can beat. All-stop: at least the largest line sum plus one delay
        for each peer of the line with most peers, more where pairs of different size must share
        slots; of ``auto`` for few lines, what a search has proved. Partial: the largest, over
        lines, of sum plus delays. Over several switches: at least the first of these divided by
        their number, and at least a switch's share of the largest line and a delay.
    delay_bytes
        Bytes that a port could send while the crossbar changes.
    rate_bps
        Bits per second of each port.
    partial
        Whether reconfiguration may be partial; slots are all-stop nonetheless.
    chosen
        The method whose matchings these are; ``auto`` settles on another's. ``"previous"`` where
        those of an earlier schedule were kept.
    new_slots
        Slots that the earlier schedule had not, if its matchings were kept, else ``None``.
    time_spent_s
        Seconds that it took to find the schedule.

    Examples
    --------
    >>> import lightloom
    >>> schedule = lightloom.decompose([[0, 5], [7, 0]], rate_gbps=8)
    >>> schedule.length_bytes, schedule.over_bound
    (7, 1.0)
    """

    slots: tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64]] | None
    transfers: npt.NDArray[np.uint64] | None
    shape: tuple[int, int]
    length_bytes: int
    lower_bound_bytes: int
    delay_bytes: int
    rate_bps: int
    partial: bool
    chosen: str
    time_spent_s: float = field(compare=False)
    switches: int = 1
    switch_of_slot: npt.NDArray[np.int32] | None = None
    new_slots: int | None = None

    @cached_property
    def _shown(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64]]:
        if self.slots is not None:
            return self.slots
        assert self.transfers is not None
        return _core.schedule_transfer_slots(self.shape[0], self.delay_bytes, self.transfers)

    @property
    def permutations(self) -> npt.NDArray[np.int32]:
        """Column that each row sends to in each slot, or -1, ``(k, rows)``.

        Of transfers, a slot is the time between two events, and ports that turn send nothing.
        """
        return self._shown[0]

    @property
    def holds_bytes(self) -> npt.NDArray[np.uint64]:
        """Bytes that a port sends in each slot, ``(k,)``."""
        return self._shown[1]

    @property
    def holds_s(self) -> npt.NDArray[np.float64]:
        """Seconds that each slot is held, without the delay before it, ``(k,)``."""
        return np.asarray(self.holds_bytes, dtype=np.float64) * (8 / self.rate_bps)

    @property
    def starts_bytes(self) -> npt.NDArray[np.int64]:
        """Bytes that a port could have sent before each slot's switch begins to turn, ``(k,)``."""
        lasts = self.holds_bytes.astype(np.int64)
        if self.slots is not None:
            lasts = lasts + self.delay_bytes
        ends = np.cumsum(lasts)
        if self.switch_of_slot is None:
            return ends - lasts
        # the slots of a switch follow each other: its first one starts at once
        _, first, of_slot = np.unique(self.switch_of_slot, return_index=True, return_inverse=True)
        return ends - lasts - (ends - lasts)[first][of_slot]

    @property
    def length_s(self) -> float:
        """Seconds from the first reconfiguration to the last byte."""
        return self.length_bytes * 8 / self.rate_bps

    @property
    def lower_bound_s(self) -> float:
        """Seconds that no schedule can beat, see :attr:`lower_bound_bytes`."""
        return self.lower_bound_bytes * 8 / self.rate_bps

    @property
    def over_bound(self) -> float:
        """Length over lower bound; 1 is optimal (and 1 if there is nothing to send)."""
        return self.length_bytes / self.lower_bound_bytes if self.lower_bound_bytes else 1.0

    @property
    def is_optimal(self) -> bool:
        """Whether no schedule is shorter, as the lower bound proves.

        Up to five lines ``auto`` has always proved it, up to eight nearly always.
        """
        return self.length_bytes == self.lower_bound_bytes

    @property
    def configurations(self) -> int:
        """How often a crossbar is set: slots of all switches, or the circuits of transfers."""
        shown = self.slots[1] if self.slots is not None else self.transfers
        assert shown is not None
        return len(shown)

    def tables(self) -> list[ResultTable]:
        """Return the tables that are printed: a summary, and the first slots."""
        shown = min(len(self.holds_bytes), MAX_SHOWN)
        of_slot = [] if self.switch_of_slot is None else self.switch_of_slot[:shown].tolist()
        slots = zip(self.permutations[:shown].tolist(), self.holds_s[:shown].tolist(), strict=True)
        rows = [
            (
                str(slot),
                *(str(switch) for switch in of_slot[slot : slot + 1]),
                show_time(hold),
                " ".join("-" if to < 0 else str(to) for to in row),
            )
            for slot, (row, hold) in enumerate(slots)
        ]
        more = len(self.holds_bytes) - shown
        return [
            summary(
                "Permutation schedule",
                method=self.chosen,
                **({"switches": f"{self.switches:,}"} if self.switches > 1 else {}),
                configurations=f"{self.configurations:,}",
                **({} if self.new_slots is None else {"new_slots": f"{self.new_slots:,}"}),
                length=show_time(self.length_s),
                over_lower_bound="optimal" if self.is_optimal else f"{self.over_bound:.3f}",
                delay=show_time(self.delay_bytes * 8 / self.rate_bps),
            ),
            ResultTable(
                "Slots",
                ("slot", *(["switch"] if of_slot else []), "held", "column of each row"),
                rows,
                f"{more:,} more slots." if more else "",
            ),
        ]

    def plot(self, demand: npt.ArrayLike) -> Figure:
        """Draw to whom each row sends when, given the demand that is served.

        Raises
        ------
        InputError
            If the demand is of another shape.
        """
        return views().draw(self, self._demand(demand))

    def check(self, demand: npt.ArrayLike) -> None:
        """Verify the schedule against a demand, independently of how it was found.

        Every slot is a matching of pairs that still have something to send, the demand is served
        exactly, and length and lower bound are what they say; a bound that a search had proved is
        proved anew, which may take as long.

        Raises
        ------
        InputError
            The first thing that is wrong.
        """
        try:
            _core.schedule_check_decomposition(self._demand(demand), self)
        except ValueError as error:
            raise InputError(str(error)) from None

    def _demand(self, demand: npt.ArrayLike) -> npt.NDArray[np.uint64]:
        matrix = whole_matrix(demand, "demand", _MAX_BYTES, DemandError)
        if matrix.shape != self.shape:
            raise InputError(
                f"demand: expected {self.shape[0]} x {self.shape[1]}, got shape {matrix.shape}"
            )
        return matrix


def decompose(  # noqa: PLR0913
    demand: npt.ArrayLike,
    *,
    delay_s: float | str = 0.0,
    rate_gbps: float = 400.0,
    method: str = "auto",
    time_limit_s: float | None = None,
    partial: bool = False,
    switches: int = 1,
    previous: PermutationSchedule | None = None,
    new_slots: int = 0,
) -> PermutationSchedule:
    """Turn demand into permutations that are held one after another.

    Parameters
    ----------
    demand
        Whole bytes from row to column, ``(rows, columns)``, up to 2^53; the diagonal counts.
    delay_s, rate_gbps
        Time of one reconfiguration, a number or text such as ``"25 ms"``; and rate of each port,
        which turns the delay into bytes and bytes into seconds.
    method
        One of ``choices("permutation method")``, which says what each does.
    time_limit_s
        Time after which ``auto`` returns the best that it has found.
    partial
        Whether a new circuit stops its own two ports only; of use to ``"open-shop"``, ``"auto"``.
    switches
        Number of switches at each of which every row and column has a port; one if ``partial``.
    previous, new_slots
        An earlier schedule of as many lines, for ``"previous"`` and ``"auto"``, and slots that may
        be added to it; those for pairs that it does not serve go extra.

    Returns
    -------
    PermutationSchedule
        With a lower bound; :meth:`PermutationSchedule.check` verifies both. O(n^2) for
        ``round-robin``, at worst O(k n^3) for others of k slots of n lines but ``auto``. Sources
        from Birkhoff (1946) on, and which methods are ours: ``docs/explanation/scheduling.md``.

    Raises
    ------
    DemandError
        If the demand is not a matrix of whole numbers from 0 to 2^53, or is too large, for the
        method too (see :func:`~lightloom.schedule.permutations.fits_memory`).
    InputError
        If another argument cannot be used.

    Examples
    --------
    >>> import lightloom
    >>> lightloom.decompose([[0, 5], [7, 0]], method="bvn").permutations.tolist()
    [[1, 0]]
    >>> lightloom.decompose([[0, 60], [60, 0]], switches=3).length_bytes
    20
    """
    one_of(method, "method", _NAMES)
    bits = rate_bps(rate_gbps, "rate_gbps", minimum=1e-9)
    delay_bytes, partial = time_bytes(delay_s, "delay_s", bits), flag(partial, "partial")
    matrix = _plain(demand)
    switches = switch_count(switches, partial=partial)
    earlier = _earlier(previous, new_slots, method, partial, switches, matrix.shape)
    limit_s = optional_seconds(time_limit_s, "time_limit_s")
    try:
        choice = (delay_bytes, partial, method, limit_s, switches, earlier)
        plan = _core.schedule_decompose(matrix, *choice)
    except ValueError as error:  # views and conversions are checked once the fast path has failed
        whole_matrix(demand, "demand", _MAX_BYTES, DemandError)
        raise DemandError(str(error)) from None
    return PermutationSchedule(rate_bps=bits, **plan)


def switch_count(switches: int, *, partial: bool) -> int:
    """Check the number of switches of a schedule: one if reconfiguration may be partial."""
    switches = whole_number(switches, "switches", 1, MAX_SWITCHES)
    if partial and switches > 1:
        raise InputError(f"partial: expected one switch, got switches={switches}")
    return switches


def _earlier(
    previous: PermutationSchedule | None,
    new_slots: int,
    method: str,
    partial: bool,
    switches: int,
    shape: tuple[int, ...],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64], int] | None:
    """The slots of an earlier schedule, if it is one that can be kept, and how many are added."""
    added = whole_number(new_slots, "new_slots", 0, _MAX_NEW_SLOTS)
    if previous is None:
        if added:
            raise InputError("new_slots: expected an earlier schedule for them; give previous")
        if method == "previous":
            raise InputError('method previous: expected an earlier schedule; give "previous"')
        return None
    if not isinstance(previous, PermutationSchedule):
        kind = type(previous).__name__
        raise InputError(f"previous: expected a PermutationSchedule, got {kind}")
    if method not in _FROM_PREVIOUS:
        raise InputError(f"previous: expected method {' or '.join(_FROM_PREVIOUS)}, got {method}")
    if partial or switches > 1:
        switching = "partial=True" if partial else f"switches={switches}"
        raise InputError(f"previous: expected one all-stop switch, got {switching}")
    if previous.slots is None or previous.switches > 1:
        made_for = "transfers" if previous.slots is None else f"{previous.switches} switches"
        raise InputError(f"previous: expected slots of one switch, got {made_for}")
    if previous.shape != shape:
        expected, got = (" x ".join(map(str, lines)) for lines in (shape, previous.shape))
        raise InputError(f"previous: expected a schedule of {expected} lines, got {got}")
    return (*previous.slots, added)


def fits_memory(demand: npt.NDArray[np.uint64], method: str, *, partial: bool = False) -> bool:
    """Return whether :func:`decompose` takes on the slots that a method makes of a demand.

    ``"open-shop"`` (unless ``partial``) and ``"maximal"`` make about one per pair with bytes, each
    with a cell per row: 4.3 GB for 1,024 lines that all want each other, which is refused.
    """
    if method not in _BY_PAIR or (partial and method == "open-shop"):
        return True
    return bool(np.count_nonzero(demand) * demand.shape[0] <= _MAX_CELLS)


def decompose_all(
    demand: npt.ArrayLike,
    *,
    delay_s: float | str = 0.0,
    rate_gbps: float = 400.0,
    methods: Sequence[str] = (*PERMUTATION_METHODS, "auto"),
    time_limit_s: float | None = None,
    partial: bool = False,
    switches: int = 1,
) -> dict[str, PermutationSchedule]:
    """Return the schedule of each method, by its name: the portfolio.

    Parameters and errors are those of :func:`decompose`.

    Returns
    -------
    dict of str to PermutationSchedule
        One per method; together they take as long as each by itself, O(k n^3) at worst for k slots
        of n lines. Sources: :func:`decompose`, ``docs/explanation/scheduling.md``.

    Examples
    --------
    >>> from lightloom.schedule import decompose_all
    >>> schedules = decompose_all([[0, 9, 1], [1, 0, 9], [9, 1, 0]], methods=("bvn", "auto"))
    >>> {method: schedule.length_bytes for method, schedule in schedules.items()}
    {'bvn': 10, 'auto': 10}
    """
    return {
        method: decompose(
            demand,
            delay_s=delay_s,
            rate_gbps=rate_gbps,
            method=method,
            time_limit_s=time_limit_s,
            partial=partial,
            switches=switches,
        )
        for method in names(methods, "methods")
    }


def _plain(demand: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    # a subclass may have a mask
    if type(demand) is np.ndarray and demand.ndim == 2:
        if demand.dtype == _U64:
            return demand
        if demand.dtype == _I64:
            # Negative numbers become too large ones, which the core refuses.
            return demand.view(_U64)
    return whole_matrix(demand, "demand", _MAX_BYTES, DemandError)
