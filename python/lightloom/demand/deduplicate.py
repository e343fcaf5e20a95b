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

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.demand.placement import along_last, check_members, combine, fold, to_uint32
from lightloom.demand.source import Counts, DemandSource, PerTokenSource, Shape, whole
from lightloom.errors import DemandError

Floats = npt.NDArray[np.float64]

#: rows computed together, so that the arrays of one pass stay in the cache
_ROWS = 512
#: passes that fit the weights, and the error of the experts' chances that ends them
_PASSES = 60
_PRECISION = 1e-4


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
    members, each = placement.members, placement.ranks_per_member
    if not placement.deduplicate:
        folded = fold(tokens, members=members, ranks_per_member=each)
        return MemberTokens(folded, source.exact, expected=False)
    if isinstance(source, PerTokenSource):
        distinct: npt.NDArray[Any] = source.distinct(**index, members=placement.members)
        once = fold_distinct(tokens, distinct, members=members, ranks_per_member=each)
        return MemberTokens(once, source.exact, expected=False)
    distinct = expected_distinct(
        tokens,
        shape,
        members=placement.members,
        num_groups=placement.num_groups,
        top_groups=placement.top_groups,
    )
    once = fold_distinct(tokens, distinct, members=members, ranks_per_member=each)
    return MemberTokens(once, exact=False, expected=True)


def fold_distinct(
    tokens: Counts,
    distinct: npt.NDArray[Any],
    *,
    members: int,
    ranks_per_member: int,
    by_rank: npt.NDArray[Any] | None = None,
) -> npt.NDArray[np.uint32]:
    """Fold with each token sent once per destination member.

    Parameters
    ----------
    tokens
        Token copies ``(..., ranks, experts)``.
    distinct
        Tokens of each rank with a copy for each member, ``(..., ranks, members)``; fractions are
        rounded after summing over a member's ranks.
    members, ranks_per_member
        See :func:`~lightloom.demand.placement.fold`.
    by_rank
        Tokens of each rank with a copy for each rank, ``(..., ranks, ranks)``, if known.

    Returns
    -------
    ``(..., members, members)``. Off the diagonal, tokens; on it, copies between different ranks
    of the member, those included that are made on arrival. The sum is that of
    :func:`~lightloom.demand.placement.fold` unless ``by_rank`` is given.
    """
    copies = fold(tokens, members=members, ranks_per_member=ranks_per_member).astype(np.int64)
    batch = copies.shape[:-2]
    once = distinct.reshape(*batch, members, ranks_per_member, members).sum(axis=-2)
    # a rounded expectation may not exceed the copies it stands for
    once = np.minimum(np.rint(once).astype(np.int64), copies)
    inside = copies if by_rank is None else np.minimum(_by_member(by_rank, members), copies)
    once = np.minimum(once, inside)
    diagonal = np.arange(members)
    once[..., diagonal, diagonal] = inside[..., diagonal, diagonal]
    on_arrival = (inside - once).sum(axis=-2)
    once[..., diagonal, diagonal] += on_arrival
    return to_uint32(once)


def _by_member(by_rank: npt.NDArray[Any], members: int) -> npt.NDArray[np.int64]:
    """Tokens between ranks, added up by member; none from a rank to itself."""
    ranks = by_rank.shape[-1]
    per_member = ranks // members
    between = np.array(by_rank, dtype=np.float64)
    between[..., np.arange(ranks), np.arange(ranks)] = 0
    shape = (*between.shape[:-2], members, per_member, members, per_member)
    found: npt.NDArray[np.int64] = np.rint(between.reshape(shape).sum(axis=(-3, -1))).astype(int)
    return found


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
    tokens: Counts, shape: Shape, *, members: int, num_groups: int = 1, top_groups: int = 1
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
    gate = _Gate(shape, members, num_groups, top_groups)
    parts = [gate.reached(rows[i : i + _ROWS]) for i in range(0, len(rows), _ROWS)]
    reached = np.concatenate(parts) if parts else np.empty((0, members))
    expected = reached.reshape(*tokens.shape[:-1], members) * shape.tokens_per_rank
    return _bounded(expected, per_member, shape, num_groups, top_groups)


