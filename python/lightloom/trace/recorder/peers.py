"""What the other ranks send.

Data of floating point needs no answer: it has none. Integers do: a program may read them. Ranks
that are recorded together tell each other what they hold. Others are taken to hold what this one
holds, which is noted, but for counts of tokens by expert, which the routing oracle knows for every
rank; and where only one rank can know, such as the root of a broadcast, that one has to be
recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from .calls import OPERATIONS
from .places import RefusedError, place
from .post import Told, told_of
from .values import (
    MAX_KNOWN_FLOATS,
    common_origin,
    derive,
    is_known,
    origin_of,
    replace_tensors,
    tensors_of,
    to_meta,
)

if TYPE_CHECKING:
    from .calls import Arguments, IssuedCall
    from .oracle import RoutingOracle
    from .post import Post

Tensors = list[torch.Tensor]


class Finish:
    """Writes what comes into the outputs of a call when the program first waits for any of them.

    Parameters
    ----------
    write
        Waits for the others, and writes.
    is_there
        Whether nothing has to be waited for.
    """

    def __init__(self, write: Callable[[], None], is_there: Callable[[], bool]) -> None:
        self._write: Callable[[], None] | None = write
        self._is_there = is_there

    def __call__(self) -> None:
        write, self._write = self._write, None
        if write is not None:
            write()

    def is_there(self) -> bool:
        """Whether nothing has to be waited for."""
        return self._write is None or self._is_there()


class NeedsRankError(RefusedError):
    """A rank that would have to be recorded, too."""

    def __init__(self, rank: int, what: str) -> None:
        super().__init__(
            f"{place()} gets {what} from rank {rank}, which is not recorded: record it, too, by "
            f"--rank {rank}"
        )
        self.rank = rank


class Peers:
    """Answers communication in place of the other ranks.

    Parameters
    ----------
    rank
        The rank that is traced.
    oracle
        Knows what experts each rank's tokens visit.
    post
        What the ranks tell each other that are recorded.
    """

    def __init__(self, rank: int, oracle: RoutingOracle, post: Post) -> None:
        self.rank, self.oracle, self.post = rank, oracle, post
        self._turns: Counter[str] = Counter()
        #: how often a place was answered as if all ranks held the same
        self.assumed: Counter[str] = Counter()

    def reply(self, arguments: Arguments, call: IssuedCall) -> Finish | None:
        """Tell the others what this rank puts in; what writes into the outputs, if anything does.

        Raises
        ------
        RefusedError
            If what only one rank can know is not known.
        """
        outputs = list(tensors_of(arguments.outputs))
        inputs = list(tensors_of(arguments.inputs))
        operation = OPERATIONS[arguments.name]
        if operation in ("send", "receive"):
            return self._message(call, inputs, outputs)
        name = self._name(f"{call.group} {call.ranks}")
        if not any(map(_may_be_told, (*inputs, *outputs))):
            return None
        if operation == "broadcast":
            inputs = outputs
        if operation not in ("broadcast", "scatter") or call.root == self.rank:
            self._tell(name, call, inputs)
        if not outputs or not all(map(is_known, outputs)):
            return None
        if operation in ("broadcast", "scatter"):
            root = [call.root] if call.root not in (None, self.rank) else []
            return Finish(
                lambda: self._from_root(name, call, inputs, outputs),
                lambda: self.post.has_all(root, name, operation),
            )
        if operation not in _REPLIES or not inputs or not all(map(is_known, inputs)):
            return None
        if operation in ("gather", "reduce") and call.root != self.rank:
            return None
        # the program may change them meanwhile
        copies = [derive(torch.clone(tensor), origin_of(tensor)) for tensor in inputs]

        def write() -> None:
            shares = _Shares(self, name, call)
            _REPLIES[operation](shares, copies, outputs)
            derive(outputs, shares.origin or common_origin(copies))

        return Finish(write, lambda: self.post.has_all(call.ranks, name, operation))

    def functional(
        self, func: Any, arguments: Arguments, call: IssuedCall, args: Any, kwargs: dict[str, Any]
    ) -> tuple[Any, Finish | None]:
        """Return the outputs of a functional collective, and what writes into them."""
        inputs = list(tensors_of(arguments.inputs))
        result = func(*replace_tensors(args, to_meta), **_without_data(kwargs))
        if all(map(is_known, inputs)):
            result = replace_tensors(
                result, lambda t: torch.zeros(t.shape, dtype=t.dtype, device="cpu")
            )
        arguments.outputs = result
        return result, self.reply(arguments, call)

    def first_sender(self, call_ranks: list[int], group: str, tag: int) -> int:
        """The rank whose message is received next where the program takes any rank's.

        Raises
        ------
        RefusedError
            If none of the group's other ranks is recorded.
        """
        others = [rank for rank in call_ranks if rank in self.post.runs and rank != self.rank]
        if not others:
            raise RefusedError(
                f"{place()} receives from any rank, and none that sends is recorded: record all "
                "ranks of the group, by --rank"
            )
        names = {}
        for rank in others:
            key = _message_name(rank, self.rank, group, tag)
            names[rank] = f"{key} {self._turns[key]}"
        return self.post.first(names)

    def _name(self, key: str) -> str:
        """What the next call between the same ranks is known by."""
        turn = self._turns[key]
        self._turns[key] += 1
        return f"{key} {turn}"

    def _tell(self, name: str, call: IssuedCall, tensors: list[torch.Tensor]) -> None:
        told = [tensor if is_known(tensor) else None for tensor in tensors]
        self.post.put(name, told_of(f"{call.op} at {call.call_site}", told, call.input_splits))

    def _message(
        self, call: IssuedCall, inputs: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> Finish | None:
        peer = call.peer
        assert peer is not None
        ends = (self.rank, peer) if call.op == "send" else (peer, self.rank)
        name = self._name(_message_name(*ends, call.group, call.tag))
        if call.op == "send":
            self._tell(name, call, inputs)
            return None
        if not any(map(_may_be_told, outputs)) or not all(map(is_known, outputs)):
            return None
        return Finish(
            lambda: self._copy_all(self._told(peer, name, call, "sending"), call, outputs),
            lambda: self.post.has_all([peer], name, "sending"),
        )

    def _from_root(
        self,
        name: str,
        call: IssuedCall,
        inputs: list[torch.Tensor],
        outputs: list[torch.Tensor],
    ) -> None:
        """Hear what the root says, all of it or this rank's part."""
        assert call.root is not None
        place_of_rank = call.ranks.index(self.rank)
        if call.root == self.rank:
            if call.op == "scatter":
                outputs[0].copy_(inputs[place_of_rank])
            return
        told = self._told(call.root, name, call, call.op)
        if call.op == "scatter":
            told = replace(told, tensors=told.tensors[place_of_rank : place_of_rank + 1])
        self._copy_all(told, call, outputs)

    def _copy_all(self, told: Told, call: IssuedCall, outputs: list[torch.Tensor]) -> None:
        for number, target in enumerate(outputs):
            data = told.tensor(number)
            if data is None:
                self.assume(call)
                continue
            if data.numel() != target.numel():
                raise RefusedError(
                    f"{call.call_site} expects {target.numel():,} numbers, and gets "
                    f"{data.numel():,}: {told.op}"
                )
            target.copy_(data.view(target.shape))
        derive(outputs, told.origin)

    def _told(self, rank: int, name: str, call: IssuedCall, what: str) -> Told:
        """What another rank tells in a call that it has to have."""
        if rank not in self.post.runs:
            raise NeedsRankError(rank, f"what steers it ({call.op})")
        return self.post.take(rank, name, what)

    def assume(self, call: IssuedCall) -> None:
        """Note that a call was answered without knowing what other ranks hold."""
        self.assumed[f"{call.op} at {call.call_site}: other ranks hold what this one holds"] += 1


