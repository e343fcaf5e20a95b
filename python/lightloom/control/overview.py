"""A region that is served, as one document: what its page shows, and a program may read.

It has no secrets and changes nothing. Times are seconds since the epoch by the clock of the
service, which is in it as ``at``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lightloom.control.documents import Document, light_as_json, region_as_json
from lightloom.control.history import ChangeHistory, ChangeSummary
from lightloom.control.optics import loss_budget
from lightloom.control.refusals import JournalError
from lightloom.control.region_light import loss_growth
from lightloom.control.report import RegionState

if TYPE_CHECKING:
    from lightloom.control.controller import RegionController
    from lightloom.control.journal import ChangeReason
    from lightloom.control.port_map import NicPair
    from lightloom.control.session import RegionSession

#: version of the document
VERSION = 1
#: a reading is old after this many times of ``check_s``, and this many seconds
_OLD_AFTER, _OLD_S = 3, 5.0
#: pairs of servers that are named of a demand
_PAIRS = 8


def overview(session: RegionSession, history: ChangeHistory) -> Document:
    """Return what is known of a region now.

    Parameters
    ----------
    session
        What serves it.
    history
        Of its journal.
    """
    controller = session.controller
    try:
        history.refresh()
        problem = ""
    except JournalError as error:
        problem = str(error)
    old_s = max(_OLD_AFTER * controller.region.serve.check_s, _OLD_S)
    return {
        "version": VERSION,
        "at": controller.lease.now(),
        "region": region_as_json(controller),
        "age_s": controller.age_s,
        "is_old": controller.age_s > old_s,
        "paused": session.operators.paused,
        "drained": sorted(map(str, session.failures.parts)),
        "alarms": [{"place": place, "text": text} for place, text in session.alarms.items()],
        "switches": _switches(controller),
        "circuits": _circuits(session, history),
        "demand": _demand(session),
        "changes": [_change(change) for change in history.changes],
        "journal_problem": problem,
        "members": session.members(),
    }


def _switches(controller: RegionController) -> list[Document]:
    switches, rows = controller.switches, []
    for name in switches.drivers:
        said = switches.descriptions.get(name)
        error = switches.unreachable.get(name)
        rows.append(
            {
                "name": name,
                "model": "" if said is None else f"{said.vendor} {said.model}",
                "serial": "" if said is None else said.serial,
                "software": "" if said is None else said.software,
                "size": None if said is None else list(said.size),
                "equipment": [
                    {
                        "name": part.name,
                        "kind": part.kind,
                        "says": str(part),
                        "problem": part.problem,
                    }
                    for part in controller.equipment.get(name, ())
                ],
                "problem": "" if error is None else str(error),
            }
        )
    return rows


def _circuits(session: RegionSession, history: ChangeHistory) -> list[Document]:
    controller = session.controller
    there, held = controller.observed.circuits, controller.held
    unseen = controller.unseen(held | there)
    if controller.state is RegionState.UNKNOWN:
        unseen = held | there
    grown = {str(placed): growth_db for placed, (growth_db, _) in loss_growth(controller).items()}
    rows = []
    for circuit in sorted(held | there | session.changing):
        state = "lit"
        if circuit in session.changing:
            state = "changing"
        elif circuit in unseen:
            state = "unknown"
        elif circuit not in there:
            state = "missing"
        elif circuit not in held:
            state = "somebody else's"
        since = history.since.get(str(circuit)) if circuit in held else None
        rows.append(
            {
                "circuit": str(circuit),
                "ends": _ends(controller, circuit),
                "state": state,
                "since": None if since is None else since.at,
                "change": None if since is None else since.change,
                "light": [
                    {**budget, "growth_db": grown.get(budget["cross_connect"])}
                    for budget in light_as_json(
                        loss_budget(
                            controller.port_map.cross_connects(circuit),
                            controller.statuses,
                            controller.limits,
                            connected=circuit in there,
                        )
                    )
                ],
            }
        )
    return rows


def _ends(controller: RegionController, circuit: NicPair) -> list[Document]:
    names = controller.port_map.servers
    return [{"server": names[server], "nic": nic} for server, nic in (circuit[:2], circuit[2:])]


def _demand(session: RegionSession) -> Document | None:
    seen = session.demand
    if seen is None:
        return None
    return {
        "at": seen.at,
        **_reason(seen.reason),
        "all_to_alls": seen.count,
        "result": seen.result,
        "bytes": None if seen.matrix is None else int(seen.matrix.sum()),
        "pairs": [] if seen.matrix is None else _busiest(session.controller, seen.matrix),
    }


def _busiest(controller: RegionController, matrix: npt.NDArray[np.uint64]) -> list[Document]:
    """The pairs of servers with the most bytes in both directions, most first."""
    names = controller.port_map.servers
    both = np.triu(matrix + matrix.T, 1)
    order = np.argsort(both, axis=None, kind="stable")[::-1][:_PAIRS]
    number: dict[tuple[int, int], int] = {}
    for circuit in controller.held & controller.observed.circuits:
        ends = (min(circuit.servers), max(circuit.servers))
        number[ends] = number.get(ends, 0) + 1
    pairs = [(int(place) // len(both), int(place) % len(both)) for place in order]
    return [
        {
            "servers": [names[server], names[peer]],
            "bytes": int(both[server, peer]),
            "circuits": number.get((server, peer), 0),
        }
        for server, peer in pairs
        if both[server, peer]
    ]


def _change(change: ChangeSummary) -> Document:
    return {
        "change": change.number,
        "at": change.at,
        "kind": change.kind,
        **_reason(change.reason),
        "result": change.result,
        "created": len(change.created),
        "deleted": len(change.deleted),
        "seconds": change.seconds,
        "failed": dict(change.failed),
    }


def _reason(reason: ChangeReason) -> Document:
    return {
        "who": reason.who,
        "why": reason.text,
        "job": reason.job,
        "step": reason.step,
        "layer": reason.layer,
    }
