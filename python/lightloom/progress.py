"""How anything that takes long says how far it is: one protocol, from Rust to the terminal.

Work that only counts on takes a :class:`Progress`, a function. Work that yields results on its way
takes a :class:`Monitor`, whose method ``progress`` is such a function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

Result = TypeVar("Result")


class Progress(Protocol):
    """Called now and then with the share of the work that is done, 0 to 1, and what is being done.

    The work stops, with a ``KeyboardInterrupt``, if it returns ``False``. The core calls it with
    the share alone.

    Examples
    --------
    >>> def show(share: float, activity: str = "") -> None:
    ...     print(f"{share:.0%} {activity}")
    >>> show(0.5, "half of the work")
    50% half of the work
    """

    def __call__(self, share: float, activity: str = "", /) -> bool | None:
        """Take how far the work is."""
        ...


class Monitor(Generic[Result]):
    """What a caller may want to know while something runs; this one ignores all of it."""

    def progress(self, share: float, activity: str = "", /) -> bool | None:
        """Take how far the work is; see :class:`Progress`."""

    def begun(self, summary: Sequence[str], warnings: Sequence[str]) -> None:
        """Take what will be done, in lines, and warnings about it, before it is."""

    def remark(self, text: str) -> None:
        """Take a sentence to know before the work continues."""

    def finished(self, result: Result) -> None:
        """Take what has finished since the last call."""


class ProgressMonitor(Monitor[Result]):
    """A monitor that hands progress to a function and ignores the rest."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress

    def progress(self, share: float, activity: str = "", /) -> bool | None:
        """Call the function, if there is one."""
        return None if self._progress is None else self._progress(share, activity)