class _Shares:
    """What each rank of a group puts into one call."""

    def __init__(self, peers: Peers, name: str, call: IssuedCall) -> None:
        self.peers, self.call = peers, call
        self.place = call.ranks.index(peers.rank)
        post = peers.post
        others = [rank for rank in call.ranks if rank in post.runs and rank != peers.rank]
        self._told = {rank: post.take(rank, name, call.op) for rank in others}
        #: where numbers were invented that others put in
        self.origin = next((told.origin for told in self._told.values() if told.origin), None)

    def of(self, mine: torch.Tensor, number: int = 0) -> list[torch.Tensor]:
        """What each rank holds where this one holds its tensor of this number."""
        call, peers = self.call, self.peers
        oracle = peers.oracle
        routed = oracle.of_counts(mine) if mine.dim() >= 1 and _whole(mine) else None
        if routed is not None:
            call.routed = routed[0].number
        shares = []
        is_assumed = False
        for rank in call.ranks:
            told = self._told.get(rank)
            share = None if told is None else told.tensor(number)
            if rank == peers.rank:
                share = mine
            elif share is None and routed is not None:
                choice, size = routed
                counts = oracle.counts(choice, rank).view(-1, size).sum(1)
                share = counts.to(mine.dtype).view(mine.shape)
            elif share is None:
                is_assumed, share = True, mine
            shares.append(share)
        if is_assumed:
            peers.assume(call)
        return shares

    def alike(self, mine: torch.Tensor, number: int = 0) -> torch.Tensor:
        """What all ranks hold, one below the other: as many numbers each."""
        shares = self.of(mine, number)
        if len({share.numel() for share in shares}) > 1:
            sizes = {r: s.numel() for r, s in zip(self.call.ranks, shares, strict=True)}
            raise RefusedError(
                f"{self.call.call_site} puts other numbers of elements into {self.call.op} by "
                f"rank: {sizes}"
            )
        return torch.stack(_flat(shares))

    def is_told(self, rank: int) -> bool:
        """Whether a rank said what it puts in."""
        told = self._told.get(rank)
        return told is not None and told.tensor(0) is not None

    def splits(self, rank: int) -> list[int] | None:
        """Rows that a rank has for each of the group, where it says so."""
        told = self._told.get(rank)
        return self.call.input_splits if told is None or not self.is_told(rank) else told.splits


