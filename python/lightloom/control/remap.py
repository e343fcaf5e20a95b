"""Takes up another port map of a region: a change of its own, also for circuits in use.

The journal, the switches and the job name circuits by the port map of the last change. If the file
of the map has changed since, no operator changes anything before the new map is taken up here:
circuits whose NICs are gone, or have other ports, are deleted by the old map; the others go on
under the new one, as do failed parts. Not a command is sent to the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from lightloom.control.change import ConflictMode, RegionChange
from lightloom.control.controller import RegionController
from lightloom.control.decisions import RegionDecider
from lightloom.control.failure_state import RegionFailures, shape_of
from lightloom.control.failures import OPTICAL_PARTS, PartKind, RegionPart, respond
from lightloom.control.journal import ChangeIntent, ChangeOutcome, ChangeReason
from lightloom.control.map_change import MapChange
from lightloom.control.port_map import NicPair, PortMap
from lightloom.control.refusals import ControlError, PortMapError, StateError
from lightloom.control.report import ChangeReport

#: parts whose server is named by its index
_OF_SERVER = {*OPTICAL_PARTS, PartKind.EPS_NIC, PartKind.GPU, PartKind.SERVER}


@dataclass(frozen=True)
class Remapping:
    """What taking up a port map does to circuits.

    Attributes
    ----------
    maps
        The maps, before and after.
    change
        The circuits that are deleted before, by the map before.
    """

    maps: MapChange
    change: RegionChange


def plan_remap(controller: RegionController, after: PortMap) -> Remapping:
    """Return what taking up a map does; nothing is touched.

    Parameters
    ----------
    controller
        A controller of the region by the map of its journal.
    after
        The map to take up.

    Raises
    ------
    PortMapError, RegionFileError
        If the map does not fit the switches, or the region's file.
    ControlError
        If the circuits that would be deleted cannot be.
    """
    _check(controller, after)
    maps = MapChange(controller.port_map, after)
    there = controller.held & controller.observed.circuits
    lost = lost_circuits(controller, maps)
    return Remapping(maps, controller.plan(there - lost, ConflictMode.SAFE))


def _check(controller: RegionController, after: PortMap) -> None:
    """Refuse a map by which the region could not be started: neither could it be taken back."""
    unknown = sorted(set(after.switches) - controller.switches.drivers.keys())
    if unknown:
        raise PortMapError(
            f"{after.name}: the running service does not know the switch {unknown[0]}; stop the "
            "service and take the map up then"
        )
    for name, description in controller.switches.descriptions.items():
        after.check_switch(name, description)
    shape_of(controller.region, after)


def lost_circuits(controller: RegionController, maps: MapChange) -> frozenset[NicPair]:
    """Return the circuits that the map after does not have.

    Raises
    ------
    StateError
        If nobody can delete one of them.
    """
    lost = controller.held - maps.kept(controller.held)
    for circuit in controller.unseen(lost):
        raise StateError(
            f"{controller.region.name}: circuit {circuit} cannot be deleted: its switch does not "
            "answer; the port map is left as it is"
        )
    return lost


async def remap(
    controller: RegionController,
    failures: RegionFailures,
    after: PortMap,
    reason: ChangeReason,
    seen: str | None = None,
) -> ChangeReport:
    """Delete the circuits that the new map does not have, and count by it from now on.

    Nobody else may change circuits or failed parts meanwhile. If this process ends in between, the
    journal has all of the new map or nothing of it, and then this can be done again.

    Parameters
    ----------
    controller, failures
        Of the region, started, by the map of its journal; by the new one afterwards.
    after
        The map to take up.
    reason
        For the journal.
    seen
        As :meth:`RegionController.apply` takes it.

    Returns
    -------
    ChangeReport
        The circuits that were deleted as the old map counts them, ``after`` by the new one, and the
        number of the change from which on it counts.

    Raises
    ------
    PortMapError, RegionFileError
        If the map does not fit the switches, or the region's file; the old map still counts.
    ControlError
        If a circuit cannot be deleted, or a switch does not answer; the old map still counts.
    """
    _check(controller, after)
    name, maps = controller.region.name, MapChange(controller.port_map, after)
    parts = translate_parts(failures.parts, maps)
    decider = RegionDecider(controller.region, after)
    decider.exclude(respond(parts, shape_of(controller.region, after)).excluded)
    await controller.look()  # what was given up may have appeared since, and has to go as well
    report = await controller.remove(lost_circuits(controller, maps), reason, "remap", seen)
    if report.failed or report.result not in {"done", "unchanged"}:
        raise ControlError(
            f"{name}: not every circuit could be deleted ({report.result}); the old port map still "
            "counts"
        )
    await controller.look()
    # from here on nothing is awaited: what was read stays true, and nobody sees half of it
    _check_settled(controller, maps)
    left, held = maps.translate(controller.left()), maps.translate(controller.held)
    words = dict.fromkeys(map(str, sorted(left)), "left in part")
    journal, now = controller.journal, controller.lease.now()
    with journal.together():
        journal.write_map(after, now)
        intent = ChangeIntent("remap", reason, held, held, {}, 0.0)
        number = journal.begin(intent, controller.lease.revision, now)
        journal.end(number, ChangeOutcome("done", held, words), now)
        journal.note("failures", json.dumps(sorted(map(str, parts))), now)
    controller.take_up(maps, decider)
    failures.take_up(parts)
    return replace(report, result="done", number=number, after=controller.held)


def _check_settled(controller: RegionController, maps: MapChange) -> None:
    """Refuse a map under which something that is at a switch would be forgotten."""
    name, ports, observed = controller.region.name, controller.port_map, controller.observed
    there = controller.left() | frozenset(
        circuit
        for circuit in controller.held
        if circuit in observed.circuits
        or not observed.strangers.isdisjoint(ports.cross_connects(circuit))
    )
    for circuit in sorted(there - maps.kept(there)):
        raise ControlError(
            f"{name}: circuit {circuit} is left, at least in part, and the new port map does not "
            "have it; try again, or delete its cross-connects at the switch; the old port map "
            "still counts"
        )
    open_changes = controller.journal.unfinished()
    if open_changes:
        raise StateError(
            f"{name}: change {open_changes[0].id} is open, since a switch does not answer; the "
            "port map is left as it is"
        )


def translate_parts(parts: Iterable[RegionPart], maps: MapChange) -> list[RegionPart]:
    """Return failed parts as the map after counts them; those that are gone are left out."""
    servers = {
        server: number
        for server, name in enumerate(maps.before.servers)
        for number, other in enumerate(maps.after.servers)
        if other == maps.renamed.get(name, name)
    }
    translated = []
    for part in parts:
        if part.kind not in _OF_SERVER:
            if part.switch in maps.after.switches:
                translated.append(part)
        elif part.server in servers:
            moved = part._replace(server=servers[part.server])
            is_there = (moved.server, moved.number) in maps.after.by_nic
            if is_there or part.kind not in OPTICAL_PARTS:
                translated.append(moved)
    return translated
