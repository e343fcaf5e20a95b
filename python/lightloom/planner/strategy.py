"""The strategies of an all-to-all among experts whose weights are cut by TP."""

from __future__ import annotations

from enum import StrEnum


class AllToAllStrategy(StrEnum):
    """How token copies get to experts that several TP ranks hold together.

    All TP ranks of a sender have the same tokens, and all of a receiver need them.
    """

    #: every TP rank sends everything to its like
    BASELINE = "baseline"
    #: each sends its part, which the receivers then gather
    O1 = "O1"
    #: in chunks: the all-to-all of a chunk runs beside gather and copy of the one before
    O2 = "O2"
    #: in chunks: all-to-all, gather and copy of three chunks run beside each other
    O3 = "O3"
    #: as O2, with chunks cut so that a gather ends where its tokens belong: no copy
    O4 = "O4"

    @property
    def is_chunked(self) -> bool:
        """Whether it cuts its bytes into chunks."""
        return self not in (AllToAllStrategy.BASELINE, AllToAllStrategy.O1)
