"""When operators may change circuits: windows of days and hours, in the region's file.

Windows are people's, and so is their clock: the time of day in a time zone, which somebody may set.
A window belongs to the day on which it begins, and may end on the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Annotated, Any, ClassVar, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, Field

from lightloom.control.refusals import RegionFileError
from lightloom.errors import InputError
from lightloom.inputs.strict import Strict

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = timedelta(days=1)


def _time_of_day(value: Any) -> Any:
    if isinstance(value, time) and value.tzinfo is None:
        return value
    raise ValueError("expected a time of day such as 22:00:00, without quotes")


TimeOfDay = Annotated[time, BeforeValidator(_time_of_day)]


class ChangeWindow(Strict):
    """Hours of some days of the week in which operators may change circuits."""

    error_class: ClassVar[type[InputError]] = RegionFileError

    days: tuple[Day, ...] = Field(
        DAYS, description="Days on which it begins; every day by default.", min_length=1
    )
    begins: TimeOfDay = Field(description="When it begins, such as 22:00:00.")
    ends: TimeOfDay = Field(
        description="When it ends; on the next day if that is not after its beginning."
    )

    def spans(self, first: datetime, days: int) -> Iterator[tuple[datetime, datetime]]:
        """Yield when it begins and ends on each of some days, in the time zone of the first."""
        for number in range(days):
            date = first.date() + number * _DAY
            if DAYS[date.weekday()] not in self.days:
                continue
            last = date if self.ends > self.begins else date + _DAY
            yield (
                datetime.combine(date, self.begins, first.tzinfo),
                datetime.combine(last, self.ends, first.tzinfo),
            )


def zone_of(name: str) -> tzinfo:
    """Return a time zone by its name, such as ``Europe/Berlin``.

    Raises
    ------
    ValueError
        If this machine does not know it.
    """
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("expected a time zone such as UTC or Europe/Berlin") from None


def next_window(windows: Sequence[ChangeWindow], zone: str, at: float) -> datetime | None:
    """Return when the next window begins; None if one is open, or there are none.

    Parameters
    ----------
    windows
        The windows; without any, circuits may be changed at any time.
    zone
        Name of the time zone of their times of day.
    at
        Now, in seconds since the epoch.
    """
    now = datetime.fromtimestamp(at, zone_of(zone))
    # compared as moments: hours that are there twice in a zone are two
    spans = [span for window in windows for span in window.spans(now - _DAY, 9)]
    if any(begin.timestamp() <= at < end.timestamp() for begin, end in spans):
        return None
    return min((begin for begin, _ in spans if begin.timestamp() > at), default=None)
