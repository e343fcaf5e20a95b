"""A change of a region's circuits: what is created, deleted and left, and what it may disturb.

Nothing here touches a switch. A change is computed from what the switches hold (or are known to
hold since they were last read back) to the circuits that are wanted. Cross-connects that stay are
in no command, and a port that the region does not own is in none either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from lightloom.control.port_map import NicPair, ObservedCircuits, PlacedConnect, PortMap, SwitchPort
from lightloom.control.refusals import ConflictError
from lightloom.control.switch import CrossConnect, SwitchChange
from lightloom.schedule.records import SwitchTiming

#: a port has one cross-connect at a time, so this orders them, several times as fast as both ports
_BY_INGRESS = itemgetter(0)


class ConflictMode(StrEnum):
    """What becomes of cross-connects on owned ports that the controller did not make.

    The words are those of SONiC. Cross-connects that also use a port of somebody else are never
    touched, whatever the mode.
    """

    #: a change that needs their ports is refused
    SAFE = "safe"
    #: those that are in the path of a change are deleted
    UPDATE = "update"
    #: all of them are deleted
    OVERWRITE = "overwrite"


class MovedCircuit(NamedTuple):
    """A circuit that other NICs of the same servers take over."""

    before: NicPair
    after: NicPair


@dataclass(frozen=True)
class RegionChange:
    """What leads from the circuits of a region to others.

    Attributes
    ----------
    before, wanted
        Circuits that are there, and that should be.
    commands
        Cross-connects to delete and create, by switch; only switches that change.
    replaced
        Cross-connects that are not the controller's and are deleted.
    expected_s
        Time until the circuits carry traffic, as the timing of the region says.
    """

    before: frozenset[NicPair]
    wanted: frozenset[NicPair]
    commands: Mapping[str, SwitchChange]
    replaced: tuple[PlacedConnect, ...] = ()
    expected_s: float = field(default=0.0, compare=False)

    @property
    def is_empty(self) -> bool:
        """Whether no switch is touched."""
        return not self.commands

    @property
    def created(self) -> list[PlacedConnect]:
        """Cross-connects to create."""
        return [
            PlacedConnect(switch, connect)
            for switch, command in self.commands.items()
            for connect in command.creates
        ]

    @property
    def unchanged(self) -> list[NicPair]:
        """Circuits that stay."""
        return sorted(self.before & self.wanted)

    @property
    def moved(self) -> list[MovedCircuit]:
        """Circuits that are deleted and created between the same servers."""
        return _pair_up(sorted(self.before - self.wanted), sorted(self.wanted - self.before))

    @property
    def creates(self) -> list[NicPair]:
        """New circuits, without those that move."""
        after = {moved.after for moved in self.moved}
        return sorted(self.wanted - self.before - after)

    @property
    def deletes(self) -> list[NicPair]:
        """Circuits that are torn down, without those that move."""
        before = {moved.before for moved in self.moved}
        return sorted(self.before - self.wanted - before)

    @property
    def pairs(self) -> int:
        """Circuits that a switch touches: the larger of those created and those deleted."""
        return max(len(self.wanted - self.before), len(self.before - self.wanted))


def plan_commands(
    port_map: PortMap,
    observed: ObservedCircuits,
    managed: frozenset[NicPair],
    wanted: Iterable[NicPair],
    *,
    mode: ConflictMode = ConflictMode.SAFE,
    timing: SwitchTiming | None = None,
) -> RegionChange:
    """Return the commands that lead from what is observed to the circuits that are wanted.

    Each switch changes in one batch, as bytes have left the circuits that go dark by then;
    :func:`lightloom.schedule.plan_change` orders a change into several.

    Parameters
    ----------
    port_map
        The ports of the region.
    observed
        What the switches hold.
    managed
        Circuits that the controller made or tried to make; other cross-connects on owned ports are
        somebody else's.
    wanted
        The circuits that there should be.
    mode
        What becomes of somebody else's cross-connects on owned ports.
    timing
        For the expected time.

    Raises
    ------
    ConflictError
        If the change needs ports that somebody else uses.
    """
    goal = frozenset(wanted)
    gone, new = observed.circuits - goal, goal - observed.circuits
    deletes, creates = _connects(port_map, gone & managed), _connects(port_map, new)
    others = gone - managed
    replaced: set[PlacedConnect] = set()
    if others or observed.strangers or observed.crossing:
        owners = {pair: circuit for circuit in new for pair in port_map.cross_connects(circuit)}
        ours = frozenset(_connects(port_map, managed | goal))
        present = (observed.strangers & owners.keys()) - observed.broken
        creates = [pair for pair in creates if pair not in present]
        deletes = list({*deletes, *((observed.strangers & ours) - present)})
        foreign = {*_connects(port_map, others), *(observed.strangers - ours)}
        replaced = _replaced(owners, foreign, observed.crossing, mode)
    kept = frozenset(
        circuit for circuit in others if replaced.isdisjoint(port_map.cross_connects(circuit))
    )
    before = observed.circuits - kept
    commands = _by_switch(port_map, {*deletes, *replaced} if replaced else deletes, creates)
    expected_s = 0.0
    if timing is not None and commands:
        pairs = max(len(goal - before), len(before - goal), 1)
        expected_s = timing.expected_s(pairs)
    return RegionChange(before, goal, commands, tuple(sorted(replaced)), expected_s)


def _connects(port_map: PortMap, circuits: Iterable[NicPair]) -> list[PlacedConnect]:
    return [placed for circuit in circuits for placed in port_map.cross_connects(circuit)]


def _replaced(
    creates: Mapping[PlacedConnect, NicPair],
    foreign: set[PlacedConnect],
    crossing: frozenset[PlacedConnect],
    mode: ConflictMode,
) -> set[PlacedConnect]:
    """Cross-connects of somebody else to delete; refuses what the mode does not permit."""
    needed = {port: circuit for placed, circuit in creates.items() for port in _ports(placed)}
    for placed in sorted(crossing):
        for port in _ports(placed):
            if port in needed:
                raise ConflictError(
                    f"circuit {needed[port]} needs {port}, which cross-connect {placed} joins to a "
                    "port outside this region; it is never deleted from here"
                )
    if mode is ConflictMode.OVERWRITE:
        return foreign
    replaced = set()
    for placed in sorted(foreign):
        busy = next((port for port in _ports(placed) if port in needed), None)
        if busy is None:
            continue
        if mode is ConflictMode.SAFE:
            raise ConflictError(
                f"circuit {needed[busy]} needs {busy}, which cross-connect {placed} uses that this "
                "controller did not make; use mode 'update' to replace it"
            )
        replaced.add(placed)
    return replaced


def _ports(placed: PlacedConnect) -> tuple[SwitchPort, SwitchPort]:
    connect = placed.cross_connect
    return SwitchPort(placed.switch, connect.ingress), SwitchPort(placed.switch, connect.egress)


def _by_switch(
    port_map: PortMap, deletes: Collection[PlacedConnect], creates: Collection[PlacedConnect]
) -> dict[str, SwitchChange]:
    changes = {
        switch: SwitchChange(_on(switch, deletes), _on(switch, creates))
        for switch in port_map.switches
    }
    return {switch: change for switch, change in changes.items() if not change.is_empty}


def _on(switch: str, all_placed: Collection[PlacedConnect]) -> tuple[CrossConnect, ...]:
    connects = [cross_connect for name, cross_connect in all_placed if name == switch]
    connects.sort(key=_BY_INGRESS)
    return tuple(connects)


def _pair_up(deletes: Sequence[NicPair], creates: Sequence[NicPair]) -> list[MovedCircuit]:
    left: dict[tuple[int, int], list[NicPair]] = {}
    for circuit in reversed(creates):
        left.setdefault(circuit.servers, []).append(circuit)
    return [
        MovedCircuit(circuit, left[circuit.servers].pop())
        for circuit in deletes
        if left.get(circuit.servers)
    ]


def check_owned(port_map: PortMap, commands: Mapping[str, SwitchChange]) -> None:
    """Assert that no command uses a port that the region does not own."""
    for switch, command in commands.items():
        used = {*chain.from_iterable(command.deletes), *chain.from_iterable(command.creates)}
        assert used <= port_map.owned(switch), (switch, used - port_map.owned(switch))
