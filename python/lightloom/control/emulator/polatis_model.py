"""The data of an emulated Polatis switch as its published YANG modules lay it out.

NETCONF and RESTCONF show the same tree. The modules are ``optical-switch``, whose revision decides
the names (before 2017-08-04 a circuit is ``pairs`` and ports are below ``ports``), and
``polatis-switch``; both are published with ONOS (models/polatis).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from lightloom.control.emulator.device import EmulatedSwitch

MODULES = {
    "optical-switch": "http://www.polatis.com/yang/optical-switch",
    "polatis-switch": "http://www.polatis.com/yang/polatis-switch",
}
OPTICAL_SWITCH, POLATIS_SWITCH = MODULES
#: the newest published revision, and the first one with ``pair`` and ``port-config``
NEWEST_REVISION = "2018-03-22"
PAIR_REVISION = "2017-08-04"
POLATIS_REVISION = "2017-09-11"
CROSS_CONNECTS = "cross-connects"

#: values by name of leaf; a container inside is another mapping
Row: TypeAlias = Mapping[str, "str | int | Row"]


@dataclass(frozen=True, slots=True)
class ModelContainer:
    """One container at the top of a module.

    Attributes
    ----------
    name, module
        Of the container.
    entry
        Name of the list in it; empty where it has leaves instead.
    key
        Leaf that tells the entries apart.
    rows
        The entries, or one row of leaves.
    states
        Leaves that are state and no configuration.
    is_state
        Whether all of it is.
    """

    name: str
    module: str
    entry: str = ""
    key: str = ""
    rows: tuple[Row, ...] = ()
    states: frozenset[str] = frozenset()
    is_state: bool = False

    @property
    def namespace(self) -> str:
        """The module's XML namespace."""
        return MODULES[self.module]

    def configured(self) -> ModelContainer:
        """Return it without its state."""
        rows = tuple(
            {name: value for name, value in row.items() if name not in self.states}
            for row in self.rows
        )
        return ModelContainer(self.name, self.module, self.entry, self.key, rows)


class PolatisModel:
    """The tree of one switch.

    Parameters
    ----------
    switch
        Whose data it shows.
    """

    def __init__(self, switch: EmulatedSwitch) -> None:
        self._switch = switch
        self.revision = switch.yang_revision or NEWEST_REVISION

    @property
    def is_old(self) -> bool:
        """Whether the revision is one before circuits and ports got their present names."""
        return self.revision < PAIR_REVISION

    @property
    def pair(self) -> str:
        """What the revision calls a circuit."""
        return "pairs" if self.is_old else "pair"

    def revisions(self) -> dict[str, str]:
        """Return the revision of each module."""
        return {OPTICAL_SWITCH: self.revision, POLATIS_SWITCH: POLATIS_REVISION}

    def containers(self) -> dict[str, ModelContainer]:
        """Return all containers by name."""
        containers = (
            self._product(),
            *((self._old_ports(),) if self.is_old else (self._ports(), self._powers())),
            self.cross_connects(),
            self._alarms(),
        )
        return {container.name: container for container in containers}

    def cross_connects(self) -> ModelContainer:
        """Return the circuits."""
        circuits = self._switch.matrix.circuits.items()
        rows = tuple({"ingress": ingress, "egress": egress} for ingress, egress in circuits)
        return ModelContainer(CROSS_CONNECTS, OPTICAL_SWITCH, self.pair, "ingress", rows)

    def _product(self) -> ModelContainer:
        identity, (rows, columns) = self._switch.identity, self._switch.matrix.size
        leaves = {
            "manufacturer": identity.vendor,
            "serial-number": identity.serial,
            "model-name": f"{identity.model}-{rows}x{columns}",
            "software-version": identity.software,
        }
        name = "product-information"
        return ModelContainer(name, OPTICAL_SWITCH, rows=(leaves,), is_state=True)

    def _ports(self) -> ModelContainer:
        rows: tuple[Row, ...] = tuple(
            {
                "port-id": port,
                "status": self._status(port, "ENABLED", "DISABLED", "FAILED"),
                "label": self._switch.labels.get(port, ""),
                "peer-port": "",
            }
            for port in self._switch.matrix.ports
        )
        states = frozenset({"status"})
        return ModelContainer("port-config", OPTICAL_SWITCH, "port", "port-id", rows, states)

    def _powers(self) -> ModelContainer:
        rows: tuple[Row, ...] = tuple(
            {"port-id": port, "power": f"{power:.2f}"} for port, power in self._measured()
        )
        return ModelContainer("opm-power", OPTICAL_SWITCH, "port", "port-id", rows, is_state=True)

    def _old_ports(self) -> ModelContainer:
        """Return the ports as revisions before 2017-08-04 have them, power included."""
        powers = dict(self._measured())
        closed = self._switch.matrix.disabled
        rows = []
        for port in self._switch.matrix.ports:
            row: dict[str, str | int | Row] = {
                "port-id": port,
                "port-label": self._switch.labels.get(port, ""),
                "port-state": "PC_DISABLED" if port in closed else "PC_ENABLED",
                "port-status": self._status(port, "PO_ENABLED", "PO_DISABLED", "PO_FAILED"),
                "peer-port": "",
            }
            if port in powers:
                row["opm"] = {"power": f"{powers[port]:.2f}"}
            rows.append(row)
        states = frozenset({"port-status", "opm"})
        return ModelContainer("ports", OPTICAL_SWITCH, "port", "port-id", tuple(rows), states)

    def _alarms(self) -> ModelContainer:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        rows = tuple(
            {
                "alarm-time": now,
                "alarm-type": "NOTIF_SYSTEM",
                "alarm-message": f"Port {port} failed",
            }
            for port in sorted(self._switch.matrix.failed)
        )
        return ModelContainer(
            "system-alarms", POLATIS_SWITCH, "alarm", "alarm-time", rows, is_state=True
        )

    def _measured(self) -> Iterator[tuple[int, float]]:
        matrix = self._switch.matrix
        return ((port, matrix.power_dbm(port)) for port in sorted(self._switch.monitored_ports))

    def _status(self, port: int, enabled: str, disabled: str, failed: str) -> str:
        matrix = self._switch.matrix
        if port in matrix.failed:
            return failed
        return disabled if port in matrix.disabled else enabled

    def set_ports(self, enabled: Iterable[int], disabled: Iterable[int]) -> None:
        """Open and close shutters."""
        self._switch.set_shutters(enabled, is_open=True)
        self._switch.set_shutters(disabled, is_open=False)
