"""What ranks of a traced program computed between their calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Operator(NamedTuple):
    """Operators of one kind and size that were executed one after the other.

    Attributes
    ----------
    kind
        As the roofline calls them: one whose time is set by FLOPs (``matmul``,
        ``attention_forward``; of ``grouped_matmul`` each product counts), or by bytes
        (``elementwise``, ``permute``, ``optimizer``).
    dtype
        Of what is multiplied; empty where the time is set by bytes.
    number
        How many.
    kernels
        Kernels that are launched, in all.
    flops
        Of all together; those of each are equal. 0 where the time is set by bytes.
    moved_bytes
        Read and written, by all together.
    """

    kind: str
    dtype: str
    number: int
    kernels: int
    flops: int
    moved_bytes: int


@dataclass(frozen=True, slots=True)
class Compute:
    """What one stream computed in succession, between two calls.

    Attributes
    ----------
    before
        The call before which it was issued; the number of calls at the end.
    stream, phase, step
        As of a call.
    layer
        The outermost numbered module that was being executed, such as ``decoder.layers.3``; empty
        outside and in backward.
    operators
        What was executed; empty where only the duration is known.
    duration_s
        As measured on a GPU, which the roofline does not overrule; ``None`` where only traced.
    """

    before: int
    stream: int
    phase: str
    layer: str
    step: int
    operators: tuple[Operator, ...]
    duration_s: float | None = None


class StreamPlace(NamedTuple):
    """A place in what a stream was given to do.

    Attributes
    ----------
    stream
        Which.
    calls, computes
        How many of the rank's calls and computes had been issued, on any stream.
    """

    stream: int
    calls: int
    computes: int


@dataclass(frozen=True, slots=True)
class StreamWait:
    """What a stream is given at `at` begins once another has done what it was given until `until`.

    Waits for collectives by their handles are no stream waits: calls have them.
    """

    at: StreamPlace
    until: StreamPlace


class RouterChoice(NamedTuple):
    """A choice of experts that a router made.

    Attributes
    ----------
    number
        Of the choice; calls name it as ``routed``.
    tokens, experts, each
        Tokens of the rank, experts to choose from, and how many of them each token visits.
    """

    number: int
    tokens: int
    experts: int
    each: int
