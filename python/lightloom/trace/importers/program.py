"""Makes the recording of a rank: calls and computes in the order in which they were issued."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lightloom.trace.computes import Compute, Operator, StreamPlace, StreamWait
from lightloom.trace.trace import Call, RankTrace

#: a call of which nothing is known yet
EMPTY_CALL = Call(
    op="", call_id=0, function="", group="", ranks=(), shape=(), dtype="", input_bytes=0,
    output_bytes=0, input_splits=None, output_splits=None, reduction=None, peer=None, root=None,
    tag=None, phase="forward", layer="", step=0, stream=0, asynchronous=False, waited_before=None,
    call_site="", routed=None, tensors=1,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """What a stream of a GPU did at a time.

    Attributes
    ----------
    start_s, duration_s
        From the beginning of what is shown of the rank.
    stream, step
        As the profiler numbers them.
    name
        Of the kernel.
    kind
        ``compute``, ``communication``, or ``copy`` of copies and fillings of memory.
    call
        Index among the rank's calls; ``None`` of what is none.
    """

    start_s: float
    duration_s: float
    stream: int
    step: int
    name: str
    kind: str
    call: int | None = None


def message_bytes(op: str, size_bytes: int, ranks: int) -> tuple[int, int]:
    """What a rank puts into an operation and gets out of it.

    Parameters
    ----------
    op
        As of a call.
    size_bytes
        What a rank puts in; of a receive what it gets out.
    ranks
        Of the group.
    """
    if op == "all_gather":
        return size_bytes, size_bytes * ranks
    if op == "reduce_scatter":
        return size_bytes, size_bytes // ranks
    if op in ("send", "barrier"):
        return size_bytes, 0
    return (0, size_bytes) if op == "receive" else (size_bytes, size_bytes)


@dataclass
class RankProgram:
    """The recording of one rank, while it is made."""

    rank: int
    calls: list[Call] = field(default_factory=list)
    computes: list[Compute] = field(default_factory=list)
    waits: list[StreamWait] = field(default_factory=list)

    def call(self, call: Call) -> int:
        """Issue a call; returns its index, which becomes its number."""
        number = len(self.calls)
        self.calls.append(call if call.call_id == number else replace(call, call_id=number))
        return len(self.calls) - 1

    def compute(
        self,
        stream: int,
        step: int,
        duration_s: float | None,
        *,
        phase: str = "forward",
        layer: str = "",
        operators: tuple[Operator, ...] = (),
    ) -> None:
        """Issue a computation."""
        before = len(self.calls)
        self.computes.append(Compute(before, stream, phase, layer, step, operators, duration_s))

    def compute_on(self, stream: int, step: int, duration_s: float, phase: str) -> None:
        """Issue a computation, as a part of the last one where nothing lies between them."""
        place = self.place(stream)
        last = self.computes[-1] if self.computes else None
        if (
            last is not None
            and last.duration_s is not None
            and (last.before, last.stream, last.step) == (place.calls, stream, step)
            and last.phase == phase
            and not (self.waits and self.waits[-1].at.computes == place.computes)
        ):
            self.computes[-1] = replace(last, duration_s=last.duration_s + duration_s)
        else:
            self.compute(stream, step, duration_s, phase=phase)

    def place(self, stream: int) -> StreamPlace:
        """The place in a stream before what is issued next."""
        return StreamPlace(stream, len(self.calls), len(self.computes))

    def wait(self, stream: int, until: StreamPlace) -> None:
        """Let what a stream is given next begin after what another was given until a place."""
        if until.stream != stream:
            self.waits.append(StreamWait(self.place(stream), until))

    def recording(self, steps: int = 1) -> RankTrace:
        """What was made."""
        return RankTrace(
            self.rank,
            tuple(self.calls),
            steps,
            invented={},
            stubs=(),
            computes=tuple(self.computes),
            stream_waits=tuple(self.waits),
        )
