"""What an operator does with circuits: plan, look at the plan, apply that plan and no other.

A plan holds the circuits that it leads to and a fingerprint of what it was made from; it is applied
only while the port map, the journal and the switches still say the same. The same functions serve a
command that holds the region itself and the service, to which the requests come as JSON.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field, TypeAdapter, ValidationError

from lightloom.control.change import ConflictMode
from lightloom.control.change_window import next_window
from lightloom.control.circuit_file import parse_circuits
from lightloom.control.controller import RegionController
from lightloom.control.decisions import circuits_of
from lightloom.control.documents import Document, change_as_json, region_as_json, report_as_json
from lightloom.control.journal import ChangeReason
from lightloom.control.port_map import NicPair, PortMap
from lightloom.control.refusals import RequestError, StateError
from lightloom.control.region_light import still_lit
from lightloom.control.remap import plan_remap
from lightloom.control.report import ChangeReport
from lightloom.errors import InputError, echo
from lightloom.inputs.strict import Name, Strict

#: digits of a fingerprint that a reason has, for people
_SHOWN_DIGITS = 12
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Circuits = Annotated[tuple[Name, ...], Field(max_length=65_536)]
ChangeKind = Literal["apply", "reapply", "roll-back", "adopt", "remap"]
#: makes a change of circuits: wanted, reason, kind, mode, fingerprint
Change = Callable[
    [frozenset[NicPair], ChangeReason, str, ConflictMode, str | None], Awaitable[ChangeReport]
]


class Exactly(Strict):
    """These circuits and no others of the region."""

    kind: Literal["exactly"] = "exactly"
    circuits: Circuits
    name: Name


class Edited(Strict):
    """The circuits that are held, with some added and some removed."""

    kind: Literal["edited"] = "edited"
    add: Circuits = ()
    remove: Circuits = ()


class Demanded(Strict):
    """The circuits that a demand gets; its bytes from rank to rank come beside."""

    kind: Literal["demanded"] = "demanded"


class Cleared(Strict):
    """No circuits."""

    kind: Literal["cleared"] = "cleared"


class Reapplied(Strict):
    """The circuits of the journal: what drifted is repaired."""

    kind: Literal["reapplied"] = "reapplied"


class Adopted(Strict):
    """The circuits that the switches hold, as those of the region."""

    kind: Literal["adopted"] = "adopted"


class Before(Strict):
    """The circuits before a change, by default the last one that changed any."""

    kind: Literal["before"] = "before"
    change: Annotated[int, Field(strict=True, ge=1)] | None = None


class Remapped(Strict):
    """The circuits that are held, less those that the port map of the files does not have."""

    kind: Literal["remapped"] = "remapped"


Target: TypeAlias = Exactly | Edited | Demanded | Cleared | Reapplied | Adopted | Before | Remapped
_TARGET: TypeAdapter[Target] = TypeAdapter(Annotated[Target, Field(discriminator="kind")])


class PlannedChange(Strict):
    """A change as it was planned.

    Attributes
    ----------
    region, kind, why
        Of which region, what kind of change, and why, in words.
    wanted
        The circuits that it leads to, such as ``0/1-3/0``.
    conflicts
        What becomes of cross-connects of others.
    port_map
        Fingerprint of the port map that its circuits are counted by; always checked.
    seen
        Fingerprint of all that it was made from: port map, journal and switches.
    new_map
        Fingerprint of the port map that it takes up, if it does; always checked.
    """

    region: Name
    kind: ChangeKind
    wanted: Circuits
    why: Annotated[str, Field(max_length=4096)]
    conflicts: ConflictMode
    port_map: Digest
    seen: Digest
    new_map: Digest | None = None


def parse_target(value: object) -> Target:
    """Return the target that JSON describes.

    Raises
    ------
    RequestError
        If it describes none.
    """
    try:
        return _TARGET.validate_python(value)
    except (ValidationError, InputError):
        raise RequestError(f"target {echo(value)}: expected circuits that are wanted") from None


def plan(
    controller: RegionController,
    target: Target,
    conflicts: ConflictMode | None = None,
    demand: npt.NDArray[np.uint64] | None = None,
) -> Document:
    """Return the change that leads to a target, from what was read last.

    The keys are ``region``, ``plan`` (a :class:`PlannedChange`), ``why``, and ``change`` or, for an
    adoption, ``adopts``.

    Parameters
    ----------
    controller
        A controller that has read its switches.
    target
        The circuits that are wanted.
    conflicts
        What becomes of cross-connects of others; as in the region's file by default.
    demand
        Of a target that is :class:`Demanded`, as :meth:`RegionDecider.fold` returns it.

    Raises
    ------
    InputError
        If a circuit does not exist.
    ControlError
        If the change would be refused.
    """
    wanted, kind, why = _resolve(controller, target, demand)
    planned = _planned(controller, wanted, kind, why)
    if conflicts is not None:
        planned = planned.model_copy(update={"conflicts": conflicts})
    document = _document(controller, planned)
    if kind == "adopt":
        document["adopts"] = list(map(str, sorted(wanted - controller.held)))
        return document
    change = controller.plan(wanted, planned.conflicts)
    document["change"] = change_as_json(change, controller.loss_of(change))
    return document


def _planned(
    controller: RegionController, wanted: frozenset[NicPair], kind: ChangeKind, why: str
) -> PlannedChange:
    return PlannedChange(
        region=controller.region.name,
        kind=kind,
        wanted=tuple(map(str, sorted(wanted))),
        why=why,
        conflicts=controller.region.change.conflicts,
        port_map=controller.port_map.fingerprint,
        seen=controller.fingerprint(),
    )


def _document(controller: RegionController, planned: PlannedChange) -> Document:
    return {
        "region": region_as_json(controller),
        "plan": planned.model_dump(mode="json"),
        "why": planned.why,
    }


def plan_map(controller: RegionController, after: PortMap) -> Document:
    """Return the change that takes up a port map, as :func:`plan` does.

    The keys ``map`` and ``dark`` say by names and ports what differs and which circuits are
    deleted; numbers are those of the map before. Without a difference, ``plan`` and ``change`` are
    ``None``.

    Raises
    ------
    InputError
        If the map does not fit the switches, or the region's file.
    ControlError
        If a circuit that would be deleted cannot be.
    """
    remapping = plan_remap(controller, after)
    maps, change = remapping.maps, remapping.change
    if maps.is_empty:
        why = f"{after.name}: as at the last change; nothing to take up"
        nothing: Document = {"plan": None, "why": why, "map": [], "dark": [], "change": None}
        return {"region": region_as_json(controller), **nothing}
    before = maps.before
    ends = f"{before.fingerprint[:_SHOWN_DIGITS]} to {after.fingerprint[:_SHOWN_DIGITS]}"
    planned = _planned(controller, change.wanted, "remap", f"take up {after.name} ({ends})")
    update = {"new_map": after.fingerprint, "conflicts": ConflictMode.SAFE}
    dark = [
        f"{before.servers[circuit.server]}/{circuit.nic} - "
        f"{before.servers[circuit.peer]}/{circuit.peer_nic} "
        f"({', '.join(map(str, before.cross_connects(circuit)))})"
        for circuit in change.deletes
    ]
    return {
        **_document(controller, planned.model_copy(update=update)),
        "map": list(maps.lines()),
        "dark": dark,
        "change": change_as_json(change),
    }


def _resolve(
    controller: RegionController, target: Target, demand: npt.NDArray[np.uint64] | None
) -> tuple[frozenset[NicPair], ChangeKind, str]:
    held = controller.held
    match target:
        case Exactly(circuits=circuits, name=name):
            return _parsed(controller, circuits), "apply", f"circuits of {name}"
        case Edited(add=add, remove=remove):
            wanted = _edited(held, _parsed(controller, add), _parsed(controller, remove))
            words = [*(f"add {text}" for text in add), *(f"remove {text}" for text in remove)]
            return wanted, "apply", ", ".join(words)
        case Demanded():
            if demand is None:
                raise RequestError("target: expected the demand, too")
            decider = controller.decider
            decision = decider.decide(decider.hold(held & controller.observed.circuits), demand)
            return circuits_of(decision), "apply", str(decision)
        case Cleared():
            return frozenset(), "apply", "clear"
        case Reapplied():
            return held, "reapply", "reapply"
        case Adopted():
            there = controller.observed.circuits | controller.unseen(held)
            return there, "adopt", "adopt"
        case Remapped():
            raise RequestError("target: a port map is taken up by itself")
        case Before(change=number):
            wanted = controller.snapshot(number)
            return (
                wanted,
                "roll-back",
                "the circuits before "
                + ("the last change" if number is None else f"change {number}"),
            )


def _parsed(controller: RegionController, circuits: tuple[str, ...]) -> frozenset[NicPair]:
    return parse_circuits("\n".join(circuits), "circuits", controller.port_map)


def _edited(
    held: frozenset[NicPair], add: frozenset[NicPair], remove: frozenset[NicPair]
) -> frozenset[NicPair]:
    for circuit in sorted(remove - held):
        raise InputError(f"circuit {circuit} is not there")
    kept = held - remove
    ends = {end: circuit for circuit in kept for end in (circuit[:2], circuit[2:])}
    for circuit in sorted(add - kept):
        for server, nic in (circuit[:2], circuit[2:]):
            if (server, nic) in ends:
                raise InputError(
                    f"circuit {circuit}: NIC {server}/{nic} ends circuit {ends[server, nic]}; "
                    "remove that one as well"
                )
    return kept | add


def check_window(controller: RegionController, advice: str) -> None:
    """Refuse a change outside the windows of the region's file; ``advice`` ends the message.

    Raises
    ------
    StateError
        Saying when the next one begins.
    """
    change, region = controller.region.change, controller.region.name
    begin = next_window(change.window, change.time_zone, controller.lease.now())
    if begin is not None:
        raise StateError(
            f"{region}: outside the change window, which begins {begin:%a %Y-%m-%d %H:%M} "
            f"{change.time_zone}; {advice}"
        )


def in_window(controller: RegionController, why: str, *, at_once: bool) -> str:
    """Return why an operator changes circuits, and whether that is outside the change window.

    Parameters
    ----------
    controller
        Of the region.
    why
        In words.
    at_once
        Whether it is done outside the window, too; the journal says so then.

    Raises
    ------
    StateError
        If it has to wait for the next window.
    """
    try:
        check_window(controller, "--now does it all the same, and the journal says so")
    except StateError:
        if not at_once:
            raise
        return f"{why} (outside the change window)"
    return why


def check_plan(controller: RegionController, planned: PlannedChange) -> None:
    """Refuse a plan that means other circuits here, whatever else is not checked.

    Raises
    ------
    StateError
        If it is of another region, or by another port map.
    """
    if planned.region != controller.region.name:
        raise StateError(
            f"the plan is of region {echo(planned.region)}, not of {controller.region.name}"
        )
    if planned.port_map != controller.port_map.fingerprint:
        raise StateError(
            f"{controller.region.name}: the plan was made with another port map, by which its "
            "circuits are other ones; nothing was sent: plan again"
        )


async def apply(
    controller: RegionController,
    planned: PlannedChange,
    reason: ChangeReason,
    change: Change,
    *,
    checks: bool = True,
    at_once: bool = False,
) -> Document:
    """Make a planned change; return what came of it, for a person and a program.

    What is left of circuits that were deleted in part before counts as not done: whoever pulls a
    fiber after a change reads what it printed.

    Parameters
    ----------
    controller
        A controller that has started.
    planned
        The change.
    reason
        For the journal; its text is that of the plan.
    change
        What makes a change of circuits.
    checks
        Whether it is refused if the journal or the switches have changed since it was planned.
    at_once
        Whether it is made outside the change window, too.

    Raises
    ------
    InputError
        If it is of another region, or a circuit does not exist.
    ControlError
        If it is refused, as it is by another port map; no command was sent.
    """
    check_plan(controller, planned)
    seen = planned.seen if checks else None
    wanted = _parsed(controller, planned.wanted)
    why = ChangeReason(reason.who, planned.why, reason.job, reason.step, reason.layer)
    if planned.kind == "adopt":  # which changes no circuit
        adopted = await controller.adopt(why, seen)
        return {"result": "adopted", "after": list(map(str, sorted(adopted))), "failed": {}}
    why = replace(why, text=in_window(controller, planned.why, at_once=at_once))
    report = await change(wanted, why, planned.kind, planned.conflicts, seen)
    failed = still_lit(controller, controller.left() - wanted) | dict(report.failed)
    result = "partial" if failed and report.result == "done" else report.result
    return report_as_json(replace(report, result=result, failed=failed))


def fold_demand(controller: RegionController, body: bytes) -> npt.NDArray[np.uint64]:
    """Return the demand that came as bytes, from server to server.

    Raises
    ------
    RequestError
        If it has another size.
    """
    ranks = controller.decider.ranks
    if len(body) != 8 * ranks * ranks:
        raise RequestError(
            f"demand: expected {ranks} x {ranks} numbers of bytes from rank to rank, 8 bytes each; "
            f"got {len(body):,} bytes"
        )
    return controller.decider.fold(np.frombuffer(body, "<u8").reshape(ranks, ranks))
