"""What it takes on a GPU to send copies of tokens to their experts and to get them back.

Two dispatchers, as Megatron-Core names them. ``alltoall``, an all-to-all of a collective library:
the sender orders copies by expert, the receiver orders those of all senders by its experts, and
both do the inverse for what comes back; in FP8 the receiver also pads each expert's rows, in a copy
of them all. ``flex``, kernels such as those of DeepEP and HybridEP: they read tokens where they
are, and the receiver orders and pads its copies in one pass.

Where no copies are dropped, the host has to know how many arrive before it can launch what follows:
it waits for the router's result in every forward pass, and the GPU then waits for it. The
all-to-alls themselves are none of this module's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from lightloom.models.model import Model
from lightloom.practice import Dispatcher
from lightloom.workload.compute_kernels import BF16, FP32, NOTHING, Kernels, Work
from lightloom.workload.compute_operators import Array

DISPATCHERS: tuple[Dispatcher, ...] = get_args(Dispatcher)

#: kernels that count tokens, tell the counts and send probabilities, forward and backward
_COUNTING_KERNELS = {"alltoall": (12, 4), "flex": (4, 2)}

#: kernels per expert that add its bias, forward and backward, and those for all together
_BIAS_KERNELS = ((3, 2), (6, 2))

#: bytes per element of what adding biases moves, forward and backward, by dispatcher: how many
#: strided kernels take an element, what they move, and what others do. The product of bias and
#: probability (out) is strided, and so are its two gradients (in, out), which are then summed (in);
#: the sum (two in, out) and the joined copies (in, out), backward too, are not. The kernels of
#: ``flex`` take probabilities in FP32 alone, so that all is in FP32 until the joined copies are
#: cast (in, out), and both gradients are cast; an all-to-all leaves them in BF16.
_BIAS_BYTES = {
    "flex": (
        (1, FP32, (BF16 + FP32 + FP32) + 2 * FP32 + (FP32 + BF16)),
        (2, 2 * (2 * FP32), 2 * FP32 + 2 * (FP32 + BF16) + 2 * BF16),
    ),
    "alltoall": (
        (1, BF16, 3 * BF16 + 2 * BF16),
        (2, 2 * (2 * BF16), 2 * BF16 + 2 * BF16),
    ),
}

#: kernels that clamp what a gated activation reads, forward and backward: strided ones for each
#: half, and one that joins the halves; backward a mask for each limit (one half has one, the other
#: two), a choice by them for each half; the two masks are joined, and so are gradients
_CLAMP_KERNELS = ((2, 1), (5, 2))

#: bytes of a mask's element
_MASK = 1.0

#: per element what that moves, as of biases: clamped halves (in, out), and joined ones (in, out);
#: backward, in the mean over both halves, one and a half masks (in, out) and the choices (mask,
#: gradient, out), and half a joined pair of masks (two in, out) and the joined gradients (in, out)
_CLAMP_BYTES = (
    (1, 2 * BF16, 2 * BF16),
    (1.5 + 1, 1.5 * (BF16 + _MASK) + (_MASK + BF16 + BF16), 0.5 * 3 * _MASK + 2 * BF16),
)


@dataclass(frozen=True)
class Dispatch:
    """How copies of tokens get to their experts and back.

    Attributes
    ----------
    dispatcher
        See the module.
    dropless
        Whether numbers of tokens differ from pass to pass; they do not where each expert takes a
        fixed number of copies, the rest is dropped and what is missing is padded.
    element_bytes
        Bytes per element of dispatch and combine, and of the gradients of combine and dispatch.
    """

    dispatcher: Dispatcher = "alltoall"
    dropless: bool = True
    element_bytes: tuple[float, float, float, float] = (BF16, BF16, BF16, BF16)

    def bytes_of(self, backward: bool) -> tuple[float, float]:
        """Bytes per element of what goes to the experts and of what comes back, in a pass."""
        first, second, third, fourth = self.element_bytes
        return (third, fourth) if backward else (first, second)


#: every copy is sent and none dropped, in BF16
ALL_TO_ALL = Dispatch()


def dispatch_work(
    kernels: Kernels, dispatch: Dispatch, model: Model, tokens: float, backward: bool
) -> Work:
    """Kernels on the sender's side of ``tokens`` tokens, and the wait of the host.

    Ordering reads each token and writes its copies; the inverse reads the copies and writes their
    sum.
    """
    total = Work.of(0.0, _COUNTING_KERNELS[dispatch.dispatcher][backward])
    if dispatch.dropless and not backward:
        total += Work(kernels.launches.synchronize_s, 0, 0)
    if dispatch.dispatcher == "flex":
        return total
    elements = (tokens + tokens * model.experts_per_token) * model.expert_hidden
    for element_bytes in dispatch.bytes_of(backward):
        total += kernels.permuted(elements, element_bytes)
    return total


def arrival_work(
    kernels: Kernels, dispatch: Dispatch, elements: Array, experts: int, backward: bool
) -> Work:
    """Kernels on the receiver's side: order by expert, and back; copies in and out each time."""
    total = NOTHING
    padded = dispatch.dispatcher == "alltoall" and kernels.quantizes and dispatch.dropless
    for element_bytes in dispatch.bytes_of(backward):
        if experts > 1 or dispatch.dispatcher == "flex":
            total += kernels.permuted(2 * elements, element_bytes)
        if padded:
            total += kernels.elementwise(elements, 2)
    return total


def expert_bias(
    kernels: Kernels, dispatch: Dispatch, elements: Array, experts: int, backward: bool
) -> Work:
    """Adding the bias of the last product, weighted by each copy's probability.

    Where experts follow each other their rows are split, added one by one and joined again, by
    PyTorch's own operators; a grouped product adds them itself.
    """
    if kernels.expert_products == "grouped":
        return NOTHING
    per_expert, together = _BIAS_KERNELS[backward]
    counts = (per_expert * experts, together)
    return _plain(kernels, elements, _BIAS_BYTES[dispatch.dispatcher][backward], counts)


def expert_clamp(kernels: Kernels, elements: Array, backward: bool) -> Work:
    """Clamping the inputs of experts' activation functions, as gpt-oss does.

    In Megatron-Core (``weighted_bias_quick_geglu_impl``) PyTorch's own operators clamp before the
    fused function, for which the host copies a number to the GPU and waits. A grouped product
    clamps what it writes.
    """
    if kernels.expert_products == "grouped":
        return NOTHING
    moved = _plain(kernels, elements, _CLAMP_BYTES[backward], _CLAMP_KERNELS[backward])
    return moved if backward else moved + Work(kernels.launches.synchronize_s, 0, 0)


def _plain(
    kernels: Kernels, elements: Array, each: tuple[float, float, float], counts: tuple[int, int]
) -> Work:
    """PyTorch's own operators on so many elements: strided kernels, and those that are not."""
    times, strided, vectorized = each
    work = kernels.strided(elements * times, elements * strided, counts[0])
    return work + kernels.moved(elements * vectorized, "elementwise", counts[1])
