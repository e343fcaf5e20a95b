"""How rows move: a pipeline of chunks over two process groups.

The all-to-all of a chunk is under way while the TP ranks gather, or add up, another one. With NCCL
each group has a stream of its own and copies are on the current one; with gloo each has threads.
Rows move as bytes, so that any type does; only sums have a type.

With O4 nothing is packed for the TP ranks. Where they have the same rows, their parts of a chunk
lie one after another, so that a gather ends where it belongs. Where each has rows of its own, each
sends them to every other one by itself, straight to where they belong, and parts of sums likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from lightloom.planner.strategy import AllToAllStrategy
from lightloom.planner.token_layout import Chunk, Parts, Rows

#: waits for an operation, and does what is left to do
Finish = Callable[[], None]


@dataclass(frozen=True)
class Groups:
    """The process groups of a rank: EP ranks with its TP rank, and the TP ranks of its EP rank."""

    ep: dist.ProcessGroup
    tp: dist.ProcessGroup

    @property
    def ep_size(self) -> int:
        """EP ranks."""
        return dist.get_world_size(self.ep)

    @property
    def tp_size(self) -> int:
        """TP ranks."""
        return dist.get_world_size(self.tp)

    @property
    def ep_rank(self) -> int:
        """Where the rank is among EP ranks."""
        return dist.get_rank(self.ep)

    @property
    def tp_rank(self) -> int:
        """Where the rank is among TP ranks."""
        return dist.get_rank(self.tp)


@dataclass(frozen=True)
class Moves:
    """The rows of one rank in chunks; ``replicated`` is whether TP ranks have the same rows."""

    groups: Groups
    chunks: Sequence[Chunk]
    strategy: AllToAllStrategy
    replicated: bool

    def dispatch(self, rows: torch.Tensor, out: torch.Tensor) -> None:
        """Send rows, ``(rows, elements)``, into ``out`` of all TP ranks of their receivers."""
        rows, out = _as_bytes(rows), _as_bytes(out)
        if self._whole:
            sent, got = self._counts
            self._all_to_all(out, rows, got, sent).wait()
            return
        copies_late = self.strategy is AllToAllStrategy.O3
        arriving = self._begin_dispatch(self.chunks[0], rows)
        unfinished: list[Finish] = []
        for number, chunk in enumerate(self.chunks):
            work, part = arriving
            work.wait()
            if number + 1 < len(self.chunks):
                arriving = self._begin_dispatch(self.chunks[number + 1], rows)
            unfinished.append(self._gather(chunk.got, part, out))
            while len(unfinished) > copies_late:
                unfinished.pop(0)()
        for finish in unfinished:
            finish()

    def combine(self, rows: torch.Tensor, out: torch.Tensor, *, partial: bool) -> None:
        """Send what :meth:`dispatch` brought back to where it came from.

        Parameters
        ----------
        rows
            As it came, ``(rows, elements)``; sums are of its type.
        out
            Where it goes.
        partial
            Whether each TP rank has a part of a sum; otherwise all have the same.
        """
        if self._whole:
            if partial and self.groups.tp_size > 1:
                rows = rows.clone()
                dist.all_reduce(rows, group=self.groups.tp)
            rows = rows.to(out.dtype)
            sent, got = self._counts
            self._all_to_all(_as_bytes(out), _as_bytes(rows), sent, got).wait()
            return
        home, arrived = _as_bytes(out), None
        added = self._add(self.chunks[0], rows, partial)
        for number, chunk in enumerate(self.chunks):
            part = added().to(out.dtype)
            work, back = self._begin_combine(chunk, part)
            if number + 1 < len(self.chunks):
                added = self._add(self.chunks[number + 1], rows, partial)
            if arrived is not None:
                self._gather_home(*arrived, home)
            work.wait()
            arrived = chunk, back
        assert arrived is not None
        self._gather_home(*arrived, home)

    @property
    def _whole(self) -> bool:
        """Whether every TP rank sends and gets all rows at once."""
        return self.replicated and (
            self.groups.tp_size == 1 or self.strategy is AllToAllStrategy.BASELINE
        )

    @property
    def _counts(self) -> tuple[list[int], list[int]]:
        """Rows that are sent to each EP rank, and got of each, of the only chunk."""
        (chunk,) = self.chunks
        return [_span(parts).size for parts in chunk.sent], [_span(p).size for p in chunk.got]

    @property
    def _sender(self) -> int:
        """Which part of what is sent is the rank's own."""
        return self.groups.tp_rank if self.replicated else 0

    def _begin_dispatch(self, chunk: Chunk, rows: torch.Tensor) -> tuple[dist.Work, torch.Tensor]:
        """Begin the all-to-all of a chunk; what arrives is padded to the widest of TP ranks."""
        sent = [parts[self._sender] for parts in chunk.sent]
        got = [parts[self.groups.tp_rank].size for parts in chunk.got]
        part = rows.new_empty(_width(chunk.got), rows.shape[1])
        packed = torch.cat([rows[start:stop] for start, stop in sent])
        counts = [to_one.size for to_one in sent]
        return self._all_to_all(part[: sum(got)], packed, got, counts), part

    def _begin_combine(self, chunk: Chunk, part: torch.Tensor) -> tuple[dist.Work, torch.Tensor]:
        """Begin the all-to-all of a chunk on its way back."""
        sent = [parts[self._sender].size for parts in chunk.sent]
        got = [parts[self.groups.tp_rank].size for parts in chunk.got]
        packed = _as_bytes(part)[: sum(got)]
        back = packed.new_empty(_width(chunk.sent), packed.shape[1])
        return self._all_to_all(back[: sum(sent)], packed, sent, got), back

    def _gather_home(self, chunk: Chunk, back: torch.Tensor, home: torch.Tensor) -> None:
        """Put what is back where it came from, on all TP ranks that have these rows."""
        if self.replicated:
            self._gather(chunk.sent, back, home)()
        else:
            _unpack(back, [parts[0] for parts in chunk.sent], home)

    def _all_to_all(
        self, out: torch.Tensor, rows: torch.Tensor, got: list[int], sent: list[int]
    ) -> dist.Work:
        work = dist.all_to_all_single(out, rows, got, sent, group=self.groups.ep, async_op=True)
        assert work is not None, "asked to run beside others"
        return work

    def _gather(self, parts: Parts, part: torch.Tensor, out: torch.Tensor) -> Finish:
        """Begin to gather the parts of TP ranks into ``out``."""
        tp = self.groups.tp
        if self._goes_apart:
            return self._send_to_each(parts, part, out)
        if self._lies_in_place(parts):
            works: list[dist.Work | None] = []
            at = 0
            for ranges in parts:
                count, whole = ranges[0].size, _span(ranges)
                if count:
                    place, mine = out[whole.start : whole.stop], part[at : at + count]
                    works.append(dist.all_gather_into_tensor(place, mine, tp, async_op=True))
                at += count
            return lambda: _wait(*works)
        if not len(part):
            return lambda: None
        stage = part.new_empty(self.groups.tp_size * len(part), part.shape[1])
        work = dist.all_gather_into_tensor(stage, part, tp, async_op=True)

        def finish() -> None:
            _wait(work)
            for rank, gathered in enumerate(stage.chunk(self.groups.tp_size)):
                _unpack(gathered, [ranges[rank] for ranges in parts], out)

        return finish

    def _add(self, chunk: Chunk, rows: torch.Tensor, partial: bool) -> Callable[[], torch.Tensor]:
        """Begin to add up the rank's part over TP ranks; what it returns waits for the sum."""
        parts, tp, tp_rank = chunk.got, self.groups.tp, self.groups.tp_rank
        if not partial or self.groups.tp_size == 1:
            packed = torch.cat([rows[slice(*ranges[tp_rank])] for ranges in parts])
            return lambda: packed
        if self._goes_apart:
            return self._get_of_each(parts, rows)
        width = _width(parts)
        part = rows.new_empty(width, rows.shape[1])
        works: list[dist.Work | None] = []
        if self._lies_in_place(parts):
            at = 0
            for ranges in parts:
                count, whole = ranges[0].size, _span(ranges)
                if count:
                    mine, place = part[at : at + count], rows[whole.start : whole.stop]
                    works.append(dist.reduce_scatter_tensor(mine, place, group=tp, async_op=True))
                at += count
        elif width:
            stage = rows.new_zeros(self.groups.tp_size * width, rows.shape[1])
            for rank, place in enumerate(stage.chunk(self.groups.tp_size)):
                packed = torch.cat([rows[slice(*ranges[rank])] for ranges in parts])
                place[: len(packed)] = packed
            works.append(dist.reduce_scatter_tensor(part, stage, group=tp, async_op=True))

        def finish() -> torch.Tensor:
            _wait(*works)
            return part

        return finish

    @property
    def _goes_apart(self) -> bool:
        """Whether TP ranks send each other every pair's rows by themselves."""
        return self.strategy is AllToAllStrategy.O4 and not self.replicated

    def _send_to_each(self, parts: Parts, part: torch.Tensor, out: torch.Tensor) -> Finish:
        """Begin to send the rank's part to all TP ranks, and to get theirs where they belong."""
        mine = [ranges[self.groups.tp_rank] for ranges in parts]
        _unpack(part, mine, out)
        sent = [[out[slice(*rows)] for rows in mine]] * self.groups.tp_size
        return self._swap(sent, lambda rank: [out[slice(*ranges[rank])] for ranges in parts])

    def _get_of_each(self, parts: Parts, rows: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Begin to get what TP ranks add to the rank's part; what it returns adds it up."""
        tp_rank, tp_size = self.groups.tp_rank, self.groups.tp_size
        mine = [ranges[tp_rank] for ranges in parts]
        sizes = [place.size for place in mine]
        addends = [rows.new_empty(sum(sizes), rows.shape[1]) for _ in range(tp_size)]
        raw = _as_bytes(rows)
        sent = [[raw[slice(*ranges[rank])] for ranges in parts] for rank in range(tp_size)]
        finish = self._swap(sent, lambda rank: _as_bytes(addends[rank]).split(sizes))

        def added() -> torch.Tensor:
            addends[tp_rank] = torch.cat([rows[slice(*place)] for place in mine])
            finish()
            total = addends[0]
            for addend in addends[1:]:
                total = total + addend
            return total

        return added

    def _swap(
        self,
        sent: Sequence[Sequence[torch.Tensor]],
        got_of: Callable[[int], Sequence[torch.Tensor]],
    ) -> Finish:
        """Begin to send rows to each other TP rank, and to get as many times rows of it."""
        tp, tp_rank, tp_size = self.groups.tp, self.groups.tp_rank, self.groups.tp_size
        operations = []
        for distance in range(1, tp_size):
            to, of = (tp_rank + distance) % tp_size, (tp_rank - distance) % tp_size
            for operation, peer, pieces in (
                (dist.isend, to, sent[to]),
                (dist.irecv, of, got_of(of)),
            ):
                operations += [
                    dist.P2POp(operation, piece, group=tp, tag=number, group_peer=peer)
                    for number, piece in enumerate(pieces)
                    if len(piece)
                ]
        works = dist.batch_isend_irecv(operations) if operations else []
        return lambda: _wait(*works)

    def _lies_in_place(self, parts: Parts) -> bool:
        """Whether the parts of TP ranks are equal and lie one after another where they belong."""
        return self.strategy is AllToAllStrategy.O4 and all(
            len({rows.size for rows in ranges}) == 1 for ranges in parts
        )


def _wait(*works: dist.Work | None) -> None:
    """Wait for what runs beside others."""
    for work in works:
        assert work is not None, "asked to run beside others"
        work.wait()


def _as_bytes(rows: torch.Tensor) -> torch.Tensor:
    """Contiguous rows as bytes, ``(rows, bytes)``, in the same memory."""
    # a dimension of one row or element may have any stride, which a view of bytes does not take
    return rows.as_strided(rows.shape, (rows.shape[1], 1)).view(torch.uint8)


def _span(ranges: Sequence[Rows]) -> Rows:
    """The range of some that lie one after another."""
    return Rows(ranges[0].start, ranges[-1].stop)


def _width(parts: Parts) -> int:
    """Rows of the TP rank that has most of them."""
    return max(sum(ranges[rank].size for ranges in parts) for rank in range(len(parts[0])))


def _unpack(packed: torch.Tensor, ranges: Sequence[Rows], out: torch.Tensor) -> None:
    """Put rows that lie one after another where they belong."""
    at = 0
    for start, stop in ranges:
        out[start:stop] = packed[at : at + stop - start]
        at += stop - start
