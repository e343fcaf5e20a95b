"""TP collectives of a module of multi-token prediction, but for those of its layer.

As in Megatron-Core (``multi_token_prediction.py``), with sequence parallelism: the embedding of the
next tokens is scattered as that of the first stage; the projection gathers both of the hidden
states that it joins, each TP rank computes a part of every result, which is gathered, and the
output projection gathers the result of the layer. Backward the other way round, where what a
projection read is gathered once more for the gradients of its weights. Without sequence
parallelism what would be scattered is added up by all, and no input needs to be gathered.
"""

from __future__ import annotations

from typing import NamedTuple


class Moved(NamedTuple):
    """One collective: hidden states that it moves, and whether it is an all-reduce of them."""

    states: int
    adds_up: bool = False


#: gathers and scatters of hidden states with sequence parallelism: embedding, both inputs of the
#: projection, its results, input of the output projection; backward in reverse
FORWARD = (Moved(1), Moved(2), Moved(1), Moved(1))
BACKWARD = (Moved(1), Moved(1), Moved(1), Moved(2), Moved(2), Moved(1))
#: the same without
WHOLE_FORWARD = (Moved(1, adds_up=True), Moved(1))
WHOLE_BACKWARD = (Moved(1, adds_up=True), Moved(2, adds_up=True))


def module_collectives(
    *, sequence_parallel: bool, backward: bool, again: bool
) -> tuple[Moved, ...]:
    """Collectives of a pass of a micro-batch through a module, in order.

    ``again`` says that a backward pass computes the projection again, as the layer behind it.
    """
    if not backward:
        return FORWARD if sequence_parallel else WHOLE_FORWARD
    if not again:
        return BACKWARD if sequence_parallel else WHOLE_BACKWARD
    if sequence_parallel:
        return (*BACKWARD[:2], *FORWARD[1:3], *BACKWARD[2:])
    return (WHOLE_BACKWARD[0], WHOLE_FORWARD[1], WHOLE_BACKWARD[1])
