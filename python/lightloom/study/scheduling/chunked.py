"""A demand in chunks that compute produces, and needs, one after another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError, echo
from lightloom.inputs.files import decode, read_file
from lightloom.units import parse_quantity

#: chunks of a demand, and characters of a file of release times
MAX_CHUNKS, _MAX_FILE_BYTES, MAX_TIME_S = 64, 65_536, 1e6

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
    released_s
        When each chunk is produced, where that is known; the last one at ``produced_s``.
    """

    count: int
    produced_s: float
    needed_s: float | None = None
    released_s: tuple[float, ...] | None = None

    def divide(self, demand: Bytes) -> Bytes:
        """Return the bytes of each chunk, ``(count, sources, destinations)``."""
        count = np.uint64(self.count)
        index = np.arange(self.count, dtype=np.uint64)[:, np.newaxis, np.newaxis]
        return np.asarray(demand // count + (index < demand % count), dtype=np.uint64)

    @property
    def releases_s(self) -> list[float]:
        """When each chunk is produced."""
        if self.released_s is not None:
            return list(self.released_s)
        return [self.produced_s * (k + 1) / self.count for k in range(self.count)]

    @property
    def deadlines_s(self) -> list[float] | None:
        """When each chunk is needed."""
        if self.needed_s is None:
            return None
        return [self.needed_s * k / self.count for k in range(self.count)]


def read_releases(path: Path) -> tuple[float, ...]:
    """Read when each chunk is produced: a time with its unit on each line, in seconds then.

    Raises
    ------
    InputError
        If the file cannot be read, has no or too many lines, or one is no such time.
    """
    text = decode(read_file(path, "release times", _MAX_FILE_BYTES), str(path))
    releases = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            releases.append(_release(line.strip(), f"{path}, line {number}"))
    if not 1 <= len(releases) <= MAX_CHUNKS:
        raise InputError(
            f"{path}: expected 1 to {MAX_CHUNKS} release times, a chunk on each line, got "
            f"{len(releases)}"
        )
    return tuple(releases)


def _release(text: str, where: str) -> float:
    if text[-1].isdigit() or text[-1] == ".":
        raise InputError(
            f"{where}: expected a time with its unit, such as '0.5 ms', got {echo(text)}"
        )
    time_s = parse_quantity(text, "second", where)
    if not 0 <= time_s <= MAX_TIME_S:
        raise InputError(f"{where}: expected 0 s to {MAX_TIME_S:g} s, got {echo(text)}")
    return time_s
