"""What ranks have to agree on before rows move, and what becomes of a rank that does not answer.

Every call begins with the counts of all EP ranks, which each needs anyway; with them go a digest
of what the rank is about to do and whether its arguments will do. TP ranks compare theirs on the
first use of a signature. So a mismatch is an error of one line on every rank, before rows are sent;
later on at least on every rank of the EP group, and on the others one that names whom they wait
for.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass

import torch
import torch.distributed as dist

from lightloom.errors import InputError, LightloomError
from lightloom.torch.moves import Groups

#: signatures on which the TP ranks of a group have agreed
_AGREED: set[tuple[str, Signature]] = set()
#: what errors of process groups have in their texts
_OF_GROUPS = ("gloo", "NCCL", "imed out", "timeout", "Connection")


class RankError(LightloomError):
    """A rank does not answer."""


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What a call does, whatever its tokens."""

    layout: str
    grad: str
    strategy: str
    chunks: int | str
    type: str
    elements: int
    cluster: str

    def digest(self, *more: object) -> int:
        """A number of 62 bits that stands for it, and for more."""
        text = repr((astuple(self), more)).encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 2


def agree_on(
    signature: Signature, splits: list[int], problem: str, groups: Groups
) -> list[list[list[int]]]:
    """Return how many rows go from whom to whom, ``(tp, ep, ep)``, once all ranks agree.

    Parameters
    ----------
    signature, splits
        What this rank does, and how many rows it sends to each EP rank.
    problem
        What is wrong with its arguments; empty if they will do.
    groups
        Its process groups.

    Raises
    ------
    InputError
        On every rank, if one has a problem, or they disagree.
    """
    device = _device(groups.ep)
    counts = (splits + [0] * groups.ep_size)[: groups.ep_size]
    told = [int(bool(problem)), signature.digest(groups.tp_rank), *counts]
    gathered = _gathered(told, groups.ep, device)
    if any(row[0] for row in gathered) or len({row[1] for row in gathered}) > 1:
        problem = _reason(signature, problem, groups)
    matrix = [row[2:] for row in gathered]
    is_known = (groups.tp.group_name, signature) in _AGREED
    if is_known and signature.layout == "replicated":
        if problem:
            raise InputError(problem)
        return [matrix] * groups.tp_size
    size = groups.ep_size
    told = [int(bool(problem)), signature.digest(groups.ep_rank)]
    alike = _gathered([*told, *(n for row in matrix for n in row)], groups.tp, device)
    if any(row[0] for row in alike):
        raise InputError(_first_of(problem, groups))
    ranks = dist.get_process_group_ranks(groups.tp)
    if len({row[1] for row in alike}) > 1:
        raise InputError(
            f"ranks {ranks} of a TP group disagree: expected one strategy, layout, type, cluster "
            "and EP rank"
        )
    if signature.layout == "replicated" and len({tuple(row) for row in alike}) > 1:
        raise InputError(
            f"ranks {ranks} of a TP group have other splits: expected the same tokens on all of "
            "them, or layout='sharded'"
        )
    _AGREED.add((groups.tp.group_name, signature))
    return [[row[2 + at * size :][:size] for at in range(size)] for row in alike]


def agree_on_options(options: Mapping[str, object], problem: str, layers: int) -> int:
    """Make sure that all ranks of the job are about to do the same, before any of them does it.

    Every rank joins, whatever is wrong with it, so that none waits for one that has given up.

    Parameters
    ----------
    options
        What this rank is asked for.
    problem
        What is wrong with it; empty if it will do.
    layers
        In how many layers of its own.

    Returns
    -------
    int
        In how many layers of all ranks.

    Raises
    ------
    InputError
        On every rank, if one has a problem, or two are asked for different things.
    RankError
        If a rank does not answer.
    """
    if not dist.is_initialized():
        if problem:
            raise InputError(problem)
        return layers
    mine = (problem, {name: str(value) for name, value in options.items()}, layers)
    told = [mine] * dist.get_world_size()
    with answered():
        dist.all_gather_object(told, mine)
    for rank, (text, _, _) in enumerate(told):
        if text:
            raise InputError(f"rank {rank}: {text}")
    expected = told[0][1]
    for rank, (_, other, _) in enumerate(told):
        for name in sorted({*expected, *other}):
            ours, theirs = expected.get(name, "nothing"), other.get(name, "nothing")
            if ours != theirs:
                raise InputError(f"ranks 0 and {rank} disagree: {name} = {ours} and {theirs}")
    return sum(count for _, _, count in told)


@contextlib.contextmanager
def answered(groups: Groups | None = None) -> Iterator[None]:
    """Make an error of process groups, or of that of all ranks, one line that names who is missing.

    Raises
    ------
    RankError
        If a rank does not answer.
    """
    try:
        yield
    except RuntimeError as error:
        text = str(error).strip()
        if not (isinstance(error, dist.DistError) or any(mark in text for mark in _OF_GROUPS)):
            raise
        whom = f"the {dist.get_world_size()} ranks"
        if groups is not None:
            members = (dist.get_process_group_ranks(group) for group in (groups.ep, groups.tp))
            whom = f"ranks {sorted({rank for group in members for rank in group})}"
        # gloo begins with a file of its own and ends with advice
        said = text.splitlines()[0].rpartition("] ")[2].partition(". ")[0]
        raise RankError(
            f"rank {dist.get_rank()}: one of {whom} does not answer; look for the first "
            f"error among them ({said[:100] or type(error).__name__})"
        ) from error


def _reason(signature: Signature, problem: str, groups: Groups) -> str:
    """What is wrong in an EP group, and where: the same on each rank of it."""
    mine = (dist.get_rank(), problem, signature, groups.tp_rank)
    told = [mine] * groups.ep_size
    dist.all_gather_object(told, mine, group=groups.ep)
    for rank, text, _, _ in told:
        if text:
            return f"rank {rank}: {text}"
    (first, _, expected, tp_rank), *others = told
    for rank, _, other, other_tp_rank in others:
        if other_tp_rank != tp_rank:
            return (
                f"ranks {first} and {rank} of an EP group are TP ranks {tp_rank} and "
                f"{other_tp_rank}: expected EP groups across TP groups"
            )
        for name, value in vars(expected).items():
            if (differing := getattr(other, name)) != value:
                return f"ranks {first} and {rank} disagree: {name} = {value} and {differing}"
    raise AssertionError("digests differ, and nothing that they stand for")


def _first_of(problem: str, groups: Groups) -> str:
    """What is wrong in the EP group of one of the TP ranks."""
    texts = [""] * groups.tp_size
    dist.all_gather_object(texts, problem, group=groups.tp)
    return next(text for text in texts if text)


def _gathered(
    numbers: list[int], group: dist.ProcessGroup, device: torch.device
) -> list[list[int]]:
    """The numbers of each rank of a group."""
    mine = torch.tensor(numbers, dtype=torch.int64, device=device)
    size = dist.get_world_size(group)
    every = mine.new_empty(size * len(numbers))
    dist.all_gather_into_tensor(every, mine, group=group)
    return [list(map(int, row)) for row in every.view(size, -1).tolist()]


def _device(group: dist.ProcessGroup) -> torch.device:
    """Where numbers have to be that a group moves."""
    backend = dist.get_backend(group)
    return (
        torch.device("cuda", torch.cuda.current_device())
        if backend == "nccl"
        else torch.device("cpu")
    )
