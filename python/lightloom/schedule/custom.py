"""Custom schedules of permutations: from arrays, or by the name of an installed scheduler.

A package adds a scheduler through the entry point group ``lightloom.schedulers``; its name can then
be given to ``lightloom schedule --methods``. Whatever it returns is checked, and bounded by ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint

import numpy as np
import numpy.typing as npt

from lightloom import plugins
from lightloom.errors import DemandError, InputError
from lightloom.inputs.arguments import instance
from lightloom.schedule.arrays import as_array, whole_list, whole_matrix
from lightloom.schedule.permutations import MAX_LINES, PermutationSchedule, decompose
from lightloom.schedule.served import MAX_BYTES

#: given demand ``(rows, columns)`` and the bytes that a port could send during a reconfiguration;
#: returns permutations ``(k, rows)`` and holds in bytes ``(k,)``, see :func:`schedule_of_arrays`
Scheduler = Callable[[npt.NDArray[np.uint64], int], tuple[npt.ArrayLike, npt.ArrayLike]]


def custom_schedulers() -> Mapping[str, EntryPoint]:
    """Return the schedulers of installed packages, by name.

    Returns
    -------
    Mapping
        Entry points of the group ``lightloom.schedulers``, which are not imported yet.

    Examples
    --------
    >>> from lightloom.schedule import custom_schedulers
    >>> "bvn" in custom_schedulers()
    False
    """
    return plugins.SCHEDULERS.installed()


def schedule_of_arrays(
    demand: npt.ArrayLike,
    permutations: npt.ArrayLike,
    holds_bytes: npt.ArrayLike,
    *,
    delay_s: float | str = 0.0,
    rate_gbps: float = 400.0,
    name: str = "custom",
) -> PermutationSchedule:
    """Check a custom all-stop schedule of one crossbar, and bound it.

    Parameters
    ----------
    demand, delay_s, rate_gbps
        As :func:`lightloom.schedule.decompose`.
    permutations
        Column that each row is joined to in each slot, or -1, ``(k, rows)``. Pairs that have
        nothing left when their slot comes may be joined; they are parted.
    holds_bytes
        Bytes that a port sends in each slot, ``(k,)``.
    name
        What the method is called in results.

    Returns
    -------
    PermutationSchedule
        With its length; O(k rows). And with the lower bound of the demand, as of
        :func:`permutation_lower_bound_s` (Gopal and Wong, 1985); O(n^2 log n).

    Raises
    ------
    DemandError
        If the demand is not such a matrix.
    InputError
        If a slot is no matching, a hold is nothing, or bytes are left.

    Examples
    --------
    >>> from lightloom.schedule import schedule_of_arrays
    >>> schedule = schedule_of_arrays([[0, 5], [7, 0]], [[1, 0]], [7])
    >>> schedule.length_bytes, schedule.over_bound
    (7, 1.0)
    """
    instance(name, str, "name", "text")
    matrix = whole_matrix(demand, "demand", MAX_BYTES, DemandError)
    bounded = decompose(matrix, delay_s=delay_s, rate_gbps=rate_gbps, method="round-robin")
    holds = whole_list(holds_bytes, "holds_bytes", MAX_BYTES, InputError)
    array = as_array(permutations, "permutations", InputError)
    shape = (len(holds), len(matrix))
    if array.size == len(holds) == 0:  # no slots, as a list too
        array = np.zeros(shape, dtype=np.int32)
    if array.shape != shape or (array.size and array.dtype.kind not in "iu"):
        raise InputError(
            f"permutations: expected whole numbers of shape {shape}, got {array.shape}"
        )
    if array.size and not -1 <= array.min() <= array.max() < min(matrix.shape[1], MAX_LINES):
        raise InputError(f"permutations: expected columns below {matrix.shape[1]}, or -1")
    slots = array.astype(np.int32)
    _part_idle(matrix, slots, holds)
    length = sum(holds.tolist()) + bounded.delay_bytes * len(holds)
    schedule = replace(
        bounded, slots=(slots, holds.astype(np.uint64)), length_bytes=length, chosen=name
    )
    schedule.check(matrix)
    return schedule


def _part_idle(
    demand: npt.NDArray[np.uint64], slots: npt.NDArray[np.int32], holds: npt.NDArray[np.uint64]
) -> None:
    """Part pairs with nothing left; what is joined twice in a slot stays, for the checker."""
    remaining = demand.astype(object)
    for joined, hold in zip(slots, holds.tolist(), strict=True):
        for row in np.flatnonzero(joined >= 0):
            waiting = remaining[row, joined[row]]
            remaining[row, joined[row]] = max(0, waiting - hold)
            if waiting == 0:
                joined[row] = -1


def schedule_by_name(
    name: str,
    demand: npt.ArrayLike,
    *,
    delay_s: float | str = 0.0,
    rate_gbps: float = 400.0,
) -> PermutationSchedule:
    """Call the scheduler of an installed package, check what it returns, and bound it.

    Parameters and errors are those of :func:`schedule_of_arrays`.

    Returns
    -------
    PermutationSchedule
        Its ``time_spent_s`` is that of the scheduler; checks take as long as those of
        :func:`schedule_of_arrays`, O(k rows + n^2 log n). How to write one:
        ``docs/how-to/add-an-allocator.md``.

    Examples
    --------
    >>> from lightloom.schedule import schedule_by_name
    >>> schedule_by_name("mine", [[0, 1], [1, 0]])
    Traceback (most recent call last):
    lightloom.errors.InputError: scheduler 'mine': no installed package has one

    Raises
    ------
    InputError
        If no package has a scheduler of this name, it cannot be imported or raises anything, or its
        schedule is wrong.
    """
    instance(name, str, "scheduler", "a name")
    scheduler: Scheduler = plugins.SCHEDULERS.load(name)
    matrix = whole_matrix(demand, "demand", MAX_BYTES, DemandError)
    delay_bytes = decompose(
        matrix[:0, :0], delay_s=delay_s, rate_gbps=rate_gbps, method="round-robin"
    ).delay_bytes
    started = time.perf_counter()
    with plugins.SCHEDULERS.in_one_line(name):
        permutations, holds = scheduler(matrix.copy(), delay_bytes)
    took = time.perf_counter() - started
    with plugins.SCHEDULERS.in_one_line(name):
        schedule = schedule_of_arrays(
            matrix, permutations, holds, delay_s=delay_s, rate_gbps=rate_gbps, name=name
        )
    return replace(schedule, time_spent_s=took)
