"""Whether recordings of ranks fit each other: what one sends is what another expects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from lightloom.trace.trace import Call, Trace

#: operations between two ranks
MESSAGES = {"send", "receive"}

#: fields that are the same for all ranks of a call, and of which operations
EQUAL = {
    "input_bytes": {"all_reduce", "broadcast", "reduce", "reduce_scatter"},
    "output_bytes": {"all_gather"},
}


def disagreements(trace: Trace) -> list[str]:
    """Where recorded ranks disagree.

    All recorded members of a process group must issue the same operations in the same order, and
    on as many bytes;
    the rows that one rank sends to another in an all-to-all must be those that the other expects;
    and each message must be received as it was sent.

    Returns
    -------
    list[str]
        One line each; empty if all agree.

    Notes
    -----
    Of ranks that were not recorded nothing is known, and nothing is checked.
    """
    return [*_of_groups(trace), *_of_messages(trace)]


def _of_groups(trace: Trace) -> Iterator[str]:
    issued: dict[tuple[str, tuple[int, ...]], dict[int, list[Call]]] = defaultdict(dict)
    for rank, recorded in trace.ranks.items():
        for call in recorded.calls:
            if call.op not in MESSAGES:
                issued[call.group, call.ranks].setdefault(rank, []).append(call)
    for (group, ranks), by_rank in issued.items():
        lengths = {rank: len(calls) for rank, calls in by_rank.items()}
        if len(set(lengths.values())) > 1:
            yield f"group {group} of ranks {_shown(ranks)}: numbers of calls differ: {lengths}"
            continue
        for number, calls in enumerate(zip(*by_rank.values(), strict=True)):
            together = dict(zip(by_rank, calls, strict=True))
            for problem in _of_call(ranks, together):
                yield f"group {group} of ranks {_shown(ranks)}, call {number}: {problem}"


def _of_call(ranks: tuple[int, ...], together: dict[int, Call]) -> Iterator[str]:
    kinds = {(call.op, call.dtype, call.reduction, call.root) for call in together.values()}
    if len(kinds) > 1:
        yield f"ranks call it differently: {sorted(map(str, kinds))}"
        return
    operation = next(iter(kinds))[0]
    for field, operations in EQUAL.items():
        sizes = {rank: getattr(call, field) for rank, call in together.items()}
        if operation in operations and len(set(sizes.values())) > 1:
            yield f"{operation} with other numbers of bytes by rank: {sizes}"
    if operation != "all_to_all":
        return
    for rank, call in together.items():
        for peer, other in together.items():
            if call.input_splits is None or other.output_splits is None:
                continue
            sent = call.input_splits[ranks.index(peer)]
            expected = other.output_splits[ranks.index(rank)]
            if sent != expected:
                yield f"rank {rank} sends {sent} rows to rank {peer}, which expects {expected}"
            elif sent and _row_bytes(call.input_bytes, call.input_splits) != _row_bytes(
                other.output_bytes, other.output_splits
            ):
                yield f"rank {rank} sends rows of other bytes than rank {peer} expects"


def _row_bytes(size_bytes: int, splits: tuple[int, ...]) -> float:
    return size_bytes / sum(splits)


def _of_messages(trace: Trace) -> Iterator[str]:
    sent: dict[tuple[int, int], list[Call]] = defaultdict(list)
    received: dict[tuple[int, int], list[Call]] = defaultdict(list)
    for rank, recorded in trace.ranks.items():
        for call in recorded.calls:
            if call.peer is None or call.peer not in trace.ranks:
                continue
            if call.op == "send":
                sent[rank, call.peer].append(call)
            if call.op == "receive":
                received[call.peer, rank].append(call)
    for pair in sorted(sent.keys() | received.keys()):
        source, target = pair
        there, here = sent[pair], received[pair]
        if len(there) != len(here):
            yield (
                f"rank {source} sends {len(there)} messages to rank {target}, "
                f"which receives {len(here)}"
            )
        for number, (out, other) in enumerate(zip(there, here, strict=False)):
            if (out.input_bytes, out.dtype) != (other.output_bytes, other.dtype):
                yield (
                    f"message {number} of rank {source} to rank {target}: {out.input_bytes} bytes "
                    f"of {out.dtype} are sent, {other.output_bytes} of {other.dtype} expected"
                )


def _shown(ranks: tuple[int, ...]) -> str:
    return (
        ", ".join(map(str, ranks))
        if len(ranks) <= 4
        else f"{ranks[0]}, {ranks[1]}, ... {ranks[-1]}"
    )
