"""Which servers of a cluster each job has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError

Placement = Literal["packed", "spread", "tor", "region"]
#: one after another; in turns, in proportion; each from the first server of a ToR or of a region on
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)

Servers = npt.NDArray[np.int64]


def place(placement: Placement, sizes: Sequence[int], servers: int, unit: int) -> list[Servers]:
    """Deal the servers of a cluster out to jobs.

    Parameters
    ----------
    placement
        How.
    sizes
        Servers that each job needs.
    servers
        Servers of the cluster.
    unit
        Servers of a ToR or region, of which no two jobs get any, with these placements.

    Returns
    -------
    list of numpy.ndarray
        Servers of each job, ascending.

    Raises
    ------
    InputError
        If there are not enough.
    """
    step = unit if placement in {"tor", "region"} else 1
    needed = sum(-(-size // step) * step for size in sizes[:-1]) + sizes[-1]
    if needed > servers:
        raise InputError(
            f"placement {placement}: jobs need {needed} servers, the cluster has {servers}: give"
            " it more gpus"
        )
    if placement == "spread":
        return _dealt(sizes)
    placed, first = [], 0
    for size in sizes:
        placed.append(np.arange(first, first + size))
        first += -(-size // step) * step
    return placed


def _dealt(sizes: Sequence[int]) -> list[Servers]:
    """Deal servers in turns, to the job that has the least of what it needs so far."""
    dealt: list[list[int]] = [[] for _ in sizes]
    for server in range(sum(sizes)):
        least = min(
            (number for number, size in enumerate(sizes) if len(dealt[number]) < size),
            key=lambda number: (2 * len(dealt[number]) + 1) / sizes[number],
        )
        dealt[least].append(server)
    return [np.array(servers) for servers in dealt]


def check_given(
    given: Sequence[Sequence[int]], sizes: Sequence[int], servers: int
) -> list[Servers]:
    """Return the given servers of jobs.

    Raises
    ------
    InputError
        If a job has more or fewer than it needs, one is beyond the cluster, or two share one.
    """
    owner: dict[int, int] = {}
    for job, (own, size) in enumerate(zip(given, sizes, strict=True), 1):
        if len(own) != size:
            raise InputError(f"job {job}: {len(own)} servers are given: expected {size}")
        for server in own:
            if server >= servers:
                raise InputError(
                    f"job {job}: server {server}: the cluster has {servers}, numbered from 0"
                )
            if server in owner:
                raise InputError(f"jobs {owner[server]} and {job} both have server {server}")
            owner[server] = job
    return [np.array(sorted(own)) for own in given]


def jain(rates: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 where all have as much, 1/n where one has it all.

    Jain, Chiu, Hawe: A quantitative measure of fairness and discrimination for resource allocation
    in shared computer systems. DEC TR-301 (1984).
    """
    values = np.asarray(rates, float)
    return float(values.sum() ** 2 / (len(values) * (values**2).sum()))
