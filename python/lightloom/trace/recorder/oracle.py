"""The experts that tokens visit, as if a router had chosen them.

Which experts a router chooses depends on data, of which a trace has none. The oracle replies for
all ranks: from the same seed each rank draws its own tokens and knows what its peers have drawn, so
that what one rank sends to another is what the other expects.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass

import torch

#: choices that counts are compared with: those of some layers are pending at once
PENDING = 64


@dataclass(frozen=True)
class Routing:
    """One router's choice: the number of it in the program, and its sizes."""

    number: int
    tokens: int
    experts: int
    each: int


class RoutingOracle:
    """Draws experts of tokens.

    Parameters
    ----------
    rank
        The rank whose program is traced.
    seed
        Equal seeds, equal choices.
    skew
        Standard deviation of the logarithm of expert loads, which are drawn anew for each choice; 0
        spreads tokens evenly.
    """

    def __init__(self, rank: int, seed: int = 0, skew: float = 0.0) -> None:
        self.rank, self.seed, self.skew = rank, seed, skew
        self.choices: deque[Routing] = deque(maxlen=PENDING)
        self.number = 0
        self.made: list[Routing] = []
        #: those of whose counts a call was seen
        self.seen: set[int] = set()
        #: of the last choices
        self._known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def choose(self, shape: tuple[int, ...], each: int) -> torch.Tensor:
        """The experts of this rank's tokens.

        Parameters
        ----------
        shape
            Of the router's scores: tokens (any number of dimensions) x experts.
        each
            Experts per token.

        Returns
        -------
        torch.Tensor
            Whole numbers, tokens x `each`, all of a token distinct.
        """
        choice = Routing(self.number, math.prod(shape[:-1]), shape[-1], each)
        self.number += 1
        self.choices.append(choice)
        self.made.append(choice)
        return self._draw(choice, self.rank).view(*shape[:-1], each)

    def counts(self, choice: Routing, rank: int) -> torch.Tensor:
        """Tokens that a rank sends to each expert."""
        # systematic sampling: token i has picks at k + (i + start) / tokens for k below `each`, one
        # apart in the sum of probabilities; tokens start evenly spread, from a place of their rank
        start = random.Random(f"{self.seed} {choice.number} {rank}").random()
        whole, part = self._ends(choice)
        before = (part - start).ceil_().clamp_(0, choice.tokens).to(torch.int64) + whole
        return before.diff(prepend=before.new_zeros(1))

    def of_counts(self, counts: torch.Tensor) -> tuple[Routing, int] | None:
        """The choice that counts of this rank stem from, and how many experts each counts.

        Counts may be of experts or of equally large groups of experts, such as those of one rank.
        """
        flat = counts.reshape(-1).to(torch.int64)
        if flat.numel() == 0:
            return None
        total = int(flat.sum())
        for choice in reversed(self.choices):
            if total != choice.tokens * choice.each or choice.experts % flat.numel():
                continue
            size = choice.experts // flat.numel()
            if torch.equal(self.counts(choice, self.rank).view(-1, size).sum(1), flat):
                self.seen.add(choice.number)
                return choice, size
        return None

    def of_splits(self, sent: list[int], received: list[int]) -> int | None:
        """The choice that the rows of an all-to-all stem from, by what this rank sends or gets.

        On the way to experts it sends as many as it chose, on the way back it gets as many. Where
        choices are alike the last one is meant.
        """
        for choice in reversed(self.choices):
            total = choice.tokens * choice.each
            if choice.experts % len(sent) or total not in (sum(sent), sum(received)):
                continue
            size = choice.experts // len(sent)
            chosen = self.counts(choice, self.rank).view(-1, size).sum(1).tolist()
            if chosen in (sent, received):
                return choice.number
        return None

    def _draw(self, choice: Routing, rank: int) -> torch.Tensor:
        """Experts of each token; of tokens one after the other those that visit an expert."""
        ordered = torch.arange(choice.experts).repeat_interleave(self.counts(choice, rank))
        return ordered.view(choice.each, choice.tokens).t().contiguous()

    def _ends(self, choice: Routing) -> tuple[torch.Tensor, torch.Tensor]:
        """Where the probabilities of each expert end in their sum: whole picks, and tokens."""
        if choice.number not in self._known:
            ends = self._probabilities(choice).cumsum(0)
            ends[-1] = choice.each
            whole = ends.floor()
            part = (ends - whole) * choice.tokens
            self._known[choice.number] = ((whole * choice.tokens).to(torch.int64), part)
            self._known.pop(choice.number - PENDING, None)
        return self._known[choice.number]

    def _probabilities(self, choice: Routing) -> torch.Tensor:
        """How likely a token visits each expert: at most one, in sum the experts of a token."""
        draw = random.Random(f"{self.seed} {choice.number}")
        logs = [draw.gauss(0.0, 1.0) * self.skew for _ in range(choice.experts)]
        weights = torch.tensor(logs, dtype=torch.float64).exp()
        share = weights * (choice.each / weights.sum())
        full = share > 1.0
        while True:  # what is more than one goes to the others
            rest = weights.masked_fill(full, 0.0)
            left = choice.each - int(full.sum())
            share = rest * (left / rest.sum()) if left else rest
            more = share > 1.0
            if not more.any():
                return share.masked_fill(full, 1.0)
            full |= more
