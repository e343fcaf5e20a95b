"""How passes through layers meet their all-to-alls: one after another, or two passes in turn.

A pass is a generator. It writes its tasks and yields a :class:`AllToAllRequest` where it needs an
all-to-all; it is resumed when the all-to-all is over. So the same layers serve every overlap.
Every all-to-all of a stage is issued only when the one before it is over, as on the single
communication stream that frameworks use for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lightloom.workload.builder import Block, ProgramBuilder
from lightloom.workload.chunked_all_to_all import BESIDE, MAIN, Chunked, ChunkWriter


@dataclass(frozen=True)
class AllToAllRequest:
    """An all-to-all that a pass waits for.

    Attributes
    ----------
    demand
        What is sent: a block, or chunks with what TP ranks do with them.
    placed
        Layer and micro-batch.
    meanwhile
        Writes computation of the same pass that runs during the all-to-all.
    """

    demand: Block | Chunked
    placed: dict[str, Any]
    meanwhile: Callable[[], None] | None = None


Pass = Iterator[AllToAllRequest]
#: what is under way: the handle of an all-to-all, or the chunks of one
Started = int | ChunkWriter


class AllToAlls:
    """Writes the all-to-alls of a program.

    Parameters
    ----------
    program
        Where to.
    family
        The EP groups.
    handles
        Numbers of handles that are free.
    taken
        Share of a GPU's speed that an all-to-all takes from what runs alongside it.
    """

    def __init__(
        self, program: ProgramBuilder, family: int, handles: Iterator[int], taken: float
    ) -> None:
        self._program = program
        self._family = family
        self._handles = handles
        self._taken = taken

    def play(self, pass_: Pass) -> None:
        """Write a pass alone: its stream waits for each all-to-all."""
        for request in pass_:
            if request.meanwhile is not None:
                pending = self.start(request)
                request.meanwhile()
                self.wait(*pending)
            elif isinstance(request.demand, Block):
                self._program.all_to_all(self._family, request.demand, "ep", **request.placed)
            else:
                self.wait(*self.start(request, MAIN))

    def alternate(self, passes: list[Pass]) -> None:
        """Write passes in turn, from all-to-all to all-to-all: each computes while another sends.

        The first one begins; its all-to-all is awaited when the other reaches its own.
        """
        turns = deque(passes)
        pending: tuple[Started, AllToAllRequest] | None = None
        while turns:
            if pending is not None and len(turns) == 1:
                self.wait(*pending)
                pending = None
            current = turns.popleft()
            request = next(current, None)
            if pending is not None:
                self.wait(*pending)
                pending = None
            if request is not None:
                pending = self.start(request)
                if request.meanwhile is not None:
                    request.meanwhile()
                turns.append(current)

    def start(
        self, request: AllToAllRequest, stream: int = BESIDE
    ) -> tuple[Started, AllToAllRequest]:
        """Write an all-to-all that runs alongside what follows; to be handed to :meth:`wait`.

        Its chunks, if it has any, are on ``stream``.
        """
        demand, placed = request.demand, request.placed
        if isinstance(demand, Chunked):
            chunks = ChunkWriter(self._program, self._family, self._handles, demand, placed, stream)
            chunks.begin()
            return chunks, request
        handle = next(self._handles)
        self._program.all_to_all(
            self._family, demand, "ep", handle=handle, asynchronous=True, **placed
        )
        return handle, request

    def wait(self, started: Started, request: AllToAllRequest, *, slows: bool = True) -> None:
        """Write the wait for a started all-to-all; of several at once, one slows the GPU."""
        if isinstance(started, ChunkWriter):
            started.end()
            return
        taken = self._taken if slows else 0.0
        self._program.wait(started, "ep", slowed=taken, **request.placed)
