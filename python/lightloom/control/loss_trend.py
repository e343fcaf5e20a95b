"""How the loss of circuits has grown: each reading against the lowest one since the first.

Dirt on a connector, a fiber that is bent, and a mirror that drifts add loss over weeks, long before
a link fails. The loss of a cross-connect is that of two fibers and the switch between them,
however often it is made again, so that its lowest loss is kept in the journal's file over changes
and restarts, until a part at one of its ends goes into service again. One reading of each is kept,
of a bounded number of cross-connects: whoever wants a curve has it in Prometheus.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from lightloom.control.journal import Journal
from lightloom.control.optics import LossBudget
from lightloom.control.port_map import PlacedConnect, PortMap, SwitchPort
from lightloom.control.refusals import JournalError

#: cross-connects of which the lowest loss is kept; those that were read longest ago go
_MAX_ROWS = 65_536
#: what a lower reading has to be lower by to be written
_STEP_DB = 0.05
_SCHEMA = """
CREATE TABLE IF NOT EXISTS losses (
    region TEXT NOT NULL, place TEXT NOT NULL, sender TEXT NOT NULL, receiver TEXT NOT NULL,
    at REAL NOT NULL, loss_db REAL NOT NULL, PRIMARY KEY (region, place, sender, receiver)
)
"""


class LossPath(NamedTuple):
    """A cross-connect and the NICs at its ends, such as ``1-15 of ocs``, ``node0/0``."""

    place: str
    sender: str
    receiver: str


class LowestLoss(NamedTuple):
    """The lowest loss of a path since it was first read, and when it was (since the epoch)."""

    at: float
    loss_db: float


class LossTrend:
    """The lowest loss of each cross-connect of a region.

    Parameters
    ----------
    journal
        In whose file they are.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lowest: dict[LossPath, LowestLoss] | None = None

    def _known(self) -> dict[LossPath, LowestLoss]:
        if self._lowest is None:
            rows = []
            if self._journal.rows("SELECT 1 FROM sqlite_master WHERE name = 'losses'"):
                rows = self._journal.rows(
                    "SELECT place, sender, receiver, at, loss_db FROM losses WHERE region = ?",
                    self._journal.region,
                )
            self._lowest = {
                LossPath(*row[:3]): LowestLoss(float(row[3]), float(row[4])) for row in rows
            }
        return self._lowest

    def note(self, light: Iterable[LossBudget], port_map: PortMap, at: float) -> None:
        """Keep what is lower than ever, or was never read.

        Parameters
        ----------
        light
            Of cross-connects that are there.
        port_map
            What says which NICs they join.
        at
            Now, in seconds since the epoch.

        Raises
        ------
        JournalError
            If it cannot be read or written.
        """
        known, lower = self._known(), {}
        for budget in light:
            path, loss_db = path_of(budget.placed, port_map), loss_of(budget)
            if path is None or loss_db is None:
                continue
            if path not in known or loss_db <= known[path].loss_db - _STEP_DB:
                lower[path] = LowestLoss(at, loss_db)
        if not lower:
            return
        region = self._journal.region
        with self._journal.altering() as connection:
            connection.execute(_SCHEMA)
            connection.executemany(
                "INSERT OR REPLACE INTO losses VALUES (?, ?, ?, ?, ?, ?)",
                [(region, *path, *lowest) for path, lowest in lower.items()],
            )
        known |= lower
        self._bound(known)

    def _bound(self, known: dict[LossPath, LowestLoss]) -> None:
        if len(known) > _MAX_ROWS:
            oldest = sorted(known, key=lambda path: known[path].at)
            self._drop(oldest[: len(known) - _MAX_ROWS * 3 // 4])

    def _drop(self, paths: Collection[LossPath]) -> None:
        if not paths:
            return
        with self._journal.altering() as connection:
            connection.executemany(
                "DELETE FROM losses WHERE region = ? AND place = ? AND sender = ? AND receiver = ?",
                [(self._journal.region, *path) for path in paths],
            )
        for path in paths:
            del self._known()[path]

    def forget(self, nics: Collection[str]) -> None:
        """Begin anew with the cross-connects of NICs such as ``node0/0``.

        Raises
        ------
        JournalError
            If it cannot be written.
        """
        named = set(nics)
        self._drop([path for path in self._known() if named & {path.sender, path.receiver}])

    def growth(
        self, light: Iterable[LossBudget], port_map: PortMap
    ) -> dict[PlacedConnect, tuple[float, LowestLoss]]:
        """Return by how many dB each loss is above its lowest, and that one, where both are known.

        While the file cannot be read, nothing is known.
        """
        try:
            lowest = self._known()
        except JournalError:
            return {}
        grown = {}
        for budget in light:
            path, loss_db = path_of(budget.placed, port_map), loss_of(budget)
            if path is not None and loss_db is not None and path in lowest:
                grown[budget.placed] = (max(loss_db - lowest[path].loss_db, 0.0), lowest[path])
        return grown


def growth_alarms(
    grown: Mapping[PlacedConnect, tuple[float, LowestLoss]], limit_db: float
) -> dict[str, str]:
    """Return which cross-connects have lost too much, and since when."""
    return {
        str(placed): f"loses {growth_db:.1f} dB more than on "
        f"{datetime.fromtimestamp(lowest.at, UTC):%Y-%m-%d}"
        for placed, (growth_db, lowest) in grown.items()
        if growth_db > limit_db
    }


def loss_of(light: LossBudget) -> float | None:
    """Return a measured loss; None without one, and where there is no light to lose."""
    if light.loss_db is None or light.verdict == "dark":
        return None
    return max(light.loss_db, 0.0)


def path_of(placed: PlacedConnect, port_map: PortMap) -> LossPath | None:
    """Return a cross-connect with the NICs that it joins; None if a port is not the region's."""
    switch, connect = placed
    sender = port_map.by_port.get(SwitchPort(switch, connect.ingress))
    receiver = port_map.by_port.get(SwitchPort(switch, connect.egress))
    if sender is None or receiver is None:
        return None
    names = [f"{port_map.servers[end.server]}/{end.nic}" for end in (sender, receiver)]
    return LossPath(str(placed), *names)
