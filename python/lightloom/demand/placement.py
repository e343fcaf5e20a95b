"""From token copies per expert to what crosses the network: ranks, members, bytes.

A *member* is the part of an EP group on one server: ``ranks_per_member`` consecutive EP ranks.
Copies to the own rank move no bytes and are in no matrix. Combine carries the transposed counts
of dispatch, and backward repeats the two in the order combine's transpose, dispatch's transpose.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.demand.source import whole
from lightloom.errors import DemandError, echo

#: bytes of one element by name
ELEMENT_BYTES = {"fp8": 1, "bf16": 2, "fp16": 2, "fp32": 4}

#: entries up to which an axis is reduced entry by entry
_SHORT_AXIS = 8

_SCALE_BYTES = ELEMENT_BYTES["fp32"]

Tokens = npt.NDArray[Any]


def rank_matrix(tokens: Tokens) -> npt.NDArray[np.int64]:
    """Token copies from rank to rank.

    Parameters
    ----------
    tokens
        ``(..., ranks, experts)``; expert ``e`` lives on rank ``e // (experts / ranks)``.

    Returns
    -------
    ``(..., ranks, ranks)``; the diagonal, copies that stay on their rank, is zero.

    Examples
    --------
    >>> import lightloom, numpy
    >>> lightloom.rank_matrix(numpy.array([[1, 2, 3, 4], [5, 6, 7, 8]])).tolist()
    [[0, 7], [11, 0]]
    """
    tokens = _counts(tokens)
    matrix = along_last(np.add, by_rank(tokens)).astype(np.int64, copy=False)
    diagonal = np.arange(tokens.shape[-2])
    matrix[..., diagonal, diagonal] = 0
    return matrix


def by_rank(tokens: Tokens) -> Tokens:
    """Token copies by the rank of their expert, ``(..., ranks, ranks, experts / ranks)``."""
    ranks, experts = _sizes(tokens)
    return tokens.reshape(*tokens.shape[:-1], ranks, experts // ranks)


def received(tokens: Tokens) -> npt.NDArray[np.int64]:
    """Tokens that each expert computes, ``(..., ranks, experts_per_rank)``, its own included."""
    ranks, experts = _sizes(tokens)
    total: npt.NDArray[np.int64] = tokens.sum(axis=-2, dtype=np.int64)
    return total.reshape(*total.shape[:-1], ranks, experts // ranks)


def fold(tokens: Tokens, *, members: int, ranks_per_member: int) -> npt.NDArray[np.uint32]:
    """Token copies from member to member.

    Parameters
    ----------
    tokens
        ``(..., ranks, experts)`` with ``ranks = members * ranks_per_member``.
    members
        Servers of the EP group.
    ranks_per_member
        EP ranks on each; rank ``r`` sits in member ``r // ranks_per_member``.

    Returns
    -------
    ``(..., members, members)``; the diagonal counts copies between *different* ranks of the
    member, which stay on NVSwitch.

    Raises
    ------
    DemandError
        If the ranks do not fill the members, or a count exceeds 32 bits.
    """
    return fold_ranks(rank_matrix(tokens), members=members, ranks_per_member=ranks_per_member)


def fold_ranks(
    rank_tokens: Tokens, *, members: int, ranks_per_member: int
) -> npt.NDArray[np.uint32]:
    """Fold a matrix of :func:`rank_matrix`; see :func:`fold`."""
    ranks = rank_tokens.shape[-1]
    check_members(ranks, members, ranks_per_member)
    batch = rank_tokens.shape[:-2]
    blocks = rank_tokens.reshape(*batch, members, ranks_per_member, members, ranks_per_member)
    return to_uint32(blocks.sum(axis=(-3, -1), dtype=np.int64))


def combine(tokens: Tokens) -> Tokens:
    """Counts of combine from those of dispatch: what was sent to a member comes back."""
    return np.swapaxes(tokens, -1, -2)


def bytes_per_token(hidden_size: int, element_bytes: float, *, scales: int = 0) -> int:
    """Bytes of one token copy.

    Parameters
    ----------
    hidden_size
        Elements of a token.
    element_bytes
        Bytes per element: 1 for FP8, 2 for BF16 (:data:`ELEMENT_BYTES`).
    scales
        Elements that share one FP32 scale, sent along with block-scaled FP8 (128 in DeepSeek-V3
        and DeepEP); 0 sends none.

    Raises
    ------
    DemandError
        If a number is out of range.
    """
    if not whole(hidden_size) or hidden_size < 1:
        raise DemandError(f"hidden size: expected a whole number above 0, got {echo(hidden_size)}")
    if not 0 < element_bytes <= 8:
        raise DemandError(f"bytes per element: expected above 0 and up to 8, got {element_bytes}")
    if not whole(scales) or scales < 0:
        raise DemandError(f"elements per scale: expected a whole number, got {echo(scales)}")
    extra = _SCALE_BYTES * math.ceil(hidden_size / scales) if scales else 0
    return math.ceil(hidden_size * element_bytes) + extra


def check_members(ranks: int, members: int, ranks_per_member: int) -> None:
    """Refuse members that the ranks of an EP group do not fill.

    Raises
    ------
    DemandError
        Naming the three numbers.
    """
    if members < 1 or ranks_per_member < 1 or members * ranks_per_member != ranks:
        raise DemandError(
            f"{ranks} EP ranks do not fill {members} members of {ranks_per_member} ranks each"
        )


def to_uint32(counts: Tokens) -> npt.NDArray[np.uint32]:
    """Narrow counts to 32 bits, or refuse them."""
    if counts.size and counts.max() > np.iinfo(np.uint32).max:
        raise DemandError(
            f"{counts.max():,} token copies between two members exceed 32 bits; "
            "use a smaller micro-batch"
        )
    return counts.astype(np.uint32)


def along_last(operation: np.ufunc, values: Tokens) -> Tokens:
    """``operation.reduce`` over the last axis, where that is as short as a rank's experts.

    NumPy begins a loop per result, which takes longer than a few passes over all of them.
    """
    if values.shape[-1] > _SHORT_AXIS:
        return np.asarray(operation.reduce(values, axis=-1))
    # as wide as NumPy's own sums, so that no count overflows
    result = values[..., 0].astype(np.result_type(values.dtype, np.int64))
    for index in range(1, values.shape[-1]):
        operation(result, values[..., index], out=result)
    return result


def _counts(tokens: Tokens) -> Tokens:
    """Token counts as an array, or refused."""
    try:
        counts = np.asarray(tokens)
    except ValueError:
        raise DemandError("tokens: expected an array, got rows of unequal length") from None
    if counts.dtype.kind not in "iuf":
        raise DemandError(f"tokens: expected numbers, got {echo(tokens)}")
    return counts


def _sizes(tokens: Tokens) -> tuple[int, int]:
    if tokens.ndim < 2 or tokens.shape[-1] == 0 or tokens.shape[-2] == 0:
        raise DemandError(f"expected (..., ranks, experts), got the shape {tokens.shape}")
    ranks, experts = tokens.shape[-2:]
    if experts % ranks:
        raise DemandError(f"{experts} experts do not divide over {ranks} EP ranks")
    return ranks, experts
