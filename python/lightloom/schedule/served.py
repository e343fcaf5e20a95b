"""What the schedulers of other systems have in common: limits, and how long they take."""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.schedule.results import Result, ResultTable, summary
from lightloom.units import show_time

#: the whole numbers that a double holds exactly
MAX_BYTES = 2**53
MAX_SWITCHES = 1024


@dataclass(frozen=True, eq=False)
class Served(Result):
    """A demand served over switches that every node has a port at.

    Attributes
    ----------
    length_bytes
        Bytes that one circuit could carry until the end.
    largest_line_bytes
        The most bytes that a node sends or receives.
    """

    length_bytes: int
    largest_line_bytes: int
    switches: int
    rate_bps: int

    @property
    def length_s(self) -> float:
        """Seconds until the end."""
        return self.length_bytes * 8 / self.rate_bps

    @property
    def over_bound(self) -> float:
        """Length over the largest line at the rate of all its ports; 1 is optimal."""
        line = self.largest_line_bytes
        return self.length_bytes * self.switches / line if line else 1.0

    def tables(self) -> list[ResultTable]:
        """Return the table that is printed."""
        return [
            summary(
                type(self).__name__,
                switches=f"{self.switches:,}",
                length=show_time(self.length_s),
                over_bound=f"{self.over_bound:.3f}",
                **self._more(),
            )
        ]

    def _more(self) -> dict[str, str]:
        """What else there is to say."""
        return {}