def _message_name(source: int, target: int, group: str, tag: int | None) -> str:
    return f"{source}>{target} {group} {tag or 0}"


def _may_be_told(tensor: torch.Tensor) -> bool:
    """Whether a rank may know the numbers of such a tensor: the same on all ranks."""
    if tensor.is_complex():
        return False
    return not tensor.dtype.is_floating_point or tensor.numel() <= MAX_KNOWN_FLOATS


def _whole(tensor: torch.Tensor) -> bool:
    return not tensor.dtype.is_floating_point and tensor.dtype is not torch.bool


def _without_data(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {key: replace_tensors(value, to_meta) for key, value in kwargs.items()}


def _put(data: torch.Tensor, target: torch.Tensor) -> None:
    """Write numbers into a tensor; of what a rank sends that is not recorded, as many as fit."""
    if data.shape == target.shape:
        target.copy_(data)
        return
    flat = data.reshape(-1)[: target.numel()]
    if flat.numel() < target.numel():
        flat = torch.cat([flat, flat.new_zeros(target.numel() - flat.numel())])
    target.copy_(flat.view(target.shape))


def _flat(tensors: Tensors) -> Tensors:
    """Tensors in one dimension; of thousands of ranks most are one and the same."""
    different = {id(tensor): tensor for tensor in tensors}
    flat = {key: tensor.reshape(-1) for key, tensor in different.items()}
    return [flat[id(tensor)] for tensor in tensors]


def _put_all(sources: list[torch.Tensor], targets: Tensors) -> None:
    """Write numbers of each rank into the tensor for it; at once where all are alike."""
    first = targets[0]
    if all(
        source.shape == target.shape == first.shape and source.dtype == target.dtype == first.dtype
        for source, target in zip(sources, targets, strict=True)
    ):
        torch._foreach_copy_(targets, sources)
        return
    for target, source in zip(targets, sources, strict=True):
        _put(source, target)


def _all_gather(shares: _Shares, inputs: Tensors, outputs: Tensors) -> None:
    outputs_each = len(outputs) // len(inputs)
    for number, source in enumerate(inputs):
        data_by_rank = shares.of(source, number)
        mine = outputs[number * outputs_each : (number + 1) * outputs_each]
        if outputs_each == len(shares.call.ranks) and outputs_each > 1:
            _put_all(data_by_rank, mine)
        else:
            _put(torch.cat(_flat(data_by_rank)), mine[0])


def _all_reduce(shares: _Shares, inputs: Tensors, outputs: Tensors) -> None:
    for number, (source, target) in enumerate(zip(inputs, outputs, strict=True)):
        target.copy_(_reduced(shares, source, number).view(target.shape))


def _reduced(shares: _Shares, mine: torch.Tensor, number: int) -> torch.Tensor:
    together, reduction = shares.alike(mine, number), shares.call.reduction
    if reduction == "premul_sum":  # by a factor that nobody tells
        shares.peers.assume(shares.call)
    if reduction in ("sum", "premul_sum"):
        return together.sum(0).to(mine.dtype)
    if reduction == "product":
        return together.prod(0).to(mine.dtype)
    if reduction == "max":
        return together.amax(0)
    if reduction == "min":
        return together.amin(0)
    if reduction in _BITWISE:
        result = together[0].clone()
        for row in together[1:]:
            result = _BITWISE[reduction](result, row)
        return result
    if reduction == "avg" and mine.dtype.is_floating_point:
        return together.mean(0)
    return mine.reshape(-1).clone()


_BITWISE: dict[str, Callable[..., torch.Tensor]] = {
    "band": torch.bitwise_and, "bor": torch.bitwise_or, "bxor": torch.bitwise_xor,
}  # fmt: skip


def _reduce_scatter(shares: _Shares, inputs: Tensors, outputs: Tensors) -> None:
    inputs_each = len(inputs) // len(outputs)
    for number, target in enumerate(outputs):
        size = target.numel()
        if inputs_each == 1:
            whole = _reduced(shares, inputs[number], number)
            part = whole[shares.place * size : (shares.place + 1) * size]
        else:  # a list of tensors, of which one is for each rank
            at = number * inputs_each + shares.place
            part = _reduced(shares, inputs[at], at)
        target.copy_(part.view(target.shape))


def _all_to_all(shares: _Shares, inputs: Tensors, outputs: Tensors) -> None:
    place, call = shares.place, shares.call
    size = len(call.ranks)
    if len(inputs) > 1:
        # as a rank sends to its own place, so do those that are not known
        parts = [data.reshape(-1) for data in shares.of(inputs[place], place)]
        targets = outputs
    else:
        parts = []
        for rank, data in zip(call.ranks, shares.of(inputs[0]), strict=True):
            splits = shares.splits(rank)
            start, stop = _part(data, splits, place, size)
            parts.append(data.reshape(-1)[start:stop])
        flat = outputs[0].view(-1)
        targets = []
        for sender in range(size):
            start, stop = _part(outputs[0], call.output_splits, sender, size)
            targets.append(flat[start:stop])
    for rank, part, target in zip(call.ranks, parts, targets, strict=True):
        if part.numel() != target.numel() and shares.is_told(rank):
            raise RefusedError(
                f"{call.call_site} expects {target.numel():,} numbers of rank {rank}, which sends "
                f"{part.numel():,}"
            )
        _put(part, target)


def _part(tensor: torch.Tensor, splits: list[int] | None, place: int, size: int) -> tuple[int, int]:
    """Where the numbers begin and end that are to or from a rank: whole rows."""
    rows = tensor.shape[0] if tensor.dim() else 1
    row_size = tensor.numel() // max(rows, 1)
    splits = splits or [rows // size] * size
    start = sum(splits[:place]) * row_size
    return start, start + splits[place] * row_size


_REPLIES: dict[str, Callable[[_Shares, Tensors, Tensors], None]] = {
    "all_gather": _all_gather,
    "all_reduce": _all_reduce,
    "all_to_all": _all_to_all,
    "gather": _all_gather,
    "reduce": _all_reduce,
    "reduce_scatter": _reduce_scatter,
}
