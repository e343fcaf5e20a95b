"""What the other ranks would have sent.

Data of floating point needs no answer: it has none. Integers do: a program may read them. The other
ranks are taken to hold what this one holds, with two exceptions: counts of tokens by expert, which
the routing oracle knows for every rank, and broadcasts, of which another rank's recording holds the
data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .calls import OPERATIONS
from .values import is_known, replace_tensors, tensors_of, to_meta

if TYPE_CHECKING:
    from collections.abc import Callable

    from .calls import Arguments, IssuedCall
    from .oracle import RoutingOracle

#: larger broadcasts are data, not control
MAX_CONTROL_BYTES = 1 << 20


class Peers:
    """Answers communication in place of the other ranks.

    Parameters
    ----------
    rank
        The rank that is traced.
    oracle
        Knows what experts each rank's tokens visit.
    hear
        Returns the broadcasts of a rank, by their number, in a group that is named by root and
        ranks; none of a rank of which nothing is known.
    """

    def __init__(
        self, rank: int, oracle: RoutingOracle, hear: Callable[[int, str], list[Any]]
    ) -> None:
        self.rank, self.oracle, self.hear = rank, oracle, hear
        #: what this rank broadcast, for the others
        self.said: dict[str, list[Any]] = {}
        self._turns: dict[str, int] = {}
        #: calls that were answered as if all ranks held the same
        self.alike = 0

    def reply(self, arguments: Arguments, call: IssuedCall) -> None:
        """Write into the outputs what this rank would receive."""
        operation = OPERATIONS[arguments.name]
        if operation == "broadcast":
            self._broadcast(arguments, call)
            return
        outputs = list(tensors_of(arguments.outputs))
        inputs = list(tensors_of(arguments.inputs))
        if not inputs or not outputs or not all(map(is_known, (*inputs, *outputs))):
            return
        _REPLIES.get(operation, _nothing)(self, call, inputs, outputs)

    def functional(
        self, func: Any, arguments: Arguments, call: IssuedCall, args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """Return the outputs of a functional collective."""
        inputs = list(tensors_of(arguments.inputs))
        if all(map(is_known, inputs)):
            result = func(*replace_tensors(args, to_meta), **_without_data(kwargs))
            outputs = replace_tensors(
                result, lambda t: torch.empty(t.shape, dtype=t.dtype, device="cpu")
            )
            operation = OPERATIONS[arguments.name]
            _REPLIES.get(operation, _copy)(self, call, inputs, list(tensors_of(outputs)))
            return outputs
        return func(*args, **kwargs)

    def of_peers(self, call: IssuedCall, mine: torch.Tensor) -> list[torch.Tensor]:
        """What each rank of a group holds where this one holds `mine`."""
        routed = self.oracle.of_counts(mine) if mine.dim() >= 1 and _whole(mine) else None
        if routed is None:
            self.alike += 1
            return [mine] * len(call.ranks)
        choice, size = routed
        call.routed = choice.number
        return [
            self.oracle.counts(choice, rank).view(-1, size).sum(1).to(mine.dtype).view(mine.shape)
            for rank in call.ranks
        ]

    def _broadcast(self, arguments: Arguments, call: IssuedCall) -> None:
        """Remember what this rank says, or hear what another said."""
        tensors = list(tensors_of(arguments.outputs))
        name = f"{call.root} {call.ranks}"
        turn = self._turns[name] = self._turns.get(name, -1) + 1
        if not all(map(is_known, tensors)) or call.input_bytes > MAX_CONTROL_BYTES:
            self.said.setdefault(name, []).append(None)
            return
        if call.root == self.rank:
            self.said.setdefault(name, []).append([tensor.tolist() for tensor in tensors])
            return
        heard = [] if call.root is None else self.hear(call.root, name)
        if turn < len(heard) and heard[turn] is not None:
            for tensor, data in zip(tensors, heard[turn], strict=True):
                tensor.copy_(torch.tensor(data, dtype=tensor.dtype).view(tensor.shape))


def _whole(tensor: torch.Tensor) -> bool:
    return not tensor.dtype.is_floating_point and tensor.dtype is not torch.bool


def _without_data(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {key: replace_tensors(value, to_meta) for key, value in kwargs.items()}


def _nothing(peers: Peers, call: IssuedCall, inputs: Any, outputs: Any) -> None:
    """Messages: what arrives is unknown, and the buffer keeps what it holds."""


def _copy(peers: Peers, call: IssuedCall, inputs: Any, outputs: Any) -> None:
    for source, target in zip(inputs, outputs, strict=True):
        target.copy_(source)


def _all_gather(peers: Peers, call: IssuedCall, inputs: Any, outputs: Any) -> None:
    outputs_each = len(outputs) // len(inputs)
    for number, source in enumerate(inputs):
        shares = peers.of_peers(call, source)
        mine = outputs[number * outputs_each : (number + 1) * outputs_each]
        if outputs_each == len(call.ranks) and outputs_each > 1:
            for target, data in zip(mine, shares, strict=True):
                target.copy_(data.view(target.shape))
        else:
            mine[0].copy_(torch.cat([data.reshape(-1) for data in shares]).view(mine[0].shape))


def _all_reduce(peers: Peers, call: IssuedCall, inputs: Any, outputs: Any) -> None:
    for source, target in zip(inputs, outputs, strict=True):
        target.copy_(_reduced(call, peers.of_peers(call, source)))


def _reduced(call: IssuedCall, shares: list[torch.Tensor]) -> torch.Tensor:
    together = torch.stack(shares)
    if call.reduction in ("sum", "premul_sum"):
        return together.sum(0).to(shares[0].dtype)
    if call.reduction == "product":
        return together.prod(0).to(shares[0].dtype)
    if call.reduction == "max":
        return together.amax(0)
    if call.reduction == "min":
        return together.amin(0)
    if call.reduction == "avg" and shares[0].dtype.is_floating_point:
        return together.mean(0)
    return shares[0].clone()


def _reduce_scatter(peers: Peers, call: IssuedCall, inputs: Any, outputs: Any) -> None:
    place = call.ranks.index(peers.rank)
    inputs_each = len(inputs) // len(outputs)
    for number, target in enumerate(outputs):
        mine = inputs[number * inputs_each : (number + 1) * inputs_each]
        whole = torch.cat([data.reshape(-1) for data in mine])
        reduced = _reduced(call, peers.of_peers(call, whole))
        size = target.numel()
        target.copy_(reduced[place * size : (place + 1) * size].view(target.shape))


def _all_to_all(peers: Peers, call: IssuedCall, inputs: Any, outputs: Any) -> None:
    place, size = call.ranks.index(peers.rank), len(call.ranks)
    if len(inputs) > 1:
        whole = torch.cat([data.reshape(-1) for data in inputs])
        lengths = [data.numel() for data in inputs]
    else:
        whole = inputs[0].reshape(-1)
        rows = inputs[0].shape[0] if inputs[0].dim() else 1
        row_size = whole.numel() // max(rows, 1)
        splits = call.input_splits or [rows // size] * size
        lengths = [split * row_size for split in splits]
    start = sum(lengths[:place])
    shares = peers.of_peers(call, whole)
    parts = [data[start : start + lengths[place]] for data in shares]
    received = torch.cat(parts)
    for target in outputs:
        flat = received[: target.numel()]
        received = received[target.numel() :]
        if flat.numel() == target.numel():
            target.copy_(flat.view(target.shape))


_REPLIES = {
    "all_gather": _all_gather,
    "all_reduce": _all_reduce,
    "all_to_all": _all_to_all,
    "gather": _all_gather,
    "reduce": _all_reduce,
    "reduce_scatter": _reduce_scatter,
}