def mean_distinct(
    tokens: Counts, shape: Shape, *, members: int, num_groups: int = 1, top_groups: int = 1
) -> Floats:
    """Return :func:`expected_distinct` with one gate for all sources, that of their mean.

    The tokens of each source for a member are in proportion to its copies for it. This takes a
    ``shape.ranks``-th of the time, for whole training steps.
    """
    mean = tokens.mean(axis=-2, keepdims=True)
    limits = {"num_groups": num_groups, "top_groups": top_groups}
    once = expected_distinct(mean, shape, members=members, **limits)
    per_member = _per_member(tokens, shape, members)
    copies = along_last(np.add, per_member)
    share = once / np.maximum(copies.mean(axis=-2, keepdims=True), 1e-300)
    return _bounded(copies * share, per_member, shape, num_groups, top_groups)


def _per_member(tokens: Counts, shape: Shape, members: int) -> Counts:
    """Counts by member and expert of the member, ``(..., ranks, members, experts / members)``."""
    if members < 1 or shape.experts % members:
        raise DemandError(f"{shape.experts} experts do not divide over {members} members")
    return tokens.reshape(*tokens.shape[:-1], members, shape.experts // members)


def _bounded(
    expected: Floats, per_member: Counts, shape: Shape, num_groups: int, top_groups: int
) -> Floats:
    """Expected tokens, kept within what the counts and node-limited routing allow."""
    low = along_last(np.maximum, per_member).astype(np.float64)
    copies = along_last(np.add, per_member)
    high = np.minimum(copies, shape.tokens_per_rank).astype(np.float64)
    bounded: Floats = np.clip(expected, low, high)
    if per_member.shape[-2] == num_groups:
        # counts that no gate within the limit can have may exceed it by the lower bounds
        room = top_groups * shape.tokens_per_rank - low.sum(axis=-1, keepdims=True)
        slack = bounded - low
        total = np.maximum(slack.sum(axis=-1, keepdims=True), 1e-300)
        bounded = low + slack * np.clip(room / total, 0, 1)
    return bounded


class _Gate:
    """The least informative gate with given counts, evaluated for many rows at once.

    Experts fall into *blocks*, the finest pieces that lie in one member and one group. The
    coefficient ``j`` of a block's polynomial sums the weights of its sets of ``j`` experts;
    products of such polynomials, truncated after ``top_k``, count sets over several blocks.
    Polynomials are arrays ``(top_k + 1, rows)``. Everything adds positive numbers only, so that
    nothing cancels.
    """

    def __init__(self, shape: Shape, members: int, num_groups: int, top_groups: int) -> None:
        self.top_k = shape.top_k
        self.slots = top_groups
        self.width = math.gcd(shape.experts // members, shape.experts // num_groups)
        starts = np.arange(0, shape.experts, self.width)
        self.member_of = starts * members // shape.experts
        self.group_of = starts * num_groups // shape.experts
        self.blocks = len(starts)
        self.members = members
        self.groups = [np.flatnonzero(self.group_of == g) for g in range(num_groups)]

    def reached(self, rows: Floats) -> Floats:
        """Probability that a token reaches each member, ``(rows, members)``.

        ``rows`` holds the probability of each expert to be chosen, ``(rows, experts)``.
        """
        chance = np.clip(rows.T, 0.0, 1.0)
        # sources resemble each other: their weights start from those of the mean source
        mean = chance.mean(axis=1, keepdims=True)
        start = self._fit(mean, _odds(mean))
        weights = self._fit(chance, start * _ratio(_odds(chance), _odds(mean)))
        return self._reach(self._sets(weights)).T

    def _fit(self, chance: Floats, weights: Floats) -> Floats:
        """Weights of experts with the wanted chances, ``(experts, rows)``."""
        fitted = np.empty_like(chance)
        active = np.arange(chance.shape[1])
        for _ in range(_PASSES):
            # a common factor cancels; without it products of weights could leave the floats
            weights = weights / np.maximum(weights.max(axis=0), 1e-300)
            fitted[:, active] = weights
            found, damping = self._chances(weights, self._sets(weights))
            going = (np.abs(found - chance) > _PRECISION).any(axis=0)
            active = active[going]
            if active.size == 0:
                break
            chance, found = chance[:, going], found[:, going]
            factor = self._correction(chance, found, damping[:, going])
            weights = weights[:, going] * factor
        return fitted

    def _correction(self, chance: Floats, found: Floats, damping: Floats) -> Floats:
        """Factor for each weight, towards the wanted chances.

        Without groups, wanted over found odds: exact but for the dependence between experts. With
        groups, wanted over found chances, damped where it moves a group as a whole.
        """
        if len(self.groups) == 1:
            factor = _ratio(_odds(chance), _odds(found))
        else:
            shape = (len(self.groups), -1, chance.shape[-1])
            wanted, given = chance.reshape(shape), found.reshape(shape)
            group = _ratio(wanted.sum(axis=1), given.sum(axis=1))
            damped = group ** (damping - 1)
            factor = (_ratio(wanted, given) * damped[:, np.newaxis]).reshape(chance.shape)
        bounded: Floats = np.clip(factor, 1e-3, 1e3)
        return bounded

    def _sets(self, weights: Floats) -> Floats:
        """Polynomials of the blocks, ``(blocks, top_k + 1, rows)``."""
        weights = weights.reshape(self.blocks, self.width, -1)
        sets = np.zeros((self.blocks, self.top_k + 1, weights.shape[-1]))
        sets[:, 0] = 1
        for expert in range(self.width):
            for j in range(min(expert + 1, self.top_k), 0, -1):
                sets[:, j] += weights[:, expert] * sets[:, j - 1]
        return sets

    def _chances(self, weights: Floats, sets: Floats) -> tuple[Floats, Floats]:
        """How often each expert is chosen ``(experts, rows)``, and a damping per group.

        The damping is the mean over the variance of a group's copies, at most 1: the inverse of
        how strongly their mean follows a common factor of the group's weights.
        """
        rests, total = self._outside_groups(sets)
        outside = np.empty_like(sets)
        damping = np.empty((len(self.groups), sets.shape[-1]))
        count = np.arange(self.top_k + 1, dtype=np.float64)[:, np.newaxis]
        for group, blocks in enumerate(self.groups):
            rest = rests[group]
            before = _running(sets[blocks])
            after = _running(sets[blocks][::-1])
            for place, block in enumerate(blocks):
                elsewhere = _product(before[place], after[len(blocks) - 1 - place])
                outside[block] = _product(elsewhere, rest)
            copies = before[-1] * rest[::-1] / total
            mean = (count * copies).sum(axis=0)
            variance = (count**2 * copies).sum(axis=0) - mean**2
            damping[group] = np.clip(mean / np.maximum(variance, 1e-300), 0, 1)
        return self._derivative(weights, outside) / total, damping

    def _derivative(self, weights: Floats, outside: Floats) -> Floats:
        """Weight of all choices that hold an expert, ``(experts, rows)``.

        The derivative of the total by the log of each weight, backwards through the product that
        makes a block's polynomial.
        """
        shape = weights.shape
        weights = weights.reshape(self.blocks, self.width, -1)
        prefixes = np.zeros((self.width + 1, self.blocks, self.top_k + 1, shape[-1]))
        prefixes[0, :, 0] = 1
        for expert in range(self.width):
            prefixes[expert + 1] = prefixes[expert]
            prefixes[expert + 1, :, 1:] += weights[:, expert, np.newaxis] * prefixes[expert, :, :-1]
        result = np.empty_like(weights)
        adjoint = outside[:, ::-1].copy()
        for expert in range(self.width - 1, -1, -1):
            held = (adjoint[:, 1:] * prefixes[expert, :, :-1]).sum(axis=1)
            result[:, expert] = weights[:, expert] * held
            adjoint[:, :-1] += weights[:, expert, np.newaxis] * adjoint[:, 1:]
        return result.reshape(shape)

    def _outside_groups(self, sets: Floats) -> tuple[list[Floats], Floats]:
        """Per group, ways to choose elsewhere while it takes a slot; and all ways there are.

        Arrays ``(top_k + 1, rows)`` and ``(rows,)``.
        """
        full = [_running(sets[blocks])[-1] for blocks in self.groups]
        start = np.zeros((self.slots + 1, self.top_k + 1, sets.shape[-1]))
        start[0, 0] = 1
        before, after = [start], [start]
        for group in range(len(full) - 1):
            before.append(_touch(before[-1], full[group]))
            after.append(_touch(after[-1], full[-1 - group]))
        rests = [np.zeros_like(start[0]) for _ in full]
        for group in range(len(full)):
            within = np.cumsum(after[len(full) - 1 - group], axis=0)
            for taken in range(min(self.slots, group + 1)):
                rests[group] += _product(before[group][taken], within[self.slots - 1 - taken])
        total = _touch(before[-1], full[-1])[:, self.top_k].sum(axis=0)
        return rests, np.maximum(total, 1e-300)

    def _reach(self, sets: Floats) -> Floats:
        """Probability that a token has an expert in each member, ``(members, rows)``."""
        rests, total = self._outside_groups(sets)
        reach = np.empty((self.members, sets.shape[-1]))
        runs: dict[int, tuple[list[Floats], list[Floats]]] = {}
        for member in range(self.members):
            blocks = np.flatnonzero(self.member_of == member)
            group = int(self.group_of[blocks[0]])
            inside = self.groups[group]
            if blocks[-1] > inside[-1]:
                without = sets.copy()
                without[blocks, 1:] = 0
                reach[member] = 1 - self._outside_groups(without)[1] / total
                continue
            if group not in runs:
                runs = {group: (_running(sets[inside]), _running(sets[inside][::-1]))}
            before, after = runs[group]
            kept = _product(before[blocks[0] - inside[0]], after[inside[-1] - blocks[-1]])
            # what is lost without the member: choices that touch its group, and it
            lost = (before[-1] - kept) * rests[group][::-1]
            reach[member] = lost.sum(axis=0) / total
        return reach


def _ratio(wanted: Floats, found: Floats) -> Floats:
    """Quotient of what may be zero."""
    return np.asarray(np.maximum(wanted, 1e-300) / np.maximum(found, 1e-300))


def _odds(chance: Floats) -> Floats:
    """Odds of a chance; certainty counts as almost certain."""
    return np.asarray(chance / np.maximum(1 - chance, 1e-9))


def _product(left: Floats, right: Floats) -> Floats:
    """Product of polynomials ``(terms, rows)``, truncated to as many terms."""
    terms = len(left)
    result = np.zeros_like(left)
    for j in range(terms):
        result[j:] += left[: terms - j] * right[j]
    return result


def _running(polynomials: Floats, first: Floats | None = None) -> list[Floats]:
    """Products of the first 0, 1, 2, ... polynomials, times ``first``."""
    if first is None:
        first = np.zeros_like(polynomials[0])
        first[0] = 1
    products = [first]
    for polynomial in polynomials:
        products.append(_product(products[-1], polynomial))
    return products


def _touch(state: Floats, group: Floats) -> Floats:
    """Add a group to ``(slots + 1, terms, rows)``: untouched, or with one more slot taken."""
    result = state.copy()
    terms = state.shape[1]
    for j in range(1, terms):
        result[1:, j:] += state[:-1, : terms - j] * group[j]
    return result
