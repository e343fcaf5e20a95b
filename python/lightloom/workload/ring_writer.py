"""Writing ring collectives into a program: all of them start here.

Rings are asynchronous, so that a program decides where it waits: at once, or after what they run
alongside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lightloom.workload.builder import ProgramBuilder
from lightloom.workload.collectives import Collectives
from lightloom.workload.task_graph import Collective


class RingWriter:
    """Starts rings of a program.

    Parameters
    ----------
    program
        Where to write.
    collectives
        How groups lie on servers.
    handles
        Numbers of handles that are free.
    """

    def __init__(
        self, program: ProgramBuilder, collectives: Collectives, handles: Iterator[int]
    ) -> None:
        self._program, self._collectives, self._handles = program, collectives, handles

    def start(
        self,
        scope: str,
        ring: Collective,
        buffer_bytes: float,
        category: str,
        placed: Mapping[str, Any],
        handle: int | None = None,
    ) -> int:
        """Start a ring over a buffer per GPU; returns its handle, a free one unless given."""
        group = self._collectives.groups[scope]
        sizes = (group.crossing(buffer_bytes), group.local(buffer_bytes, ring))
        return self._start(scope, ring, sizes, category, placed, handle)

    def start_inside(
        self, scope: str, size_bytes: int, category: str, placed: Mapping[str, Any]
    ) -> int:
        """Start a collective inside servers in which each GPU moves so many bytes."""
        sizes = (0, size_bytes)
        return self._start(scope, Collective.ALL_GATHER, sizes, category, placed, None)

    def _start(
        self,
        scope: str,
        ring: Collective,
        sizes: tuple[int, int],
        category: str,
        placed: Mapping[str, Any],
        handle: int | None,
    ) -> int:
        crossing, inside = sizes
        handle = next(self._handles) if handle is None else handle
        self._program.ring(
            ring,
            self._collectives.index(scope),
            crossing,
            category,
            inside=inside,
            peers=self._collectives.groups[scope].on_server - 1,
            handle=handle,
            asynchronous=True,
            **placed,
        )
        return handle
