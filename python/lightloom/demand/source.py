"""What a source of demand is: token copies from EP ranks to experts, made lazily.

A *token copy* is one token on its way to one of its ``top_k`` experts. A source gives counts per
(EP group, MoE layer, micro-batch, step); bytes, placement on servers and de-duplication follow
from the counts in the other modules of this package. MoE layers are numbered from 0 over the whole
model, dense layers not counted. A group is numbered among those that hold the same layers: groups
of one number in different pipeline stages see the same tokens. Expert ``e`` lives on EP rank
``e // experts_per_rank``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from lightloom.errors import DemandError, echo

Counts = npt.NDArray[np.int64]

#: limits that keep counts inside 32 bits and an index inside a word of a random stream
MAX_RANKS = 65_536
MAX_EXPERTS = 65_535
MAX_COPIES = 2**31 - 1
MAX_INDEX = 2**48


def shown_divisors(number: int) -> str:
    """Numbers that divide another, for messages: all, or the first and the last ones."""
    divisors = [str(divisor) for divisor in range(1, number + 1) if number % divisor == 0]
    return ", ".join(divisors if len(divisors) <= 16 else [*divisors[:12], "...", *divisors[-3:]])


@dataclass(frozen=True)
class Shape:
    """How many EP ranks share how many experts, and what one rank routes per micro-batch.

    Parameters
    ----------
    ranks
        EP ranks of one EP group.
    experts
        Experts of the layer; rank ``r`` holds the ``experts / ranks`` from
        ``r * experts / ranks`` on.
    tokens_per_rank
        Tokens that one EP rank routes per micro-batch and layer.
    top_k
        Experts that each token chooses, all different.

    Raises
    ------
    DemandError
        If a number is not positive, the experts do not divide over the ranks, a token would have
        to choose an expert twice, or the counts would not fit 32 bits.
    """

    ranks: int
    experts: int
    tokens_per_rank: int
    top_k: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not whole(value) or value < 1:
                raise DemandError(
                    f"{name}: expected a whole number of at least 1, got {echo(value)}"
                )
        if self.ranks > MAX_RANKS or self.experts > MAX_EXPERTS:
            raise DemandError(
                f"expected at most {MAX_RANKS:,} EP ranks and {MAX_EXPERTS:,} experts, "
                f"got {self.ranks:,} and {self.experts:,}"
            )
        if self.experts % self.ranks:
            raise DemandError(
                f"{self.experts} experts do not divide over {self.ranks} EP ranks; choose an EP "
                f"degree that divides the experts: {shown_divisors(self.experts)}"
            )
        if self.top_k > self.experts:
            raise DemandError(
                f"top-k of {self.top_k} exceeds the {self.experts} experts; a token chooses "
                "each expert at most once"
            )
        if self.copies_per_rank > MAX_COPIES:
            raise DemandError(
                f"{self.tokens_per_rank:,} tokens x top-{self.top_k} exceed {MAX_COPIES:,} token "
                "copies per rank; use a smaller micro-batch"
            )

    @property
    def experts_per_rank(self) -> int:
        """Experts on each EP rank."""
        return self.experts // self.ranks

    @property
    def copies_per_rank(self) -> int:
        """Token copies that each EP rank routes per micro-batch and layer."""
        return self.tokens_per_rank * self.top_k


class DemandSource(Protocol):
    """Token copies by (group, layer, micro-batch, step).

    ``exact`` is true where the counts were measured for a job of exactly this shape, false where
    they were drawn, scaled or resampled; ``provenance`` says in words where they come from.
    """

    name: str
    provenance: dict[str, str]
    exact: bool
    shape: Shape

    def tokens(self, *, group: int, layers: Sequence[int], micro_batches: int, step: int) -> Counts:
        """Token copies, ``(len(layers), micro_batches, ranks, experts)``.

        Entry ``[l, m, r, e]`` counts the copies that source rank ``r`` of EP group ``group``
        routes to expert ``e``. Rows sum to ``shape.copies_per_rank``, or less where copies are
        dropped, and no entry exceeds ``shape.tokens_per_rank``. The result depends on the indices
        alone: not on the order of calls, nor on which layers or how many micro-batches are asked
        for together.
        """
        ...


@runtime_checkable
class PerTokenSource(Protocol):
    """A source that knows each token, so that its tokens can be counted without repetition."""

    def distinct(
        self, *, group: int, layers: Sequence[int], micro_batches: int, step: int, members: int
    ) -> Counts:
        """Tokens with a copy for a member, ``(len(layers), micro_batches, ranks, members)``.

        Entry ``[l, m, r, s]`` counts the tokens of source rank ``r`` that chose at least one
        expert on member (server) ``s``; a member holds ``ranks / members`` consecutive ranks.
        """
        ...

    def check_node_limit(self, num_groups: int, top_groups: int) -> None:
        """Refuse a log whose tokens reach more than ``top_groups`` of ``num_groups``."""
        ...


def whole(value: Any) -> bool:
    """Whether a value is a whole number (and not a truth value)."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_index(group: int, layers: Sequence[int], micro_batches: int, step: int) -> None:
    """Refuse indices that are not whole numbers in range.

    Raises
    ------
    DemandError
        Naming the index.
    """
    if not isinstance(layers, Sequence | np.ndarray) or isinstance(layers, str | bytes):
        raise DemandError(f"layers: expected a list of whole numbers, got {echo(layers)}")
    indices = [("group", group), ("step", step), *(("layer", layer) for layer in layers)]
    for name, value in indices:
        if not whole(value) or not 0 <= value < MAX_INDEX:
            raise DemandError(f"{name}: expected a whole number of at least 0, got {echo(value)}")
    if not whole(micro_batches) or not 1 <= micro_batches < MAX_INDEX:
        raise DemandError(
            f"micro-batches: expected a whole number above 0, got {echo(micro_batches)}"
        )
