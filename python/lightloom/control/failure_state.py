"""What has failed in a region, kept in the journal, and who notices it.

Failures come from the job, from an operator, from the switches (a port that has failed), and from
circuits that cannot be made whatever NIC is at the other end. A switch that does not answer, where
others do, has not failed: it is avoided until it is reached again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from lightloom.control.controller import RegionController
from lightloom.control.failures import (
    OPTICAL_PARTS,
    FailureResponse,
    GpuPlace,
    PartKind,
    RegionPart,
    RegionShape,
    check_part,
    parse_part,
    respond,
)
from lightloom.control.port_map import NicPair, PortMap
from lightloom.control.refusals import JournalError, RegionFileError
from lightloom.control.region_file import RegionFile
from lightloom.errors import InputError
from lightloom.inputs.files import shown_path

#: circuits to different peers that must fail before the NIC that they share is blamed
_BLAMED_AFTER = 2


def shape_of(region: RegionFile, port_map: PortMap) -> RegionShape:
    """Return the shape of a region.

    Raises
    ------
    RegionFileError
        If a spare GPU does not exist.
    """
    shape = RegionShape(
        port_map.nics_per_server,
        region.rules.eps_nics or 0,
        region.job.gpus_per_server,
        port_map.switches,
        pool=region.job.pool,
    )
    spares = []
    for text in region.job.spares:
        try:
            part = check_part(parse_part(f"gpu:{text}"), shape)
        except InputError:
            raise RegionFileError(
                f"job.spares {text!r}: expected a GPU such as 3/7 (server/GPU)"
            ) from None
        spares.append(GpuPlace(part.server, part.number))
    return RegionShape(
        shape.optical_nics, shape.eps_nics, shape.gpus, shape.switches, tuple(spares), shape.pool
    )


class RegionFailures:
    """The failed parts of one region.

    Parameters
    ----------
    controller
        What avoids them.
    """

    def __init__(self, controller: RegionController) -> None:
        self._controller = controller
        self.shape = shape_of(controller.region, controller.port_map)
        self.parts: frozenset[RegionPart] = frozenset()
        self.response = FailureResponse(respond((), self.shape).excluded)
        self._suspected: dict[tuple[int, int], set[tuple[int, int]]] = {}

    def load(self) -> None:
        """Take up the failures that the journal has, before the controller is started.

        Raises
        ------
        JournalError
            If they are damaged, or the region has no such parts any more.
        """
        notes = self._controller.journal.notes("failures", 1)
        if notes:
            name = shown_path(self._controller.journal.path)
            try:
                parts = frozenset(map(parse_part, json.loads(notes[0][1])))
            except (ValueError, TypeError, AttributeError, InputError):
                raise JournalError(
                    f"{name}: the failed parts are damaged; lightloom control audit names every "
                    "damaged row"
                ) from None
            try:
                for part in sorted(parts):
                    check_part(part, self.shape, self._controller.port_map)
            except InputError as error:
                raise JournalError(
                    f"{name}: out of service is {error}; resume it with the files as they were, "
                    "then change them"
                ) from None
            self.parts = parts
            self.response = respond(self.parts, self.shape)
            self._controller.exclude(self.response.excluded, self._switches(self.parts))

    def _parsed(self, text: str) -> RegionPart:
        return check_part(parse_part(text), self.shape, self._controller.port_map)

    def take_up(self, parts: Iterable[RegionPart]) -> None:
        """Avoid parts as the port map counts them that the controller has just taken up."""
        controller = self._controller
        self.shape = shape_of(controller.region, controller.port_map)
        self.parts = frozenset(parts)
        self.response = self._respond(self.parts)
        self._suspected.clear()
        controller.exclude(self.response.excluded, self._switches(self.parts))

    async def add(self, texts: Iterable[str]) -> FailureResponse:
        """Avoid parts from now on, such as ``nic:2/1``; return what follows.

        Raises
        ------
        InputError
            If the region has no such part.
        JournalError
            If it cannot be written.
        """
        parts = frozenset(self._parsed(text) for text in texts)
        return await self._set(self.parts | parts)

    async def remove(self, texts: Iterable[str]) -> FailureResponse:
        """Use parts again that have been repaired; return what follows.

        Raises
        ------
        As :meth:`add`.
        """
        parts = frozenset(self._parsed(text) for text in texts)
        unknown = sorted(parts - self.parts)
        if unknown:
            out_of_service = ", ".join(map(str, sorted(self.parts))) or "nothing"
            raise InputError(f"{unknown[0]}: is in service; out of service: {out_of_service}")
        response = await self._set(self.parts - parts)
        self._controller.trend.forget(self._nics_of(parts))
        return response

    def _nics_of(self, parts: Iterable[RegionPart]) -> list[str]:
        """NICs whose light a repair may have changed, such as ``node0/0``."""
        named = list(parts)
        servers = {part.server for part in named if part.kind is PartKind.SERVER}
        nics = {(part.server, part.number) for part in named if part.kind in OPTICAL_PARTS}
        switches = {part.switch for part in named if part.kind is PartKind.SWITCH}
        port_map = self._controller.port_map
        return [
            f"{port_map.servers[entry.server]}/{entry.nic}"
            for entry in port_map.nics
            if entry.server in servers
            or (entry.server, entry.nic) in nics
            or entry.ingress.switch in switches
        ]

    async def _set(self, parts: frozenset[RegionPart]) -> FailureResponse:
        if parts == self.parts:
            return self.response
        response = self._respond(parts)
        text = json.dumps(sorted(map(str, parts)))
        self._controller.journal.note("failures", text, self._controller.lease.now())
        await self._controller.avoid(response.excluded, self._switches(parts))
        self.parts, self.response = parts, response
        return response

    def _switches(self, parts: Iterable[RegionPart]) -> frozenset[str]:
        """Switches to leave alone; the only one is still tried."""
        if len(self.shape.switches) == 1:
            return frozenset()
        return frozenset(part.switch for part in parts if part.kind is PartKind.SWITCH)

    def _respond(self, parts: frozenset[RegionPart]) -> FailureResponse:
        """What follows from failed parts, and from switches that do not answer."""
        names = self._controller.switches.unreachable.keys() & set(self.shape.switches)
        unreachable = {RegionPart(PartKind.SWITCH, switch=name) for name in names}
        return respond(parts | unreachable, self.shape, self._controller.held)

    def current(self) -> FailureResponse:
        """Return what follows with the circuits and the unreachable switches of now."""
        if not self.parts and not self._controller.switches.unreachable and not self.response.lost:
            return self.response
        self.response = self._respond(self.parts)
        if self.response.excluded != self._controller.decider.failures:
            self._controller.decider.exclude(self.response.excluded)
        return self.response

    def leftovers(self) -> frozenset[NicPair]:
        """Return circuits of parts out of service that were deleted in part: they may be lit."""
        left = self._controller.left()
        return frozenset(respond(self.parts, self.shape, left).lost) if left else left

    def blame(self, failed: Mapping[NicPair, str], circuits: Iterable[NicPair]) -> list[str]:
        """Return NICs that failed with several peers, and clear those that work.

        Parameters
        ----------
        failed
            Circuits that could not be made.
        circuits
            Circuits that are there.
        """
        for circuit in circuits:
            self._suspected.pop((circuit.server, circuit.nic), None)
            self._suspected.pop((circuit.peer, circuit.peer_nic), None)
        blamed = []
        for circuit in failed:
            a, b = (circuit.server, circuit.nic), (circuit.peer, circuit.peer_nic)
            for nic, peer in ((a, b), (b, a)):
                peers = self._suspected.setdefault(nic, set())
                peers.add(peer)
                if len(peers) >= _BLAMED_AFTER:
                    blamed.append(f"nic:{nic[0]}/{nic[1]}")
        return sorted(set(blamed))
