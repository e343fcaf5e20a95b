"""Which rows go where: the chunks of every pair of EP ranks, and the parts of their TP ranks.

Rows are tokens. An EP rank's rows lie in the order of the EP ranks that they go to. Chunk ``j`` of
``N`` of a pair is a range of its rows, and each of ``t`` TP ranks has a part of every chunk:

- *replicated*: all TP ranks of a sender have all rows. Chunks end at multiples of ``t`` rows, but
  for the last one, and are cut into equal parts, so that the parts of a chunk that TP ranks gather
  lie one after another where they belong. Only of the last chunk may parts differ, by one row.
  What a receiver gets is in the order of the EP ranks that it comes from.
- *sharded*: each TP rank of a sender has rows of its own; a part is the chunk of these. What a
  receiver gets is in the order of TP ranks, and of each in the order of EP ranks, as an all-to-all
  and then a gather leave it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

TokenLayout = Literal["replicated", "sharded"]


class Rows(NamedTuple):
    """A range of rows."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        """How many there are."""
        return self.stop - self.start


#: parts of a chunk, by EP rank of the other side and by TP rank
Parts = Sequence[Sequence[Rows]]


@dataclass(frozen=True)
class Chunk:
    """A chunk of an EP rank, both ways.

    ``sent`` has the rows that go to each EP rank, those of each of its own TP ranks apart (of the
    rank itself alone where rows are sharded), and ``got`` those that come from each EP rank, those
    of each TP rank of the sender apart.
    """

    sent: Parts
    got: Parts


def chunks_of(
    counts: Sequence[Sequence[Sequence[int]]],
    *,
    ep_rank: int,
    tp_rank: int,
    chunks: int,
    layout: TokenLayout,
) -> list[Chunk]:
    """Return the chunks of one rank.

    Parameters
    ----------
    counts
        Rows that go from EP rank to EP rank, ``(tp, ep, ep)``, by TP rank of the sender; equal for
        all of them where rows are replicated.
    ep_rank, tp_rank
        Of the rank.
    chunks
        How many there are.
    layout
        Whether TP ranks have the same rows.
    """
    ranks, width = len(counts[0]), len(counts)
    if layout == "replicated":
        sent = [counts[0][ep_rank][other] for other in range(ranks)]
        got = [counts[0][other][ep_rank] for other in range(ranks)]
        ways = (
            [
                _cut_alike(rows, at, width, chunks)
                for rows, at in zip(sent, _starts(sent), strict=True)
            ],
            [
                _cut_alike(rows, at, width, chunks)
                for rows, at in zip(got, _starts(got), strict=True)
            ],
        )
    else:
        mine = [counts[tp_rank][ep_rank][other] for other in range(ranks)]
        got = [counts[tp][other][ep_rank] for tp in range(width) for other in range(ranks)]
        begins = _starts(got)
        ways = (
            [
                _cut_apart([rows], [at], chunks)
                for rows, at in zip(mine, _starts(mine), strict=True)
            ],
            [_cut_apart(got[other::ranks], begins[other::ranks], chunks) for other in range(ranks)],
        )
    return [
        Chunk([pair[j] for pair in ways[0]], [pair[j] for pair in ways[1]]) for j in range(chunks)
    ]


def _starts(rows: Sequence[int]) -> list[int]:
    """Where each of some ranges begins that lie one after another."""
    starts, at = [], 0
    for count in rows:
        starts.append(at)
        at += count
    return starts


def _cut_alike(rows: int, start: int, width: int, chunks: int) -> list[list[Rows]]:
    """Chunks of whole multiples of ``width`` rows, in equal parts; what is left is in the last."""
    borders = [width * (j * (rows // width) // chunks) for j in range(chunks)] + [rows]
    cut = []
    for begin, end in pairwise(borders):
        size = end - begin
        marks = [start + begin + part * size // width for part in range(width + 1)]
        cut.append([Rows(*marks[part : part + 2]) for part in range(width)])
    return cut


def _cut_apart(rows: Sequence[int], starts: Sequence[int], chunks: int) -> list[list[Rows]]:
    """Chunks of the rows of each TP rank, each of which begins at a start."""
    return [
        [
            Rows(at + j * count // chunks, at + (j + 1) * count // chunks)
            for at, count in zip(starts, rows, strict=True)
        ]
        for j in range(chunks)
    ]
