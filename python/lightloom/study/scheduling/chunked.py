"""A demand in chunks that compute produces, and needs, one after another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class ChunkTimes:
    """Equal chunks of every pair, and when compute has produced them and needs them.

    Attributes
    ----------
    count
        Chunks of the demand.
    produced_s
        Time over which compute produces them, at an even rate: chunk k of n is released at k/n.
    needed_s
        Time over which compute uses them, at an even rate: the deadline of chunk k of n is
        (k - 1)/n. Compute that begins at the lateness then never waits. ``None``: no deadlines.
    """

    count: int
    produced_s: float
    needed_s: float | None = None

    def divide(self, demand: Bytes) -> Bytes:
        """Return the bytes of each chunk, ``(count, sources, destinations)``."""
        count = np.uint64(self.count)
        index = np.arange(self.count, dtype=np.uint64)[:, np.newaxis, np.newaxis]
        return np.asarray(demand // count + (index < demand % count), dtype=np.uint64)

    @property
    def releases_s(self) -> list[float]:
        """When each chunk is produced."""
        return [self.produced_s * (k + 1) / self.count for k in range(self.count)]

    @property
    def deadlines_s(self) -> list[float] | None:
        """When each chunk is needed."""
        if self.needed_s is None:
            return None
        return [self.needed_s * k / self.count for k in range(self.count)]
