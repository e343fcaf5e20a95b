"""What came of a change: circuit by circuit, and in all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lightloom.control.change import RegionChange
from lightloom.control.optics import LossBudget
from lightloom.control.port_map import NicPair, ObservedCircuits, PlacedConnect, PortMap
from lightloom.control.switch import CircuitState, Readback
from lightloom.control.switch_set import SwitchReplies
from lightloom.units import show_things


class RegionState(StrEnum):
    """What is known of the switches of a region."""

    #: they hold what the controller made
    READY = "ready"
    #: they hold something else on ports of the region
    DRIFTED = "drifted"
    #: nobody knows: a connection was cut, or a reply did not come
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Drift:
    """How the switches differ from what the controller made.

    Attributes
    ----------
    missing
        Circuits that should be there.
    extra
        Circuits that the controller did not make.
    strangers
        Other cross-connects at owned ports.
    """

    missing: tuple[NicPair, ...] = ()
    extra: tuple[NicPair, ...] = ()
    strangers: tuple[PlacedConnect, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.strangers)

    def __str__(self) -> str:
        parts = []
        if self.missing:
            parts.append(f"{show_things(len(self.missing), 'circuit')} missing ({self.missing[0]})")
        if self.extra:
            count = show_things(len(self.extra), "circuit")
            parts.append(f"{count} of somebody else ({self.extra[0]})")
        if self.strangers:
            count = show_things(len(self.strangers), "cross-connect")
            parts.append(f"{count} of somebody else ({self.strangers[0]})")
        return ", ".join(parts) or "none"


def drift_of(
    observed: ObservedCircuits, held: frozenset[NicPair], debris: frozenset[PlacedConnect]
) -> Drift:
    """Return how what is observed differs from what is held.

    Parameters
    ----------
    observed, held
        The circuits.
    debris
        Cross-connects of circuits that the controller could make or delete only in part.
    """
    if observed.circuits == held and not observed.strangers and not observed.crossing:
        return Drift()
    return Drift(
        tuple(sorted(held - observed.circuits)),
        tuple(sorted(observed.circuits - held)),
        tuple(sorted((observed.strangers - debris) | observed.crossing)),
    )


@dataclass(frozen=True)
class ChangeReport:
    """What came of a change.

    Attributes
    ----------
    change
        The change.
    result
        ``done``, ``partial``, ``failed``, ``rolled-back``, ``unknown`` or, for a change of nothing,
        ``unchanged``.
    after
        Circuits that the region has now.
    failed
        What is wrong with each circuit that is not as it should be.
    number
        Of the journal; None if nothing was to be done.
    timings
        Seconds of each part.
    light
        Loss of each new cross-connect, where it was measured.
    """

    change: RegionChange
    result: str
    after: frozenset[NicPair]
    failed: Mapping[NicPair, str] = field(default_factory=dict)
    number: int | None = None
    timings: Mapping[str, float] = field(default_factory=dict)
    light: tuple[LossBudget, ...] = ()


def failures_of(
    change: RegionChange,
    port_map: PortMap,
    replies: SwitchReplies,
    readbacks: Mapping[str, Readback] | None,
) -> dict[NicPair, str]:
    """Return what is wrong with each circuit of a change; empty if all is as wanted.

    Parameters
    ----------
    change, port_map
        The change.
    replies
        What the switches replied.
    readbacks
        What they hold now; without, their replies are believed.
    """
    problems: dict[NicPair, str] = {}
    for circuit in change.wanted - change.before:
        for placed in port_map.cross_connects(circuit):
            problem = _create_problem(placed, replies, readbacks)
            if problem:
                problems[circuit] = problem
                break
    for circuit in change.before - change.wanted:
        for placed in port_map.cross_connects(circuit):
            problem = _delete_problem(placed, replies, readbacks)
            if problem:
                problems[circuit] = problem
                break
    return problems


def _reply_problem(placed: PlacedConnect, replies: SwitchReplies) -> str:
    error = replies.errors.get(placed.switch)
    if error is not None:
        return str(error)
    result = replies.results.get(placed)
    if result is None or result.is_accepted:
        return ""
    code = f"{result.code}: " if result.code else ""
    return f"{placed} was refused: {code}{result.reason or result.state}"


def _create_problem(
    placed: PlacedConnect, replies: SwitchReplies, readbacks: Mapping[str, Readback] | None
) -> str:
    if readbacks is None:
        return _reply_problem(placed, replies)
    state = readbacks[placed.switch].state_of(placed.cross_connect)
    if state is CircuitState.CONNECTED:
        return ""
    if state is None:
        return _reply_problem(placed, replies) or (
            f"{placed} was accepted, but the switch does not have it"
        )
    return f"{placed} is {state}"


def _delete_problem(
    placed: PlacedConnect, replies: SwitchReplies, readbacks: Mapping[str, Readback] | None
) -> str:
    if readbacks is None:
        return _reply_problem(placed, replies)
    if readbacks[placed.switch].state_of(placed.cross_connect) is None:
        return ""
    return _reply_problem(placed, replies) or _still_there(placed)


def _still_there(placed: PlacedConnect) -> str:
    return f"{placed} was to be deleted, but the switch still has it"


def half_deleted(
    circuits: Iterable[NicPair], port_map: PortMap, observed: ObservedCircuits
) -> dict[NicPair, str]:
    """Return those of circuits that were to go of which a cross-connect is left."""
    return {
        circuit: _still_there(placed)
        for circuit in sorted(circuits)
        for placed in port_map.cross_connects(circuit)
        if placed in observed.strangers
    }


def with_replies(
    observed: ObservedCircuits, change: RegionChange, failed: Iterable[NicPair]
) -> ObservedCircuits:
    """Return what is there after a change of which every reply is believed."""
    wrong = set(failed)
    circuits = observed.circuits - ((change.before - change.wanted) - wrong)
    circuits |= (change.wanted - change.before) - wrong
    strangers = observed.strangers - set(change.replaced)
    return ObservedCircuits(circuits, strangers, observed.crossing, observed.broken & strangers)


def poor_light(
    change: RegionChange, port_map: PortMap, light: Iterable[LossBudget]
) -> dict[NicPair, str]:
    """Return what is wrong with the light of each new circuit, where it was measured."""
    problems = {
        signal.placed: f"{signal.placed} is {signal.verdict}: {signal.loss_db:.1f} dB of loss"
        if signal.loss_db is not None
        else f"{signal.placed} is {signal.verdict}"
        for signal in light
        if signal.verdict in {"lossy", "weak"}
    }
    return {
        circuit: problems[placed]
        for circuit in change.wanted - change.before
        for placed in port_map.cross_connects(circuit)
        if placed in problems
    }
