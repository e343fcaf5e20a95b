"""Flows by pattern, for when there is no list of them.

The definitions are those with which packet simulators are compared
(``docs/explanation/packets.md``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.demand.streams import Stream
from lightloom.errors import InputError
from lightloom.packets.flows import MAX_FLOWS, Flows, make_flows


def permutation(hosts: int, size_bytes: int, *, seed: int) -> Flows:
    """Every host sends to one and receives from one: one random cycle through all of them.

    Raises
    ------
    InputError
        If there are fewer than 2 hosts.
    """
    _check_hosts(hosts)
    order = Stream(seed, "packets: permutation").at(0).permutation(hosts)
    return _named(f"permutation of {hosts:,} hosts", order, np.roll(order, -1), size_bytes)


def incast(hosts: int, fan_in: int, size_bytes: int) -> Flows:
    """``fan_in`` hosts, evenly spaced from host 1 on, send to host 0 at once.

    Raises
    ------
    InputError
        If there are not that many other hosts.
    """
    _check_hosts(hosts)
    if not 1 <= fan_in < hosts:
        raise InputError(
            f"fan_in {fan_in}: expected 1 to {hosts - 1:,}, the hosts other than host 0"
        )
    sources = 1 + np.arange(fan_in) * ((hosts - 1) // fan_in)
    return _named(f"incast of {fan_in:,} to 1", sources, np.zeros(fan_in, np.int64), size_bytes)


def all_to_all(hosts: int, group: int, size_bytes: int) -> Flows:
    """Groups of ``group`` hosts, ``hosts / group`` apart; every pair of a group at once.

    Group ``j`` of ``G = hosts / group`` groups is the hosts ``j``, ``j + G``, ``j + 2 G`` ...

    Raises
    ------
    InputError
        If the groups do not use up the hosts, or there are too many pairs.
    """
    _check_hosts(hosts)
    if not 2 <= group <= hosts or hosts % group:
        raise InputError(f"group {group}: expected a divisor of {hosts:,} hosts, at least 2")
    pairs = hosts * (group - 1)
    if pairs > MAX_FLOWS:
        raise InputError(
            f"an all-to-all of {hosts:,} hosts in groups of {group:,} has {pairs:,} flows; the "
            f"limit is {MAX_FLOWS:,}: make the groups smaller"
        )
    groups = hosts // group
    first = np.repeat(np.arange(group), group - 1)
    second = (first + 1 + np.tile(np.arange(group - 1), group)) % group
    members = np.arange(groups)[:, None]
    name = f"all-to-all in {groups:,} group{'s' * (groups > 1)} of {group:,}"
    sources = (members + groups * first).reshape(-1)
    return _named(name, sources, (members + groups * second).reshape(-1), size_bytes)


def from_matrix(demand: npt.NDArray[Any], name: str) -> Flows:
    """One flow per pair of a square matrix of bytes, row sends to column; the diagonal stays.

    Raises
    ------
    InputError
        If it is not square, or has nothing to send.
    """
    if demand.shape[0] != demand.shape[1]:
        raise InputError(
            f"{name}: expected a square matrix, got {demand.shape[0]} sources and "
            f"{demand.shape[1]} destinations"
        )
    sent = demand.copy()
    np.fill_diagonal(sent, 0)
    sources, destinations = np.nonzero(sent)
    if not len(sources):
        raise InputError(f"{name}: has no bytes to send from one host to another")
    return _named(name, sources, destinations, sent[sources, destinations])


def _check_hosts(hosts: int) -> None:
    if hosts < 2:
        raise InputError(f"hosts {hosts}: expected at least 2, so that one can send to another")


def _named(name: str, sources: Any, destinations: Any, size_bytes: Any) -> Flows:
    return make_flows(sources, destinations, size_bytes, name=name)
