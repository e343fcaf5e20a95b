"""How many bytes an all-to-all moves: between servers, within them, and to each destination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from lightloom.errors import DemandError

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class AllToAllVolume:
    """Bytes of an EP rank in one all-to-all, before TP ranks share them; the busiest rank decides.

    Attributes
    ----------
    between_bytes
        What the busiest EP rank sends to, or gets from, EP ranks of other servers.
    within_bytes
        The same with other EP ranks of its server.
    gathered_bytes
        What the busiest destination gets, its own tokens included.
    """

    between_bytes: float
    within_bytes: float
    gathered_bytes: float

    @classmethod
    def of(cls, shares: Shares, sent_bytes: float, ranks_per_server: int = 1) -> Self:
        """Return the volume of an all-to-all whose ranks send equally much.

        Parameters
        ----------
        shares
            Which share of its bytes an EP rank sends to each, ``(ep, ep)``; rows add up to 1.
        sent_bytes
            What an EP rank sends to all, itself included.
        ranks_per_server
            EP ranks that share a server, one after another.
        """
        matrix = shares * sent_bytes
        servers = np.arange(len(matrix)) // ranks_per_server
        same = servers[:, None] == servers[None, :]
        itself = np.eye(len(matrix), dtype=bool)
        return cls(
            between_bytes=_busiest(np.where(same, 0.0, matrix)),
            within_bytes=_busiest(np.where(same & ~itself, matrix, 0.0)),
            gathered_bytes=float(matrix.sum(axis=0).max()),
        )

    def part(self, share: float) -> AllToAllVolume:
        """Return a share of it."""
        return AllToAllVolume(**{name: share * size for name, size in vars(self).items()})


def _busiest(matrix: Shares) -> float:
    """The most that a rank sends or gets."""
    return float(max(matrix.sum(axis=0).max(), matrix.sum(axis=1).max()))


def balanced(ranks: int) -> Shares:
    """Return the shares of ranks that send to all alike."""
    return np.full((ranks, ranks), 1 / ranks)


def skewed(ranks: int, ratio: float) -> Shares:
    """Return shares by which the first rank gets ``ratio`` times the mean, the others alike.

    Raises
    ------
    DemandError
        If the ratio is below 1, or above the number of ranks.
    """
    if not 1 <= ratio <= ranks:
        raise DemandError(
            f"demand {ratio:g}: expected the load of the busiest EP rank over the mean load, "
            f"from 1 to the {ranks} ranks"
        )
    others = (ranks - ratio) / max(1, ranks - 1) / ranks
    column = np.full(ranks, others)
    column[0] = ratio / ranks
    return np.tile(column, (ranks, 1))


def shares_of(matrix: npt.NDArray[np.number]) -> Shares:
    """Return who sends which share to whom; a rank that sends nothing makes all send less.

    Parameters
    ----------
    matrix
        Bytes or token copies, ``(ep, ep)``: row sends to column, the diagonal is what stays.

    Raises
    ------
    DemandError
        If nobody sends anything.
    """
    total = float(matrix.sum())
    if not total:
        raise DemandError("demand: nobody sends anything; expected some bytes")
    return np.asarray(matrix, dtype=np.float64) * (len(matrix) / total)
