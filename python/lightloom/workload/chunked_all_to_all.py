"""An all-to-all in chunks, beside whose chunks TP ranks gather or scatter those next to them.

To the experts, the all-to-all of a chunk runs beside the gather of the chunk before and the copy of
what was gathered to where it belongs; back, beside copy and scatter of the chunk after. With ``O2``
copy and gather follow one another, with ``O3`` they run beside each other, too, and with ``O4``
nothing is copied. So N equal chunks take the sum of their stages and N - 1 times the longest
(:mod:`lightloom.planner.pipeline`).

The first chunk that is sent, and the last one that is gathered, are tasks of the main stream; those
between are as well, unless something else is computed meanwhile: then they have a stream of their
own. The all-to-all of a chunk begins when the one before it is over: a group has one communicator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightloom.workload.builder import Block, Entry, ProgramBuilder

#: streams of a worker: what it computes, what runs beside that, and copies beside gathers
MAIN, BESIDE, COPIES = 0, 1, 2


@dataclass(frozen=True)
class Piece:
    """A chunk: what is sent, the bytes of its gather or scatter, and the time of its copy."""

    demand: Block
    busiest: Entry
    total: Entry
    copied: Entry | None


@dataclass(frozen=True)
class Chunked:
    """The chunks of an all-to-all.

    Attributes
    ----------
    pieces
        At least one.
    arrives
        Whether copies go to the experts, which they are gathered for; else results come back,
        which are scattered first.
    copies_beside
        Whether copies run beside gathers.
    chunk_ps
        What each chunk takes beside its operations, on the stream of its gather.
    peers
        The other TP ranks.
    """

    pieces: Sequence[Piece]
    arrives: bool
    copies_beside: bool
    chunk_ps: int
    peers: int


class ChunkWriter:
    """Writes one all-to-all in chunks: :meth:`begin`, then :meth:`end`.

    Parameters
    ----------
    program, family
        Where to write, and the EP groups.
    handles
        Numbers of handles that are free.
    chunked
        The chunks.
    placed
        Layer and micro-batch.
    stream
        That of the chunks between the first and the last.
    """

    def __init__(
        self,
        program: ProgramBuilder,
        family: int,
        handles: Iterator[int],
        chunked: Chunked,
        placed: Mapping[str, Any],
        stream: int,
    ) -> None:
        self._program, self._family, self._handles = program, family, handles
        self._chunked, self._placed, self._stream = chunked, placed, stream
        #: the all-to-all, and what else, that :meth:`end` waits for
        self._sent = 0
        self._beside: int | None = None
        self._copied: int | None = None

    def begin(self) -> None:
        """Write what does not hold the main stream any longer than for its own scatter."""
        if self._chunked.arrives:
            self._begin_arriving()
        else:
            self._begin_leaving()

    def end(self) -> None:
        """Write what the main stream waits for, and does last."""
        self._wait(self._sent, "ep", MAIN)
        if not self._chunked.arrives:
            return
        last = self._chunked.pieces[-1]
        if self._beside is not None:
            self._wait(self._beside, "tp", MAIN)
        self._gather(last, MAIN)
        if self._copied is not None:
            self._wait(self._copied, "expert", MAIN)
        self._copy(last, MAIN)

    def _begin_arriving(self) -> None:
        chunked, stream = self._chunked, self._stream
        self._send(chunked.pieces[0], MAIN)
        for number, (piece, following) in enumerate(
            zip(chunked.pieces, chunked.pieces[1:], strict=False)
        ):
            is_last = number == len(chunked.pieces) - 2
            self._wait(self._sent, "ep", stream)
            self._send(following, stream)
            self._gather(piece, stream)
            if chunked.copies_beside:
                self._wait(self._mark("tp", stream), "tp", COPIES)
                self._copy(piece, COPIES)
                self._copied = self._mark("expert", COPIES) if is_last else None
            else:
                self._copy(piece, stream)
            if is_last and stream != MAIN:
                self._beside = self._mark("tp", stream)

    def _begin_leaving(self) -> None:
        chunked, stream = self._chunked, self._stream
        first, *later = chunked.pieces
        self._copy(first, MAIN)
        copied = []
        if chunked.copies_beside and later:
            self._wait(self._mark("expert", MAIN), "expert", COPIES)
            for piece in later:
                self._copy(piece, COPIES)
                copied.append(self._mark("expert", COPIES))
        self._gather(first, MAIN)
        self._send(first, MAIN)
        if later and stream != MAIN:
            self._wait(self._mark("tp", MAIN), "tp", stream)
        for number, piece in enumerate(later):
            if copied:
                self._wait(copied[number], "expert", stream)
            else:
                self._copy(piece, stream)
            self._gather(piece, stream)
            self._wait(self._sent, "ep", stream)
            self._send(piece, stream)

    def _send(self, piece: Piece, stream: int) -> None:
        self._sent = next(self._handles)
        self._program.all_to_all(
            self._family,
            piece.demand,
            "ep",
            handle=self._sent,
            asynchronous=True,
            stream=stream,
            **self._placed,
        )

    def _gather(self, piece: Piece, stream: int) -> None:
        """Gather or scatter a chunk over TP ranks."""
        peers, placed = self._chunked.peers, self._placed
        self._program.inside(
            piece.busiest, "tp", total=piece.total, peers=peers, stream=stream, **placed
        )
        if self._chunked.chunk_ps:
            duration = self._chunked.chunk_ps
            self._program.compute("expert", duration_ps=duration, stream=stream, **placed)

    def _copy(self, piece: Piece, stream: int) -> None:
        if piece.copied is not None:
            self._program.compute("expert", piece.copied, stream=stream, **self._placed)

    def _mark(self, category: str, stream: int) -> int:
        """Write what takes no time, so that what is before it can be waited for."""
        handle = next(self._handles)
        placed: dict[str, Any] = {"handle": handle, "stream": stream, **self._placed}
        if category == "tp":
            self._program.inside(0, category, total=None, **placed)
        else:
            self._program.compute(category, duration_ps=0, **placed)
        return handle

    def _wait(self, handle: int, category: str, stream: int) -> None:
        self._program.wait(handle, category, stream=stream, **self._placed)
