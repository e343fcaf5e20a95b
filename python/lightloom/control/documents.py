"""Regions, changes, and what came of them, as plain values: for files, clients and commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from lightloom.control.change import RegionChange
    from lightloom.control.controller import RegionController
    from lightloom.control.optics import LossBudget
    from lightloom.control.report import ChangeReport


#: a table of plain values, as JSON has it
Document: TypeAlias = dict[str, Any]


def region_as_json(controller: RegionController) -> Document:
    """What a region is, and its state."""
    ports, drift = controller.port_map, controller.drift
    return {
        "name": controller.region.name,
        "state": str(controller.state),
        "servers": len(ports.servers),
        "nics": sum(ports.nics_per_server),
        "switches": list(ports.switches),
        "held": _texts(sorted(controller.held)),
        "unreachable": {
            name: str(error) for name, error in controller.switches.unreachable.items()
        },
        "drift": {
            "missing": _texts(drift.missing),
            "extra": _texts(drift.extra),
            "strangers": _texts(drift.strangers),
        },
    }


def change_as_json(change: RegionChange, light: Iterable[LossBudget] | None = None) -> Document:
    """A change, with the light of its circuits where that was asked for."""
    found: Document = {
        "creates": _texts(change.creates),
        "moves": [{"before": str(a), "after": str(b)} for a, b in change.moved],
        "deletes": _texts(change.deletes),
        "unchanged": _texts(change.unchanged),
        "replaced": _texts(change.replaced),
        "expected_s": change.expected_s,
    }
    return found if light is None else {**found, "light": light_as_json(light)}


def report_as_json(report: ChangeReport) -> Document:
    """What came of a change; ``number`` is that of the journal."""
    return {
        "result": report.result,
        "number": report.number,
        "after": _texts(sorted(report.after)),
        "failed": {str(circuit): problem for circuit, problem in sorted(report.failed.items())},
        "timings": dict(report.timings),
        "light": light_as_json(report.light),
    }


def light_as_json(light: Iterable[LossBudget]) -> list[Document]:
    """The light of cross-connects; ``null`` where nothing is measured."""
    return [
        {
            "cross_connect": str(reading.placed),
            "input_dbm": reading.input_dbm,
            "output_dbm": reading.output_dbm,
            "loss_db": reading.loss_db,
            "verdict": reading.verdict,
        }
        for reading in light
    ]


def _texts(things: Iterable[object]) -> list[str]:
    return [str(thing) for thing in things]
