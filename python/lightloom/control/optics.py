"""Light: the loss budget of circuits, and the guard against too much power at a port."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources

from lightloom.control.port_map import NicPair, PlacedConnect, PortMap, SwitchPort
from lightloom.control.refusals import OpticalPowerError
from lightloom.control.switch import EquipmentStatus, PortState, PortStatus, Readback
from lightloom.hardware.values import (
    Provenance,
    Source,
    Table,
    Value,
    parse_table,
    resolve,
    values_of,
)


class OpticsLimitsTable(Table):
    """Limits as the data file has them."""

    max_input_dbm: Value
    typical_loss_db: Value
    max_loss_db: Value
    monitor_accuracy_db: Value


class OpticsFile(Table):
    """The file of optical limits."""

    sources: dict[str, Source]
    limits: OpticsLimitsTable


@functools.cache
def published_limits() -> Mapping[str, Provenance]:
    """Limits of a beam-steering switch, each with its source."""
    text = resources.files(__package__).joinpath("data", "optics.toml").read_text("utf-8")
    file = parse_table(text, OpticsFile, "optics.toml")
    return resolve(values_of(file.limits), file.sources)


@dataclass(frozen=True)
class OpticalLimits:
    """By what circuits are checked.

    Attributes
    ----------
    max_input_dbm
        Power at an ingress port from which on nothing is connected to it.
    typical_loss_db, max_loss_db
        Expected loss of a circuit, and the loss from which on it is reported.
    monitor_accuracy_db
        Error of a power monitor; a measured loss has that of two.
    max_loss_growth_db
        Growth of a loss over its lowest reading from which on it is reported.
    min_receive_dbm
        Power that a receiver needs; not checked if absent.
    """

    max_input_dbm: float
    typical_loss_db: float
    max_loss_db: float
    monitor_accuracy_db: float
    max_loss_growth_db: float
    min_receive_dbm: float | None = None


@dataclass(frozen=True)
class LossBudget:
    """The light of one cross-connect.

    Attributes
    ----------
    input_dbm
        Measured at the ingress port; None without a monitor.
    output_dbm
        Measured at the egress port once it is connected, else expected; None if unknown.
    loss_db
        Measured loss; None where it is not measured.
    verdict
        ``within``, ``weak`` (the receiver gets too little), ``lossy`` (the measured loss exceeds
        the limit), ``dark`` (no light arrives from the NIC) or ``unknown``.
    """

    placed: PlacedConnect
    input_dbm: float | None
    output_dbm: float | None
    loss_db: float | None
    verdict: str


#: power that a monitor shows where there is no light
_DARK_DBM = -40.0


def port_statuses(readbacks: Mapping[str, Readback]) -> dict[SwitchPort, PortStatus]:
    """Return what the switches say of each port."""
    return {
        SwitchPort(switch, status.name): status
        for switch, readback in readbacks.items()
        for status in readback.ports
    }


def bright_ports(
    statuses: Mapping[SwitchPort, PortStatus], port_map: PortMap, limits: OpticalLimits
) -> dict[SwitchPort, float]:
    """Return the owned ingress ports that get more power than is permitted."""
    return {
        entry.ingress: status.power_dbm
        for entry in port_map.nics
        if (status := statuses.get(entry.ingress)) is not None
        and status.power_dbm is not None
        and status.power_dbm > limits.max_input_dbm
    }


def alarms_of(
    circuits: Iterable[NicPair],
    port_map: PortMap,
    statuses: Mapping[SwitchPort, PortStatus],
    limits: OpticalLimits,
) -> dict[str, str]:
    """Return what is wrong with light and ports, by cross-connect or port.

    Parameters
    ----------
    circuits
        Those that are there.
    port_map
        The ports of the region; others are none of its business.
    statuses
        What the switches say of their ports.
    limits
        Of the light.
    """
    alarms = {}
    for port, dbm in bright_ports(statuses, port_map, limits).items():
        alarms[str(port)] = f"gets {dbm:+.1f} dBm"
    for port in sorted(port_map.by_port.keys() & statuses.keys()):
        status = statuses[port]
        if status.alarm is not None or status.state is PortState.FAILED:
            alarms[str(port)] = status.alarm or "has failed"
    for circuit in sorted(circuits):
        budgets = loss_budget(port_map.cross_connects(circuit), statuses, limits, connected=True)
        for budget in budgets:
            if budget.verdict in {"dark", "lossy", "weak"}:
                alarms[str(budget.placed)] = f"is {budget.verdict} (circuit {circuit})"
    return alarms


def equipment_alarms(equipment: Mapping[str, Iterable[EquipmentStatus]]) -> dict[str, str]:
    """Return what is wrong with power supplies and fans of switches, by where they are."""
    return {
        f"{part.name} of {switch}": part.problem
        for switch, parts in equipment.items()
        for part in parts
        if part.problem
    }


def check_power(
    creates: Iterable[PlacedConnect], bright: Mapping[SwitchPort, float], limits: OpticalLimits
) -> None:
    """Refuse to connect ports with too much light.

    Raises
    ------
    OpticalPowerError
        Naming the first port.
    """
    if not bright:
        return
    for placed in creates:
        port = SwitchPort(placed.switch, placed.cross_connect.ingress)
        if port in bright:
            raise OpticalPowerError(
                f"{port} gets {bright[port]:+.1f} dBm, more than the {limits.max_input_dbm:+g} dBm "
                "that are permitted; attenuate the transmitter"
            )


def loss_budget(
    cross_connects: Iterable[PlacedConnect],
    statuses: Mapping[SwitchPort, PortStatus],
    limits: OpticalLimits,
    *,
    connected: bool,
) -> list[LossBudget]:
    """Return the light of each cross-connect: measured if they are connected, else expected."""
    return [_budget(placed, statuses, limits, connected) for placed in cross_connects]


def _budget(
    placed: PlacedConnect,
    statuses: Mapping[SwitchPort, PortStatus],
    limits: OpticalLimits,
    connected: bool,
) -> LossBudget:
    ingress = statuses.get(SwitchPort(placed.switch, placed.cross_connect.ingress))
    egress = statuses.get(SwitchPort(placed.switch, placed.cross_connect.egress))
    power_in = None if ingress is None else ingress.power_dbm
    power_out = loss = None
    if connected and egress is not None:
        power_out, loss = egress.power_dbm, egress.loss_db
        if loss is None and power_in is not None and power_out is not None:
            loss = power_in - power_out
    elif power_in is not None:
        power_out = power_in - limits.typical_loss_db
    verdict = _verdict(power_in, power_out, loss, limits)
    return LossBudget(placed, power_in, power_out, loss, verdict)


def _verdict(
    power_in: float | None, power_out: float | None, loss: float | None, limits: OpticalLimits
) -> str:
    if power_in is not None and power_in <= _DARK_DBM:
        return "dark"
    if loss is not None and loss > limits.max_loss_db + 2 * limits.monitor_accuracy_db:
        return "lossy"
    if power_out is None:
        return "unknown"
    if limits.min_receive_dbm is not None and power_out < limits.min_receive_dbm:
        return "weak"
    return "within"
