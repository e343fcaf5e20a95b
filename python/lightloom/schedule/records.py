"""The records that users write; their fields are those of the core.

``records.pyi``, for type checkers, is written by ``tests/unit/schedule/test_records.py``.
"""

from __future__ import annotations

from lightloom import _core
from lightloom.schedule.record_fields import record, unit_of
from lightloom.units import parse_quantity

_PLAIN = "fixed_s"


@record
class SwitchTiming:
    """How long a switch takes: the sum of its parts, and nothing if no circuit changes."""

    @classmethod
    def of(cls, timing: SwitchTiming | float | str) -> SwitchTiming:
        """Return a timing as it is; a plain time is that of any switch."""
        if isinstance(timing, SwitchTiming):
            return timing
        return cls(parse_quantity(timing, unit_of(_PLAIN), "timing"))

    def expected_s(self, pairs: int) -> float:
        """Time until circuits carry traffic if this many pairs change; none if none does."""
        return _core.switching_time_s(self, pairs)
