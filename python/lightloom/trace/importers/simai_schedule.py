"""In which order a pipeline stage passes its micro-batches: 1F1B, plain or interleaved.

As Megatron-LM's ``forward_backward_pipelining_with_interleaving`` orders them: each stage has
``vpp`` chunks of layers, of which chunk ``c`` of stage ``s`` is the virtual stage ``c * pp + s``;
micro-batches pass in groups of ``pp``, chunk after chunk; the last stage hands on to the first one.
With one chunk it is plain 1F1B. Messages between two stages arrive in the order in which they were
sent, whatever the order in which they are wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Pass(NamedTuple):
    """A chunk of a stage passes a micro-batch, ``forward`` or ``backward``."""

    phase: str
    micro_batch: int
    chunk: int


class Message(NamedTuple):
    """What is handed on for a micro-batch, to the virtual stage that receives it."""

    phase: str
    micro_batch: int
    virtual_stage: int


@dataclass(frozen=True)
class PipelineSchedule:
    """Order of passes and messages of all stages.

    Attributes
    ----------
    pp, vpp, micro_batches
        Stages, chunks of each, and micro-batches; with several chunks a multiple of the stages.
    """

    pp: int
    vpp: int
    micro_batches: int

    def passes(self, stage: int) -> Iterator[Pass]:
        """What a stage does, in order."""
        forward = list(self._in_groups())
        if self.vpp == 1:
            warm = self.pp - 1 - stage
        else:
            warm = 2 * (self.pp - 1 - stage) + (self.vpp - 1) * self.pp
        warm = min(warm, len(forward))
        backward = [Pass("backward", batch, self.vpp - 1 - chunk) for _, batch, chunk in forward]
        yield from forward[:warm]
        for place, step in enumerate(forward[warm:]):
            yield step
            yield backward[place]
        yield from backward[len(forward) - warm :]

    def _in_groups(self) -> Iterator[Pass]:
        size = self.pp if self.vpp > 1 else 1
        for first in range(0, self.micro_batches, size):
            for chunk in range(self.vpp):
                for batch in range(first, first + size):
                    yield Pass("forward", batch, chunk)

    def received(self, stage: int, turn: Pass) -> tuple[int, Message] | None:
        """From which stage a pass needs which message; ``None`` where it is the first."""
        return self._neighbor(stage, turn, -1)

    def sent(self, stage: int, turn: Pass) -> tuple[int, Message] | None:
        """To which stage a pass hands on which message; ``None`` where it is the last."""
        return self._neighbor(stage, turn, 1)

    def _neighbor(self, stage: int, turn: Pass, step: int) -> tuple[int, Message] | None:
        virtual = turn.chunk * self.pp + stage
        other = virtual + (step if turn.phase == "forward" else -step)
        if not 0 <= other < self.pp * self.vpp:
            return None
        receiver = virtual if step < 0 else other
        return other % self.pp, Message(turn.phase, turn.micro_batch, receiver)

    def arrivals(self, stage: int, source: int) -> list[Message]:
        """Messages of one stage to another, in the order in which they are sent."""
        sent = (self.sent(source, turn) for turn in self.passes(source))
        return [message[1] for message in sent if message is not None and message[0] == stage]
