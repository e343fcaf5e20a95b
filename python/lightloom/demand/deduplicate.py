"""Token copies between members, each token sent once per destination server if asked.

Without de-duplication a token that chose two experts on one server crosses the network twice. With
it (DeepEP's kernels do so) it crosses once and is copied on arrival over NVSwitch: what leaves the
network appears on the destination's diagonal. Copies inside a server are counted per expert, so
that the matrix keeps its sum, or where it is known how many tokens each rank gets, once per rank.

Per-token logs say exactly how many tokens reach a server. Counts do not; there the expectation is
taken under the least informative gate that has these counts: of all sets of ``top_k`` experts
(within ``top_groups`` of the ``num_groups`` groups of node-limited routing), a token draws one with
probability proportional to the product of its experts' weights, the weights such that every
expert's expected copies are the counted ones. This is the distribution of largest entropy with
these counts (conditional Poisson sampling, Chen, Dempster and Liu, Biometrika 81, 1994); for equal
loads it is the hypergeometric formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.demand.folding import RankSums
from lightloom.demand.placement import along_last, check_members, combine, fold, to_uint32
from lightloom.demand.source import Counts, DemandSource, PerTokenSource, Shape, whole
from lightloom.errors import DemandError

Floats = npt.NDArray[np.float64]
Tokens = npt.NDArray[Any]


@dataclass(frozen=True)
class MemberPlacement:
    """How the ranks of an EP group sit on servers, and how their tokens are sent.

    ``members`` servers of ``ranks_per_member`` consecutive EP ranks. ``num_groups`` and
    ``top_groups`` are the model's node-limited routing (1 of 1: none).
    """

    members: int
    ranks_per_member: int
    deduplicate: bool = False
    num_groups: int = 1
    top_groups: int = 1


@dataclass(frozen=True)
class MemberTokens:
    """Dispatch counts between members, as the task graph takes them.

    ``tokens`` is ``(layers, micro_batches, members, members)``. ``exact`` is false where the
    source drew them or where de-duplication was ``expected`` from counts.
    """

    tokens: npt.NDArray[np.uint32]
    exact: bool
    expected: bool

    def combine(self) -> npt.NDArray[np.uint32]:
        """Counts of combine: those of dispatch, transposed."""
        return np.asarray(combine(self.tokens), dtype=np.uint32)


def member_tokens(
    source: DemandSource,
    placement: MemberPlacement,
    *,
    group: int,
    layers: Sequence[int],
    micro_batches: int,
    step: int,
) -> MemberTokens:
    """Dispatch counts between the members of one EP group.

    Raises
    ------
    DemandError
        If the placement does not fit the source's shape, or a per-token log breaks the limit of
        node-limited routing.
    """
    shape = source.shape
    check_members(shape.ranks, placement.members, placement.ranks_per_member)
    check_groups(shape, placement.num_groups, placement.top_groups)
    index: dict[str, Any] = {
        "group": group,
        "layers": layers,
        "micro_batches": micro_batches,
        "step": step,
    }
    if placement.num_groups > placement.top_groups and isinstance(source, PerTokenSource):
        source.check_node_limit(placement.num_groups, placement.top_groups)
    tokens = source.tokens(**index)
    copies = fold(tokens, members=placement.members, ranks_per_member=placement.ranks_per_member)
    if not placement.deduplicate:
        return MemberTokens(copies, source.exact, expected=False)
    if isinstance(source, PerTokenSource):
        distinct: Tokens = source.distinct(**index, members=placement.members)
        return MemberTokens(fold_distinct(copies, distinct), source.exact, expected=False)
    distinct = expected_distinct(
        tokens,
        shape,
        members=placement.members,
        num_groups=placement.num_groups,
        top_groups=placement.top_groups,
    )
    return MemberTokens(fold_distinct(copies, distinct), exact=False, expected=True)


def fold_distinct(
    copies: Tokens, distinct: Tokens, *, by_rank: Tokens | None = None
) -> npt.NDArray[np.uint32]:
    """Fold with each token sent once per destination member.

    Parameters
    ----------
    copies
        Token copies between members, ``(..., members, members)``, of
        :func:`~lightloom.demand.placement.fold`.
    distinct
        Tokens of each rank with a copy for each member, ``(..., ranks, members)``; fractions are
        rounded after summing over a member's ranks.
    by_rank
        Tokens of each rank with a copy for each rank, ``(..., ranks, ranks)``, if known.

    Returns
    -------
    ``(..., members, members)``. Off the diagonal, tokens; on it, copies between different ranks
    of the member, those included that are made on arrival. The sum is that of ``copies`` unless
    ``by_rank`` is given.
    """
    members = copies.shape[-1]
    copies = copies.astype(np.int64)
    once = distinct.reshape(*copies.shape[:-2], members, -1, members).sum(axis=-2)
    # a rounded expectation may not exceed the copies it stands for
    once = np.minimum(np.rint(once).astype(np.int64), copies)
    inside = copies if by_rank is None else np.minimum(_by_member(by_rank, members), copies)
    once = np.minimum(once, inside)
    diagonal = np.arange(members)
    once[..., diagonal, diagonal] = inside[..., diagonal, diagonal]
    on_arrival = (inside - once).sum(axis=-2)
    once[..., diagonal, diagonal] += on_arrival
    return to_uint32(once)


def _by_member(by_rank: Tokens, members: int) -> npt.NDArray[np.int64]:
    """Tokens between ranks, added up by member; none from a rank to itself."""
    ranks = by_rank.shape[-1]
    per_member = ranks // members
    between = np.array(by_rank, dtype=np.float64)
    between[..., np.arange(ranks), np.arange(ranks)] = 0
    shape = (*between.shape[:-2], members, per_member, members, per_member)
    copies: npt.NDArray[np.int64] = np.rint(between.reshape(shape).sum(axis=(-3, -1))).astype(int)
    return copies


def check_groups(shape: Shape, num_groups: int, top_groups: int) -> None:
    """Refuse expert groups that the experts do not fill, or too few to choose from.

    Raises
    ------
    DemandError
        Naming the numbers.
    """
    if not whole(num_groups) or num_groups < 1 or shape.experts % num_groups:
        raise DemandError(f"{shape.experts} experts do not divide into {num_groups} expert groups")
    if not whole(top_groups) or not 1 <= top_groups <= num_groups:
        raise DemandError(f"top groups: expected 1 to {num_groups}, got {top_groups}")
    if top_groups * (shape.experts // num_groups) < shape.top_k:
        raise DemandError(
            f"{top_groups} groups of {shape.experts // num_groups} experts hold fewer than the "
            f"{shape.top_k} experts of a token"
        )


def expected_distinct(
    tokens: Counts | Floats, shape: Shape, *, members: int, num_groups: int = 1, top_groups: int = 1
) -> Floats:
    """Expected tokens of each rank that reach each member, from counts.

    Parameters
    ----------
    tokens
        Token copies ``(..., ranks, experts)``, rows summing to at most
        ``shape.copies_per_rank``.
    shape
        The job's numbers of ranks, experts, tokens and top-k.
    members
        Servers; each holds ``experts / members`` consecutive experts.
    num_groups, top_groups
        Node-limited routing: a token's experts lie in at most ``top_groups`` of ``num_groups``
        groups of consecutive experts.

    Returns
    -------
    ``(..., ranks, members)``, between the largest count of one of the member's experts and the
    lesser of the tokens and the sum of those counts.

    Raises
    ------
    DemandError
        If members or groups do not divide the experts.
    """
    check_groups(shape, num_groups, top_groups)
    per_member = _per_member(tokens, shape, members)
    if shape.top_k == 1 or shape.experts == members:
        copies = per_member.sum(axis=-1)
        return np.asarray(np.minimum(copies, shape.tokens_per_rank), dtype=np.float64)
    rows = tokens.reshape(-1, shape.experts) / shape.tokens_per_rank
    gate = {
        "experts": shape.experts,
        "members": members,
        "groups": num_groups,
        "slots": top_groups,
        "top_k": shape.top_k,
    }
    reached = _core.demand_reach(gate, rows)
    expected = reached.reshape(*tokens.shape[:-1], members) * shape.tokens_per_rank
    copies, largest = (along_last(operation, per_member) for operation in (np.add, np.maximum))
    return _bounded(expected, (copies, largest), shape, (num_groups, top_groups))


def mean_distinct(
    sums: RankSums, shape: Shape, *, members: int, num_groups: int = 1, top_groups: int = 1
) -> Floats:
    """Return :func:`expected_distinct` with one gate for all sources, that of their mean.

    The tokens of each source for a member are in proportion to its copies for it. This takes a
    ``shape.ranks``-th of the time, for whole training steps, and ``sums`` of the counts.
    """
    mean = sums.by_expert[..., np.newaxis, :] / shape.ranks
    limits = {"num_groups": num_groups, "top_groups": top_groups}
    once = expected_distinct(mean, shape, members=members, **limits)
    copies, largest = sums.of_members(members)
    share = once / np.maximum(copies.mean(axis=-2, keepdims=True), 1e-300)
    return _bounded(copies * share, (copies, largest), shape, (num_groups, top_groups))


def _per_member(tokens: Tokens, shape: Shape, members: int) -> Tokens:
    """Counts by member and expert of the member, ``(..., ranks, members, experts / members)``."""
    if members < 1 or shape.experts % members:
        raise DemandError(f"{shape.experts} experts do not divide over {members} members")
    return tokens.reshape(*tokens.shape[:-1], members, shape.experts // members)


def _bounded(
    expected: Floats, counts: tuple[Tokens, Tokens], shape: Shape, groups: tuple[int, int]
) -> Floats:
    """Expected tokens, kept within what the counts and node-limited routing allow.

    ``counts`` are all copies for a member and those for one expert of it at most,
    ``(..., ranks, members)``; ``groups`` all of experts and those of a token.
    """
    num_groups, top_groups = groups
    copies, largest = counts
    low = largest.astype(np.float64)
    high = np.minimum(copies, shape.tokens_per_rank).astype(np.float64)
    bounded: Floats = np.clip(expected, low, high)
    if copies.shape[-1] == num_groups:
        # counts that no gate within the limit can have may exceed it by the lower bounds
        room = top_groups * shape.tokens_per_rank - low.sum(axis=-1, keepdims=True)
        slack = bounded - low
        total = np.maximum(slack.sum(axis=-1, keepdims=True), 1e-300)
        bounded = low + slack * np.clip(room / total, 0, 1)
    return bounded
