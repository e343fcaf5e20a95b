"""The change from some circuits to others, in batches that a switch makes one after another.

The order is Rust (``crates/schedule/src/allocation/batches.rs``). Circuits are rows of server, NIC,
server, NIC, as of :func:`map_nics` and :func:`assign_planes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import InputError
from lightloom.schedule.arrays import as_array, whole_number
from lightloom.schedule.circuits import nic_rows
from lightloom.schedule.comparable import Comparable
from lightloom.schedule.records import SwitchTiming
from lightloom.schedule.results import Result, ResultTable, summary
from lightloom.units import show_time

_MAX_PAIRS = 2**32 - 1


@dataclass(frozen=True, eq=False)
class ChangeBatch(Comparable):
    """Circuits that a switch deletes and creates at once, each ``(m, 4)``, and its time."""

    delete: npt.NDArray[np.uint32]
    create: npt.NDArray[np.uint32]
    expected_s: float

    @property
    def pairs(self) -> int:
        """Port pairs that the switch touches."""
        return max(len(self.delete), len(self.create))


@dataclass(frozen=True, eq=False)
class CircuitChange(Result):
    """What leads from some circuits on NICs to others.

    Attributes
    ----------
    before, wanted
        Circuits that are there, and that should be, ``(m, 4)``, sorted.
    batches
        What to delete and create, in order.
    dark_pairs
        ``(m, 2)``: pairs of servers that have neither a circuit nor the EPS during some batch.
    """

    before: npt.NDArray[np.uint32]
    wanted: npt.NDArray[np.uint32]
    batches: tuple[ChangeBatch, ...]
    dark_pairs: npt.NDArray[np.uint32]

    @property
    def create(self) -> npt.NDArray[np.uint32]:
        """All circuits that are created, ``(m, 4)``."""
        return _rows(_set(self.wanted) - _set(self.before))

    @property
    def delete(self) -> npt.NDArray[np.uint32]:
        """All circuits that are deleted, ``(m, 4)``."""
        return _rows(_set(self.before) - _set(self.wanted))

    @property
    def keep(self) -> npt.NDArray[np.uint32]:
        """Circuits that no batch touches, ``(m, 4)``."""
        return _rows(_set(self.before) & _set(self.wanted))

    @property
    def expected_s(self) -> float:
        """Seconds of all batches, one after another."""
        return sum(batch.expected_s for batch in self.batches)

    def tables(self) -> list[ResultTable]:
        """Return the tables that are printed: a summary, and the batches."""
        rows = [
            (
                str(index),
                str(len(batch.delete)),
                str(len(batch.create)),
                show_time(batch.expected_s),
            )
            for index, batch in enumerate(self.batches)
        ]
        dark = ", ".join(f"{a}-{b}" for a, b in self.dark_pairs.tolist())
        totals = summary(
            "Change",
            create=f"{len(self.create):,}",
            delete=f"{len(self.delete):,}",
            keep=f"{len(self.keep):,}",
            dark_pairs=dark or "none",
            expected=show_time(self.expected_s),
        )
        batches = ResultTable("Batches", ("batch", "delete", "create", "expected"), rows)
        return [totals, batches] if rows else [totals]


def plan_change(
    before: npt.ArrayLike,
    wanted: npt.ArrayLike,
    *,
    timing: SwitchTiming | float | str,
    eps_servers: npt.ArrayLike = (),
    max_pairs: int = _MAX_PAIRS,
) -> CircuitChange:
    """Plan the change from some circuits on NICs to others.

    A pair without the EPS that has circuits before and after keeps one in every batch: its new
    circuit is made before the last old one is deleted, wherever NICs are spare or become so. Where
    pairs wait for each other in a circle, one goes dark and is named.

    Parameters
    ----------
    before, wanted
        Rows of server, NIC, server, NIC, the lower server first, ``(m, 4)``.
    timing
        How long a batch takes; a plain time is that of any batch.
    eps_servers
        Servers that reach the EPS; a pair does if both do.
    max_pairs
        Maximum number of port pairs that one batch touches, 2 or more.

    Returns
    -------
    CircuitChange
        The batches in order, and the pairs that go dark. O(c^2 log c) for c circuits that change,
        and c times as much where some pair must go dark. The order is ours:
        ``docs/explanation/control.md``.

    Raises
    ------
    InputError
        If an argument cannot be used, or a NIC ends two circuits.

    Examples
    --------
    >>> from lightloom.schedule import plan_change
    >>> change = plan_change([[0, 0, 1, 0]], [[0, 1, 1, 1]], timing="25 ms")
    >>> [(len(batch.delete), len(batch.create)) for batch in change.batches]
    [(0, 1), (1, 0)]
    >>> change.expected_s
    0.05
    """
    servers = as_array(eps_servers, "eps_servers", InputError)
    wrong = servers.size and (servers.ndim != 1 or servers.dtype.kind not in "iu")
    if wrong or (servers.size and not 0 <= servers.min() <= servers.max() < 2**16):
        raise InputError("eps_servers: expected a list of servers from 0 to 65535")
    has_eps = np.zeros(int(servers.max(initial=-1)) + 1, dtype=bool)
    has_eps[servers.astype(np.int64)] = True
    pairs = whole_number(max_pairs, "max_pairs", 2, _MAX_PAIRS)
    present, goal = nic_rows(before, "before"), nic_rows(wanted, "wanted")
    try:
        planned, dark = _core.schedule_plan_batches(present, goal, has_eps, pairs)
    except ValueError as error:
        raise InputError(str(error)) from None
    return CircuitChange(
        _rows(_set(present)),
        _rows(_set(goal)),
        tuple(_batches(len(present), planned, SwitchTiming.of(timing))),
        np.array(dark, dtype=np.uint32).reshape(-1, 2),
    )


def _batches(
    present: int,
    planned: Iterable[tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]],
    timing: SwitchTiming,
) -> Iterator[ChangeBatch]:
    """Yield the batches of a change from so many circuits, with their times."""
    for delete, create in planned:
        pairs = max(len(delete), len(create))
        if not timing.keep_unchanged:
            pairs += present - len(delete)
        yield ChangeBatch(delete, create, timing.expected_s(pairs))
        present += len(create) - len(delete)


def _set(rows: npt.NDArray[np.uint32]) -> set[tuple[int, ...]]:
    return {tuple(row) for row in rows.tolist()}


def _rows(circuits: set[tuple[int, ...]]) -> npt.NDArray[np.uint32]:
    return np.array(sorted(circuits), dtype=np.uint32).reshape(-1, 4)
