"""The experts that tokens visit, as if a router had chosen them.

Which experts a router chooses depends on data, of which a trace has none. The oracle replies for
all ranks: from the same seed each rank draws its own tokens and knows what its peers have drawn, so
that what one rank sends to another is what the other expects.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

#: layer, step and micro-batch
Place = tuple[str, int, int | None]

#: choices that counts are compared with: those of some layers are pending at once
PENDING = 64


@dataclass(frozen=True)
class Routing:
    """One router's choice: the number of it in the program, its sizes, and where in a log it is."""

    number: int
    tokens: int
    experts: int
    each: int
    layer: int = 0
    turn: int = 0


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
    log
        Token copies of a routing log, as micro-batches x layers x sources x experts: where a
        router has that many experts, tokens are spread over them as there, and `skew` has no
        effect. Layers are counted as the rank meets them; what the log has too few of is repeated.
    """

    def __init__(self, rank: int, seed: int = 0, skew: float = 0.0, log: Any = None) -> None:
        self.rank, self.seed, self.skew, self.log = rank, seed, skew, log
        self.choices: deque[Routing] = deque(maxlen=PENDING)
        self.number = 0
        self.all_choices: list[Routing] = []
        #: those of whose counts a call was seen
        self.seen: set[int] = set()
        #: of the last choices
        self._known: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        #: choices that were drawn as a log has them
        self.logged = 0
        #: where the program is, and whether it runs there what it ran before
        self.place: Callable[[], tuple[Place, bool]] | None = None
        self._chosen: defaultdict[Place, list[Routing]] = defaultdict(list)
        self._again: Counter[Place] = Counter()
        self._layers: dict[tuple[str, int], int] = {}
        self._turns: Counter[tuple[str, int]] = Counter()

    def choose(self, shape: tuple[int, ...], count: int) -> torch.Tensor:
        """The experts of this rank's tokens.

        Parameters
        ----------
        shape
            Of the router's scores: tokens (any number of dimensions) x experts.
        count
            Experts per token.

        Returns
        -------
        torch.Tensor
            Whole numbers, tokens x `each`, all of a token distinct.
        """
        choice = self._choice(math.prod(shape[:-1]), shape[-1], count)
        self.choices.append(choice)
        return self._draw(choice, self.rank).view(*shape[:-1], count)

    def _choice(self, tokens: int, experts: int, count: int) -> Routing:
        """A new choice; or, where activations are computed once more, what was chosen before."""
        place, again = ("", 0, None), False
        if self.place is not None:
            place, again = self.place()
        routings = self._chosen[place]
        if again and self._again[place] < len(routings):
            before = routings[self._again[place]]
            self._again[place] += 1
            if (before.tokens, before.experts, before.each) == (tokens, experts, count):
                return before
        router = (place[0], experts)
        layer = self._layers.setdefault(router, len(self._layers))
        choice = Routing(self.number, tokens, experts, count, layer, self._turns[router])
        self._turns[router] += 1
        self.number += 1
        self.logged += self._has_log(choice)
        routings.append(choice)
        self.all_choices.append(choice)
        return choice

    def counts(self, choice: Routing, rank: int) -> torch.Tensor:
        """Tokens that a rank sends to each expert."""
        # systematic sampling: token i has picks at k + (i + start) / tokens for k below `each`, one
        # apart in the sum of probabilities; tokens start evenly spread, from a place of their rank
        start = random.Random(f"{self.seed} {choice.number} {rank}").random()
        whole, part = self._ends(choice, rank)
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

    def _ends(self, choice: Routing, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Where the probabilities of each expert end in their sum: whole picks, and tokens."""
        source = rank % self.log.shape[2] if self._has_log(choice) else 0
        if (choice.number, source) not in self._known:
            ends = self._probabilities(choice, source).cumsum(0)
            ends[-1] = choice.each
            whole = ends.floor()
            part = (ends - whole) * choice.tokens
            parts = ((whole * choice.tokens).to(torch.int64), part)
            self._known[choice.number, source] = parts
            self._known.pop((choice.number - PENDING, source), None)
        return self._known[choice.number, source]

    def _has_log(self, choice: Routing) -> bool:
        return self.log is not None and self.log.shape[-1] == choice.experts

    def _weights(self, choice: Routing, source: int) -> torch.Tensor:
        """Loads of experts, from the log or drawn; none is without any."""
        if self._has_log(choice):
            steps, layers, _, _ = self.log.shape
            row = self.log[choice.turn % steps, choice.layer % layers, source]
            return torch.as_tensor(row, dtype=torch.float64).clamp(min=1e-9)
        draw = random.Random(f"{self.seed} {choice.number}")
        logs = [draw.gauss(0.0, 1.0) * self.skew for _ in range(choice.experts)]
        return torch.tensor(logs, dtype=torch.float64).exp()

    def _probabilities(self, choice: Routing, source: int) -> torch.Tensor:
        """How likely a token visits each expert: at most one, in sum the experts of a token."""
        weights = self._weights(choice, source)
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
