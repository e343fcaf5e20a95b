"""The planner of all-to-alls for what the controller says of rates and failures."""

from __future__ import annotations

import dataclasses
import json

from lightloom.control.documents import Document
from lightloom.errors import InputError
from lightloom.schedule.carrying import (
    AllToAllPlanner,
    CarriedPart,
    JobNics,
    NicPlace,
    UnjoinedError,
)
from lightloom.schedule.decider import Decider
from lightloom.schedule.records import Failures, Policy, Region, RelayCost
from lightloom.torch.circuit_decisions import Demand, RegionCircuits

#: failed parts that take a NIC on circuits
_OPTICAL = {"nic", "link", "transceiver"}


class Planners:
    """Makes the planner of a decision, again where rates or failures have changed."""

    def __init__(self, nics: JobNics) -> None:
        self._nics = nics
        self._key = ""
        self._planner = AllToAllPlanner(nics, None)

    def plan(self, demand: Demand, decision: RegionCircuits, server: int) -> list[CarriedPart]:
        """What a server sends of an all-to-all.

        Raises
        ------
        InputError
            If the controller's region has other NICs than the job.
        """
        key = json.dumps([decision.carrying, decision.failures])
        if key != self._key:
            failed = frozenset(_failed(decision.failures))
            nics = dataclasses.replace(self._nics, failed=failed)
            self._planner = AllToAllPlanner(nics, _decider(nics, decision.carrying))
            self._key = key
        try:
            return self._planner.plan(
                demand, decision.circuits, relays=decision.relays, server=server
            )
        except UnjoinedError:  # by what is known to have failed: streams look for a way themselves
            return AllToAllPlanner(self._nics, None).plan(demand, server=server)


def _failed(parts: tuple[str, ...]) -> list[NicPlace]:
    """The NICs among failed parts, which are named ``nic:2/1`` or ``eps:0/1``."""
    places = []
    for part in parts:
        kind, _, place = part.partition(":")
        if kind in _OPTICAL or kind == "eps":
            server, _, number = place.partition("/")
            places.append(NicPlace(int(server), kind != "eps", int(number)))
    return places


def _decider(nics: JobNics, carrying: Document) -> Decider | None:
    """The controller's decider, for what it says of its region."""
    if not carrying:
        return None
    if tuple(carrying["nics"]) != nics.optical:
        raise InputError(
            f"the controller has {list(carrying['nics'])} optical NICs per server, the job has "
            f"{list(nics.optical)}"
        )
    pairs = [(nic.is_optical, (nic.server, nic.number)) for nic in sorted(nics.failed)]
    failures = Failures(
        [place for is_optical, place in pairs if is_optical],
        [place for is_optical, place in pairs if not is_optical],
    )
    region = Region(
        ports=list(nics.optical),
        split=carrying["split"],
        failed=failures if pairs else None,
        **carrying["rates"],
    )
    relay = carrying["relay"]
    policy = Policy(relaying=None if relay is None else RelayCost(**relay))
    return Decider(nics.servers, region, policy=policy, timing=0.0)
