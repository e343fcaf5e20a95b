"""An earlier schedule from a file, and what became of its matchings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lightloom import schedule
from lightloom.demand.byte_matrix import read_arrays
from lightloom.errors import DemandError, InputError
from lightloom.schedule.arrays import whole_list
from lightloom.schedule.served import MAX_BYTES

if TYPE_CHECKING:
    from lightloom.study.scheduling.results import ScheduleComparison

#: the method that keeps the matchings of an earlier schedule
KEPT = "previous"


def read_earlier(path: Path | str, shape: tuple[int, ...]) -> schedule.PermutationSchedule:
    """Read the slots of an earlier ``--out`` as a schedule of what they can send.

    Parameters
    ----------
    path
        An ``.npz`` with ``permutations`` ``(k, rows)`` and ``holds_bytes`` ``(k,)``.
    shape
        Rows and columns of the demand that is to be scheduled.

    Raises
    ------
    DemandError
        If the file cannot be read, or its slots are no matchings of such lines.

    Examples
    --------
    >>> from lightloom.study.scheduling import read_earlier
    >>> read_earlier("now.csv", (8, 8))
    Traceback (most recent call last):
    lightloom.errors.DemandError: now.csv: expected the .npz file of an earlier --out
    """
    arrays = read_arrays(path, ("permutations", "holds_bytes"))
    slots, (rows, columns) = arrays["permutations"], shape
    if slots.ndim != 2 or slots.shape[1] != rows or slots.dtype.kind not in "iu":
        raise DemandError(
            f"{path}: expected permutations of {rows} rows, as the demand has, got {slots.dtype} "
            f"of shape {slots.shape}"
        )
    if slots.size and not -1 <= slots.min() <= slots.max() < columns:
        raise DemandError(
            f"{path}: expected columns below {columns}, as the demand has, or -1, got "
            f"{slots.min()} to {slots.max()}"
        )
    holds = whole_list(arrays["holds_bytes"], f"{path}: holds_bytes", MAX_BYTES, DemandError)
    if len(holds) != len(slots):
        raise DemandError(f"{path}: {len(slots)} permutations, but {len(holds)} holds")
    sent = np.zeros((rows, columns), dtype=np.uint64)
    slot, row = np.nonzero(slots >= 0)
    np.add.at(sent, (row, slots[slot, row].astype(np.intp)), holds[slot])
    try:
        return schedule.schedule_of_arrays(sent, slots, holds)
    except InputError as error:
        raise DemandError(f"{path}: {error}") from None


@dataclass(frozen=True)
class Kept:
    """A schedule that keeps the matchings of an earlier one, against one that does not.

    Attributes
    ----------
    matchings, earlier, new
        Slots that the earlier schedule had as well, slots of that, and slots that it had not.
    anew
        What it is compared with: ``auto``, or the shortest of the other methods.
    length_over_anew, time_over_anew
        Ratios of lengths, and of the times that it took to find them; 1 where both are 0.
    """

    matchings: int
    earlier: int
    new: int
    anew: str | None = None
    length_over_anew: float | None = None
    time_over_anew: float | None = None


def kept_of(comparison: ScheduleComparison) -> Kept | None:
    """What became of the matchings of the earlier schedule, if there is one."""
    row, earlier = comparison.schedules.get(KEPT), comparison.problem.earlier
    if row is None or earlier is None:
        return None
    new = row.new_slots or 0
    counts = row.configurations - new, earlier.configurations, new
    others = {name: other for name, other in comparison.schedules.items() if name != KEPT}
    if not others:
        return Kept(*counts)
    name = min(others, key=lambda name: (name != "auto", others[name].length_bytes))
    anew = others[name]
    return Kept(
        *counts,
        anew=name,
        length_over_anew=_ratio(row.length_bytes, anew.length_bytes),
        time_over_anew=_ratio(row.time_spent_s, anew.time_spent_s),
    )


def _ratio(ours: float, other: float) -> float:
    return ours / other if other else 1.0
