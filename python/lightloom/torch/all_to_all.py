"""All-to-alls of tokens to experts that several TP ranks hold together, by MoNTA's strategies.

Forward and backward move the same rows to the bit, whatever the strategy and the number of chunks;
only sums over TP ranks may differ in their order. A second derivative is refused.
``torch.compile`` leaves these calls as they are, and compiles what is before and after them: how
many rows come is what other ranks tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import torch
import torch.distributed as dist
from torch.autograd.function import FunctionCtx, once_differentiable

from lightloom.errors import InputError, expected_one_of
from lightloom.planner.strategy import AllToAllStrategy
from lightloom.planner.token_layout import TokenLayout, chunks_of
from lightloom.torch.agreement import Signature, agree_on, agree_on_options, answered
from lightloom.torch.moves import Groups, Moves

if TYPE_CHECKING:
    from lightloom.planner.cluster import StrategyCluster

Gradient = Literal["partial", "replicated"]
GRADIENTS: tuple[str, ...] = get_args(Gradient)
#: strategies that tokens of a layout can have
STRATEGIES: dict[str, tuple[AllToAllStrategy, ...]] = {
    "replicated": tuple(AllToAllStrategy),
    "sharded": tuple(s for s in AllToAllStrategy if s is not AllToAllStrategy.BASELINE),
}


@dataclass(frozen=True)
class Route:
    """How tokens went to their experts, and the way back.

    Attributes
    ----------
    strategy, chunks
        What was taken.
    received
        Rows that came from each EP rank, in this order; of sharded tokens, those of each EP rank
        from TP rank 0, then those from TP rank 1, and so on.
    sent
        Rows that went to each EP rank.
    """

    strategy: AllToAllStrategy
    chunks: int
    received: tuple[int, ...]
    sent: tuple[int, ...]
    moves: Moves

    @torch.compiler.disable
    def dispatch(self, x: torch.Tensor, *, grad: Gradient = "partial") -> torch.Tensor:
        """Send more of the same tokens, such as their weights, where the tokens went.

        Parameters
        ----------
        x
            A row for each token that was sent, ``(tokens, ...)``.
        grad
            Whether TP ranks have parts of the gradient, or all the same.

        Returns
        -------
        torch.Tensor
            A row for each that was received.

        Raises
        ------
        InputError
            If there is not one row for each token.
        """
        if len(x) != sum(self.sent):
            raise InputError(
                f"dispatch: {len(x)} rows; expected the {sum(self.sent)} of its tokens"
            )
        rows: torch.Tensor = _Dispatch.apply(_flat(x), self, grad == "partial")
        return rows.reshape(sum(self.received), *x.shape[1:])

    @torch.compiler.disable
    def combine(
        self, rows: torch.Tensor, *, partial: bool = True, sum_type: torch.dtype | None = None
    ) -> torch.Tensor:
        """Return the experts' results to the ranks that their tokens came from.

        Parameters
        ----------
        rows
            A result for each row that was received, ``(rows, ...)``.
        partial
            Whether each TP rank has a part of the sum, as after a row-parallel product that was
            not reduced; otherwise all TP ranks have the same results.
        sum_type
            Type in which parts are added up; that of ``rows`` unless it is given.

        Returns
        -------
        torch.Tensor
            A result for each token that was sent, in the order in which they were sent.

        Raises
        ------
        InputError
            If there is not one row for each that was received.
        """
        expected = sum(self.received)
        if len(rows) != expected:
            raise InputError(f"combine: {len(rows)} rows; expected the {expected} that came")
        result: torch.Tensor = _Combine.apply(_flat(rows), self, partial, sum_type or rows.dtype)
        return result.reshape(sum(self.sent), *rows.shape[1:])


@torch.compiler.disable
def all_to_all_tp(  # noqa: PLR0913
    x: torch.Tensor,
    splits: Sequence[int],
    *,
    ep_group: dist.ProcessGroup,
    tp_group: dist.ProcessGroup,
    layout: TokenLayout = "replicated",
    grad: Gradient = "partial",
    strategy: str = "auto",
    chunks: int | Literal["auto"] = "auto",
    cluster: StrategyCluster | str | None = None,
) -> tuple[torch.Tensor, Route]:
    """Send tokens to EP ranks, all of whose TP ranks get them.

    Parameters
    ----------
    x
        Tokens, ``(tokens, ...)``, of any type, in the order of the EP ranks that they go to.
    splits
        How many go to each EP rank of ``ep_group``.
    ep_group, tp_group
        EP ranks that have this rank's TP rank, and TP ranks that have its EP rank.
    layout
        ``"replicated"`` where all TP ranks have the same tokens, ``"sharded"`` where each has its
        own (sequence parallelism).
    grad
        Whether TP ranks have parts of the gradient (``"partial"``), or all the same.
    strategy
        ``"baseline"``, ``"O1"`` to ``"O4"``, or ``"auto"``: what the planner chooses for these
        tokens on ``cluster``; O1 where there is none. Sharded tokens can have O1 to O4.
    chunks
        Of O2 to O4; ``"auto"`` as many as are fastest on ``cluster``, 4 where there is none.
    cluster
        What was measured, or its name or file; see :mod:`lightloom.planner.cluster`.

    Returns
    -------
    rows
        What every TP rank of this EP rank gets, in the order of the EP ranks it comes from; of
        sharded tokens in the order of TP ranks first.
    route
        How many came from where, and the way back for the experts' results.

    Raises
    ------
    InputError
        On every rank, if ranks disagree on what they do, groups are not rows and columns of a
        grid, or a rank's ``splits`` are not those of its tokens.
    RankError
        If a rank does not answer within the time-out of its process group.
    """
    groups = Groups(ep_group, tp_group)
    with answered(groups):
        where, problem = _cluster(cluster)
        signature = Signature(
            layout=layout,
            grad=grad,
            strategy=strategy,
            chunks=chunks,
            type=str(x.dtype).removeprefix("torch."),
            elements=math.prod(x.shape[1:]),
            cluster=repr(where),
        )
        problem = problem or _problem(x, splits, groups, signature)
        counts = agree_on(signature, list(splits), problem, groups)
        taken, number = _choice(counts, _token_bytes(x), signature, where)
        route = _route(groups, counts, layout, taken, number)
    return route.dispatch(x, grad=grad), route


def _route(
    groups: Groups,
    counts: list[list[list[int]]],
    layout: TokenLayout,
    strategy: AllToAllStrategy,
    chunks: int,
) -> Route:
    """What every rank does with the tokens of all."""
    cut = chunks_of(
        counts, ep_rank=groups.ep_rank, tp_rank=groups.tp_rank, chunks=chunks, layout=layout
    )
    if layout == "replicated":
        received = tuple(row[groups.ep_rank] for row in counts[0])
    else:
        received = tuple(row[groups.ep_rank] for each in counts for row in each)
    sent = tuple(counts[groups.tp_rank][groups.ep_rank])
    return Route(
        strategy, chunks, received, sent, Moves(groups, cut, strategy, layout == "replicated")
    )


def _problem(x: torch.Tensor, splits: Sequence[int], groups: Groups, signature: Signature) -> str:
    """What is wrong with the arguments of this rank; nothing if they will do."""
    layout, strategy, chunks = signature.layout, signature.strategy, signature.chunks
    if layout not in STRATEGIES:
        return f"layout: {expected_one_of(layout, STRATEGIES)}"
    if signature.grad not in GRADIENTS:
        return f"grad: {expected_one_of(signature.grad, GRADIENTS)}"
    if problem := strategy_problem(layout, strategy, chunks):
        return problem
    if x.dim() < 1:
        return "x is a scalar: expected tokens along its first dimension"
    if len(splits) != groups.ep_size:
        return f"{len(splits)} splits: expected one for each of the {groups.ep_size} EP ranks"
    if any(not isinstance(count, int) or count < 0 for count in splits):
        return "splits: expected whole numbers of 0 or more"
    if sum(splits) != len(x):
        return f"splits add up to {sum(splits)}: expected the {len(x)} tokens of x"
    return ""


def strategy_problem(layout: str, strategy: object, chunks: object) -> str:
    """What is wrong with a strategy and its chunks; nothing if they will do."""
    allowed = ("auto", *STRATEGIES[layout])
    if strategy not in allowed:
        return f"strategy of {layout} tokens: {expected_one_of(str(strategy), allowed)}"
    whole = isinstance(chunks, int) and not isinstance(chunks, bool)
    if chunks != "auto" and not (whole and chunks >= 1):
        return f"chunks = {chunks!r}: expected a number of 1 or more, or 'auto'"
    return ""


def agree_on_strategy(
    layout: TokenLayout, options: Mapping[str, object], problem: str, layers: int
) -> int:
    """Make sure that all ranks of the job will do what they are asked for, before they do it.

    Parameters
    ----------
    layout
        How their tokens lie.
    options
        ``strategy``, ``chunks`` and ``cluster`` of :func:`all_to_all_tp`, and whatever else has to
        be the same on all ranks.
    problem, layers
        What else is wrong on this rank, if anything is, and how many layers of its own take it.

    Returns
    -------
    int
        How many layers of all ranks take it.

    Raises
    ------
    InputError
        On every rank, if one of them cannot be, or they differ.
    RankError
        If a rank does not answer.
    """
    values = {"strategy": "auto", "chunks": "auto", "cluster": None, **options}
    cluster = values["cluster"]
    where, unread = _cluster(cluster) if isinstance(cluster, str) else (cluster, "")
    problem = problem or unread or strategy_problem(layout, values["strategy"], values["chunks"])
    return agree_on_options({**values, "cluster": repr(where)}, problem, layers)


def _cluster(cluster: StrategyCluster | str | None) -> tuple[StrategyCluster | None, str]:
    """What was measured, read from its file if need be, and what is wrong with that."""
    if not isinstance(cluster, str):
        return cluster, ""
    from lightloom.planner.cluster import load_cluster

    try:
        return load_cluster(cluster), ""
    except InputError as error:
        return None, str(error)


def _choice(
    counts: list[list[list[int]]],
    token_bytes: int,
    signature: Signature,
    cluster: StrategyCluster | None,
) -> tuple[AllToAllStrategy, int]:
    """The strategy and its chunks, the same on every rank, since all know all counts."""
    strategy, chunks = signature.strategy, signature.chunks
    taken = AllToAllStrategy.O1 if strategy == "auto" else AllToAllStrategy(strategy)
    number = 4 if chunks == "auto" else int(chunks)
    if cluster is not None and "auto" in (strategy, chunks):
        from lightloom.planner.all_to_all import AllToAll

        times = AllToAll(cluster, len(counts), len(counts[0]))
        parts = counts[:1] if signature.layout == "replicated" else counts
        tokens = torch.tensor(parts).sum(dim=0).numpy()
        timed = times.of_tokens(tokens, token_bytes, None if chunks == "auto" else number).times
        if strategy == "auto":
            allowed = STRATEGIES[signature.layout]
            among = [name for name in cluster.choices if name in allowed] or allowed
            taken = min(among, key=lambda name: timed[name].time_s)
        number = timed[taken].chunks
    return taken, number if taken.is_chunked else 1


def _flat(x: torch.Tensor) -> torch.Tensor:
    """Tokens as rows, ``(tokens, elements)``."""
    return x.reshape(len(x), math.prod(x.shape[1:]))


def _token_bytes(x: torch.Tensor) -> int:
    return x.element_size() * math.prod(x.shape[1:])


class _Context(FunctionCtx):
    """What the way back has to know."""

    route: Route
    partial: bool


class _Dispatch(torch.autograd.Function):
    """Rows to the experts; the gradient comes back."""

    @staticmethod
    def forward(ctx: _Context, rows: torch.Tensor, route: Route, partial: bool) -> torch.Tensor:
        """Send rows."""
        ctx.route, ctx.partial = route, partial
        with answered(route.moves.groups):
            out = rows.new_empty(sum(route.received), rows.shape[1])
            route.moves.dispatch(rows.contiguous(), out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """Send the gradient back."""
        route = ctx.route
        with answered(route.moves.groups):
            out = gradient.new_empty(sum(route.sent), gradient.shape[1])
            route.moves.combine(gradient.contiguous(), out, partial=ctx.partial)
        return out, None, None


class _Combine(torch.autograd.Function):
    """Results back from the experts; the gradient goes to every TP rank of theirs."""

    @staticmethod
    def forward(
        ctx: _Context, rows: torch.Tensor, route: Route, partial: bool, sum_type: torch.dtype
    ) -> torch.Tensor:
        """Send results back."""
        ctx.route = route
        with answered(route.moves.groups):
            out = rows.new_empty(sum(route.sent), rows.shape[1])
            addends = rows.to(sum_type) if partial else rows
            route.moves.combine(addends.contiguous(), out, partial=partial)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        """Send the gradient of each result to its experts."""
        route = ctx.route
        with answered(route.moves.groups):
            out = gradient.new_empty(sum(route.received), gradient.shape[1])
            route.moves.dispatch(gradient.contiguous(), out)
        return out, None, None, None
