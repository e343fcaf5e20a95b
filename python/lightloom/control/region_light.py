"""The light of a region by the last reading: its circuits, how it has changed, and alarms."""

from __future__ import annotations

from collections.abc import Iterable

from lightloom.control.controller import RegionController
from lightloom.control.loss_trend import LowestLoss, growth_alarms
from lightloom.control.optics import LossBudget, alarms_of, equipment_alarms, loss_budget
from lightloom.control.port_map import NicPair, PlacedConnect
from lightloom.control.report import half_deleted


def light_of(controller: RegionController) -> list[LossBudget]:
    """Return the light of every cross-connect of circuits that are there."""
    ports = controller.port_map
    connects = (
        placed
        for circuit in sorted(controller.observed.circuits & controller.held)
        for placed in ports.cross_connects(circuit)
    )
    return loss_budget(connects, controller.statuses, controller.limits, connected=True)


def loss_growth(controller: RegionController) -> dict[PlacedConnect, tuple[float, LowestLoss]]:
    """Return by how many dB the loss of each cross-connect has grown, and its lowest loss."""
    return controller.trend.growth(light_of(controller), controller.port_map)


def note_losses(controller: RegionController) -> None:
    """Keep the losses that are lower than ever.

    Raises
    ------
    JournalError
        If they cannot be written.
    """
    controller.trend.note(light_of(controller), controller.port_map, controller.lease.now())


def region_alarms(controller: RegionController) -> dict[str, str]:
    """Return what is wrong with light, ports and switches, and what is left, by where it is."""
    limits, circuits = controller.limits, controller.observed.circuits & controller.held
    return {
        **equipment_alarms(controller.equipment),
        **growth_alarms(loss_growth(controller), limits.max_loss_growth_db),
        **alarms_of(circuits, controller.port_map, controller.statuses, limits),
        **_leftovers(controller),
    }


def still_lit(controller: RegionController, circuits: Iterable[NicPair]) -> dict[NicPair, str]:
    """Return why each of some circuits that were deleted in part, as far as is known, is lit."""
    left = frozenset(circuits)
    words = dict.fromkeys(sorted(left), "deleted in part, and its switch does not answer")
    return words | half_deleted(left, controller.port_map, controller.observed)


def _leftovers(controller: RegionController) -> dict[str, str]:
    """What the switches still have of circuits that nobody holds any more, or that never were."""
    there = controller.observed.strangers
    return {
        str(placed): f"is left of {circuit}, which was made or deleted in part"
        for circuit in sorted(controller.left())
        for placed in controller.port_map.cross_connects(circuit)
        if placed in there
    }
